//! Compaction: moves the transactions of many small strata into as few blocks as possible.

use super::Rewrite;
use super::gather::{gather, shuffled};
use crate::dataset::{Dataset, stored_bytes};
use crate::error::{DatasetError, RecordError};
use crate::progress::Progress;
use crate::ranges::NewStratum;
use crate::record::StratumRecord;
use crate::shuffled::count_ones;
use oboro_format::SegmentEntry;
use oboro_ring::Blocks;
use oboro_rlwe::{Extent, SecretGeneration};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

/// Cost and effect of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// The number of transactions that it moves.
    pub transactions: u64,
    /// The number of strata that are merged.
    pub strata: usize,
    /// The number of strata that replace them.
    pub strata_after: usize,
    /// The number of blocks of the merged strata.
    pub blocks: u64,
    /// The number of blocks that their transactions fill.
    pub blocks_after: u64,
    /// The bytes of their segments, which are removed.
    pub bytes: u64,
    /// The bytes of the new segments, to be uploaded.
    pub bytes_after: u64,
    /// `true` if all strata are merged, which sorts columns by support again.
    pub sorts: bool,
}

impl Compaction {
    /// Returns true if it saves at least three quarters of what it replaces, and at least eight blocks or three
    /// strata.
    pub fn pays(&self) -> bool {
        let saves = |before: u64, after: u64, least| 4 * after <= before && before - after >= least;
        saves(self.blocks, self.blocks_after, 8)
            || saves(self.strata as u64, self.strata_after as u64, 3)
    }
}

/// Strata merged into one, or into more if bounds require it, with their number of transactions.
struct Group {
    strata: Vec<usize>,
    transactions: u64,
}

/// Strata merged by a compaction, with the result.
struct Plan {
    /// The merged strata, ascending.
    taken: Vec<usize>,
    groups: Vec<Group>,
    /// The new strata of each group.
    after: Vec<Vec<Extent>>,
}

impl Dataset {
    /// Plans [`compact`](Self::compact); `None` if it would gain nothing.
    ///
    /// # Errors
    /// Never for a dataset that was opened.
    pub fn compaction(&self, all: bool) -> Result<Option<Compaction>, DatasetError> {
        let strata = &self.record.strata;
        let plan = self.plan_compaction(all)?;
        let after = || plan.after.iter().flatten();
        let manifest = self.manifest();
        let bytes = |group: &Group| {
            let (columns, ids) = (manifest.columns, manifest.row_id_bytes);
            stored_bytes(&manifest.parameters, columns, ids, group.transactions)
        };
        let compaction = Compaction {
            transactions: plan.groups.iter().map(|it| it.transactions).sum(),
            strata: plan.taken.len(),
            strata_after: after().count(),
            blocks: plan.taken.iter().map(|&it| strata[it].blocks).sum(),
            blocks_after: after().map(|it| it.blocks).sum(),
            bytes: self.segments_of(&plan.taken).map(|it| it.1.bytes).sum(),
            bytes_after: plan.groups.iter().map(bytes).sum::<Result<u64, _>>()?,
            sorts: plan.taken.len() == strata.len(),
        };
        let gains = compaction.strata_after < compaction.strata
            || compaction.blocks_after < compaction.blocks
            || (all && compaction.sorts);
        Ok(gains.then_some(compaction))
    }

    /// Merges small strata, or `all`, into as few strata and blocks as possible, and shuffles the transactions within
    /// each new stratum. New strata are made one at a time: the bits of one are in memory, twice. Merging all strata
    /// sorts columns by support again. Returns the new version, or `None` if nothing is gained.
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
        let mut new = Rewrite::begin(self, self.key.clone(), needed, threads, progress, total)?;
        let plan = self.plan_compaction(all)?;
        new.remove_segments_of(&plan.taken);
        let mut supports = vec![0; self.record.supports.len()];
        let others = self.record.strata.iter().enumerate();
        let others = others.filter(|(it, _)| plan.taken.binary_search(it).is_err());
        let mut strata: Vec<NewStratum> = others.map(|it| NewStratum::kept(it.1)).collect();
        for group in &plan.groups {
            let (shuffled, theirs) =
                new.shuffle(&group.strata, group.transactions, &BTreeSet::new())?;
            strata.extend(shuffled);
            for (support, more) in supports.iter_mut().zip(theirs) {
                *support += more;
            }
        }
        if compaction.sorts && supports != self.record.supports {
            let what = "supports are not those of its cells";
            return Err(RecordError::Unusable(what.into()).into());
        }
        let order = if compaction.sorts {
            self.sorted_columns()?
        } else {
            self.record.column_order()?
        };
        new.finish(strata, &order, self.record.items()).map(Some)
    }

    /// Selects and groups the strata of a compaction: all, or those whose transactions fill at most half of a
    /// stratum's largest number of blocks, and those that share a segment with one of them.
    fn plan_compaction(&self, all: bool) -> Result<Plan, DatasetError> {
        let strata = self.record.strata(self.manifest())?;
        let bounds = strata.bounds();
        let degree = self.manifest().parameters.degree() as u64;
        let most = bounds.most_blocks();
        let is_small = |it: &StratumRecord| it.present().div_ceil(degree) <= most / 2;
        let taken = self.record.strata.iter().map(|it| all || is_small(it));
        let taken = self.with_sharing(taken.collect());
        let mut groups: Vec<Group> = Vec::new();
        for &stratum in &taken {
            let transactions = self.record.strata[stratum].present();
            match groups.last_mut() {
                Some(group) if group.transactions + transactions <= most * degree => {
                    group.strata.push(stratum);
                    group.transactions += transactions;
                }
                _ => groups.push(Group {
                    strata: vec![stratum],
                    transactions,
                }),
            }
        }
        groups.retain(|it| it.transactions > 0);
        let become_new = |it: &Group| {
            bounds
                .strata_of(it.transactions, SecretGeneration::default())
                .ok_or(DatasetError::TooManyRanges)
        };
        Ok(Plan {
            after: groups.iter().map(become_new).collect::<Result<_, _>>()?,
            taken,
            groups,
        })
    }

    /// Returns the `taken` strata and those that share a segment with one of them.
    pub(super) fn with_sharing(&self, mut taken: Vec<bool>) -> Vec<usize> {
        let blocks = self.strata_blocks();
        loop {
            let before = taken.clone();
            for entry in &self.manifest().segments {
                let shares = |it: &Blocks| !it.intersection(entry.range()).is_empty();
                let sharing = || (0..blocks.len()).filter(|&it| shares(&blocks[it]));
                if sharing().any(|it| taken[it]) {
                    sharing().for_each(|it| taken[it] = true);
                }
            }
            if taken == before {
                break;
            }
        }
        (0..blocks.len()).filter(|&it| taken[it]).collect()
    }

    /// Returns the segments of these strata, with their indices.
    pub(super) fn segments_of(
        &self,
        strata: &[usize],
    ) -> impl Iterator<Item = (u32, &SegmentEntry)> {
        let blocks = self.strata_blocks();
        let blocks: Vec<Blocks> = strata.iter().map(|&it| blocks[it]).collect();
        let segments = (0..).zip(&self.manifest().segments);
        segments.filter(move |(_, entry)| {
            let mut here = blocks.iter();
            here.any(|it| !it.intersection(entry.range()).is_empty())
        })
    }
}

impl Rewrite<'_> {
    /// Removes the segments of these strata of the previous version, and moves the others up.
    pub(super) fn remove_segments_of(&mut self, strata: &[usize]) {
        let removed: BTreeSet<u64> = self
            .old
            .segments_of(strata)
            .map(|(_, entry)| entry.first_block)
            .collect();
        let segments = &mut self.manifest.segments;
        segments.retain(|it| !removed.contains(&it.first_block));
        place(segments);
    }

    /// Encrypts the transactions of these strata except for `erased` slots, `transactions` in number, in random order
    /// after the present segments. Returns their new strata, and the support of each item in them.
    pub(super) fn shuffle(
        &mut self,
        strata: &[usize],
        transactions: u64,
        erased: &BTreeSet<u64>,
    ) -> Result<(Vec<NewStratum>, Vec<u64>), DatasetError> {
        let count = usize::try_from(transactions).unwrap_or(usize::MAX);
        let rows = gather(self.old, strata, count, erased, self.threads)?;
        let rows = shuffled(rows, count, self.threads)?;
        let items = &rows[..self.manifest.columns as usize];
        let supports = items.iter().map(|bits| count_ones(bits)).collect();
        let degree = self.degree();
        let words = count.div_ceil(degree) * degree / 64;
        let bits: Vec<&[u64]> = rows.iter().map(|it| &it[..words]).collect();
        let generation = self.fresh_secrets(&bits)?;
        let entries = self.encrypt(&bits, self.manifest.block_count(), generation)?;
        self.manifest.segments.extend(entries);
        let old = self.old.record.strata(self.old.manifest())?;
        let new = NewStratum::of(old.bounds(), transactions, generation)?;
        Ok((new, supports))
    }
}

/// Sets the positions of segments.
fn place(segments: &mut [SegmentEntry]) {
    let mut first = 0;
    for segment in segments {
        segment.first_block = first;
        first += u64::from(segment.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{NewItems, Target};
    use crate::shuffled::{Cells, Shuffled};
    use oboro_rlwe::MasterKey;
    use std::ops::{ControlFlow, Range};

    /// Column that has every n-th row.
    struct Every(usize);

    impl Cells for Every {
        fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]) {
            for (byte, row) in bytes.iter_mut().zip(rows) {
                *byte |= u8::from(row.is_multiple_of(self.0)) << bit;
            }
        }
    }

    #[test]
    fn what_does_not_fit_one_stratum_becomes_several() {
        let threads = NonZeroUsize::new(2).unwrap();
        let rows = |count| {
            let mut rows = Shuffled::begin(count, threads).unwrap();
            let names = ["a", "b"].map(str::to_owned).to_vec();
            rows.push(names, &[&Every(2), &Every(3)]);
            rows.finish().unwrap()
        };
        let go_on = |_, _| ControlFlow::Continue(());
        let directory = tempfile::tempdir().unwrap();
        let (key, target) = (
            MasterKey::generate().unwrap(),
            Target::Temporary(directory.path()),
        );
        let large = 2_000_000;
        let mut dataset = Dataset::create(rows(large), &key, target, 2, threads, &go_on).unwrap();
        for more in [large, 5, 7] {
            let rows = rows(more).absorbing(Some(false));
            let appended = dataset.append(rows, NewItems::Refuse, threads, &go_on);
            dataset = appended.unwrap();
        }
        let (before, blocks) = (dataset.record().clone(), |it: &Dataset| {
            it.manifest().block_count()
        });
        let check = |after: &Dataset| {
            assert_eq!(after.record().supports, before.supports);
            assert_eq!(after.record().transactions, before.transactions);
            after.pair_reader().unwrap();
            after.bundle().verify().unwrap();
        };
        // Small strata alone, then everything.
        let small = dataset.compact(false, threads, &go_on).unwrap().unwrap();
        assert_eq!(blocks(&small), blocks(&dataset) - 1);
        check(&small);
        let plan = small.compaction(true).unwrap().unwrap();
        assert_eq!((plan.strata, plan.strata_after, plan.sorts), (3, 2, true));
        let all = small.compact(true, threads, &go_on).unwrap().unwrap();
        assert_eq!(blocks(&all), plan.blocks_after);
        check(&all);
    }
}
