//! Compaction: the transactions of many small strata in as few blocks as there can be.

use super::Rewriting;
use crate::bitmap::count_ones;
use crate::dataset::{Dataset, DatasetError, Progress, stored_bytes};
use crate::ranges::{Change, NewStratum};
use crate::record::{RecordError, StratumRecord};
use crate::shuffled::{Bits, Cells, shuffle};
use oboro_format::SegmentEntry;
use oboro_ring::{Blocks, Column};
use oboro_rlwe::Bounds;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;
use zeroize::Zeroizing;

/// What a compaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// The transactions that it moves.
    pub transactions: u64,
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
    /// Whether it saves at least three quarters of what it replaces, eight blocks or more.
    pub fn pays(&self) -> bool {
        let saves = |before: u64, after: u64, least| 4 * after <= before && before - after >= least;
        saves(self.blocks, self.blocks_after, 8)
            || saves(self.strata as u64, self.strata_after as u64, 3)
    }
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
            transactions,
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
        new.finish(strata, &order, self.record.items()).map(Some)
    }

    /// The strata that a compaction takes: all, or those whose transactions fill at most half of the blocks that a stratum
    /// can have, and those that share a segment with one of them.
    fn to_compact(&self, all: bool) -> Result<Vec<usize>, DatasetError> {
        let most = self.record.strata(self.manifest())?.bounds().most_blocks();
        let strata = self.strata_blocks();
        let degree = self.manifest().parameters.degree() as u64;
        let is_small = |it: &StratumRecord| it.present().div_ceil(degree) <= most / 2;
        let chosen = self.record.strata.iter().map(|it| all || is_small(it));
        let mut chosen: Vec<bool> = chosen.collect();
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
        bounds: &Bounds,
        transactions: u64,
        secret_generation: u32,
    ) -> Result<Vec<NewStratum>, DatasetError> {
        if transactions == 0 {
            return Ok(Vec::new());
        }
        NewStratum::extended(&[], bounds, transactions, secret_generation)
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

    /// The transactions of strata, in random order: for each column that has cells its bits.
    fn rows_of(
        &self,
        segments: &[(u32, SegmentEntry)],
        strata: &[usize],
        threads: NonZeroUsize,
    ) -> Result<Vec<Bits>, DatasetError> {
        let sealed = self.manifest().sealed_columns();
        let columns: Vec<Column> = Column::first(sealed).collect();
        let degree = self.manifest().parameters.degree();
        let blocks: usize = segments.iter().map(|it| it.1.blocks as usize).sum();
        let words = blocks * degree / 64;
        let slots_fit = u32::try_from(blocks * degree).is_ok();
        if !slots_fit {
            return Err(DatasetError::TooManyRanges);
        }
        // Allocated at once: growing would leave copies in freed memory.
        let empty = || Zeroizing::new(Vec::with_capacity(words));
        let mut all: Vec<Bits> = columns.iter().map(|_| empty()).collect();
        for (index, _) in segments {
            for (all, bits) in all.iter_mut().zip(self.cells(*index, &columns, threads)?) {
                all.extend_from_slice(&bits);
            }
        }
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
