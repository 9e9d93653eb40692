//! Erasure: transactions, found by their row ids, become empty in their places.

use super::Rewriting;
use crate::dataset::{Dataset, DatasetError, Progress};
use crate::ranges::{Change, NewStratum};
use crate::record::{RecordError, StratumRecord};
use crate::shuffled::unpack_row_ids;
use oboro_format::SegmentEntry;
use oboro_ring::{Blocks, Column};
use oboro_rlwe::Stratum;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::ops::Range;

/// A row that was found by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRow {
    /// Its slot, counted over all blocks.
    pub slot: u64,
    /// Its id.
    pub id: String,
}

/// Which rows are to be erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSelection {
    ids: HashSet<String>,
    before: Option<String>,
}

impl RowSelection {
    /// The rows with these ids.
    #[must_use]
    pub fn of_ids(ids: impl IntoIterator<Item = String>) -> Self {
        Self {
            ids: ids.into_iter().collect(),
            before: None,
        }
    }

    /// Also the rows whose ids begin with a date before this one, `YYYY-MM-DD`. All ids must begin with a date then.
    ///
    /// # Errors
    /// Something else than a date.
    pub fn or_before(self, date: &str) -> Result<Self, DatasetError> {
        if !is_date(date.as_bytes()) {
            return Err(DatasetError::NoDate(date.to_owned()));
        }
        Ok(Self {
            before: Some(date.to_owned()),
            ..self
        })
    }
}

fn is_date(text: &[u8]) -> bool {
    let number = |digits: &[u8]| {
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| {
            digits
                .iter()
                .fold(0, |sum, digit| 10 * sum + u32::from(digit - b'0'))
        })
    };
    text.len() == 10
        && (text[4], text[7]) == (b'-', b'-')
        && number(&text[..4]).is_some()
        && number(&text[5..7]).is_some_and(|it| (1..=12).contains(&it))
        && number(&text[8..]).is_some_and(|it| (1..=31).contains(&it))
}

impl Dataset {
    /// All rows with their ids, by slot, from the dataset's own segments.
    ///
    /// # Errors
    /// Rows without ids, segments that are missing or damaged.
    pub fn own_row_ids(&self, threads: NonZeroUsize) -> Result<Vec<FoundRow>, DatasetError> {
        let manifest = self.manifest();
        if manifest.row_id_bytes == 0 {
            return Err(DatasetError::NoIdsToErase);
        }
        let degree = manifest.parameters.degree() as u64;
        let columns = Column::first(manifest.sealed_columns()).skip(manifest.columns as usize);
        let columns: Vec<Column> = columns.collect();
        let mut rows = Vec::new();
        for (index, entry) in (0..).zip(&manifest.segments) {
            let bits = self.cells(index, &columns, threads)?;
            let found = unpack_row_ids(&bits)
                .ok_or_else(|| RecordError::Unusable("a row id is no text".into()))?;
            let first = entry.first_block * degree;
            let found = found.into_iter();
            rows.extend(found.map(|(slot, id)| FoundRow {
                slot: first + slot,
                id,
            }));
        }
        Ok(rows)
    }

    /// The slots of the rows that are to be erased, from the dataset's own segments.
    ///
    /// # Errors
    /// An id that no row has, or that has no date where dates are asked for; as [`own_row_ids`](Self::own_row_ids).
    pub fn select_rows(
        &self,
        rows: &RowSelection,
        threads: NonZeroUsize,
    ) -> Result<BTreeSet<u64>, DatasetError> {
        let here = self.own_row_ids(threads)?;
        let found: HashSet<&String> = here.iter().map(|it| &it.id).collect();
        let unknown = rows.ids.iter().filter(|it| !found.contains(it));
        if let Some(example) = unknown.clone().min() {
            return Err(DatasetError::UnknownRowIds {
                count: unknown.count(),
                example: example.clone(),
            });
        }
        let date = |row: &FoundRow| {
            let date = row.id.get(..10).filter(|it| is_date(it.as_bytes()));
            date.map(str::to_owned)
                .ok_or_else(|| DatasetError::UndatedRowId(row.id.clone()))
        };
        let mut slots = BTreeSet::new();
        for row in &here {
            let is_old = match &rows.before {
                Some(before) => date(row)? < *before,
                None => false,
            };
            if is_old || rows.ids.contains(&row.id) {
                slots.insert(row.slot);
            }
        }
        Ok(slots)
    }

    /// The bytes of the segments that an erasure of these slots replaces by as many.
    pub fn erased_bytes(&self, slots: &BTreeSet<u64>) -> u64 {
        let segments = self.manifest().segments.iter();
        let changed = segments.filter(|it| slots.range(self.slots_of(it)).next().is_some());
        changed.map(|it| it.bytes).sum()
    }

    /// Empties these slots: returns the new version, in which their transactions are in no cell, no sum and no support.
    /// Slots that are empty already change nothing.
    ///
    /// # Errors
    /// No slot that has a transaction, or all of them; segments that are missing or damaged, too little disk space, an
    /// interruption. The bundle is unchanged.
    pub fn erase(
        &self,
        slots: &BTreeSet<u64>,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        let manifest = self.manifest();
        let segments = (0..).zip(manifest.segments.iter().copied());
        let changed: Vec<(u32, SegmentEntry)> = segments
            .filter(|(_, it)| slots.range(self.slots_of(it)).next().is_some())
            .collect();
        let blocks: u64 = changed.iter().map(|it| u64::from(it.1.blocks)).sum();
        let total = blocks * u64::from(manifest.columns);
        let needed = self.erased_bytes(slots);
        let mut new = Rewriting::begin(self, self.key.clone(), needed, threads, progress, total)?;
        let mut supports = self.record.supports.clone();
        // Of each stratum: all that are erased, and those in its sample.
        let mut erased: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let columns: Vec<Column> = Column::first(manifest.sealed_columns()).collect();
        let strata: Vec<Blocks> = self.strata_blocks();
        let samples = self.record.strata(manifest)?;
        let samples: Vec<Option<u64>> = samples
            .strata()
            .iter()
            .map(Stratum::sample_blocks)
            .collect();
        let stratum_of = |block: u64| {
            let found = strata.iter().position(|it| it.numbers().contains(&block));
            found.expect("strata have all blocks")
        };
        let degree = new.degree() as u64;
        for (index, entry) in &changed {
            let first = entry.first_block * degree;
            let mut bits = self.cells(*index, &columns, threads)?;
            let mut gone: BTreeMap<usize, u64> = BTreeMap::new();
            for &slot in slots.range(self.slots_of(entry)) {
                *gone.entry((slot - first) as usize / 64).or_default() |= 1 << (slot % 64);
            }
            for (&word, &gone) in &gone {
                let mut there = 0;
                for (column, bits) in bits.iter_mut().enumerate() {
                    let cleared = bits[word] & gone;
                    bits[word] ^= cleared;
                    there |= cleared;
                    if let Some(support) = supports.get_mut(column) {
                        *support -= u64::from(cleared.count_ones());
                    }
                }
                let block = entry.first_block + 64 * word as u64 / degree;
                let place = stratum_of(block);
                let rows = u64::from(there.count_ones());
                let (all, in_sample) = erased.entry(place).or_default();
                *all += rows;
                if samples[place].is_some_and(|it| block < strata[place].start + it) {
                    *in_sample += rows;
                }
            }
            let stratum = &self.record.strata[stratum_of(entry.first_block)];
            let bits: Vec<&[u64]> = bits.iter().map(|it| &it[..]).collect();
            let entries = new.encrypt(&bits, entry.first_block, stratum.secret_generation)?;
            new.manifest.segments[*index as usize] = entries[0];
        }
        let present: u64 = erased.values().map(|it| it.0).sum();
        if present == 0 {
            return Err(DatasetError::NothingToErase);
        }
        if present >= self.record.transactions {
            return Err(DatasetError::EverythingErased);
        }
        let changed: Vec<Blocks> = changed.iter().map(|it| it.1.range()).collect();
        let stratum = |(place, it): (usize, &StratumRecord)| {
            let here = strata[place];
            let left: u64 = changed.iter().map(|it| it.intersection(here).len()).sum();
            let (all, in_sample) = erased.get(&place).copied().unwrap_or_default();
            NewStratum {
                record: StratumRecord {
                    erased: it.erased + all,
                    erased_in_sample: it.erased_in_sample + in_sample,
                    ..it.clone()
                },
                change: match left {
                    0 => Change::Kept,
                    // It is summed anew.
                    all if all == here.len() => Change::New,
                    _ => Change::Replaced,
                },
            }
        };
        let strata = self.record.strata.iter().enumerate().map(stratum).collect();
        let left = self.record.transactions - present;
        let items = self.record.items().after_erasure(supports, left);
        new.finish(strata, &self.record.column_order()?, items)
    }

    /// The slots of a segment, counted over all blocks.
    fn slots_of(&self, entry: &SegmentEntry) -> Range<u64> {
        let degree = self.manifest().parameters.degree() as u64;
        let blocks = entry.range();
        blocks.start * degree..blocks.end * degree
    }
}
