//! Changes of what is encrypted already: compaction, erasure, rotation of the key.
//!
//! All three take sealed cells, which open only as what the owner sealed in the version that its record names, and write
//! new segments from them, with seeds and numbers that were never used. What is kept of ranges is computed from the
//! segments just written; of segments that are replaced it is subtracted, computed from the bytes that the manifest's
//! digests name. The new version takes effect at once, as an append does, and then the old segments are removed.

use crate::bitmap::count_ones;
use crate::dataset::{
    Dataset, DatasetError, Progress, check_free_bytes, column_order, stored_bytes,
};
use crate::encryption::NewSegments;
use crate::ranges::{Change, NewBlocks, NewStratum};
use crate::record::{OwnerRecord, RecordError, StratumRecord};
use crate::shuffled::{Bits, Cells, shuffle, unpack_row_ids};
use oboro_format::files::free_bytes;
use oboro_format::{BundleWriter, Manifest, SegmentEntry};
use oboro_ring::{Blocks, Column, threads};
use oboro_rlwe::{BlockNoise, CellsOf, ColumnOrder, DatasetKey, MasterKey};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use zeroize::Zeroizing;

/// What a compaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// The strata that become one, or as few as there can be.
    pub strata: usize,
    /// What becomes of them.
    pub strata_after: usize,
    /// Their blocks.
    pub blocks: u64,
    /// The blocks that their transactions fill.
    pub blocks_after: u64,
    /// The bytes of their segments, which are removed.
    pub bytes: u64,
    /// The bytes of the new ones, which are to be uploaded.
    pub bytes_after: u64,
    /// Whether all strata are among them, so that columns are sorted by support again.
    pub sorts: bool,
}

impl Compaction {
    /// Whether it saves at least half of what it replaces.
    pub fn pays(&self) -> bool {
        2 * self.blocks_after <= self.blocks || 2 * self.strata_after <= self.strata
    }
}

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

/// A version of a dataset in the making.
struct Rewriting<'a> {
    old: &'a Dataset,
    /// The present record: what it says about trust may be newer than that of `old`.
    record: OwnerRecord,
    /// The key of the new version.
    key: DatasetKey,
    writer: BundleWriter,
    /// The new version, as far as it is made.
    manifest: Manifest,
    noise: BlockNoise,
    threads: NonZeroUsize,
    progress: Progress<'a>,
    /// Block-columns encrypted, and all that will be.
    done: u64,
    total: u64,
}

impl Dataset {
    /// What [`compact`](Self::compact) would do; `None` if nothing is to be gained.
    ///
    /// # Errors
    /// None for a dataset that was opened.
    pub fn compaction(&self, all: bool) -> Result<Option<Compaction>, DatasetError> {
        let strata = &self.record.strata;
        let bounds = self.record.strata(self.manifest())?.bounds().clone();
        let chosen = self.to_compact(all)?;
        let of = |it: &usize| &strata[*it];
        let transactions = chosen.iter().map(|it| of(it).present()).sum();
        let after = self.compacted(&bounds, transactions, 0)?;
        let compaction = Compaction {
            strata: chosen.len(),
            strata_after: after.len(),
            blocks: chosen.iter().map(|it| of(it).blocks).sum(),
            blocks_after: after.iter().map(|it| it.record.blocks).sum(),
            bytes: self.segments_of(&chosen).map(|it| it.1.bytes).sum(),
            bytes_after: stored_bytes(
                &self.manifest().parameters,
                self.manifest().columns,
                self.manifest().row_id_bytes,
                transactions,
            )?,
            sorts: chosen.len() == strata.len(),
        };
        let gains = compaction.strata_after < compaction.strata
            || compaction.blocks_after < compaction.blocks
            || (all && compaction.sorts);
        Ok(gains.then_some(compaction))
    }

    /// Puts the transactions of small strata, or of `all`, into as few strata and blocks as there can be, shuffled among
    /// each other. If it has all strata, columns are sorted by support again. Returns the new version, or `None` if
    /// nothing is to be gained.
    ///
    /// # Errors
    /// Segments that are missing or damaged, too little disk space, an interruption. The bundle is unchanged.
    pub fn compact(
        &self,
        all: bool,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Option<Self>, DatasetError> {
        let Some(compaction) = self.compaction(all)? else {
            return Ok(None);
        };
        let total = compaction.blocks_after * u64::from(self.manifest().columns);
        let needed = compaction.bytes_after;
        let mut new = Rewriting::begin(self, self.key.clone(), needed, threads, progress, total)?;
        let chosen = self.to_compact(all)?;
        let old_segments: Vec<(u32, SegmentEntry)> = self
            .segments_of(&chosen)
            .map(|(it, entry)| (it, *entry))
            .collect();
        let rows = self.rows_of(&old_segments, &chosen, threads)?;
        if compaction.sorts {
            let supports = rows.iter().map(|it| count_ones(it));
            if !supports
                .take(self.record.supports.len())
                .eq(self.record.supports.iter().copied())
            {
                return Err(
                    RecordError::Damaged("supports are not those of its cells".into()).into(),
                );
            }
        }
        let gone: BTreeSet<u32> = old_segments.iter().map(|(_, entry)| entry.number).collect();
        new.manifest
            .segments
            .retain(|it| !gone.contains(&it.number));
        place(&mut new.manifest.segments);
        let generation = new.record.secret_generation;
        let words = compaction.blocks_after as usize * new.degree() / 64;
        let bits: Vec<&[u64]> = rows.iter().map(|it| &it[..words]).collect();
        let first_block = new.manifest.block_count();
        let entries = new.encrypt(&bits, first_block, generation)?;
        new.manifest.segments.extend(entries);
        drop(rows);

        let transactions = chosen
            .iter()
            .map(|&it| self.record.strata[it].present())
            .sum();
        let bounds = self.record.strata(self.manifest())?.bounds().clone();
        let others = (self.record.strata.iter().enumerate()).filter(|(it, _)| !chosen.contains(it));
        let mut strata: Vec<NewStratum> = others.map(|(_, it)| kept(it)).collect();
        strata.extend(self.compacted(&bounds, transactions, generation)?);
        let order = if compaction.sorts {
            self.sorted_columns()?
        } else {
            self.record.column_order()?
        };
        new.finish(strata, &order, self.record.supports.clone())
            .map(Some)
    }

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
                .ok_or_else(|| RecordError::Damaged("a row id is no text".into()))?;
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
    /// An id that no row has, or that has no date where dates are asked for; no such row at all; as
    /// [`own_row_ids`](Self::own_row_ids).
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
        if slots.is_empty() {
            return Err(DatasetError::NothingToErase);
        }
        Ok(slots)
    }

    /// The bytes of the segments that an erasure of these slots replaces by as many.
    pub fn erased_bytes(&self, slots: &BTreeSet<u64>) -> u64 {
        let segments = self.manifest().segments.iter();
        let changed = segments.filter(|it| slots.range(self.slots_of(it)).next().is_some());
        changed.map(|it| it.bytes).sum()
    }

    /// Empties these slots: returns the new version, in which their transactions are in no cell, no support and no count.
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
        let mut erased: BTreeMap<usize, u64> = BTreeMap::new();
        let columns: Vec<Column> = Column::first(manifest.sealed_columns()).collect();
        let strata: Vec<Blocks> = self.strata_blocks();
        let degree = new.degree() as u64;
        for (index, entry) in &changed {
            let first = entry.first_block * degree;
            let mut bits = self.cells(*index, &columns, threads)?;
            for &slot in slots.range(self.slots_of(entry)) {
                let (word, bit) = ((slot - first) as usize / 64, (slot - first) % 64);
                let mut was_there = false;
                for (column, bits) in columns.iter().zip(&mut bits) {
                    let is_set = bits[word] >> bit & 1 == 1;
                    bits[word] &= !(1 << bit);
                    was_there |= is_set;
                    if let Some(support) = supports.get_mut(column.index()) {
                        *support -= u64::from(is_set);
                    }
                }
                let block = slot / degree;
                let stratum = strata.iter().position(|it| it.numbers().contains(&block));
                let stratum = stratum.expect("strata have all blocks");
                *erased.entry(stratum).or_default() += u64::from(was_there);
            }
            let stratum = strata
                .iter()
                .position(|it| it.numbers().contains(&entry.first_block));
            let stratum = &self.record.strata[stratum.expect("strata have all blocks")];
            let bits: Vec<&[u64]> = bits.iter().map(|it| &it[..]).collect();
            let entries = new.encrypt(&bits, entry.first_block, stratum.secret_generation)?;
            new.manifest.segments[*index as usize] = entries[0];
        }
        let present: u64 = erased.values().sum();
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
            NewStratum {
                record: StratumRecord {
                    erased: it.erased + erased.get(&place).copied().unwrap_or(0),
                    ..it.clone()
                },
                change: match left {
                    0 => Change::Kept,
                    // It is summed anew.
                    all if all == here.len() => Change::Added(0),
                    _ => Change::Replaced,
                },
            }
        };
        let strata = self.record.strata.iter().enumerate().map(stratum).collect();
        new.finish(strata, &self.record.column_order()?, supports)
    }

    /// Encrypts everything again, under another master key: returns the new version, of which this key opens nothing.
    /// Transactions stay in their slots; columns are sorted by support again.
    ///
    /// # Errors
    /// A false answer that was not decided about, the same key, segments that are missing or damaged, too little disk
    /// space, an interruption. The bundle is unchanged.
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
        let mut new = Rewriting::begin(self, key, needed, threads, progress, total)?;
        new.manifest.key_check = master.check().0;
        new.manifest.generation = new.key.generation();
        new.manifest.segments.clear();
        // Secrets that a liar may have learned are no more.
        (new.record.secret_generation, new.record.relied_on) = (0, false);
        let columns: Vec<Column> = Column::first(manifest.sealed_columns()).collect();
        for (index, entry) in (0..).zip(&manifest.segments) {
            let bits = self.cells(index, &columns, threads)?;
            let bits: Vec<&[u64]> = bits.iter().map(|it| &it[..]).collect();
            let entries = new.encrypt(&bits, entry.first_block, 0)?;
            new.manifest.segments.extend(entries);
        }
        let stratum = |it: &StratumRecord| NewStratum {
            record: StratumRecord {
                secret_generation: 0,
                ..it.clone()
            },
            change: Change::Added(0),
        };
        let strata = self.record.strata.iter().map(stratum).collect();
        new.finish(
            strata,
            &self.sorted_columns()?,
            self.record.supports.clone(),
        )
    }

    /// The slots of a segment, counted over all blocks.
    fn slots_of(&self, entry: &SegmentEntry) -> Range<u64> {
        let degree = self.manifest().parameters.degree() as u64;
        let blocks = entry.range();
        blocks.start * degree..blocks.end * degree
    }

    /// The blocks of each stratum.
    fn strata_blocks(&self) -> Vec<Blocks> {
        let mut first = 0;
        let blocks = self.record.strata.iter().map(|it| {
            let blocks = Blocks::from_start(first, it.blocks);
            first = blocks.end;
            blocks
        });
        blocks.collect()
    }

    /// The order of columns by their present supports, with the same focus.
    fn sorted_columns(&self) -> Result<ColumnOrder, DatasetError> {
        let order = self.record.column_order()?;
        let focus = order.focus().iter().map(|&it| order.columns()[it]);
        Ok(column_order(&self.record.supports, focus.collect()))
    }

    /// The strata that a compaction takes: all, or those of at most half the blocks that there can be, and those that
    /// share a segment with one of them.
    fn to_compact(&self, all: bool) -> Result<Vec<usize>, DatasetError> {
        let most = self.record.strata(self.manifest())?.bounds().most_blocks();
        let strata = self.strata_blocks();
        let mut chosen: Vec<bool> = strata
            .iter()
            .map(|it| all || it.len() <= most / 2)
            .collect();
        loop {
            let before = chosen.clone();
            for entry in &self.manifest().segments {
                let shares = |it: &Blocks| !it.intersection(entry.range()).is_empty();
                let sharing = || (0..strata.len()).filter(|&it| shares(&strata[it]));
                if sharing().any(|it| chosen[it]) {
                    sharing().for_each(|it| chosen[it] = true);
                }
            }
            if chosen == before {
                break;
            }
        }
        Ok((0..strata.len()).filter(|&it| chosen[it]).collect())
    }

    /// The strata into which a compaction puts this many transactions.
    fn compacted(
        &self,
        bounds: &oboro_rlwe::Bounds,
        transactions: u64,
        secret_generation: u32,
    ) -> Result<Vec<NewStratum>, DatasetError> {
        if transactions == 0 {
            return Ok(Vec::new());
        }
        NewStratum::after_append(&[], bounds, transactions, secret_generation)
            .ok_or(DatasetError::TooManyRanges)
    }

    /// The segments of these strata, with their indices.
    fn segments_of(&self, strata: &[usize]) -> impl Iterator<Item = (u32, &SegmentEntry)> {
        let blocks = self.strata_blocks();
        let blocks: Vec<Blocks> = strata.iter().map(|&it| blocks[it]).collect();
        let segments = (0..).zip(&self.manifest().segments);
        segments.filter(move |(_, entry)| {
            let mut here = blocks.iter();
            here.any(|it| !it.intersection(entry.range()).is_empty())
        })
    }

    /// The bits of columns in one of the dataset's own segments, from its sealed cells.
    fn cells(
        &self,
        index: u32,
        columns: &[Column],
        threads: NonZeroUsize,
    ) -> Result<Vec<Bits>, DatasetError> {
        let segment = self.bundle.open_segment(index)?;
        let entry = self.manifest().segments[index as usize];
        let open = |column: Column| -> Result<Bits, DatasetError> {
            let which = CellsOf {
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

    /// The transactions of strata, in random order: for each column that has cells its bits.
    fn rows_of(
        &self,
        segments: &[(u32, SegmentEntry)],
        strata: &[usize],
        threads: NonZeroUsize,
    ) -> Result<Vec<Bits>, DatasetError> {
        let sealed = self.manifest().sealed_columns();
        let columns: Vec<Column> = Column::first(sealed).collect();
        let mut all: Vec<Bits> = vec![Bits::default(); columns.len()];
        for (index, _) in segments {
            for (all, bits) in all.iter_mut().zip(self.cells(*index, &columns, threads)?) {
                let mut longer = Zeroizing::new(Vec::with_capacity(all.len() + bits.len()));
                longer.extend_from_slice(all);
                longer.extend_from_slice(&bits);
                *all = longer;
            }
        }
        let words = all.first().map_or(0, |it| it.len());
        let mut slots = Vec::new();
        for word in 0..words {
            let any = all.iter().fold(0, |any, it| any | it[word]);
            let set = (0..64).filter(|bit| any >> bit & 1 == 1);
            slots.extend(set.map(|bit| (64 * word + bit) as u32));
        }
        // Transactions without items are like empty slots.
        let transactions: u64 = strata
            .iter()
            .map(|&it| self.record.strata[it].present())
            .sum();
        if slots.len() as u64 > transactions {
            return Err(
                RecordError::Damaged("it has fewer transactions than its cells".into()).into(),
            );
        }
        let taken = all.iter().map(|bits| Taken {
            slots: &slots,
            bits,
        });
        let taken: Vec<Taken<'_>> = taken.collect();
        let taken: Vec<&dyn Cells> = taken.iter().map(|it| it as &dyn Cells).collect();
        Ok(shuffle(transactions as usize, &taken, threads)?)
    }
}

/// The bits of a column in some slots; rows after them are empty.
struct Taken<'a> {
    slots: &'a [u32],
    bits: &'a [u64],
}

impl Cells for Taken<'_> {
    fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]) {
        let end = rows.end.min(self.slots.len());
        let slots = &self.slots[rows.start.min(end)..end];
        for (byte, &slot) in bytes.iter_mut().zip(slots) {
            *byte |= ((self.bits[slot as usize / 64] >> (slot % 64) & 1) as u8) << bit;
        }
    }
}

/// A stratum that stays as it is.
fn kept(record: &StratumRecord) -> NewStratum {
    NewStratum {
        record: record.clone(),
        change: Change::Kept,
    }
}

/// Gives segments their positions.
fn place(segments: &mut [SegmentEntry]) {
    let mut first = 0;
    for segment in segments {
        segment.first_block = first;
        first += u64::from(segment.blocks);
    }
}

impl<'a> Rewriting<'a> {
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

    fn degree(&self) -> usize {
        self.key.ring().degree()
    }

    /// Encrypts whole blocks into new segments under secrets of this generation, the first of them at this position.
    fn encrypt(
        &mut self,
        bits: &[&[u64]],
        first_block: u64,
        secret_generation: u32,
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

    /// Computes what is kept of the ranges, and commits.
    fn finish(
        mut self,
        strata: Vec<NewStratum>,
        order: &ColumnOrder,
        supports: Vec<u64>,
    ) -> Result<Dataset, DatasetError> {
        let bounds = self.record.strata(self.old.manifest())?.bounds().clone();
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
        let mut items = self.record.items();
        items.supports = supports;
        let trust = (self.record.secret_generation, self.record.relied_on);
        let record = OwnerRecord::new(&self.manifest, strata, order, items, self.noise, trust);
        let sealed = record.seal(&self.key)?;
        let bundle = self
            .writer
            .commit(&self.manifest, &sealed, &record.ranges())?;
        Ok(Dataset {
            bundle,
            record,
            key: self.key,
        })
    }
}
