//! Check columns: columns that the owner plants among those of items, to find out a server that
//! answers wrongly.
//!
//! The first holds a random part of the transactions, each further one a random part of those of
//! the one before. So in an itemset with several check columns only the last of them counts, and
//! with the supports of single columns, and of check columns together with another column, the
//! support of every itemset with at most one item is known at every length. These are counted
//! before encryption and kept by the owner; whatever such answer comes back is verified.
//!
//! The server sees columns and itemsets by number only. What it could infer all the same is in
//! `SECURITY.md`.

use crate::bitmap::{count_common, count_ones};
use oboro_ring::moment;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

/// The check columns of a dataset, which may have none, and the supports known with them.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CheckColumns {
    /// Their columns, the one with most transactions first.
    columns: Vec<u32>,
    /// Row 0: the support of each column of the dataset. Row `j`: that of the `j`-th check column
    /// (from 1) together with each column. No rows without check columns.
    supports: Vec<Vec<u64>>,
}

/// An answer that is known to be another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "check columns show that an answer about itemsets of length {level} is false: the server altered or lost data, or computes wrongly, so mining stopped and nothing is reported; mine on a server that you trust"
)]
pub struct FalseAnswer {
    /// The length of the itemsets asked for.
    pub level: usize,
}

/// Without the columns, which must not reach a log by way of a `{:?}`.
impl fmt::Debug for CheckColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckColumns({})", self.len())
    }
}

impl CheckColumns {
    /// The most there can be: one for each item of the longest itemsets that can be asked for.
    pub const MOST: usize = moment::MAX_LENGTH;

    /// Check columns in a dataset without transactions so far, among `all` columns.
    pub(crate) fn plant(columns: &[u32], all: usize) -> Self {
        let rows = match columns {
            [] => 0,
            _ => columns.len() + 1,
        };
        Self {
            columns: columns.to_vec(),
            supports: vec![vec![0; all]; rows],
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether `column` is one of them.
    pub fn contain(&self, column: u32) -> bool {
        self.columns.contains(&column)
    }

    /// Their columns, the one with most transactions first.
    pub(crate) fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Draws what the check columns hold of new transactions, in the slots from 0 on: of `n` check
    /// columns the `j`-th (from 1) holds each transaction with probability `(n + 1 − j)/(n + 1)`,
    /// and only such as those before it hold, too. So many `words` of bits for each check column, in their
    /// order; 64 slots to a word, lowest first.
    ///
    /// # Errors
    /// The operating system gives no randomness.
    pub(crate) fn draw(
        &self,
        transactions: usize,
        words: usize,
    ) -> Result<Zeroizing<Vec<Vec<u64>>>, getrandom::Error> {
        let mut bits = Zeroizing::new(vec![vec![0; words]; self.len()]);
        if self.is_empty() {
            return Ok(bits);
        }
        let mut rng = oboro_sample::fresh_generator()?;
        for slot in 0..transactions {
            let holding = rng.random_range(0..=self.len());
            for column in &mut bits[..holding] {
                column[slot / 64] |= 1 << (slot % 64);
            }
        }
        Ok(bits)
    }

    /// Adds what new transactions contribute to the supports: the bits of every column.
    pub(crate) fn count(&mut self, bits: &[&[u64]]) {
        let Some((of_all, of_checks)) = self.supports.split_first_mut() else {
            return;
        };
        for (support, column) in of_all.iter_mut().zip(bits) {
            *support += count_ones(column);
        }
        for (row, &check) in of_checks.iter_mut().zip(&self.columns) {
            for (support, column) in row.iter_mut().zip(bits) {
                *support += count_common(bits[check as usize], column);
            }
        }
    }

    /// About as many bytes as this takes as JSON.
    pub(crate) fn json_bytes(&self) -> usize {
        const NUMBER: usize = 12;
        NUMBER * self.supports.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether this can belong to a dataset of so many columns.
    pub(crate) fn fit(&self, columns: usize) -> bool {
        let distinct: BTreeSet<u32> = self.columns.iter().copied().collect();
        let rows = Self::plant(&self.columns, columns).supports.len();
        distinct.len() == self.len()
            && distinct
                .last()
                .is_none_or(|&last| (last as usize) < columns)
            && self.supports.len() == rows
            && self.supports.iter().all(|row| row.len() == columns)
    }

    /// The itemsets, each as ascending columns, to ask for beside `asked`: itemsets of items, all
    /// of one length, as columns.
    ///
    /// For single items these are all check columns, for pairs all pairs of check columns and all
    /// of a check column with an item that is asked for. For longer itemsets they are runs of
    /// check columns, alone and with each such item; of the latter about as many as are `asked`,
    /// and each item at least once.
    pub fn beside(&self, asked: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let level = asked.first().map_or(0, Vec::len);
        if level < 2 {
            return self.columns.chunks(1).map(<[u32]>::to_vec).collect();
        }
        let items: BTreeSet<u32> = asked.iter().flatten().copied().collect();
        let runs = match level {
            2 => self.len(),
            _ => (asked.len() / items.len()).max(1),
        };
        let with_items = self.runs(level - 1).into_iter().take(runs).flat_map(|run| {
            let with = move |&item: &u32| [&run[..], &[item]].concat();
            items.iter().map(with)
        });
        let mut itemsets: Vec<Vec<u32>> = self.runs(level).into_iter().chain(with_items).collect();
        for itemset in &mut itemsets {
            itemset.sort_unstable();
        }
        itemsets
    }

    /// Sets of `length` check columns: all pairs, else those that follow one another.
    fn runs(&self, length: usize) -> Vec<Vec<u32>> {
        let columns = &self.columns;
        match length {
            2 => (1..columns.len())
                .flat_map(|second| {
                    (0..second).map(move |first| vec![columns[first], columns[second]])
                })
                .collect(),
            _ => columns.windows(length).map(<[u32]>::to_vec).collect(),
        }
    }

    /// The support of an itemset, given as columns, if it is known beforehand.
    pub fn known(&self, itemset: &[u32]) -> Option<u64> {
        let (mut last_check, mut the_item) = (0, None);
        for &column in itemset {
            match self.columns.iter().position(|&check| check == column) {
                Some(place) => last_check = last_check.max(place + 1),
                None if the_item.is_some() => return None,
                None => the_item = Some(column),
            }
        }
        let row = self.supports.get(last_check)?;
        let column = the_item.or_else(|| Some(self.columns[last_check.checked_sub(1)?]))?;
        row.get(column as usize).copied()
    }

    /// Verifies every answer that is known beforehand, each an itemset as columns and the support
    /// that came back; how many there were.
    ///
    /// # Errors
    /// One of them is false.
    pub fn verify<'a>(
        &self,
        answers: impl IntoIterator<Item = (&'a [u32], u64)>,
    ) -> Result<usize, FalseAnswer> {
        let mut verified = 0;
        for (itemset, support) in answers {
            let level = itemset.len();
            match self.known(itemset) {
                Some(known) if known != support => return Err(FalseAnswer { level }),
                Some(_) => verified += 1,
                None => {}
            }
        }
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ITEMS: u32 = 5;

    /// Bits of `ITEMS` items at columns from 0 on and of check columns behind them.
    fn bits(checks: &CheckColumns, baskets: &[u32]) -> Vec<Vec<u64>> {
        let mut bits = vec![vec![0; baskets.len().div_ceil(64)]; ITEMS as usize + checks.len()];
        for (slot, basket) in baskets.iter().enumerate() {
            for item in (0..ITEMS).filter(|item| basket >> item & 1 == 1) {
                bits[item as usize][slot / 64] |= 1 << (slot % 64);
            }
        }
        let drawn = checks.draw(baskets.len(), bits[0].len()).unwrap();
        for (&column, drawn) in checks.columns.iter().zip(drawn.iter()) {
            bits[column as usize].clone_from(drawn);
        }
        bits
    }

    fn count_bits(checks: &mut CheckColumns, bits: &[Vec<u64>]) {
        let bits: Vec<&[u64]> = bits.iter().map(Vec::as_slice).collect();
        checks.count(&bits);
    }

    fn planted(count: u32) -> CheckColumns {
        let columns: Vec<u32> = (ITEMS..ITEMS + count).rev().collect();
        CheckColumns::plant(&columns, (ITEMS + count) as usize)
    }

    fn support(bits: &[Vec<u64>], itemset: &[u32]) -> u64 {
        let word = |word: usize| {
            let columns = itemset.iter().map(|&column| bits[column as usize][word]);
            columns.fold(u64::MAX, |all, bits| all & bits)
        };
        (0..bits[0].len())
            .map(|at| u64::from(word(at).count_ones()))
            .sum()
    }

    /// All itemsets of `length` of the items.
    fn of_items(length: u32) -> Vec<Vec<u32>> {
        let items = |mask: u32| {
            (0..ITEMS)
                .filter(move |item| mask >> item & 1 == 1)
                .collect()
        };
        let masks = (0..1u32 << ITEMS).filter(|mask| mask.count_ones() == length);
        masks.map(items).collect()
    }

    #[test]
    fn each_check_column_is_a_part_of_the_one_before() {
        let checks = planted(4);
        let bits = bits(&checks, &vec![0; 30_000]);
        let counts: Vec<u64> = checks
            .columns
            .iter()
            .map(|&c| count_ones(&bits[c as usize]))
            .collect();
        for (count, fifths) in counts.iter().zip([4, 3, 2, 1]) {
            // Eight standard deviations are 680.
            assert!(count.abs_diff(fifths * 6000) < 680, "{counts:?}");
        }
        for pair in checks.columns.windows(2) {
            let [before, after] = [pair[0], pair[1]].map(|c| &bits[c as usize]);
            assert_eq!(count_common(before, after), count_ones(after));
        }
    }

    #[test]
    fn a_false_answer_is_an_error_of_its_level() {
        let mut checks = planted(3);
        let bits = bits(&checks, &[31; 100]);
        count_bits(&mut checks, &bits);
        let (one, two) = ([0, 7], [0, 1, 7]);
        let support = checks.known(&one).unwrap();
        assert_eq!(checks.known(&two), None);
        assert_eq!(checks.verify([(&one[..], support), (&two[..], 3)]), Ok(1));
        let error = checks
            .verify([(&two[..], 3), (&one[..], support + 1)])
            .unwrap_err();
        assert_eq!(error, FalseAnswer { level: 2 });
    }

    #[test]
    fn without_check_columns_nothing_is_known_and_nothing_asked() {
        let mut none = CheckColumns::default();
        let bits = bits(&none, &[1; 10]);
        count_bits(&mut none, &bits);
        assert_eq!(none, CheckColumns::plant(&[], 7));
        assert!(none.is_empty() && none.fit(7));
        for length in 1..4 {
            let asked = of_items(length);
            assert_eq!(none.beside(&asked), Vec::<Vec<u32>>::new());
            assert_eq!(none.known(&asked[0]), None);
        }
    }

    #[test]
    fn a_table_of_another_shape_does_not_fit() {
        let checks = planted(3);
        assert!(checks.fit(8) && !checks.fit(7) && !checks.fit(9));
        let changed = |change: fn(&mut CheckColumns)| {
            let mut changed = checks.clone();
            change(&mut changed);
            changed
        };
        assert!(!changed(|checks| checks.columns[0] = 8).fit(8));
        assert!(!changed(|checks| checks.columns[0] = checks.columns[1]).fit(8));
        assert!(!changed(|checks| drop(checks.supports.pop())).fit(8));
        assert!(!changed(|checks| checks.columns.clear()).fit(8));
    }

    #[test]
    fn in_pairs_check_columns_look_like_items() {
        // All pairs of five items and three check columns, each once.
        let mut all = of_items(2);
        all.extend(planted(3).beside(&all));
        all.sort();
        let expected: Vec<Vec<u32>> = (0..8)
            .flat_map(|a| (a + 1..8).map(move |b| vec![a, b]))
            .collect();
        assert_eq!(all, expected);
    }

    /// The numbers of the table in SECURITY.md: 40 items that are left, all their pairs, and 500
    /// itemsets of each further length.
    #[test]
    fn as_many_checks_as_security_md_says() {
        for (count, expected) in [
            (4, [166, 242, 81]),
            (8, [348, 486, 245]),
            (16, [760, 494, 493]),
        ] {
            let columns: Vec<u32> = (40..40 + count).collect();
            let checks = CheckColumns::plant(&columns, 56);
            let asked = |level: u32| -> Vec<Vec<u32>> {
                let questions = if level == 2 { 780 } else { 500 };
                let itemset = |first: u32| (0..level).map(|i| (first + i) % 40).collect();
                (0..questions).map(itemset).collect()
            };
            let numbers = [2, 3, 4].map(|level| checks.beside(&asked(level)).len());
            assert_eq!(numbers, expected, "{count}");
        }
    }

    proptest! {
        #[test]
        fn known_supports_are_those_of_the_plaintext(
            count in 1u32..7,
            first in prop::collection::vec(0u32..32, 1..200),
            appended in prop::collection::vec(0u32..32, 1..200),
        ) {
            let mut checks = planted(count);
            let [first, appended] = [first, appended].map(|baskets| bits(&checks, &baskets));
            count_bits(&mut checks, &first);
            count_bits(&mut checks, &appended);
            prop_assert!(checks.fit((ITEMS + count) as usize));
            let all: Vec<Vec<u64>> = first
                .iter()
                .zip(&appended)
                .map(|(a, b)| [&a[..], b].concat())
                .collect();
            for length in 1..=count.min(ITEMS) {
                let asked = of_items(length);
                let beside = checks.beside(&asked);
                let distinct: BTreeSet<_> = beside.iter().collect();
                prop_assert_eq!(distinct.len(), beside.len());
                for itemset in &beside {
                    prop_assert_eq!(itemset.len(), length as usize);
                    prop_assert!(itemset.is_sorted());
                    prop_assert_eq!(checks.known(itemset), Some(support(&all, itemset)));
                }
                // Every item asked for is checked, and so are single items.
                for item in (0..ITEMS).filter(|_| length > 1) {
                    prop_assert!(beside.iter().any(|itemset| itemset.contains(&item)));
                }
                for itemset in &asked {
                    let known = (length == 1).then(|| support(&all, itemset));
                    prop_assert_eq!(checks.known(itemset), known);
                }
            }
        }
    }
}
