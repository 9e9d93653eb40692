//! Supports for others to see: small counts are suppressed, and what would give them away; supports are rounded.
//!
//! The items of an itemset `I` divide the transactions into `2^|I|` parts: for each `X ⊆ I` those with all of `X` and
//! none of `I∖X`. What is released has no part of 1 to `N − 1` transactions. `docs/privacy.md` has the proof and its
//! limits.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::apriori::{AprioriOptions, candidates_from};
use crate::deduction::{Bounds, exclude_supersets};
use crate::frequent::{FrequentItemset, FrequentItemsets};
use crate::itemset::Itemset;
use crate::prefix_tree::PrefixTree;

/// The longest itemsets that are released: one of `k` items divides the transactions into `2^k` parts.
const LONGEST: usize = 16;

/// What was done to supports for their release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The least count that is shown; smaller ones are suppressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_below: Option<u64>,
    /// How many itemsets were suppressed for their own supports. For the owner only: together with a minimum support such
    /// a number can tell the support of one that is missing.
    #[serde(skip)]
    pub suppressed: usize,
    /// How many more were suppressed because a smaller count follows from their supports and others. For the owner only.
    #[serde(skip)]
    pub suppressed_secondarily: usize,
    /// What supports are rounded to multiples of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_to: Option<u64>,
    /// How many itemsets are missing since their supports were rounded to 0. For the owner only.
    #[serde(skip)]
    pub rounded_to_zero: usize,
}

/// Why nothing can be released.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReleaseError {
    /// An itemset is there, but not all its subsets.
    #[error(
        "small counts can be suppressed only where all itemsets are there, and some are missing; give all that was found, not the closed or the maximal itemsets only"
    )]
    Incomplete,
    /// Fewer transactions than the least count that is shown.
    #[error(
        "there are only {transactions} transactions, and counts below {below} are not to be shown: nothing can be released"
    )]
    Few {
        /// The number of transactions.
        transactions: u64,
        /// The least count that is shown.
        below: u64,
    },
    /// Supports that no transactions could give.
    #[error(
        "no transactions have these supports, so what follows from them cannot be told; mine again"
    )]
    Impossible,
    /// Supports that were rounded before.
    #[error("the supports are rounded already; suppress and round in one run, from exact ones")]
    Rounded,
    /// Too many itemsets to look at.
    #[error(
        "there are more than {limit} itemsets from whose subsets a small count may follow; mine with a higher minimum support"
    )]
    TooMany {
        /// The most.
        limit: usize,
    },
}

impl Release {
    /// Suppresses counts below `suppress_below`, then rounds supports to multiples of `round_to`. `self` says what was
    /// done to the itemsets before.
    ///
    /// # Errors
    /// Itemsets that are incomplete, contradict each other or were rounded before; too many.
    pub fn of(
        self,
        itemsets: FrequentItemsets,
        suppress_below: Option<u64>,
        round_to: Option<u64>,
    ) -> Result<(Self, FrequentItemsets), ReleaseError> {
        if self.round_to.is_some() {
            return Err(ReleaseError::Rounded);
        }
        let (mut release, mut itemsets) = (self, itemsets);
        if let Some(below) = suppress_below {
            let kept = suppress(&itemsets, below)?;
            let is_small = |it: &&FrequentItemset| is_small(it.support, below);
            let small = itemsets.iter().filter(is_small).count();
            release.suppress_below = release.suppress_below.max(Some(below));
            release.suppressed += small;
            release.suppressed_secondarily += itemsets.len() - kept.len() - small;
            itemsets = kept;
        }
        if let Some(multiple) = round_to.filter(|&multiple| multiple > 0) {
            let rounded = round(&itemsets, multiple);
            release.round_to = Some(multiple);
            release.rounded_to_zero += itemsets.len() - rounded.len();
            itemsets = rounded;
        }
        Ok((release, itemsets))
    }

    /// What was done, in sentences for those who see the result; empty if nothing was.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(below) = self.suppress_below {
            said.push(format!(
                "counts below {below} are suppressed, and supports from which such a count would follow"
            ));
        }
        if let Some(multiple) = self.round_to {
            said.push(format!(
                "supports and the number of transactions are rounded to multiples of {multiple}; itemsets that are rounded to 0 are left out"
            ));
        }
        said
    }

    /// The same for the owner, with numbers that others must not see.
    pub fn sentences_for_owner(&self) -> Vec<String> {
        let mut said = self.sentences();
        if self.suppress_below.is_some() {
            said.push(format!(
                "for you only: {} itemsets are suppressed for their own supports, {} more because a smaller count follows from theirs and others",
                self.suppressed, self.suppressed_secondarily
            ));
        }
        if self.round_to.is_some() {
            let zero = self.rounded_to_zero;
            said.push(format!("for you only: {zero} itemsets were rounded to 0"));
        }
        said
    }
}

/// Each itemset with all its subsets but the empty one, each once; without those of itemsets that are too long to be
/// released.
pub fn subsets(itemsets: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut all = HashSet::new();
    for itemset in itemsets.iter().filter(|it| it.len() <= LONGEST) {
        for mask in 1u32..1 << itemset.len() {
            let has = |&(place, _): &(usize, &String)| mask >> place & 1 == 1;
            let subset = itemset.iter().enumerate().filter(has);
            let mut subset: Vec<String> = subset.map(|(_, name)| name.clone()).collect();
            subset.sort_unstable();
            all.insert(subset);
        }
    }
    all.into_iter().collect()
}

/// Supports of itemsets by name, of items that each itemset has once.
pub struct Counted {
    /// The number of transactions.
    pub transactions: u64,
    /// The supports; to suppress small counts, with those of all subsets.
    pub itemsets: HashMap<Vec<String>, u64>,
}

impl Counted {
    /// The number of transactions and the supports of `wanted` for release, without those that are suppressed, and what
    /// was done.
    ///
    /// # Errors
    /// Fewer transactions than the least count that is shown.
    pub fn released(
        &self,
        wanted: &[Vec<String>],
        suppress_below: Option<u64>,
        round_to: Option<u64>,
    ) -> Result<(Release, u64, Vec<Option<u64>>), ReleaseError> {
        let mut names: Vec<&str> = self.itemsets.keys().flatten().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let numbered = |itemset: &Vec<String>| -> Itemset {
            let number = |name: &String| names.binary_search(&name.as_str()).ok();
            itemset
                .iter()
                .filter_map(number)
                .map(|it| it as u32)
                .collect()
        };
        let supports = self
            .itemsets
            .iter()
            .map(|(itemset, &support)| FrequentItemset {
                itemset: numbered(itemset),
                support,
            });
        let counted = FrequentItemsets::collect(self.transactions, 0, usize::MAX, supports);
        let shown = match suppress_below {
            Some(below) => suppress(&counted, below)?,
            None => counted.clone(),
        };
        let nearest = |count| round_to.map_or(count, |multiple| nearest(count, multiple));
        let mut release = Release {
            suppress_below,
            round_to,
            ..Release::default()
        };
        let mut released = Vec::new();
        for itemset in wanted {
            let itemset_numbers = numbered(itemset);
            let support = shown.support(&itemset_numbers);
            let own = counted.support(&itemset_numbers);
            match (support, own, suppress_below) {
                (None, Some(own), Some(below)) if is_small(own, below) => release.suppressed += 1,
                (None, ..) => release.suppressed_secondarily += 1,
                _ => {}
            }
            released.push(support.map(nearest));
        }
        Ok((release, nearest(self.transactions), released))
    }
}

fn is_small(count: u64, below: u64) -> bool {
    (1..below).contains(&count)
}

/// Those of `itemsets` from which no count of 1 to `below − 1` follows.
fn suppress(itemsets: &FrequentItemsets, below: u64) -> Result<FrequentItemsets, ReleaseError> {
    let transactions = itemsets.transactions();
    if is_small(transactions, below) {
        return Err(ReleaseError::Few {
            transactions,
            below,
        });
    }
    let mut all = PrefixTree::new(transactions);
    let mut kept = Vec::new();
    for level in itemsets.levels() {
        let mut safe = Vec::new();
        for frequent in level {
            let itemset = &frequent.itemset;
            let is_there = |it: Itemset| it.is_empty() || all.contains(it.items());
            if !itemset.immediate_subsets().all(is_there) {
                return Err(ReleaseError::Incomplete);
            }
            if itemset.len() <= LONGEST && are_safe(&parts(&all, frequent)?, below) {
                safe.push(frequent.clone());
            }
        }
        all.add_level(level);
        kept.push(safe);
    }
    loop {
        let found = deduced(transactions, &kept, below)?;
        if found.is_empty() {
            break;
        }
        for itemset in found {
            give_up_one_below(&mut kept, &itemset);
        }
    }
    let least = itemsets.min_support_count().max(below);
    let longest = itemsets.max_len().unwrap_or(usize::MAX);
    let kept = kept.into_iter().flatten();
    Ok(FrequentItemsets::collect(
        transactions,
        least,
        longest,
        kept,
    ))
}

/// The sizes of the parts into which an itemset divides the transactions; `known` has its proper subsets.
fn parts(known: &PrefixTree, frequent: &FrequentItemset) -> Result<Vec<i128>, ReleaseError> {
    let mut supports = vec![0; 1 << frequent.itemset.len()];
    known.subset_supports(frequent.itemset.items(), &mut supports);
    if let Some(own) = supports.last_mut() {
        *own = frequent.support.into();
    }
    exclude_supersets(&mut supports);
    if supports.iter().any(|&part| part < 0) {
        return Err(ReleaseError::Impossible);
    }
    Ok(supports)
}

fn are_safe(parts: &[i128], below: u64) -> bool {
    let is_small = |part: &i128| *part > 0 && *part < below.into();
    !parts.iter().any(is_small)
}

/// The shortest itemsets that are not shown, but whose supports have only one possible value beside those that are, and
/// that have a small part: up to one item longer than what is shown.
fn deduced(
    transactions: u64,
    shown: &[Vec<FrequentItemset>],
    below: u64,
) -> Result<Vec<Itemset>, ReleaseError> {
    let limit = AprioriOptions::DEFAULT_MAX_CANDIDATES;
    let mut known = PrefixTree::new(transactions);
    let mut last: Vec<FrequentItemset> = Vec::new();
    for level in 0..=shown.len().min(LONGEST - 1) {
        let mut here = shown.get(level).cloned().unwrap_or_default();
        // A support of two items has one value only where one of them is in all transactions or none.
        if level >= 2 {
            let is_known = |subset: &[u32]| known.contains(subset);
            let go_on = || Ok::<_, ReleaseError>(());
            let candidates = candidates_from(&last, is_known, limit, go_on)?;
            let candidates = candidates.ok_or(ReleaseError::TooMany { limit })?;
            let mut supports = vec![0; 1 << (level + 1)];
            let mut small = Vec::new();
            for itemset in candidates {
                if here_has(&shown.get(level), &itemset) {
                    continue;
                }
                known.subset_supports(itemset.items(), &mut supports);
                let bounds = Bounds::from_subsets(&mut supports);
                let bounds = bounds.map_err(|_| ReleaseError::Impossible)?;
                if bounds.lower == bounds.upper {
                    let support = bounds.lower;
                    let frequent = FrequentItemset { itemset, support };
                    if are_safe(&parts(&known, &frequent)?, below) {
                        here.push(frequent);
                    } else {
                        small.push(frequent.itemset);
                    }
                }
            }
            if !small.is_empty() {
                return Ok(small);
            }
            here.sort_by(|a, b| a.itemset.cmp(&b.itemset));
        }
        known.add_level(&here);
        last = here;
    }
    Ok(Vec::new())
}

fn here_has(level: &Option<&Vec<FrequentItemset>>, itemset: &Itemset) -> bool {
    let has = |level: &&Vec<FrequentItemset>| {
        let found = level.binary_search_by(|it| it.itemset.cmp(itemset));
        found.is_ok()
    };
    level.as_ref().is_some_and(has)
}

/// Takes out the least frequent of the longest subsets of `itemset` that are shown, the last of several, and whatever
/// contains it.
fn give_up_one_below(shown: &mut [Vec<FrequentItemset>], itemset: &Itemset) {
    let is_in =
        |small: &Itemset, large: &Itemset| small.items().iter().all(|&it| large.contains(it));
    let longest = shown.iter().rev().find_map(|level| {
        let below = level.iter().filter(|it| is_in(&it.itemset, itemset));
        below.min_by(|a, b| (a.support, &b.itemset).cmp(&(b.support, &a.itemset)))
    });
    if let Some(given_up) = longest.map(|it| it.itemset.clone()) {
        for level in shown {
            level.retain(|it| !is_in(&given_up, &it.itemset));
        }
    }
}

fn nearest(count: u64, multiple: u64) -> u64 {
    count.saturating_add(multiple / 2) / multiple * multiple
}

/// Supports and the number of transactions as the nearest multiples, halves up; itemsets of 0 are left out.
fn round(itemsets: &FrequentItemsets, multiple: u64) -> FrequentItemsets {
    let nearest = |count| nearest(count, multiple);
    let rounded = itemsets.iter().map(|it| FrequentItemset {
        itemset: it.itemset.clone(),
        support: nearest(it.support),
    });
    FrequentItemsets::collect(
        nearest(itemsets.transactions()),
        nearest(itemsets.min_support_count()).max(multiple),
        itemsets.max_len().unwrap_or(usize::MAX),
        rounded.filter(|it| it.support > 0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eclat::eclat;
    use crate::testing::arbitrary_transactions;
    use crate::transactions::{MinSupport, Transactions};
    use proptest::prelude::*;

    fn mined(data: &Transactions) -> FrequentItemsets {
        eclat(data, MinSupport::Count(1), None)
    }

    fn released(data: &Transactions, below: u64) -> (Release, FrequentItemsets) {
        let release = Release::default();
        release.of(mined(data), Some(below), None).unwrap()
    }

    /// A basket as the bits of its items.
    fn masks(data: &Transactions) -> Vec<u32> {
        let mask = |basket: &[u32]| basket.iter().fold(0, |mask, item| mask | 1 << item);
        data.iter().map(mask).collect()
    }

    fn mask(itemset: &Itemset) -> u32 {
        itemset
            .items()
            .iter()
            .fold(0, |mask, item| mask | 1 << item)
    }

    /// "All of these and none of those" of so many items.
    fn parts_of(items: u32) -> impl Iterator<Item = (u32, u32)> {
        let all = 0..1u32 << items;
        all.clone()
            .flat_map(move |with| all.clone().map(move |without| (with, without)))
            .filter(|(with, without)| with & without == 0)
    }

    fn is_in(kind: u32, (with, without): (u32, u32)) -> bool {
        kind & with == with && kind & without == 0
    }

    /// The row space of counts that are given, modulo a prime: each row says of which kinds of transactions (which items
    /// they have) a count is the sum.
    struct Span(Vec<Vec<i64>>);

    impl Span {
        const PRIME: i64 = 1_000_003;

        /// What is left of a row without what the others give.
        fn reduced(&self, mut row: Vec<i64>) -> Vec<i64> {
            for known in &self.0 {
                let pivot = known.iter().position(|&it| it != 0).unwrap();
                let factor = row[pivot];
                for (left, it) in row.iter_mut().zip(known) {
                    *left = (*left - factor * it).rem_euclid(Self::PRIME);
                }
            }
            row
        }

        fn add(&mut self, row: Vec<i64>) {
            let mut row = self.reduced(row);
            let Some(pivot) = row.iter().position(|&it| it != 0) else {
                return;
            };
            // Fermat: a^(p-2) is 1/a.
            let (mut inverse, mut power, mut rest) = (1, row[pivot], Self::PRIME - 2);
            while rest > 0 {
                if rest % 2 == 1 {
                    inverse = inverse * power % Self::PRIME;
                }
                power = power * power % Self::PRIME;
                rest /= 2;
            }
            row.iter_mut()
                .for_each(|it| *it = *it * inverse % Self::PRIME);
            self.0.push(row);
        }

        fn has(&self, row: Vec<i64>) -> bool {
            self.reduced(row).iter().all(|&it| it == 0)
        }
    }

    /// Of three items where nobody lacks both of the first two, so what is shown of pairs gives away one transaction.
    fn hidden_by_a_zero() -> Transactions {
        let mut baskets = vec![vec![0, 1]];
        baskets.extend(std::iter::repeat_n(vec![0, 1, 2], 9));
        for others in [vec![0], vec![1], vec![0, 2], vec![1, 2]] {
            baskets.extend(std::iter::repeat_n(others, 9));
        }
        let names = ["a", "b", "c"].map(str::to_owned);
        Transactions::from_baskets(names.to_vec(), baskets).unwrap()
    }

    #[test]
    fn what_follows_since_a_part_is_empty_is_not_shown_either() {
        let data = hidden_by_a_zero();
        let (release, kept) = released(&data, 5);
        // By themselves all pairs are safe, and only the triple has a part of one transaction.
        assert_eq!(kept.levels()[0].len(), 3);
        assert_eq!(kept.levels()[1].len(), 2);
        assert_eq!((release.suppressed, release.suppressed_secondarily), (0, 2));
    }

    #[test]
    fn differences_are_protected_and_zeros_shown() {
        // Of those with a, 7 have b and 2 have not; c is always with a.
        let mut baskets = vec![vec![0, 2], vec![0, 2]];
        baskets.extend(std::iter::repeat_n(vec![0, 1, 2], 7));
        baskets.extend(std::iter::repeat_n(vec![1], 6));
        baskets.extend(std::iter::repeat_n(vec![3], 3));
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let data = Transactions::from_baskets(names.to_vec(), baskets).unwrap();
        let (release, kept) = released(&data, 5);
        let shown: Vec<_> = kept.iter().map(|it| it.itemset.to_string()).collect();
        // {d} is in 3 transactions; {a, b} would tell of 2.
        assert_eq!(shown, ["{0}", "{1}", "{2}", "{0, 2}"]);
        assert_eq!(kept.min_support_count(), 5);
        assert_eq!(release.suppressed, 1);
        assert_eq!(
            mined(&data).len() - kept.len(),
            release.suppressed + release.suppressed_secondarily
        );
        assert!(
            release.sentences_for_owner()[1].contains("1 itemsets are suppressed for their own")
        );
    }

    #[test]
    fn supports_are_rounded_to_the_nearest_multiple() {
        let found = [
            (vec![0], 104),
            (vec![1], 15),
            (vec![0, 1], 14),
            (vec![2], 4),
        ];
        let found = found.map(|(items, support)| FrequentItemset {
            itemset: Itemset::new(items),
            support,
        });
        let found = FrequentItemsets::collect(108, 3, usize::MAX, found);
        let (release, rounded) = Release::default().of(found, None, Some(10)).unwrap();
        let supports: Vec<u64> = rounded.iter().map(|it| it.support).collect();
        assert_eq!(supports, [100, 20, 10]);
        assert_eq!(
            (rounded.transactions(), rounded.min_support_count()),
            (110, 10)
        );
        assert_eq!(release.rounded_to_zero, 1);
        assert_eq!(
            release.of(rounded, Some(5), None),
            Err(ReleaseError::Rounded)
        );
    }

    #[test]
    fn single_questions_are_protected_together() {
        // a in 20 of 30 transactions, with b in 18 of them; b nowhere else.
        let names = |names: &str| names.chars().map(String::from).collect::<Vec<_>>();
        let itemsets = [("a", 20), ("b", 18), ("ab", 18), ("c", 3)];
        let counted = Counted {
            transactions: 30,
            itemsets: itemsets.map(|(items, it)| (names(items), it)).into(),
        };
        let wanted = ["ab", "a", "c"].map(names);
        assert_eq!(subsets(&wanted).len(), 4);
        let released = |below, round| counted.released(&wanted, below, round).unwrap();
        let (release, _, supports) = released(Some(5), None);
        assert_eq!(supports, [None, Some(20), None]);
        assert_eq!((release.suppressed, release.suppressed_secondarily), (1, 1));
        let (_, transactions, supports) = released(None, Some(7));
        assert_eq!(transactions, 28);
        assert_eq!(supports, [Some(21), Some(21), Some(0)]);
    }

    #[test]
    fn what_is_incomplete_or_impossible_is_refused() {
        let of = |found: &[(&[u32], u64)]| {
            let found = found.iter().map(|&(items, support)| FrequentItemset {
                itemset: Itemset::new(items),
                support,
            });
            let found = FrequentItemsets::collect(10, 1, usize::MAX, found);
            Release::default().of(found, Some(2), None).unwrap_err()
        };
        let few = FrequentItemsets::collect(10, 1, usize::MAX, []);
        let few = Release::default().of(few, Some(11), None).unwrap_err();
        assert!(few.to_string().contains("only 10 transactions"));
        assert_eq!(of(&[(&[0], 5), (&[0, 1], 5)]), ReleaseError::Incomplete);
        assert_eq!(
            of(&[(&[0], 8), (&[1], 8), (&[0, 1], 2)]),
            ReleaseError::Impossible
        );
    }

    proptest! {
        /// Every count that follows from what is shown by adding and subtracting, found by elimination, not by the rule.
        #[test]
        fn no_small_count_follows_by_inclusion_and_exclusion(
            data in arbitrary_transactions(4, 60),
            below in 2u64..7,
        ) {
            prop_assume!(data.len() as u64 >= below);
            let (_, kept) = released(&data, below);
            let kinds = 0..1u32 << 4;
            let row = |part| kinds.clone().map(|kind| i64::from(is_in(kind, part))).collect();
            let mut span = Span(Vec::new());
            span.add(row((0, 0)));
            for shown in kept.iter() {
                span.add(row((mask(&shown.itemset), 0)));
            }
            let masks = masks(&data);
            for part in parts_of(4).filter(|&part| span.has(row(part))) {
                let count = masks.iter().filter(|&&it| is_in(it, part)).count() as u64;
                prop_assert!(!is_small(count, below), "{part:?}: {count} of {masks:?}");
            }
        }

        /// For three items, against everything that follows: all data that agree with what is shown.
        #[test]
        fn no_small_count_is_the_same_in_all_data_that_agree_with_what_is_shown(
            counts in prop::array::uniform8(0u64..4),
            below in 2u64..4,
        ) {
            let baskets = (0u32..8).flat_map(|kind| {
                let basket: Vec<u32> = (0..3).filter(|item| kind >> item & 1 == 1).collect();
                std::iter::repeat_n(basket, counts[kind as usize] as usize)
            });
            let names = ["a", "b", "c"].map(str::to_owned);
            let data = Transactions::from_baskets(names.to_vec(), baskets.collect::<Vec<_>>()).unwrap();
            prop_assume!(counts.iter().sum::<u64>() >= below);
            let (_, kept) = released(&data, below);
            let shown: Vec<(u32, u64)> = std::iter::once((0, kept.transactions()))
                .chain(kept.iter().map(|it| (mask(&it.itemset), it.support)))
                .collect();
            let count = |of: &[u64; 8], part| -> u64 {
                (0..8).filter(|&kind| is_in(kind, part)).map(|kind| of[kind as usize]).sum()
            };
            let parts: Vec<_> = parts_of(3).collect();
            let mut is_fixed: Vec<bool> = vec![true; parts.len()];
            let mut data = [0; 8];
            every(&mut data, 0, kept.transactions(), &mut |other| {
                if shown.iter().all(|&(items, support)| count(other, (items, 0)) == support) {
                    for (part, is_fixed) in parts.iter().zip(&mut is_fixed) {
                        *is_fixed &= count(other, *part) == count(&counts, *part);
                    }
                }
            });
            for (part, _) in parts.iter().zip(is_fixed).filter(|(_, is_fixed)| *is_fixed) {
                prop_assert!(!is_small(count(&counts, *part), below), "{part:?} of {counts:?}");
            }
        }
    }

    /// Calls `look` with every way to distribute `rest` transactions over the kinds from `kind` on.
    fn every(data: &mut [u64; 8], kind: usize, rest: u64, look: &mut impl FnMut(&[u64; 8])) {
        if kind == 7 {
            data[7] = rest;
            return look(data);
        }
        for here in 0..=rest {
            data[kind] = here;
            every(data, kind + 1, rest - here, look);
        }
    }
}
