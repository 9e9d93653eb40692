//! Condensed results: the closed, the maximal or the most frequent itemsets.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::frequent::FrequentItemsets;
use crate::itemset::{FrequentItemset, Itemset};

/// Subset of the frequent itemsets that is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// All itemsets.
    #[default]
    All,
    /// Itemsets of which no superset has equal support.
    Closed,
    /// Itemsets of which no superset is frequent.
    Maximal,
}

impl Kept {
    /// Returns true if all itemsets are listed.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Returns the adjective for messages, with a trailing space; empty for all.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Closed => "closed ",
            Self::Maximal => "maximal ",
        }
    }

    /// Filters `itemsets`, which must be complete. If a limit of the length ended the search, the longest ones stay:
    /// their supersets are unknown.
    #[must_use]
    pub fn of(self, itemsets: &FrequentItemsets) -> FrequentItemsets {
        let levels = itemsets.levels();
        let superfluous = |level: usize| -> HashSet<Itemset> {
            let longer = levels.get(level + 1).into_iter().flatten();
            let subsets = longer.flat_map(|it| {
                let subsets = it.itemset.immediate_subsets();
                subsets.map(|subset| (subset, it.support))
            });
            let are_so = subsets.filter(|(subset, support)| match self {
                Self::All => false,
                Self::Closed => itemsets.support(subset) == Some(*support),
                Self::Maximal => true,
            });
            are_so.map(|(subset, _)| subset).collect()
        };
        let mut kept: Vec<FrequentItemset> = Vec::new();
        for (level, here) in levels.iter().enumerate() {
            let superfluous = superfluous(level);
            let stay = here.iter().filter(|it| !superfluous.contains(&it.itemset));
            kept.extend(stay.cloned());
        }
        itemsets.with(kept)
    }
}

/// Finds the `count` most frequent itemsets, and those as frequent as the last of them. The result is what mining at
/// the support of the last one finds. `mine` mines at the given minimum support. It is called with lower ones, down
/// to `least`, until enough are found. `supports` are those of the items.
///
/// The first minimum support is the highest at which enough itemsets are possible, given the number of items that
/// have it. Each further one admits a tenth more items, at least one.
///
/// # Errors
/// Errors of `mine`.
pub fn most_frequent<E>(
    count: NonZeroUsize,
    supports: &[u64],
    least: u64,
    max_len: Option<NonZeroUsize>,
    mut mine: impl FnMut(u64) -> Result<FrequentItemsets, E>,
) -> Result<FrequentItemsets, E> {
    let mut by_support = supports.to_vec();
    by_support.sort_unstable_by_key(|&support| std::cmp::Reverse(support));
    let longest = max_len.map_or(usize::MAX, NonZeroUsize::get);
    let mut items = 1;
    while items < by_support.len() && most(items, longest) < count.get() as u128 {
        items += 1;
    }
    loop {
        let threshold = by_support.get(items - 1).map_or(least, |&it| it.max(least));
        // Below the rarest item's support there may still be itemsets of several items.
        let threshold = if items >= by_support.len() {
            least
        } else {
            threshold
        };
        let found = mine(threshold)?;
        if found.len() >= count.get() || threshold <= least {
            return Ok(found.most_frequent(count.get()));
        }
        items += items.div_ceil(10);
    }
}

/// Returns the number of itemsets of up to `longest` of `items` items.
fn most(items: usize, longest: usize) -> u128 {
    let mut of_length = 1u128;
    let mut all = 0u128;
    for length in 1..=items.min(longest) {
        of_length = of_length.saturating_mul((items - length + 1) as u128) / length as u128;
        all = all.saturating_add(of_length);
        if all > u64::MAX.into() {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eclat::eclat;
    use crate::testing::arbitrary_transactions;
    use oboro_input::transactions::MinSupport;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn is_subset(small: &Itemset, large: &Itemset) -> bool {
        small.items().iter().all(|&item| large.contains(item))
    }

    #[test]
    fn at_the_limit_of_the_length_itemsets_stay() {
        let baskets = vec![vec![0, 1, 2]; 4];
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let data = oboro_input::Transactions::from_baskets(names, baskets).unwrap();
        let pairs = eclat(&data, MinSupport::Count(1), NonZeroUsize::new(2));
        for kept in [Kept::Closed, Kept::Maximal] {
            let kept = kept.of(&pairs);
            assert_eq!((kept.len(), kept.max_len()), (3, Some(2)));
            assert!(kept.iter().all(|it| it.itemset.len() == 2));
        }
    }

    #[test]
    fn the_number_of_itemsets_is_counted() {
        assert_eq!((most(5, 9), most(5, 2), most(0, 2)), (31, 15, 0));
        assert!(most(1000, usize::MAX) > u64::MAX.into());
    }

    proptest! {
        #[test]
        fn closed_and_maximal_ones_are_those_of_the_definition(
            data in arbitrary_transactions(6, 30),
            threshold in 1u64..6,
        ) {
            let all = eclat(&data, MinSupport::Count(threshold), None);
            let supersets = |it: &FrequentItemset| {
                let it = it.itemset.clone();
                all.iter().filter(move |other| other.itemset != it && is_subset(&it, &other.itemset))
            };
            let closed = all.iter().filter(|it| supersets(it).all(|other| other.support < it.support));
            prop_assert!(Kept::Closed.of(&all).iter().eq(closed));
            let maximal = all.iter().filter(|it| supersets(it).next().is_none());
            prop_assert!(Kept::Maximal.of(&all).iter().eq(maximal));
            prop_assert_eq!(&Kept::All.of(&all), &all);
        }

        #[test]
        fn the_most_frequent_ones_are_found_at_a_threshold_that_is_chosen(
            data in arbitrary_transactions(6, 30),
            count in 1usize..70,
            max_len in 1usize..7,
            least in 1u64..4,
        ) {
            let count = NonZeroUsize::new(count).unwrap();
            let max_len = NonZeroUsize::new(max_len);
            let mine = |threshold| eclat(&data, MinSupport::Count(threshold), max_len);
            let supports: Vec<u64> = (0..6).map(|item| {
                crate::testing::brute_force_support(&data, &Itemset::single(item))
            }).collect();
            let found = most_frequent(count, &supports, least, max_len, |threshold| {
                Ok::<_, Infallible>(mine(threshold))
            }).unwrap();
            let mut all: Vec<u64> = mine(least).iter().map(|it| it.support).collect();
            all.sort_unstable_by_key(|&it| std::cmp::Reverse(it));
            let last = all.get(count.get() - 1).copied().unwrap_or(least);
            prop_assert_eq!(&found, &mine(last));
        }
    }
}
