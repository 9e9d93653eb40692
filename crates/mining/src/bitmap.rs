//! Transactions in columns: one bit column per item, with bit `t` set if transaction `t` contains the item. A support
//! is an AND and a popcount. Bits beyond the transactions are zero.
//!
//! Plaintext counting verifies encrypted results, and decrypted columns are counted here.

#![allow(unsafe_code)]

use std::collections::BTreeSet;

use crate::apriori::SupportCounter;
use crate::itemset::Itemset;
use oboro_input::transactions::Transactions;

/// Bit columns of some of the items.
#[derive(Clone, Debug)]
pub struct Bitmap {
    transactions: u64,
    /// One column per item number; empty for items that were left out.
    columns: Vec<Vec<u64>>,
}

impl Bitmap {
    /// Creates the columns of all items: one bit per item and transaction.
    pub fn new(transactions: &Transactions) -> Self {
        Self::of_items(transactions, 0..transactions.item_count() as u32)
    }

    /// Creates the columns of `items`, ignoring numbers without an item.
    pub fn of_items(transactions: &Transactions, items: impl IntoIterator<Item = u32>) -> Self {
        let mut bitmap = Bitmap {
            transactions: transactions.len() as u64,
            columns: vec![Vec::new(); transactions.item_count()],
        };
        bitmap.add_items(transactions, items);
        bitmap
    }

    /// Creates a bitmap without columns.
    pub fn empty(transactions: u64, items: u32) -> Self {
        Bitmap {
            transactions,
            columns: vec![Vec::new(); items as usize],
        }
    }

    /// Adds the column of `item`. All columns have one length and one order of transactions, which is arbitrary. A
    /// column may have more bits than transactions.
    ///
    /// # Panics
    /// If the item does not exist.
    pub fn insert(&mut self, item: u32, column: Vec<u64>) {
        self.columns[item as usize] = column;
    }

    /// Adds the missing columns of `items` in one pass.
    fn add_items(&mut self, transactions: &Transactions, items: impl IntoIterator<Item = u32>) {
        let words = transactions.len().div_ceil(64);
        let mut wanted = vec![false; self.columns.len()];
        for item in items {
            if let Some(column) = self.columns.get_mut(item as usize)
                && column.is_empty()
            {
                *column = vec![0; words];
                wanted[item as usize] = true;
            }
        }
        if !wanted.contains(&true) {
            return;
        }
        for (transaction, basket) in transactions.iter().enumerate() {
            for &item in basket {
                if wanted[item as usize] {
                    self.columns[item as usize][transaction / 64] |= 1 << (transaction % 64);
                }
            }
        }
    }

    /// Returns the number of transactions.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Returns the bits of `item`, least significant first; `None` if its column is missing.
    pub fn column(&self, item: u32) -> Option<&[u64]> {
        // Without transactions a present column is empty as well.
        self.columns
            .get(item as usize)
            .filter(|column| !column.is_empty() || self.transactions == 0)
            .map(Vec::as_slice)
    }

    /// Counts the transactions that contain all of `items`; `None` if a column is missing. The empty itemset is in
    /// every transaction.
    pub fn support(&self, items: &Itemset) -> Option<u64> {
        let columns: Option<Vec<&[u64]>> = items
            .items()
            .iter()
            .map(|&item| self.column(item))
            .collect();
        Some(match columns?.as_slice() {
            [] => self.transactions,
            [column] => count_ones(column),
            [first, second] => count_common(first, second),
            [first, middle @ .., last] => {
                let mut common = first.to_vec();
                for column in middle {
                    intersect_in_place(&mut common, column);
                }
                count_common(&common, last)
            }
        })
    }

    /// Counts `itemsets`; `None` if a column is missing. Itemsets that share all but their last item with their
    /// predecessor cost least.
    pub fn supports(&self, itemsets: &[Itemset]) -> Option<Vec<u64>> {
        let mut prefixes = PrefixIntersections::new(self);
        let support = |itemset: &Itemset| match itemset.items() {
            items @ [_, _, ..] => items
                .iter()
                .all(|&item| self.column(item).is_some())
                .then(|| prefixes.support(items)),
            _ => self.support(itemset),
        };
        itemsets.iter().map(support).collect()
    }
}

/// Counts the set bits.
pub(crate) fn count_ones(column: &[u64]) -> u64 {
    column.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Counts the bits set in both columns, which have equal lengths.
pub fn count_common(a: &[u64], b: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: AVX2 and POPCNT, the function's only requirement, were just detected.
        return unsafe { count_common_avx2(a, b) };
    }
    count_common_portable(a, b)
}

/// Counts as [`count_common_portable`], compiled to AVX2 registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_common_avx2(a: &[u64], b: &[u64]) -> u64 {
    count_common_portable(a, b)
}

#[inline(always)]
fn count_common_portable(a: &[u64], b: &[u64]) -> u64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| u64::from((a & b).count_ones()))
        .sum()
}

/// Returns the bits set in both columns, which have equal lengths.
pub fn intersection(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

fn intersect_in_place(a: &mut [u64], b: &[u64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a &= b;
    }
}

/// [`SupportCounter`] on plaintext. A column is built when an itemset of two or more items first needs it, so rare
/// items cost nothing.
#[derive(Debug)]
pub struct PlaintextCounter<'a> {
    transactions: &'a Transactions,
    item_supports: Vec<u64>,
    bitmap: Bitmap,
}

impl<'a> PlaintextCounter<'a> {
    /// Creates a counter over `transactions`.
    pub fn new(transactions: &'a Transactions) -> Self {
        PlaintextCounter {
            transactions,
            item_supports: transactions.item_supports(),
            bitmap: Bitmap::of_items(transactions, []),
        }
    }
}

/// Request for an item that does not exist, the only error of a plaintext counter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("itemset {itemset} was asked for, but there are only {items} items, numbered from 0")]
pub struct UnknownItem {
    /// The itemset to count.
    pub itemset: Itemset,
    /// The number of items.
    pub items: usize,
}

impl SupportCounter for PlaintextCounter<'_> {
    type Error = UnknownItem;

    fn transactions(&self) -> u64 {
        self.transactions.len() as u64
    }

    fn item_supports(&self) -> &[u64] {
        &self.item_supports
    }

    fn min_item_support(&self) -> u64 {
        self.transactions.min_item_support()
    }

    fn column_words(&self) -> Option<usize> {
        Some(self.transactions.len().div_ceil(64))
    }

    fn count(&mut self, _level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, UnknownItem> {
        let items = self.item_supports.len();
        let known = |itemset: &&Itemset| {
            let largest = itemset.items().last();
            largest.is_none_or(|&item| (item as usize) < items)
        };
        if let Some(itemset) = candidates.iter().find(|itemset| !known(itemset)) {
            let itemset = itemset.clone();
            return Err(UnknownItem { itemset, items });
        }
        let needed: BTreeSet<u32> = candidates
            .iter()
            .filter(|itemset| itemset.len() > 1)
            .flat_map(|itemset| itemset.items().iter().copied())
            .collect();
        self.bitmap.add_items(self.transactions, needed);
        let mut prefixes = PrefixIntersections::new(&self.bitmap);
        Ok(candidates
            .iter()
            .map(|itemset| match itemset.items() {
                [] => self.transactions.len() as u64,
                &[item] => self.item_supports[item as usize],
                items => prefixes.support(items),
            })
            .collect())
    }
}

/// Intersections of the prefixes of the itemset counted last. Candidates are ordered, so most share
/// all but their last item with their predecessor.
struct PrefixIntersections<'a> {
    bitmap: &'a Bitmap,
    items: Vec<u32>,
    intersections: Vec<Vec<u64>>,
}

impl<'a> PrefixIntersections<'a> {
    fn new(bitmap: &'a Bitmap) -> Self {
        PrefixIntersections {
            bitmap,
            items: Vec::new(),
            intersections: Vec::new(),
        }
    }

    /// Returns the support of two or more items whose columns are present.
    fn support(&mut self, items: &[u32]) -> u64 {
        let (&last, prefix) = items.split_last().expect("two or more items");
        let shared = (self.items.iter().zip(prefix))
            .take_while(|(a, b)| a == b)
            .count();
        self.items.truncate(shared);
        self.intersections.truncate(shared);
        for &item in &prefix[shared..] {
            let column = &self.bitmap.columns[item as usize];
            let next = match self.intersections.last() {
                Some(common) => intersection(common, column),
                None => column.clone(),
            };
            self.items.push(item);
            self.intersections.push(next);
        }
        let common = self.intersections.last().expect("the prefix has an item");
        count_common(common, &self.bitmap.columns[last as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arbitrary_transactions, brute_force_support};
    use proptest::prelude::*;

    #[test]
    fn an_item_without_a_column_has_no_support() {
        let data = Transactions::from_named([vec!["a", "b"], vec!["a"]]).unwrap();
        let bitmap = Bitmap::of_items(&data, [0, 9]);
        assert_eq!(bitmap.column(0), Some(&[3][..]));
        assert_eq!(bitmap.column(1), None);
        assert_eq!(bitmap.support(&Itemset::new([0])), Some(2));
        assert_eq!(bitmap.support(&Itemset::new([0, 1])), None);
        assert_eq!(bitmap.support(&Itemset::new([9])), None);
        assert_eq!(bitmap.support(&Itemset::default()), Some(2));
        assert_eq!(
            bitmap.supports(&[Itemset::new([0]), Itemset::new([0, 1])]),
            None
        );
    }

    #[test]
    fn columns_may_come_from_elsewhere() {
        let mut bitmap = Bitmap::empty(70, 3);
        assert_eq!(bitmap.column(1), None);
        // More bits than transactions; transactions may be at any index.
        bitmap.insert(1, vec![u64::MAX, 0, 7]);
        bitmap.insert(2, vec![1 << 63, 0, 6]);
        let itemsets = [[1].as_slice(), &[2], &[1, 2]].map(Itemset::new);
        assert_eq!(bitmap.supports(&itemsets), Some(vec![67, 3, 3]));
    }

    #[test]
    fn counting_an_unknown_item_is_an_error() {
        let data = Transactions::from_named([["a"]]).unwrap();
        let itemset = Itemset::new([0, 7]);
        let answer = PlaintextCounter::new(&data).count(2, std::slice::from_ref(&itemset));
        assert_eq!(answer, Err(UnknownItem { itemset, items: 1 }));
    }

    proptest! {
        #[test]
        fn what_runs_agrees_with_the_reference(words in prop::collection::vec(any::<(u64, u64)>(), 0..70)) {
            let (a, b): (Vec<u64>, Vec<u64>) = words.into_iter().unzip();
            prop_assert_eq!(count_common(&a, &b), count_common_portable(&a, &b));
            prop_assert_eq!(count_common(&a, &b), count_ones(&intersection(&a, &b)));
        }

        #[test]
        fn bitmap_and_counter_agree_with_brute_force(
            data in arbitrary_transactions(6, 150),
            itemsets in prop::collection::vec(prop::collection::vec(0u32..6, 0..5), 0..20),
        ) {
            let itemsets: Vec<Itemset> = itemsets.into_iter().map(Itemset::new).collect();
            let bitmap = Bitmap::new(&data);
            let counted = PlaintextCounter::new(&data).count(1, &itemsets).unwrap();
            for (itemset, counted) in itemsets.iter().zip(counted) {
                let expected = brute_force_support(&data, itemset);
                prop_assert_eq!(bitmap.support(itemset), Some(expected));
                prop_assert_eq!(counted, expected);
            }
            let supports: Option<Vec<u64>> = itemsets.iter().map(|itemset| bitmap.support(itemset)).collect();
            prop_assert_eq!(bitmap.supports(&itemsets), supports);
        }
    }
}
