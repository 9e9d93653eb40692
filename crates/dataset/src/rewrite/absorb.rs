//! Appends that absorb the youngest strata: the rows of small appends share a stratum and its blocks.

use super::Rewrite;
use crate::dataset::{Dataset, stored_bytes};
use crate::error::DatasetError;
use crate::progress::Progress;
use crate::ranges::NewStratum;
use crate::record::{Items, StratumRecord};
use crate::rewrite::gather::{gather, push_words, shuffled};
use crate::shuffled::Shuffled;
use oboro_format::{BLOCKS_PER_SEGMENT, SegmentEntry};
use oboro_ring::Column;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;

/// Strata that an append absorbs: the youngest ones, or none.
pub(crate) struct Absorption {
    /// The indices of the strata.
    pub(crate) strata: Range<usize>,
    /// The number of their transactions.
    pub(crate) transactions: u64,
}

/// Counts the youngest strata that an append of `rows` rows absorbs. Stops if the result would have more than
/// `most` transactions, or at a stratum with more blocks than the append and the strata absorbed before. A feed thus
/// leaves few strata, and a row is encrypted again about as often as the rows after it double.
fn count_absorbed(strata: &[StratumRecord], rows: u64, degree: u64, most: u64) -> usize {
    let mut rows = rows;
    let is_absorbed = |it: &&StratumRecord| {
        let blocks = rows.div_ceil(degree);
        rows += it.present();
        it.blocks <= blocks && rows <= most
    };
    strata.iter().rev().take_while(is_absorbed).count()
}

impl Dataset {
    /// Selects the strata that an append of these rows absorbs, if any: as many as need no sample together with it.
    /// Strata with segments missing in the directory are skipped.
    ///
    /// # Errors
    /// A failing disk.
    pub(crate) fn absorption(&self, rows: &Shuffled) -> Result<Absorption, DatasetError> {
        let (manifest, strata) = (self.manifest(), &self.record.strata);
        let most = if rows.absorbs().unwrap_or(self.record.absorbs) {
            self.record.strata(manifest)?.bounds().most_exact()
        } else {
            0
        };
        let most = most.min(rows.most_at_once(manifest.sealed_columns()));
        let degree = manifest.parameters.degree() as u64;
        let most_strata = count_absorbed(strata, rows.len() as u64, degree, most);
        let (blocks, mut first) = (self.strata_blocks(), strata.len());
        for place in (0..strata.len()).rev().take(most_strata) {
            let is_before = |it: &SegmentEntry| it.first_block < blocks[place].start;
            let start = manifest.segments.partition_point(is_before);
            // A segment shared with an older stratum stays.
            let begins = manifest.segments.get(start);
            let begins = begins.is_some_and(|it| it.first_block == blocks[place].start);
            if !begins || !self.has_segments(&[place])? {
                break;
            }
            first = place;
        }
        let absorbed = first..strata.len();
        Ok(Absorption {
            transactions: strata[absorbed.clone()].iter().map(|it| it.present()).sum(),
            strata: absorbed,
        })
    }

    /// Returns true if all segments of these strata are in the directory.
    fn has_segments(&self, strata: &[usize]) -> Result<bool, DatasetError> {
        for (index, _) in self.segments_of(strata) {
            if !self.bundle.has_segment(index)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the bytes of ciphertext that an append of these rows writes, including the transactions that it
    /// absorbs.
    ///
    /// # Errors
    /// A failing disk.
    pub fn appended_bytes(&self, rows: &Shuffled) -> Result<u64, DatasetError> {
        self.appended_with(rows, &self.absorption(rows)?)
    }

    pub(crate) fn appended_with(
        &self,
        rows: &Shuffled,
        absorption: &Absorption,
    ) -> Result<u64, DatasetError> {
        let manifest = self.manifest();
        stored_bytes(
            &manifest.parameters,
            manifest.columns,
            manifest.row_id_bytes,
            rows.len() as u64 + absorption.transactions,
        )
    }

    /// Returns the number of transactions that an append of these rows encrypts again together with them.
    ///
    /// # Errors
    /// A failing disk.
    pub fn absorbed_transactions(&self, rows: &Shuffled) -> Result<u64, DatasetError> {
        Ok(self.absorption(rows)?.transactions)
    }

    /// Encrypts these rows, whose items have these columns, together with the rows of the absorbed strata. `items`
    /// are those of the new version.
    pub(crate) fn append_absorbing(
        &self,
        rows: &Shuffled,
        columns: &[Column],
        absorption: &Absorption,
        items: Items,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        let manifest = self.manifest();
        let degree = manifest.parameters.degree();
        let transactions = rows.len() + absorption.transactions as usize;
        let blocks = transactions.div_ceil(degree);
        let total = blocks as u64 * u64::from(manifest.columns);
        let needed = self.appended_with(rows, absorption)?;
        let mut new = Rewrite::begin(self, self.key.clone(), needed, threads, progress, total)?;
        new.record.absorbs = rows.absorbs().unwrap_or(new.record.absorbs);
        let absorbed: Vec<usize> = absorption.strata.clone().collect();
        let mut gathered = gather(self, &absorbed, transactions, &BTreeSet::new(), threads)?;
        let segment = degree * BLOCKS_PER_SEGMENT as usize;
        let go_on = || new.go_on();
        rows.each_part(segment, go_on, |part| {
            let slots = part.rows.next_multiple_of(64);
            part.with_bits(manifest, columns, slots, |bits| {
                push_words(&mut gathered, bits, 0..slots / 64);
            });
            Ok::<_, DatasetError>(())
        })?;
        let bits = shuffled(gathered, transactions, threads)?;
        let words = blocks * degree / 64;
        let bits: Vec<&[u64]> = bits.iter().map(|it| &it[..words]).collect();
        let start = self.strata_blocks()[absorption.strata.start].start;
        new.manifest.segments.retain(|it| it.first_block < start);
        let generation = new.fresh_secrets(&bits)?;
        let entries = new.encrypt(&bits, start, generation)?;
        new.manifest.segments.extend(entries);
        let kept = self.record.strata[..absorption.strata.start].iter();
        let mut strata: Vec<NewStratum> = kept.map(NewStratum::kept).collect();
        let bounds = self.record.strata(manifest)?.bounds().clone();
        strata.extend(NewStratum::of(&bounds, transactions as u64, generation)?);
        new.finish(strata, &self.record.column_order()?, items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_rlwe::SecretGeneration;

    /// Returns the blocks of the strata after one append per entry of `days`, its number of rows. Blocks have ten
    /// slots, exact strata at most 28 blocks.
    fn feed(days: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut strata: Vec<StratumRecord> = Vec::new();
        for rows in days {
            let kept = strata.len() - count_absorbed(&strata, rows, 10, 280);
            let absorbed: u64 = strata.drain(kept..).map(|it| it.present()).sum();
            strata.push(StratumRecord {
                blocks: (rows + absorbed).div_ceil(10),
                transactions: rows + absorbed,
                erased: 0,
                erased_in_sample: 0,
                secret_generation: SecretGeneration::default(),
                ranges: Vec::new(),
            });
        }
        strata.iter().map(|it| it.blocks).collect()
    }

    /// Nearly as few blocks as full strata would have; the number of strata that are not full grows with the
    /// logarithm.
    #[test]
    fn a_feed_leaves_few_strata() {
        assert_eq!(feed((0..15).map(|_| 10)), [8, 4, 2, 1]);
        assert_eq!(feed((0..16).map(|_| 10)), [16]);
        assert_eq!(feed((0..280).map(|_| 1)), [18, 9, 2, 1]);
        for most in [3, 35, 200] {
            let day = |number: u64| 1 + (number * number + number / 7) % most;
            for days in (1..600).step_by(7) {
                let (strata, rows) = (feed((0..days).map(day)), (0..days).map(day).sum::<u64>());
                assert!(strata.len() as u64 <= 2 * rows / 280 + 8, "{strata:?}");
            }
        }
    }
}
