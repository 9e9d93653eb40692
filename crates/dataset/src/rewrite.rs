//! Changes of encrypted data: compaction, erasure, rotation of the key, columns for new items.
//!
//! All of them open sealed cells, which authenticate the owner's data of the recorded version. They write them into
//! new segments with unused seeds and numbers. The kept data of ranges is computed from the new segments. The part of
//! replaced segments is subtracted, computed from bytes that match the manifest's digests. The new version takes
//! effect at once, as an append does; then the old segments are removed.

use crate::dataset::{Dataset, check_free_bytes, column_order};
use crate::encryption::NewSegments;
use crate::error::DatasetError;
use crate::progress::Progress;
use crate::ranges::{NewBlocks, NewStratum};
use crate::record::{Items, OwnerRecord, bounds};
use crate::shuffled::{Bits, PAIR_COLUMNS};
use oboro_format::files::free_bytes;
use oboro_format::{BundleWriter, Manifest, SegmentEntry};
use oboro_ring::{Blocks, Column, threads};
use oboro_rlwe::{BlockNoise, CellsId, ColumnOrder, DatasetKey, RowHash, SecretGeneration};
use std::num::NonZeroUsize;

mod absorb;
mod compact;
mod erase;
mod everything;
mod gather;

pub use compact::Compaction;
pub use erase::{Erasure, FoundRow, RowSelection};

/// Version of a dataset under construction.
struct Rewrite<'a> {
    old: &'a Dataset,
    /// The present record, whose state of trust may be newer than that of `old`.
    record: OwnerRecord,
    /// The key of the new version.
    key: DatasetKey,
    writer: BundleWriter,
    /// The new version, as far as it is complete.
    manifest: Manifest,
    noise: BlockNoise,
    threads: NonZeroUsize,
    progress: Progress<'a>,
    /// The number of block-columns encrypted, and the total.
    done: u64,
    total: u64,
}

impl Dataset {
    /// Returns the blocks of each stratum.
    fn strata_blocks(&self) -> Vec<Blocks> {
        let mut first = 0;
        let blocks = self.record.strata.iter().map(|it| {
            let blocks = Blocks::from_start(first, it.blocks);
            first = blocks.end;
            blocks
        });
        blocks.collect()
    }

    /// Sorts columns by their present supports, keeping the number of pair columns and the focus.
    fn sorted_columns(&self) -> Result<ColumnOrder, DatasetError> {
        let order = self.record.column_order()?;
        let focus = order.focus().iter().map(|&it| order.columns()[it]);
        let pair_columns = order.paired().len().max(PAIR_COLUMNS);
        Ok(column_order(
            &self.record.supports,
            pair_columns,
            focus.collect(),
        ))
    }

    /// Opens the bits of columns in one of the dataset's own segments, from its sealed cells.
    fn cells(
        &self,
        index: u32,
        columns: &[Column],
        threads: NonZeroUsize,
    ) -> Result<Vec<Bits>, DatasetError> {
        let segment = self.bundle.open_segment(index)?;
        let entry = self.manifest().segments[index as usize];
        let open = |column: Column| -> Result<Bits, DatasetError> {
            let which = CellsId {
                segment: entry.number,
                seeds: &entry.seeds.0,
                column,
            };
            Ok(self.key.open_cells(which, &segment.read_cells(column)?)?)
        };
        let mut opened = threads::try_map(threads, columns.to_vec(), |column| {
            Ok::<_, DatasetError>((column, open(column)?))
        })?;
        opened.sort_unstable_by_key(|it| it.0);
        Ok(opened.into_iter().map(|it| it.1).collect())
    }
}

impl<'a> Rewrite<'a> {
    fn begin(
        old: &'a Dataset,
        key: DatasetKey,
        needed: u64,
        threads: NonZeroUsize,
        progress: Progress<'a>,
        total: u64,
    ) -> Result<Self, DatasetError> {
        let directory = old.bundle.directory();
        check_free_bytes(directory, needed, free_bytes(directory))?;
        let writer = old.bundle.change()?;
        let sealed = writer.sealed_before().unwrap_or(old.bundle.sealed());
        let record = OwnerRecord::open(&old.key, old.manifest(), sealed)?;
        Ok(Self {
            manifest: old.manifest().rewritten(),
            noise: record.noise(),
            old,
            record,
            key,
            writer,
            threads,
            progress,
            done: 0,
            total,
        })
    }

    /// Returns an error if the encryption was interrupted.
    fn go_on(&self) -> Result<(), DatasetError> {
        if (self.progress)(self.done, self.total).is_break() {
            Err(DatasetError::Interrupted)
        } else {
            Ok(())
        }
    }

    fn degree(&self) -> usize {
        self.key.ring().degree()
    }

    /// Encrypts whole blocks into new segments under secrets of this generation, beginning at position `first_block`.
    fn encrypt(
        &mut self,
        bits: &[&[u64]],
        first_block: u64,
        secret_generation: SecretGeneration,
    ) -> Result<Vec<SegmentEntry>, DatasetError> {
        let (before, total, progress) = (self.done, self.total, self.progress);
        let key = self.key.with_secret_generation(secret_generation);
        let new = NewSegments {
            key: &key,
            bits,
            first_block,
            threads: self.threads,
            progress: &|done, _| progress(before + done, total),
        };
        let (entries, noise) = new.encrypt(&mut self.manifest, &self.writer)?;
        self.noise = self.noise.max(noise);
        let blocks: u64 = entries.iter().map(|it| u64::from(it.blocks)).sum();
        self.done += blocks * u64::from(self.manifest.columns);
        Ok(entries)
    }

    /// Derives a generation of secrets for rows of the previous version with these bits.
    fn fresh_secrets(&self, bits: &[&[u64]]) -> Result<SecretGeneration, getrandom::Error> {
        let mut rows = RowHash::default();
        bits.iter().for_each(|it| rows.add_words(it));
        self.key.fresh_secrets(&self.old.manifest().root().0, rows)
    }

    /// Computes the kept data of the ranges, and commits.
    fn finish(
        mut self,
        strata: Vec<NewStratum>,
        order: &ColumnOrder,
        items: Items,
    ) -> Result<Dataset, DatasetError> {
        let bounds = bounds(&self.manifest).ok_or(DatasetError::TooManyRanges)?;
        let new = NewBlocks {
            key: &self.key,
            manifest: &self.manifest,
            bounds: &bounds,
            order,
            threads: self.threads,
            encrypted: self.total,
            progress: self.progress,
        };
        let strata = new.keep(strata, Some(&self.old.bundle), &mut self.writer)?;
        let notes = self.record.notes();
        let record = OwnerRecord::new(&self.manifest, strata, order, items, self.noise, notes);
        Dataset::commit(self.writer, self.key, &self.manifest, record, &[])
    }
}
