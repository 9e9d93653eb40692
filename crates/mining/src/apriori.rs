//! Apriori (Agrawal and Srikant, VLDB 1994): finds frequent itemsets level by level, over any counter of supports.
//!
//! The driver sees only item numbers. It skips supports that follow from [those of subsets](mod@crate::deduction) and
//! checks every answer. A support that no transactions could give ends the run with an error.
//! Candidates are ascending and distinct, and every subset of a candidate is frequent.

use std::num::{NonZeroU64, NonZeroUsize};

use oboro_format::ErrorClass;
use oboro_format::wording::{MAX_LEN, MIN_SUPPORT, STOP_ABOVE};

use crate::candidates::candidates_from;
use crate::certain;
use crate::deduction::{Bounds, Contradiction, subsets_used};
use crate::frequent::FrequentItemsets;
use crate::itemset::{FrequentItemset, Itemset};
use crate::prefix_tree::PrefixTree;
use oboro_input::transactions::MinSupport;

/// Counts the transactions that contain an itemset: in plaintext bitmaps
/// ([`PlaintextCounter`](crate::bitmap::PlaintextCounter)) or in an encrypted dataset.
pub trait SupportCounter {
    /// Error of a failed count.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Returns the number of transactions.
    fn transactions(&self) -> u64;

    /// Returns the support of each item, by number from 0. They are known in advance and never requested.
    fn item_supports(&self) -> &[u64];

    /// Returns the support from which every item is present; 1 if no items were left out.
    fn min_item_support(&self) -> u64;

    /// Counts `candidates`, at least one, and returns their supports in order. `level` is the length of each
    /// candidate, from 2.
    ///
    /// # Errors
    /// Errors of the counter.
    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, Self::Error>;

    /// Returns the number of words in a column if this counter has the columns it counts in, and `None` otherwise.
    /// Such counts need no check, and a deduction from more subsets than words costs more than a count.
    fn column_words(&self) -> Option<usize> {
        None
    }

    /// Checks for cancellation; called regularly between counts.
    ///
    /// # Errors
    /// The run was interrupted.
    fn go_on(&self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Goal and limits of [`apriori`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AprioriOptions {
    /// The support that makes an itemset frequent.
    pub min_support: MinSupport,
    /// The length of the longest itemsets; `None` for no limit.
    pub max_len: Option<NonZeroUsize>,
    /// The largest number of candidates of one level. It bounds memory, which a low minimum support could otherwise
    /// exceed.
    pub max_candidates: usize,
    /// `true` if supports that can be deduced are not counted. With `false`, the result is equal, but every candidate
    /// of two or more items is counted.
    pub deduction: bool,
    /// The number of certainly frequent itemsets above which the search ends with an error; `None` for no limit.
    pub stop_above: Option<NonZeroU64>,
}

impl AprioriOptions {
    /// The default limit of candidates of one level: about 2 GiB of them.
    pub const DEFAULT_MAX_CANDIDATES: usize = 20_000_000;
    /// The default limit of frequent itemsets in programs.
    pub const DEFAULT_STOP_ABOVE: u64 = 1_000_000;

    /// Creates options for itemsets of any length and number with at least `min_support`, using deduction.
    pub fn new(min_support: MinSupport) -> Self {
        AprioriOptions {
            min_support,
            max_len: None,
            max_candidates: Self::DEFAULT_MAX_CANDIDATES,
            deduction: true,
            stop_above: None,
        }
    }

    /// Sets the number of itemsets above which the search ends; 0 for no limit.
    pub fn with_stop_above(self, stop_above: u64) -> Self {
        AprioriOptions {
            stop_above: NonZeroU64::new(stop_above),
            ..self
        }
    }

    /// Sets the length of the longest itemsets.
    pub fn with_max_len(self, max_len: Option<NonZeroUsize>) -> Self {
        AprioriOptions { max_len, ..self }
    }

    /// Returns the least frequent support among `transactions`, of which every item with a support of `complete_from`
    /// is present.
    ///
    /// # Errors
    /// The minimum support is below that of items that were left out.
    pub fn threshold<E: std::error::Error + 'static>(
        &self,
        transactions: u64,
        complete_from: u64,
    ) -> Result<u64, AprioriError<E>> {
        let threshold = self.min_support.threshold(transactions);
        if threshold < complete_from {
            Err(AprioriError::ItemsLeftOut {
                threshold,
                complete_from,
                transactions,
            })
        } else {
            Ok(threshold)
        }
    }

    /// Sets whether to deduce supports.
    pub fn with_deduction(self, deduction: bool) -> Self {
        AprioriOptions { deduction, ..self }
    }
}

/// Counts of one level, passed to the observer after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelReport {
    /// The length of this level's itemsets, from 1.
    pub level: usize,
    /// The number of itemsets whose subsets are all frequent.
    pub candidates: usize,
    /// The number of candidates that were counted.
    pub asked: usize,
    /// The number of frequent candidates whose support was deduced from their subsets'.
    pub deduced: usize,
    /// The number of candidates that cannot be frequent, given their subsets' supports.
    pub excluded: usize,
    /// The number of frequent candidates: those deduced and some of those counted.
    pub frequent: usize,
}

/// Reason why mining stopped without a result. Items are given by number, since names are unknown at this level.
#[derive(Debug, thiserror::Error)]
pub enum AprioriError<E: std::error::Error + 'static> {
    /// The minimum support is so low that items left out might be frequent.
    #[error(
        "the dataset lacks items that occur in fewer than {complete_from} of {transactions} transactions: they were left out of it, and with a minimum support of {threshold} some could be frequent; choose a minimum support of at least {complete_from} transactions, or encrypt the data again with a minimum item support of {threshold} or less"
    )]
    ItemsLeftOut {
        /// The minimum support, as a number of transactions.
        threshold: u64,
        /// The support from which every item is present.
        complete_from: u64,
        /// The number of transactions.
        transactions: u64,
    },
    /// The counter failed.
    #[error(transparent)]
    Counter(E),
    /// The number of answers differs from the number of itemsets.
    #[error(
        "{asked} itemsets of length {level} were asked for, but {answered} supports came back; the counter is faulty, so nothing is reported"
    )]
    AnswerCount {
        /// The length of the itemsets.
        level: usize,
        /// The number of itemsets.
        asked: usize,
        /// The number of answers.
        answered: usize,
    },
    /// A support that the supports of the subsets rule out.
    #[error(
        "itemset {itemset} came back with support {support}, but among {transactions} transactions the supports of its subsets allow only {bounds}; an answer was altered or is not of this dataset, so nothing is reported"
    )]
    Impossible {
        /// The itemset.
        itemset: Itemset,
        /// The support returned.
        support: u64,
        /// The possible supports.
        bounds: Bounds,
        /// The number of transactions.
        transactions: u64,
    },
    /// Supports that are possible individually, but not together.
    #[error(
        "itemset {itemset} can have no support beside those of its subsets that came back: {contradiction}; an answer was altered or is not of this dataset, so nothing is reported"
    )]
    Contradiction {
        /// The itemset.
        itemset: Itemset,
        /// The contradictory bounds.
        contradiction: Contradiction,
    },
    /// More frequent itemsets than allowed.
    #[error("{}", too_many_itemsets(*level, *found, *more, *limit))]
    TooManyItemsets {
        /// The length of the longest itemsets found.
        level: usize,
        /// The number of itemsets found.
        found: u64,
        /// The least number of longer frequent itemsets.
        more: u64,
        /// The largest number allowed.
        limit: u64,
    },
    /// A level with too many candidates.
    #[error(
        "there are more than {limit} candidates of length {level}; raise the minimum support or lower the maximum length"
    )]
    TooManyCandidates {
        /// The length of the candidates.
        level: usize,
        /// The largest number allowed.
        limit: usize,
    },
}

impl<E: std::error::Error + 'static> AprioriError<E> {
    /// Returns the class of the error; `counter` classifies errors of the counter.
    pub fn class(&self, counter: impl FnOnce(&E) -> ErrorClass) -> ErrorClass {
        match self {
            Self::Counter(error) => counter(error),
            Self::TooManyItemsets { .. }
            | Self::TooManyCandidates { .. }
            | Self::ItemsLeftOut { .. } => ErrorClass::Input,
            Self::AnswerCount { .. } | Self::Impossible { .. } | Self::Contradiction { .. } => {
                ErrorClass::FalseAnswer
            }
        }
    }
}

fn too_many_itemsets(level: usize, found: u64, more: u64, limit: u64) -> String {
    let items = if level == 1 { "item" } else { "items" };
    let follow = match more {
        0 => "longer ones may follow".to_owned(),
        u64::MAX => format!("more than {} longer ones follow", u64::MAX - 1),
        more => format!("at least {more} longer ones follow"),
    };
    format!(
        "{found} itemsets of up to {level} {items} are frequent and {follow}, which is above the limit of {limit}; nothing is reported: raise `{MIN_SUPPORT}`, lower `{MAX_LEN}`, or set `{}` to find all of them, which may take very long",
        STOP_ABOVE.to(0)
    )
}

/// Finds the frequent itemsets among the transactions of `counter`.
///
/// Level 1 follows from the supports of the items. The candidates of level `k` are the itemsets of length `k` whose
/// subsets of length `k - 1` are all frequent. The counter gets the candidates that cannot be deduced, and is not
/// called for levels without any. `observer` is called for each level once it is counted and checked.
///
/// # Errors
/// A minimum support below that of items that were left out; the counter's errors; answers that no transactions could
/// give; too many candidates; more itemsets than allowed.
pub fn apriori<C: SupportCounter>(
    counter: &mut C,
    options: AprioriOptions,
    mut observer: impl FnMut(LevelReport),
) -> Result<FrequentItemsets, AprioriError<C::Error>> {
    let transactions = counter.transactions();
    let threshold = options.threshold(transactions, counter.min_item_support())?;
    let longest = options.max_len.map_or(usize::MAX, NonZeroUsize::get);
    let too_many = |level| AprioriError::TooManyCandidates {
        level,
        limit: options.max_candidates,
    };
    let mut known = PrefixTree::new(transactions);
    let mut found: Vec<FrequentItemset> = Vec::new();
    let supports = counter.item_supports();
    if supports.len() > options.max_candidates {
        return Err(too_many(1));
    }
    let items = supports.len();
    let mut frequent: Vec<FrequentItemset> = (0..)
        .zip(supports)
        .filter(|&(_, &support)| support >= threshold)
        .map(|(item, &support)| FrequentItemset {
            itemset: Itemset::single(item),
            support,
        })
        .collect();
    if items > 0 {
        observer(LevelReport {
            level: 1,
            candidates: items,
            asked: 0,
            deduced: frequent.len(),
            excluded: items - frequent.len(),
            frequent: frequent.len(),
        });
    }
    let mut level = 1;
    loop {
        known.add_level(&frequent);
        let so_far = (found.len() + frequent.len()) as u64;
        let check_number = |more: u64| match options.stop_above {
            Some(limit) if so_far.saturating_add(more) > limit.get() => {
                Err(AprioriError::<C::Error>::TooManyItemsets {
                    level,
                    found: so_far,
                    more,
                    limit: limit.get(),
                })
            }
            _ => Ok(()),
        };
        let more = certain::longer(&frequent, &known, threshold, longest);
        if more > 0 {
            check_number(more)?;
        }
        let is_frequent = |subset: &[u32]| known.contains(subset);
        let candidates = if level < longest {
            let go_on = || counter.go_on().map_err(AprioriError::Counter);
            candidates_from(&frequent, is_frequent, options.max_candidates, go_on)?
                .ok_or_else(|| too_many(level + 1))?
        } else {
            Vec::new()
        };
        found.append(&mut frequent);
        if candidates.is_empty() {
            break;
        }
        check_number(0)?;
        level += 1;
        let proposed = candidates.len();
        let go_on = || counter.go_on().map_err(AprioriError::Counter);
        let words = counter.column_words();
        let are_few = |words: usize| subsets_used(level) <= words.max(CHEAP_SUBSETS);
        let triage = if words.is_none_or(are_few) {
            triage(
                candidates,
                level,
                &known,
                threshold,
                options.deduction,
                go_on,
            )?
        } else {
            Triage {
                asked: candidates,
                ..Triage::default()
            }
        };
        let (asked, deduced) = (triage.asked.len(), triage.deduced.len());
        let supports = ask(counter, level, &triage)?;
        frequent = triage.deduced;
        frequent.extend(
            (triage.asked.into_iter().zip(supports))
                .map(|(itemset, support)| FrequentItemset { itemset, support })
                .filter(|counted| counted.support >= threshold),
        );
        frequent.sort_by(|a, b| a.itemset.cmp(&b.itemset));
        observer(LevelReport {
            level,
            candidates: proposed,
            asked,
            deduced,
            excluded: proposed - asked - deduced,
            frequent: frequent.len(),
        });
    }
    Ok(FrequentItemsets::collect(
        transactions,
        threshold,
        longest,
        found,
    ))
}

/// Candidates of a level, split by the implications of their subsets' supports. Candidates that cannot be frequent are
/// left out.
#[derive(Default)]
struct Triage {
    /// Frequent candidates with only one possible support; ascending.
    deduced: Vec<FrequentItemset>,
    /// Candidates to count; ascending.
    asked: Vec<Itemset>,
    /// Possible supports of each of `asked`; empty if the counts need no check.
    bounds: Vec<Bounds>,
}

/// The number of subsets up to which a deduction is always cheaper than a count.
const CHEAP_SUBSETS: usize = 16;

/// Splits the `candidates` of length `level`, all proper subsets of which are `known`. Without `deduction`, all are
/// counted.
fn triage<E: std::error::Error + 'static>(
    candidates: Vec<Itemset>,
    level: usize,
    known: &PrefixTree,
    threshold: u64,
    deduction: bool,
    go_on: impl Fn() -> Result<(), AprioriError<E>>,
) -> Result<Triage, AprioriError<E>> {
    let mut triage = Triage::default();
    let mut subset_supports = vec![0; subsets_used(level)];
    for itemset in candidates {
        go_on()?;
        known.subset_supports(itemset.items(), &mut subset_supports);
        let bounds = Bounds::from_subsets(&mut subset_supports).map_err(|contradiction| {
            AprioriError::Contradiction {
                itemset: itemset.clone(),
                contradiction,
            }
        })?;
        if deduction && bounds.upper < threshold {
            continue;
        }
        if deduction && bounds.lower == bounds.upper {
            let support = bounds.lower;
            triage.deduced.push(FrequentItemset { itemset, support });
        } else {
            triage.asked.push(itemset);
            triage.bounds.push(bounds);
        }
    }
    Ok(triage)
}

/// Counts the itemsets and checks each support against its bounds, if any.
fn ask<C: SupportCounter>(
    counter: &mut C,
    level: usize,
    Triage { asked, bounds, .. }: &Triage,
) -> Result<Vec<u64>, AprioriError<C::Error>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let supports = counter.count(level, asked).map_err(AprioriError::Counter)?;
    if supports.len() != asked.len() {
        return Err(AprioriError::AnswerCount {
            level,
            asked: asked.len(),
            answered: supports.len(),
        });
    }
    for ((itemset, &bounds), &support) in asked.iter().zip(bounds).zip(&supports) {
        if !bounds.contain(support) {
            return Err(AprioriError::Impossible {
                itemset: itemset.clone(),
                support,
                bounds,
                transactions: counter.transactions(),
            });
        }
    }
    Ok(supports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::PlaintextCounter;
    use crate::testing::{arbitrary_transactions, brute_force};
    use oboro_input::transactions::Transactions;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn sample() -> Transactions {
        let baskets = [
            vec!["a", "b", "c"],
            vec!["a", "b"],
            vec!["a", "c"],
            vec!["a", "b", "c", "d"],
        ];
        Transactions::from_named(baskets).unwrap()
    }

    /// Counter that answers correctly except for one itemset.
    struct Liar<'a> {
        truth: PlaintextCounter<'a>,
        about: Itemset,
        claim: u64,
    }

    impl SupportCounter for Liar<'_> {
        type Error = crate::bitmap::UnknownItem;

        fn transactions(&self) -> u64 {
            self.truth.transactions()
        }

        fn item_supports(&self) -> &[u64] {
            self.truth.item_supports()
        }

        fn min_item_support(&self) -> u64 {
            1
        }

        fn count(&mut self, level: usize, asked: &[Itemset]) -> Result<Vec<u64>, Self::Error> {
            let mut answers = self.truth.count(level, asked)?;
            for (itemset, answer) in asked.iter().zip(&mut answers) {
                if *itemset == self.about {
                    *answer = self.claim;
                }
            }
            Ok(answers)
        }
    }

    fn lie(about: &[u32], claim: u64) -> String {
        let data = sample();
        let mut liar = Liar {
            truth: PlaintextCounter::new(&data),
            about: Itemset::new(about),
            claim,
        };
        let options = AprioriOptions::new(MinSupport::Count(1)).with_deduction(false);
        apriori(&mut liar, options, |_| ()).unwrap_err().to_string()
    }

    #[test]
    fn impossible_answers_are_errors_that_name_itemset_support_and_bounds() {
        let possible = |about: &[u32], claim: u64| {
            let message = lie(about, claim);
            let itemset = Itemset::new(about);
            let begin = format!(
                "itemset {itemset} came back with support {claim}, but among 4 transactions the supports of its subsets allow only "
            );
            let rest = message.strip_prefix(&begin).expect(&message);
            rest.split_once(';').unwrap().0.to_owned()
        };
        assert_eq!(possible(&[1, 2], 4), "2 to 3");
        assert_eq!(possible(&[1, 2], 1), "2 to 3");
        assert_eq!(possible(&[0, 1], 2), "3");
        assert_eq!(possible(&[0, 1, 2], 1), "2");
    }

    /// Counter of three items in 5 of 10 transactions each. The first always occurs with each of the others, which
    /// rarely occur together.
    struct Contradicting;

    impl SupportCounter for Contradicting {
        type Error = Infallible;

        fn transactions(&self) -> u64 {
            10
        }

        fn item_supports(&self) -> &[u64] {
            &[5, 5, 5]
        }

        fn min_item_support(&self) -> u64 {
            1
        }

        fn count(&mut self, _: usize, _: &[Itemset]) -> Result<Vec<u64>, Infallible> {
            Ok(vec![5, 5, 1])
        }
    }

    #[test]
    fn answers_that_contradict_each_other_are_an_error() {
        for deduction in [true, false] {
            let options = AprioriOptions::new(MinSupport::Count(1)).with_deduction(deduction);
            let error = apriori(&mut Contradicting, options, |_| ()).unwrap_err();
            let message = error.to_string();
            assert!(
                message.starts_with("itemset {0, 1, 2} can have no support beside those")
                    && message.contains("at least 5 and at most 1;"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_wrong_number_of_answers_is_an_error() {
        struct Mute;
        impl SupportCounter for Mute {
            type Error = Infallible;
            fn transactions(&self) -> u64 {
                9
            }
            fn item_supports(&self) -> &[u64] {
                &[9; 3]
            }

            fn min_item_support(&self) -> u64 {
                1
            }
            fn count(&mut self, _: usize, _: &[Itemset]) -> Result<Vec<u64>, Infallible> {
                Ok(vec![9])
            }
        }
        let options = AprioriOptions::new(MinSupport::Count(1)).with_deduction(false);
        let error = apriori(&mut Mute, options, |_| ());
        assert!(matches!(
            error,
            Err(AprioriError::AnswerCount {
                level: 2,
                asked: 3,
                answered: 1
            })
        ));
    }

    /// Returns the reports on the sample at each level, as candidates, asked, deduced, excluded, frequent.
    fn reports(deduction: bool, min_support: MinSupport) -> Vec<[usize; 5]> {
        let data = sample();
        let mut reports = Vec::new();
        let options = AprioriOptions::new(min_support).with_deduction(deduction);
        apriori(&mut PlaintextCounter::new(&data), options, |report| {
            assert_eq!(report.level, reports.len() + 1);
            reports.push([
                report.candidates,
                report.asked,
                report.deduced,
                report.excluded,
                report.frequent,
            ]);
        })
        .unwrap();
        reports
    }

    #[test]
    fn levels_are_reported_as_they_are_counted() {
        let half = MinSupport::Fraction(0.5);
        assert_eq!(
            reports(false, half),
            [[4, 0, 3, 1, 3], [3, 3, 0, 0, 3], [1, 1, 0, 0, 1]]
        );
        // {a} is in every transaction. So {a, b} and {a, c} occur with {b} and {c}, and {a, b, c} with {b, c}.
        assert_eq!(
            reports(true, half),
            [[4, 0, 3, 1, 3], [3, 1, 2, 0, 3], [1, 0, 1, 0, 1]]
        );
    }

    #[test]
    fn what_cannot_be_frequent_is_not_asked() {
        let more_than_all = MinSupport::Count(5);
        assert_eq!(reports(true, more_than_all), [[4, 0, 0, 4, 0]]);
        assert_eq!(reports(false, more_than_all), [[4, 0, 0, 4, 0]]);
    }

    #[test]
    fn itemsets_beyond_16_items_are_deduced_from_a_part_of_their_subsets() {
        let support = 3;
        let with_the_first = |mask: u32| -> Itemset {
            let others = (1..17).filter(|item| mask >> (item - 1) & 1 == 1);
            std::iter::once(0).chain(others).collect()
        };
        let mut known = PrefixTree::new(10);
        for length in 1..17 {
            let mut itemsets: Vec<Itemset> = (0u32..1 << 16)
                .filter(|mask| mask.count_ones() == length - 1)
                .map(with_the_first)
                .collect();
            itemsets.sort_unstable();
            let frequent = |itemset| FrequentItemset { itemset, support };
            known.add_level(&itemsets.into_iter().map(frequent).collect::<Vec<_>>());
        }
        let whole = with_the_first(u32::MAX);
        let triage =
            triage::<Infallible>(vec![whole.clone()], 17, &known, 1, true, || Ok(())).unwrap();
        let itemset = whole;
        assert_eq!(triage.deduced, [FrequentItemset { itemset, support }]);
    }

    #[test]
    fn the_sample_has_its_frequent_itemsets() {
        let data = sample();
        let options = AprioriOptions::new(MinSupport::Fraction(0.5));
        let found = apriori(&mut PlaintextCounter::new(&data), options, |_| ()).unwrap();
        assert_eq!(found.len(), 7);
        assert_eq!(found.min_support_count(), 2);
        assert_eq!(found.support(&Itemset::new([0, 1, 2])), Some(2));
    }

    #[test]
    fn too_many_candidates_are_refused() {
        let data = sample();
        let mut options = AprioriOptions::new(MinSupport::Count(1));
        options.max_candidates = 5;
        let error = apriori(&mut PlaintextCounter::new(&data), options, |_| ());
        assert!(matches!(
            error,
            Err(AprioriError::TooManyCandidates { level: 2, limit: 5 })
        ));
        options.max_candidates = 3;
        let error = apriori(&mut PlaintextCounter::new(&data), options, |_| ());
        assert!(matches!(
            error,
            Err(AprioriError::TooManyCandidates { level: 1, limit: 3 })
        ));
    }

    #[test]
    fn a_search_ends_once_more_itemsets_are_certain_than_wanted() {
        // From the pairs it follows that all 63 itemsets of the first transaction are frequent.
        let data = Transactions::from_named([vec!["a", "b", "c", "d", "e", "f"], vec!["x"]]);
        let data = data.unwrap();
        let search = |stop_above| {
            let mut levels = 0;
            let options = AprioriOptions::new(MinSupport::Count(1)).with_stop_above(stop_above);
            let found = apriori(&mut PlaintextCounter::new(&data), options, |_| levels += 1);
            (found, levels)
        };
        for enough in [0, 64] {
            assert_eq!(search(enough).0.unwrap().len(), 64);
        }
        let (error, levels) = search(63);
        let error = error.unwrap_err();
        assert_eq!(
            (levels, error.class(|_| ErrorClass::Other)),
            (2, ErrorClass::Input)
        );
        let message = error.to_string();
        let expected = "22 itemsets of up to 2 items are frequent and at least 42 longer ones follow, which is above the limit of 63";
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("`--stop-above 0`"), "{message}");
        // More itemsets than allowed were found, with candidates for more.
        let (error, levels) = search(6);
        let expected = "7 itemsets of up to 1 item are frequent and longer ones may follow";
        assert!(error.unwrap_err().to_string().starts_with(expected));
        assert_eq!(levels, 1);
        assert_eq!(search(7).1, 2);
    }

    #[test]
    fn no_transactions_and_no_items_give_an_empty_result() {
        let none = Transactions::from_baskets::<Vec<u32>>(Vec::new(), []).unwrap();
        let options = AprioriOptions::new(MinSupport::Fraction(0.5));
        assert!(
            apriori(&mut PlaintextCounter::new(&none), options, |_| ())
                .unwrap()
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn apriori_eclat_and_brute_force_agree(
            data in arbitrary_transactions(7, 40),
            threshold in 1u64..12,
            max_len in 1usize..9,
        ) {
            let max_len = NonZeroUsize::new(max_len);
            let min_support = MinSupport::Count(threshold);
            let options = AprioriOptions::new(min_support).with_max_len(max_len);
            let mine = |deduction| {
                let mut reports = Vec::new();
                let counter = &mut PlaintextCounter::new(&data);
                let options = options.with_deduction(deduction);
                let found = apriori(counter, options, |report| reports.push(report)).unwrap();
                (found, reports)
            };
            let (found, reports) = mine(true);
            let (found_without, reports_without) = mine(false);
            prop_assert_eq!(&found, &found_without);
            prop_assert_eq!(reports.len(), reports_without.len());
            for (with, without) in reports.iter().zip(&reports_without) {
                prop_assert_eq!(with.candidates, without.candidates);
                prop_assert_eq!(with.candidates, with.asked + with.deduced + with.excluded);
                prop_assert_eq!(without.asked, if without.level == 1 { 0 } else { without.candidates });
                prop_assert_eq!(with.frequent, without.frequent);
            }
            let expected = brute_force(&data, threshold, max_len.unwrap().get());
            prop_assert_eq!(found.iter().cloned().collect::<Vec<_>>(), expected);
            prop_assert_eq!(crate::eclat::eclat(&data, min_support, max_len), found);
        }

        #[test]
        fn no_answers_make_the_driver_panic(
            answers in prop::collection::vec(prop_oneof![9 => 0u64..6, 1 => any::<u64>()], 64),
            deduction: bool,
        ) {
            struct Random(Vec<u64>);
            impl SupportCounter for Random {
                type Error = Infallible;
                fn transactions(&self) -> u64 {
                    5
                }
                fn item_supports(&self) -> &[u64] {
                    &[3, 5, 1, 4, 5]
                }

                fn min_item_support(&self) -> u64 {
                    1
                }
                fn count(&mut self, _: usize, asked: &[Itemset]) -> Result<Vec<u64>, Infallible> {
                    Ok(self.0.iter().copied().cycle().take(asked.len()).collect())
                }
            }
            let options = AprioriOptions::new(MinSupport::Count(1)).with_deduction(deduction);
            let _ = apriori(&mut Random(answers), options, |_| ());
        }
    }
}
