//! Lower bound on the number of longer frequent itemsets, given the supports of those up to one length.
//!
//! Let `X` be an itemset of `k − 1` items and `E` the later items with which it is frequent. Of the transactions
//! with `X`, `d_e = supp(X) − supp(X∪{e})` lack `e`. So for `Y ⊆ E` at most `Σ_{e∈Y} d_e` of them lack some item of
//! `Y`, and
//!
//! ```text
//! supp(X∪Y) ≥ supp(X) − Σ_{e∈Y} d_e
//! ```
//!
//! Let `n_j` be the largest `n` for which the `j` largest of the `n` smallest `d_e` add up to at most `supp(X) −
//! min_support`. Then all sets of `j` of the first `n_j` items give a frequent itemset. An itemset has one prefix of
//! `k − 1` items, so different `X` give different itemsets. At least `Σ_X Σ_{j≥2} C(n_j, j)` itemsets of more than
//! `k` items are therefore frequent.

use crate::itemset::FrequentItemset;
use crate::prefix_tree::PrefixTree;

/// Returns the number of certainly frequent itemsets of more items than those of `level` and at most `longest`; at
/// most `u64::MAX`. `level` has all frequent itemsets of a length, ascending; they and their prefixes are `known`.
pub(crate) fn longer(
    level: &[FrequentItemset],
    known: &PrefixTree,
    threshold: u64,
    longest: usize,
) -> u64 {
    let prefix = |it: &FrequentItemset| it.itemset.len() - 1;
    let same_prefix = |a: &FrequentItemset, b: &FrequentItemset| {
        a.itemset.items()[..prefix(a)] == b.itemset.items()[..prefix(b)]
    };
    let mut certain = 0u64;
    let mut lacking = Vec::new();
    for group in level.chunk_by(same_prefix) {
        let length = prefix(&group[0]);
        let Some(support) = known.support(&group[0].itemset.items()[..length]) else {
            continue;
        };
        lacking.clear();
        lacking.extend(group.iter().map(|it| support.saturating_sub(it.support)));
        lacking.sort_unstable();
        let slack = support.saturating_sub(threshold);
        certain = certain.saturating_add(extensions(&lacking, slack, longest - length));
        if certain == u64::MAX {
            break;
        }
    }
    certain
}

/// Returns `Σ_{2≤j≤most} C(n_j, j)` for ascending `lacking`; at most `u64::MAX`.
fn extensions(lacking: &[u64], slack: u64, most: usize) -> u64 {
    let mut sums = vec![0u128];
    sums.extend(lacking.iter().scan(0u128, |sum, &it| {
        *sum += u128::from(it);
        Some(*sum)
    }));
    let mut n = lacking.len();
    let mut number = 0u64;
    for j in 2..=most {
        while n >= j && sums[n] - sums[n - j] > slack.into() {
            n -= 1;
        }
        let chosen = if n < j { 0 } else { choose(n, j) };
        number = number.saturating_add(chosen);
        if chosen == 0 || number == u64::MAX {
            break;
        }
    }
    number
}

/// Returns `C(n, j)`, at most `u64::MAX`.
fn choose(n: usize, j: usize) -> u64 {
    let mut chosen = 1u128;
    for i in 0..j.min(n - j) {
        chosen = chosen * (n - i) as u128 / (i + 1) as u128;
        if chosen > u64::MAX.into() {
            return u64::MAX;
        }
    }
    chosen as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eclat::eclat;
    use crate::testing::arbitrary_transactions;
    use oboro_input::transactions::{MinSupport, Transactions};
    use proptest::prelude::*;

    /// Returns, after each level, the certain number of longer itemsets and the true one.
    fn by_level(data: &Transactions, threshold: u64, longest: usize) -> Vec<(u64, u64)> {
        let limit = std::num::NonZeroUsize::new(longest);
        let all = eclat(data, MinSupport::Count(threshold), limit);
        let mut known = PrefixTree::new(data.len() as u64);
        let mut follow = all.len();
        let of_level = all.levels().iter().map(|level| {
            known.add_level(level);
            follow -= level.len();
            let certain = longer(level, &known, threshold, longest);
            (certain, follow as u64)
        });
        of_level.collect()
    }

    #[test]
    fn items_of_one_transaction_are_certain_as_soon_as_no_other_has_their_prefix() {
        let items: Vec<String> = (0..12).map(|item| item.to_string()).collect();
        let alone = Transactions::from_named([items.clone()]).unwrap();
        assert_eq!(by_level(&alone, 1, 99)[0], ((1 << 12) - 13, (1 << 12) - 13));
        assert_eq!(by_level(&alone, 1, 3)[0], (66 + 220, 66 + 220));
        assert_eq!(by_level(&alone, 1, 1), [(0, 0)]);
        // Beside a transaction of other items, pairs suffice; beside ones of its own items, triples are needed.
        let others = |others: &[&[&str]]| {
            let others = others
                .iter()
                .map(|it| it.iter().map(|&it| it.to_owned()).collect());
            let baskets: Vec<Vec<String>> = std::iter::once(items.clone()).chain(others).collect();
            Transactions::from_named(baskets).unwrap()
        };
        let beside = by_level(&others(&[&["x"]]), 1, 99);
        assert_eq!(beside[..2], [(0, 66 + 4017), (4017, 4017)]);
        let beside = by_level(&others(&[&["x"], &["0", "1"], &["2"], &["3"]]), 1, 99);
        assert_eq!(beside[..3], [(0, 4083), (220, 4017), (2784, 3797)]);
    }

    #[test]
    fn numbers_beyond_64_bits_are_the_largest() {
        assert_eq!(choose(62, 31), 465_428_353_255_261_088);
        assert_eq!(
            (choose(5, 2), choose(5, 5), choose(70, 35)),
            (10, 1, u64::MAX)
        );
        assert_eq!(extensions(&[0; 5000], 0, usize::MAX), u64::MAX);
        assert_eq!(extensions(&[1; 5000], 1, usize::MAX), 0);
        assert_eq!(extensions(&[u64::MAX; 3], u64::MAX, 3), 0);
    }

    proptest! {
        #[test]
        fn no_more_is_certain_than_there_is(
            data in arbitrary_transactions(7, 20),
            threshold in 1u64..6,
            longest in 1usize..9,
        ) {
            for (certain, there) in by_level(&data, threshold, longest) {
                prop_assert!(certain <= there, "{certain} {there}");
            }
        }
    }
}
