//! Supports for publication: suppresses small counts and the supports that would disclose them, and rounds supports.
//!
//! The items of an itemset `I` divide the transactions into `2^|I|` parts: for each `X ⊆ I` those with all of `X` and
//! none of `I∖X`. A release has no part of 1 to `N − 1` transactions, and `search` finds no such count that follows
//! exactly from it. `docs/privacy.md` has the proof and its limits.
//!
//! The description of a release depends only on the supports that are shown.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use oboro_mining::frequent::FrequentItemsets;
use oboro_mining::itemset::{FrequentItemset, Itemset};
use oboro_mining::prefix_tree::PrefixTree;

mod error;
mod parts;
mod search;

pub use error::ReleaseError;
use parts::{LONGEST, are_safe, is_small, parts};

/// The least `N` for which counts below are suppressed. A smaller one would hide only 1, and thereby reveal it.
pub const LEAST_SUPPRESSED_BELOW: u64 = 3;

/// Changes to supports for their release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The least count that is shown; smaller ones are suppressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_below: Option<u64>,
    /// The search for smaller counts that follow from what is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// The number of whose multiples supports are rounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_to: Option<u64>,
}

/// Extent of the search for counts that follow from shown supports, and the resulting guarantees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The number of linear programs solved.
    pub programs: usize,
    /// `true` if every minimal missing itemset was searched.
    pub complete: bool,
    /// The guarantee about the shown supports.
    pub promised: String,
    /// The limits of the guarantee.
    pub not_promised: String,
}

impl Search {
    fn new(below: u64, programs: usize, complete: bool) -> Self {
        let largest = below.saturating_sub(1);
        let end = if complete {
            ""
        } else {
            "; the search stopped at its limit before all were searched"
        };
        Self {
            programs,
            complete,
            promised: format!(
                "no part of a shown itemset has 1 to {largest} transactions, and the search found no such count that follows exactly{end}"
            ),
            not_promised: "hidden counts may have narrow bounds; two releases, or knowledge of the rule or of some transactions, may tell more; counts that follow only from the supports of more items than a scope has are not found".to_owned(),
        }
    }
}

impl Release {
    /// Suppresses counts below `suppress_below`, then rounds supports to multiples of `round_to`. `self` describes
    /// the earlier changes to the itemsets.
    ///
    /// # Errors
    /// Itemsets that are incomplete, contradict each other or were rounded before; a least count below 3.
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
            let below = release.suppress_below.max(Some(below)).unwrap_or(below);
            let (kept, search) = suppress(&itemsets, below)?;
            release.suppress_below = Some(below);
            release.search = Some(search);
            itemsets = kept;
        }
        if let Some(multiple) = round_to.filter(|&multiple| multiple > 0) {
            itemsets = round(&itemsets, multiple);
            release.round_to = Some(multiple);
        }
        Ok((release, itemsets))
    }

    /// Describes the changes in sentences; empty if there were none.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(below) = self.suppress_below {
            said.push(format!(
                "counts below {below} are suppressed, and supports from which such a count would follow"
            ));
        }
        if let Some(search) = &self.search {
            let programs = search.programs;
            said.push(format!(
                "promised: {} (linear programs: {programs})",
                search.promised
            ));
            said.push(format!("not promised: {}", search.not_promised));
        }
        if let Some(multiple) = self.round_to {
            said.push(format!(
                "supports and the number of transactions are rounded to multiples of {multiple}; itemsets that are rounded to 0 are left out"
            ));
        }
        said
    }
}

/// Returns each itemset with all its non-empty subsets, each once; without those of itemsets that are too long to be
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

/// Supports of itemsets by name; no itemset repeats an item.
pub struct NamedSupports {
    /// The number of transactions.
    pub transactions: u64,
    /// The supports; to suppress small counts, all subsets are required.
    pub itemsets: HashMap<Vec<String>, u64>,
}

impl NamedSupports {
    /// Prepares a release of the supports of `wanted`. Returns the description of the release, the number of
    /// transactions, and the supports, `None` for suppressed ones.
    ///
    /// # Errors
    /// Fewer transactions than the least count that is shown; a least count below 3.
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
        let (search, shown) = match suppress_below {
            Some(below) => {
                let (shown, search) = suppress(&counted, below)?;
                (Some(search), shown)
            }
            None => (None, counted),
        };
        let nearest = |count| round_to.map_or(count, |multiple| nearest(count, multiple));
        let release = Release {
            suppress_below,
            search,
            round_to,
        };
        let released = wanted
            .iter()
            .map(|itemset| shown.support(&numbered(itemset)).map(nearest));
        Ok((release, nearest(self.transactions), released.collect()))
    }
}

/// Selects those of `itemsets` from which the search finds no count of 1 to `below − 1` that follows.
fn suppress(
    itemsets: &FrequentItemsets,
    below: u64,
) -> Result<(FrequentItemsets, Search), ReleaseError> {
    if below < LEAST_SUPPRESSED_BELOW {
        let least = LEAST_SUPPRESSED_BELOW;
        return Err(ReleaseError::Least { below, least });
    }
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
    let search = withhold(transactions, &mut kept, below)?;
    let least = itemsets.min_support_count().max(below);
    let longest = itemsets.max_len().unwrap_or(usize::MAX);
    let kept = kept.into_iter().flatten();
    let kept = FrequentItemsets::collect(transactions, least, longest, kept);
    Ok((kept, search))
}

/// Removes from `shown` the itemsets that disclose a small count, and returns the extent of the search of the rest.
///
/// All passes but the last share one limit of linear programs. The last one has its own limit, since its report must
/// depend on the shown supports alone.
fn withhold(
    transactions: u64,
    shown: &mut [Vec<FrequentItemset>],
    below: u64,
) -> Result<Search, ReleaseError> {
    let mut safe = HashSet::new();
    let mut left = search::PROGRAMS;
    // The first pass is the last if it finds nothing.
    let mut is_last = true;
    loop {
        if is_last {
            safe.clear();
        }
        let limit = if is_last { search::PROGRAMS } else { left };
        let is_whole = safe.is_empty();
        let searched = search::search(transactions, shown, below, limit, &mut safe)?;
        left = left.saturating_sub(searched.programs);
        // A pass that searched everything below its limit equals the last one.
        if searched.found.is_empty() && (is_last || is_whole && searched.complete) {
            return Ok(Search::new(below, searched.programs, searched.complete));
        }
        is_last = searched.found.is_empty() || left == 0;
        let mut given_up: Vec<Itemset> = Vec::new();
        for mut found in searched.found {
            loop {
                // The count may no longer follow.
                let scope = found.tables.scope();
                if given_up.iter().any(|it| it.is_subset_of(scope)) {
                    match search::again(transactions, shown, below, &mut found.tables) {
                        Some(itemset) => found.itemset = itemset,
                        None => break,
                    }
                }
                match give_up_one_below(shown, &found.itemset) {
                    Some(itemset) => given_up.push(itemset),
                    None => break,
                }
            }
        }
    }
}

/// Removes the least frequent of the longest shown subsets of `itemset`, the last of several, with all its supersets.
fn give_up_one_below(shown: &mut [Vec<FrequentItemset>], itemset: &Itemset) -> Option<Itemset> {
    let given_up = shown.iter().rev().find_map(|level| {
        let below = level.iter().filter(|it| it.itemset.is_subset_of(itemset));
        below.min_by(|a, b| (a.support, &b.itemset).cmp(&(b.support, &a.itemset)))
    });
    let given_up = given_up?.itemset.clone();
    for level in shown {
        level.retain(|it| !given_up.is_subset_of(&it.itemset));
    }
    Some(given_up)
}

fn nearest(count: u64, multiple: u64) -> u64 {
    count.saturating_add(multiple / 2) / multiple * multiple
}

/// Rounds supports and the number of transactions to the nearest multiples, halves up; itemsets of 0 are removed.
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
    use oboro_input::transactions::{MinSupport, Transactions};
    use oboro_mining::eclat::eclat;
    use oboro_mining::testing::arbitrary_transactions;
    use proptest::prelude::*;

    fn mined(data: &Transactions) -> FrequentItemsets {
        eclat(data, MinSupport::Count(1), None)
    }

    fn released(data: &Transactions, below: u64) -> (Release, FrequentItemsets) {
        let release = Release::default();
        release.of(mined(data), Some(below), None).unwrap()
    }

    /// Converts baskets to the bits of their items.
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

    /// Returns each "all of these and none of those" of `items` items.
    fn parts_of(items: u32) -> impl Iterator<Item = (u32, u32)> {
        let all = 0..1u32 << items;
        all.clone()
            .flat_map(move |with| all.clone().map(move |without| (with, without)))
            .filter(|(with, without)| with & without == 0)
    }

    fn is_in(kind: u32, (with, without): (u32, u32)) -> bool {
        kind & with == with && kind & without == 0
    }

    /// Row space of given counts, modulo a prime: each row marks the kinds of transactions (by their items) of which
    /// a count is the sum.
    struct Span(Vec<Vec<i64>>);

    impl Span {
        const PRIME: i64 = 1_000_003;

        /// Reduces a row by the others.
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

    /// Transactions of three items without one that lacks both of the first two: the shown pairs disclose one
    /// transaction.
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
        let (_, kept) = released(&data, 5);
        // By themselves all pairs are safe, and only the triple has a part of one transaction.
        assert_eq!(kept.levels()[0].len(), 3);
        assert_eq!(kept.levels()[1].len(), 2);
    }

    #[test]
    fn differences_are_protected_and_zeros_shown() {
        // Of those with a, 7 have b and 2 do not; c is always with a.
        let mut baskets = vec![vec![0, 2], vec![0, 2]];
        baskets.extend(std::iter::repeat_n(vec![0, 1, 2], 7));
        baskets.extend(std::iter::repeat_n(vec![1], 6));
        baskets.extend(std::iter::repeat_n(vec![3], 3));
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let data = Transactions::from_baskets(names.to_vec(), baskets).unwrap();
        let (_, kept) = released(&data, 5);
        let shown: Vec<_> = kept.iter().map(|it| it.itemset.to_string()).collect();
        // {d} is in 3 transactions; {a, b} would disclose 2.
        assert_eq!(shown, ["{0}", "{1}", "{2}", "{0, 2}"]);
        assert_eq!(kept.min_support_count(), 5);
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
        let counted = NamedSupports {
            transactions: 30,
            itemsets: itemsets.map(|(items, it)| (names(items), it)).into(),
        };
        let wanted = ["ab", "a", "c"].map(names);
        assert_eq!(subsets(&wanted).len(), 4);
        let released = |below, round| counted.released(&wanted, below, round).unwrap();
        let (_, _, supports) = released(Some(5), None);
        assert_eq!(supports, [None, Some(20), None]);
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
            Release::default().of(found, Some(3), None).unwrap_err()
        };
        let few = FrequentItemsets::collect(10, 1, usize::MAX, []);
        let few = Release::default().of(few, Some(11), None).unwrap_err();
        assert!(few.to_string().contains("only 10 transactions"));
        let none = FrequentItemsets::collect(10, 1, usize::MAX, []);
        let least = Release::default().of(none, Some(2), None).unwrap_err();
        assert!(least.to_string().contains("give at least 3"), "{least}");
        assert_eq!(of(&[(&[0], 5), (&[0, 1], 5)]), ReleaseError::Incomplete);
        assert_eq!(
            of(&[(&[0], 8), (&[1], 8), (&[0, 1], 2)]),
            ReleaseError::Impossible
        );
    }

    proptest! {
        /// Checks every count that follows by adding and subtracting shown supports, found by elimination, not by the
        /// rule.
        #[test]
        fn no_small_count_follows_by_inclusion_and_exclusion(
            data in arbitrary_transactions(4, 60),
            below in 3u64..7,
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

        /// Checks against all counts that follow: all tables of whole numbers that agree with the shown supports.
        #[test]
        fn no_small_count_is_the_same_in_all_tables_that_agree_with_what_is_shown(
            counts in prop::collection::vec(prop_oneof![Just(0u64), 0u64..4, 0u64..9], 16),
            items in 3u32..5,
            below in 3u64..7,
        ) {
            let counts = &counts[..1 << items];
            prop_assume!(counts.iter().sum::<u64>() >= below);
            let (release, kept) = released(&table_of(counts), below);
            prop_assert!(release.search.unwrap().complete);
            prop_assert!(kept.iter().all(|it| it.support >= below));
            let mut all = AllTables::new(items, &kept, below);
            let searched = all.search(counts.len(), kept.transactions());
            prop_assume!(searched);
            prop_assert_eq!(all.suspects, Vec::new(), "{:?} shows {:?}", counts, kept);
        }
    }

    /// Creates transactions with exactly these items, by the bits of the index.
    fn table_of(counts: &[u64]) -> Transactions {
        let items = counts.len().ilog2();
        let baskets = (0u32..).zip(counts).flat_map(|(kind, &count)| {
            let basket: Vec<u32> = (0..items).filter(|item| kind >> item & 1 == 1).collect();
            std::iter::repeat_n(basket, count as usize)
        });
        let names = (0..items).map(|item| item.to_string()).collect();
        Transactions::from_baskets(names, baskets.collect::<Vec<_>>()).unwrap()
    }

    /// Enumeration of all tables with the shown supports.
    struct AllTables {
        /// The shown supports, by the bits of the items.
        shown: HashMap<usize, u64>,
        table: Vec<u64>,
        below: u64,
        /// The first table.
        first: Option<Vec<u64>>,
        /// The counts that are small in the first table and equal in all others.
        suspects: Vec<(u32, u32)>,
        /// The number of cells that may still be filled.
        steps: usize,
    }

    impl AllTables {
        fn new(items: u32, kept: &FrequentItemsets, below: u64) -> Self {
            let shown = kept
                .iter()
                .map(|it| (mask(&it.itemset) as usize, it.support));
            Self {
                shown: shown.collect(),
                table: vec![0; 1 << items],
                below,
                first: None,
                suspects: parts_of(items).collect(),
                steps: 3_000_000,
            }
        }

        fn count(table: &[u64], part: (u32, u32)) -> u64 {
            let cells = (0u32..).zip(table);
            cells
                .filter(|&(kind, _)| is_in(kind, part))
                .map(|(_, it)| it)
                .sum()
        }

        /// Fills the cells before this one with the rest of the transactions in every way, until no count is suspect;
        /// `false` if that takes too long. Supersets of a cell are filled before it.
        fn search(&mut self, cell: usize, rest: u64) -> bool {
            if self.suspects.is_empty() {
                return true;
            }
            let Some(steps) = self.steps.checked_sub(1) else {
                return false;
            };
            self.steps = steps;
            let Some(cell) = cell.checked_sub(1) else {
                return self.look();
            };
            let supersets = (cell + 1..self.table.len()).filter(|it| it & cell == cell);
            let above: u64 = supersets.map(|it| self.table[it]).sum();
            let shown = if cell == 0 {
                Some(above + rest)
            } else {
                self.shown.get(&cell).copied()
            };
            let values = match shown {
                Some(support) if (above..=above + rest).contains(&support) => {
                    support - above..=support - above
                }
                Some(_) => return true,
                None => 0..=rest,
            };
            for value in values {
                self.table[cell] = value;
                if !self.search(cell, rest - value) {
                    return false;
                }
            }
            self.table[cell] = 0;
            true
        }

        fn look(&mut self) -> bool {
            let Some(first) = &self.first else {
                let (table, below) = (&self.table, self.below);
                self.suspects
                    .retain(|&part| is_small(Self::count(table, part), below));
                self.first = Some(table.clone());
                return true;
            };
            let table = &self.table;
            self.suspects
                .retain(|&part| Self::count(table, part) == Self::count(first, part));
            true
        }
    }

    /// Supports a 63, b 87, c 64, d 81, ac 14, ad 63, bc 38, bd 55 of 113 transactions, which force {b, c, d} to be
    /// in 6. Adds `others` more items in half of the transactions.
    fn forcing_six(others: u32) -> FrequentItemsets {
        let shown: [(&[u32], u64); 8] = [
            (&[0], 63),
            (&[1], 87),
            (&[2], 64),
            (&[3], 81),
            (&[0, 2], 14),
            (&[0, 3], 63),
            (&[1, 2], 38),
            (&[1, 3], 55),
        ];
        let shown = shown.map(|(items, support)| (items.to_vec(), support));
        let others = (4..4 + others).map(|item| (vec![item], 56));
        let shown = shown
            .into_iter()
            .chain(others)
            .map(|(items, support)| FrequentItemset {
                itemset: Itemset::new(items),
                support,
            });
        FrequentItemsets::collect(113, 11, usize::MAX, shown)
    }

    #[test]
    fn what_follows_from_several_hidden_supports_together_is_found() {
        for others in [0, 20] {
            let shown = forcing_six(others);
            let found = |shown: &[Vec<FrequentItemset>]| {
                let found = search::search(113, shown, 11, search::PROGRAMS, &mut HashSet::new())
                    .unwrap()
                    .found;
                found.into_iter().map(|it| it.itemset).collect::<Vec<_>>()
            };
            assert!(found(shown.levels()).contains(&Itemset::new([1, 2, 3])));
            let (release, kept) = Release::default().of(shown, Some(11), None).unwrap();
            assert_eq!(found(kept.levels()), []);
            assert!(release.search.unwrap().complete);
            // Removing one support of the eight suffices.
            assert_eq!(kept.len(), 7 + others as usize);
        }
    }
}
