//! Rows of strata and of appends, gathered from their columns without empty slots and shuffled together.

use crate::dataset::Dataset;
use crate::error::{DatasetError, RecordError};
use crate::shuffled::{Bits, Cells, shuffle};
use oboro_ring::Column;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use zeroize::Zeroizing;

/// Gathers the rows of some strata of a dataset except for `erased` slots, by column that has cells, with space for
/// `transactions` rows.
pub(super) fn gather(
    dataset: &Dataset,
    strata: &[usize],
    transactions: usize,
    erased: &BTreeSet<u64>,
    threads: NonZeroUsize,
) -> Result<Vec<Rows>, DatasetError> {
    let manifest = dataset.manifest();
    let columns: Vec<Column> = Column::first(manifest.sealed_columns()).collect();
    let words = manifest.parameters.degree() / 64;
    let mut rows: Vec<Rows> = columns.iter().map(|_| Rows::new(transactions)).collect();
    let blocks = dataset.strata_blocks();
    for (index, entry) in dataset.segments_of(strata) {
        let all = entry.range();
        let mut bits = dataset.cells(index, &columns, threads)?;
        empty(&mut bits, dataset.slots_of(entry), erased, |_, _, _| {});
        let bits: Vec<&[u64]> = bits.iter().map(|it| &it[..]).collect();
        for &stratum in strata {
            let here = blocks[stratum].intersection(all);
            if !here.is_empty() {
                let here = here.indices_in(all);
                push_words(&mut rows, &bits, here.start * words..here.end * words);
            }
        }
    }
    Ok(rows)
}

/// Clears the erased slots of a segment. Calls `emptied` for each column and word with cleared bits: with the indices
/// of the column and of the word, and these bits.
pub(super) fn empty(
    bits: &mut [Bits],
    slots: Range<u64>,
    erased: &BTreeSet<u64>,
    mut emptied: impl FnMut(usize, usize, u64),
) {
    let mut words: BTreeMap<usize, u64> = BTreeMap::new();
    for &slot in erased.range(slots.clone()) {
        let word = (slot - slots.start) as usize / 64;
        *words.entry(word).or_default() |= 1 << (slot % 64);
    }
    for (word, erased) in words {
        for (column, bits) in bits.iter_mut().enumerate() {
            let cleared = bits[word] & erased;
            bits[word] ^= cleared;
            emptied(column, word, cleared);
        }
    }
}

/// Appends the rows in these words of columns. Transactions without items count as empty slots.
pub(super) fn push_words(rows: &mut [Rows], bits: &[&[u64]], words: Range<usize>) {
    for word in words {
        let there = bits.iter().fold(0, |there, it| there | it[word]);
        for (rows, bits) in rows.iter_mut().zip(bits) {
            rows.push(bits[word], there);
        }
    }
}

/// Shuffles `rows`, filled up with empty ones to `transactions`.
pub(super) fn shuffled(
    rows: Vec<Rows>,
    transactions: usize,
    threads: NonZeroUsize,
) -> Result<Vec<Bits>, DatasetError> {
    if rows.first().is_some_and(|it| it.count > transactions) {
        let what = "it has fewer transactions than its cells";
        return Err(RecordError::Unusable(what.into()).into());
    }
    let rows: Vec<&dyn Cells> = rows.iter().map(|it| it as &dyn Cells).collect();
    Ok(shuffle(transactions, &rows, threads)?)
}

/// Bits of a column in rows; later rows are empty.
pub(super) struct Rows {
    bits: Bits,
    count: usize,
}

impl Rows {
    /// Creates an empty list with space for `most` rows: growing would leave copies in freed memory.
    fn new(most: usize) -> Self {
        Self {
            bits: Zeroizing::new(Vec::with_capacity(most / 64 + 2)),
            count: 0,
        }
    }

    /// Appends a row for each slot set in `there`, with its bit in `word`.
    fn push(&mut self, word: u64, there: u64) {
        let (mut packed, mut left, mut count) = (word, there, 0);
        if there != u64::MAX {
            packed = 0;
            while left != 0 {
                packed |= (word >> left.trailing_zeros() & 1) << count;
                left &= left - 1;
                count += 1;
            }
        }
        let shift = self.count % 64;
        match self.bits.last_mut() {
            Some(last) if shift > 0 => {
                *last |= packed << shift;
                if shift + there.count_ones() as usize > 64 {
                    self.bits.push(packed >> (64 - shift));
                }
            }
            _ if there != 0 => self.bits.push(packed),
            _ => {}
        }
        self.count += there.count_ones() as usize;
    }
}

impl Cells for Rows {
    fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]) {
        let here = rows.start..rows.end.min(self.count);
        for (byte, row) in bytes.iter_mut().zip(here) {
            *byte |= ((self.bits[row / 64] >> (row % 64) & 1) as u8) << bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_packed_without_empty_slots(
            words in prop::collection::vec((any::<u64>(), prop_oneof![
                Just(0), Just(u64::MAX), any::<u64>(), any::<u64>().prop_map(|it| it & it >> 7 & it >> 13)
            ]), 0..40),
        ) {
            let slots = |there: u64| (0..64).filter(move |bit| there >> bit & 1 == 1);
            let expected: Vec<bool> = words
                .iter()
                .flat_map(|&(word, there)| slots(there).map(move |bit| word >> bit & 1 == 1))
                .collect();
            let mut rows = Rows::new(expected.len());
            for &(word, there) in &words {
                rows.push(word & there, there);
            }
            prop_assert_eq!(rows.count, expected.len());
            prop_assert_eq!(rows.bits.len(), expected.len().div_ceil(64));
            // Rows beyond the last one are empty.
            let mut bytes = vec![0; expected.len() + 3];
            rows.mark(0..bytes.len(), 2, &mut bytes);
            let there = bytes.iter().map(|&byte| byte == 4);
            prop_assert!(there.eq(expected.into_iter().chain([false; 3])));
        }
    }
}
