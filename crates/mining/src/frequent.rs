//! Frequent itemsets in memory: item numbers grouped by length.
//!
//! Order is total: shorter itemsets first, then lexicographically.

use std::convert::Infallible;

use crate::candidates::candidates_from;
use crate::itemset::{FrequentItemset, Itemset};

/// Frequent itemsets of a list of transactions, by length, then lexicographically by item number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrequentItemsets {
    transactions: u64,
    min_support_count: u64,
    /// The length limit of the search, if it may have cut off longer frequent itemsets.
    max_len: Option<usize>,
    /// `levels[k - 1]` holds the itemsets of length `k`, ascending; the last
    /// level is not empty.
    levels: Vec<Vec<FrequentItemset>>,
}

impl FrequentItemsets {
    /// Collects itemsets found in any order by a search up to the length `longest`. No itemset may be empty or occur
    /// twice.
    pub fn collect(
        transactions: u64,
        min_support_count: u64,
        longest: usize,
        found: impl IntoIterator<Item = FrequentItemset>,
    ) -> Self {
        let mut levels: Vec<Vec<FrequentItemset>> = Vec::new();
        for frequent in found {
            let length = frequent.itemset.len();
            if levels.len() < length {
                levels.resize_with(length, Vec::new);
            }
            levels[length - 1].push(frequent);
        }
        for level in &mut levels {
            level.sort_unstable_by(|a, b| a.itemset.cmp(&b.itemset));
        }
        let max_len = (levels.get(longest.wrapping_sub(1)))
            .is_some_and(|level| have_candidates(level))
            .then_some(longest);
        FrequentItemsets {
            transactions,
            min_support_count,
            max_len,
            levels,
        }
    }

    /// Returns the number of transactions mined.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Returns the minimum support of the search.
    pub fn min_support_count(&self) -> u64 {
        self.min_support_count
    }

    /// Returns the length limit of the search, if it may have cut off longer frequent itemsets; `None` if no longer
    /// one is frequent.
    pub fn max_len(&self) -> Option<usize> {
        self.max_len
    }

    /// Returns the itemsets by length: those of length `k` at `k - 1`.
    pub fn levels(&self) -> &[Vec<FrequentItemset>] {
        &self.levels
    }

    /// Returns the number of itemsets.
    pub fn len(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    /// Returns true if nothing is frequent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all itemsets: by length, then lexicographically by item number.
    pub fn iter(&self) -> impl Iterator<Item = &FrequentItemset> + '_ {
        self.levels.iter().flatten()
    }

    /// Returns the support of `itemset`, if it is frequent.
    pub fn support(&self, itemset: &Itemset) -> Option<u64> {
        let level = self.levels.get(itemset.len().checked_sub(1)?)?;
        let place = level
            .binary_search_by(|frequent| frequent.itemset.cmp(itemset))
            .ok()?;
        Some(level[place].support)
    }

    /// Selects the itemsets that contain all of these items.
    #[must_use]
    pub fn containing(&self, items: &Itemset) -> Self {
        let contain = |it: &&FrequentItemset| items.is_subset_of(&it.itemset);
        self.with(self.iter().filter(contain).cloned().collect())
    }

    /// Builds the result of the search reduced to `some` of these itemsets, in their order.
    pub fn with(&self, some: Vec<FrequentItemset>) -> Self {
        let levels = some.chunk_by(|a, b| a.itemset.len() == b.itemset.len());
        let mut of_each = vec![Vec::new(); self.levels.len()];
        for level in levels {
            of_each[level[0].itemset.len() - 1] = level.to_vec();
        }
        FrequentItemsets {
            levels: of_each,
            ..*self
        }
    }

    /// Sets the length limit of the search.
    pub fn with_max_len(self, max_len: Option<usize>) -> Self {
        Self { max_len, ..self }
    }

    /// Selects the itemsets at least as frequent as the `count`-th most frequent one: the result of mining at its
    /// support.
    pub(crate) fn most_frequent(self, count: usize) -> Self {
        let mut supports: Vec<u64> = self.iter().map(|it| it.support).collect();
        supports.sort_unstable_by_key(|&support| std::cmp::Reverse(support));
        let Some(&least) = count.checked_sub(1).and_then(|last| supports.get(last)) else {
            return self;
        };
        let longest = self.max_len.unwrap_or(usize::MAX);
        let found = self.levels.into_iter().flatten();
        let found = found.filter(|it| it.support >= least);
        Self::collect(self.transactions, least, longest, found)
    }
}

/// Returns true if some itemset one item longer has all its immediate subsets in `level`, which is ascending.
fn have_candidates(level: &[FrequentItemset]) -> bool {
    let is_frequent = |subset: &[u32]| {
        let found = level.binary_search_by(|frequent| frequent.itemset.items().cmp(subset));
        found.is_ok()
    };
    let go_on = || Ok::<_, Infallible>(());
    let Ok(candidates) = candidates_from(level, is_frequent, 0, go_on);
    candidates.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found;

    #[test]
    fn itemsets_are_listed_by_length_then_lexicographically() {
        let itemsets = found(&[(&[1, 2], 3), (&[2], 4), (&[0, 9], 2), (&[1], 5)]);
        let listed: Vec<String> = itemsets.iter().map(|f| f.itemset.to_string()).collect();
        assert_eq!(listed, ["{1}", "{2}", "{0, 9}", "{1, 2}"]);
        assert_eq!(itemsets.support(&Itemset::new([1, 2])), Some(3));
        assert_eq!(itemsets.support(&Itemset::new([1, 3])), None);
        assert_eq!(itemsets.support(&Itemset::default()), None);
        assert_eq!(itemsets.support(&Itemset::new([1, 2, 3])), None);
    }
}
