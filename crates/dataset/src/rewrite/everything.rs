//! Full re-encryption: for another key, or for columns of new items.

use super::Rewrite;
use crate::dataset::{Dataset, column_order, stored_bytes};
use crate::error::DatasetError;
use crate::progress::Progress;
use crate::ranges::NewStratum;
use crate::shuffled::PAIR_COLUMNS;
use oboro_ring::{Column, sample};
use oboro_rlwe::MasterKey;
use std::num::NonZeroUsize;

impl Dataset {
    /// Encrypts everything again under another master key; returns the new version, which the old key cannot open.
    /// Transactions stay in their slots; columns are sorted by support again.
    ///
    /// # Errors
    /// A false answer without a decision, an equal key, segments that are missing or damaged, too little disk space,
    /// an interruption. The bundle is unchanged.
    pub fn rotate(
        &self,
        master: &MasterKey,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        let manifest = self.manifest();
        if master.check().0 == manifest.key_check {
            return Err(DatasetError::SameKey(master.check()));
        }
        if self.trust()?.failure.is_some() {
            return Err(DatasetError::Undecided);
        }
        let key = self.key.rotated(master)?;
        let total = manifest.block_count() * u64::from(manifest.columns);
        let needed = manifest.segment_bytes();
        let mut new = Rewrite::begin(self, key, needed, threads, progress, total)?;
        new.manifest.key_check = master.check().0;
        new.manifest.generation = new.key.generation();
        new.manifest.segments.clear();
        // Queries that depended on unverified answers still do: the record keeps the pending decision.
        let generation = new.fresh_secrets(&[])?;
        let columns: Vec<Column> = Column::first(manifest.sealed_columns()).collect();
        for (index, entry) in (0..).zip(&manifest.segments) {
            let bits = self.cells(index, &columns, threads)?;
            let bits: Vec<&[u64]> = bits.iter().map(|it| &it[..]).collect();
            let entries = new.encrypt(&bits, entry.first_block, generation)?;
            new.manifest.segments.extend(entries);
        }
        let stratum = |it| NewStratum::encrypted_again(it, generation);
        let strata = self.record.strata.iter().map(stratum).collect();
        new.finish(strata, &self.sorted_columns()?, self.record.items())
    }

    /// Returns the bytes of the dataset once everything is encrypted again with columns for `items` more items, and
    /// `transactions` are appended.
    ///
    /// # Errors
    /// Too many columns.
    pub fn reencrypted_bytes(&self, items: usize, transactions: u64) -> Result<u64, DatasetError> {
        let manifest = self.manifest();
        let columns = self.columns_with(items);
        let bytes = |transactions| {
            let ids = manifest.row_id_bytes;
            stored_bytes(&manifest.parameters, columns, ids, transactions)
        };
        let slots = manifest.block_count() * manifest.parameters.degree() as u64;
        Ok(bytes(slots)?.saturating_add(bytes(transactions)?))
    }

    fn columns_with(&self, items: usize) -> u32 {
        let more = u32::try_from(items).unwrap_or(u32::MAX);
        self.manifest().columns.saturating_add(more)
    }

    /// Encrypts everything again with columns for more items, which no present transaction has. All columns get other
    /// numbers. The disk must also have room for `appended` more transactions.
    ///
    /// # Errors
    /// A dataset with left-out items, which may include these. Otherwise as [`compact`](Self::compact); too many
    /// columns.
    pub(crate) fn with_items(
        &self,
        names: &[String],
        appended: u64,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        let (manifest, record) = (self.manifest(), &self.record);
        if record.min_item_support > 1 {
            return Err(DatasetError::ItemsMissing(record.min_item_support));
        }
        let known = manifest.columns;
        let columns = self.columns_with(names.len());
        let needed = self.reencrypted_bytes(names.len(), appended)?;
        let total = manifest.block_count() * u64::from(columns);
        let mut new = Rewrite::begin(self, self.key.clone(), needed, threads, progress, total)?;
        new.manifest.columns = columns;
        new.manifest.segments.clear();
        // The present columns, then the new ones.
        let mut numbers: Vec<Column> = Column::first(columns).collect();
        sample::shuffle(&mut sample::fresh_generator()?, &mut numbers);
        let generation = new.fresh_secrets(&[])?;
        let old: Vec<Column> = Column::first(manifest.sealed_columns()).collect();
        for (index, entry) in (0..).zip(&manifest.segments) {
            let bits = self.cells(index, &old, threads)?;
            let absent = vec![0; bits[0].len()];
            let (items, ids) = bits.split_at(known as usize);
            let mut arranged = vec![&absent[..]; columns as usize];
            for (&column, bits) in numbers.iter().zip(items) {
                arranged[column] = bits;
            }
            arranged.extend(ids.iter().map(|it| &it[..]));
            let entries = new.encrypt(&arranged, entry.first_block, generation)?;
            new.manifest.segments.extend(entries);
        }
        let stratum = |it| NewStratum::encrypted_again(it, generation);
        let strata = record.strata.iter().map(stratum).collect();
        let items = record.items().renumbered(&numbers, names);
        let order = record.column_order()?;
        let focus = order.focus().iter().map(|&it| numbers[order.columns()[it]]);
        let order = column_order(
            &items.supports,
            order.paired().len().max(PAIR_COLUMNS),
            focus.collect(),
        );
        new.finish(strata, &order, items)
    }
}
