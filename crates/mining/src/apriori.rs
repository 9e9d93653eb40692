//! Apriori (Agrawal and Srikant, VLDB 1994): frequent itemsets level by level,
//! with the counting left to whoever holds the transactions.
//!
//! The driver knows only numbers of items, and it distrusts what it is told: an
//! answer that no transactions could give ends the run with an error and never
//! becomes a result. Candidates are ascending, without repetition, and every
//! subset of a candidate is frequent.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use crate::frequent::{FrequentItemset, FrequentItemsets};
use crate::itemset::Itemset;
use crate::transactions::MinSupport;

/// Whoever can count in how many transactions itemsets occur: plaintext bitmaps
/// ([`PlaintextCounter`](crate::bitmap::PlaintextCounter)) or an encrypted
/// dataset.
pub trait SupportCounter {
    /// Why counting failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The number of transactions.
    fn transactions(&self) -> u64;

    /// The number of items, which are numbered from 0.
    fn items(&self) -> u32;

    /// The supports of `candidates`, in their order. `level` is the length of
    /// each candidate, from 1.
    ///
    /// # Errors
    /// Whatever keeps the counter from answering.
    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, Self::Error>;
}

/// What [`apriori`] looks for and how far it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AprioriOptions {
    /// The support that makes an itemset frequent.
    pub min_support: MinSupport,
    /// The length of the longest itemsets asked for; `None` for no limit.
    pub max_len: Option<NonZeroUsize>,
    /// The largest number of candidates of one level. With a low minimum support
    /// there can be more than memory holds; then a clear error is better.
    pub max_candidates: usize,
}

impl AprioriOptions {
    /// Candidates of one level unless told otherwise: about 2 GiB of them.
    pub const DEFAULT_MAX_CANDIDATES: usize = 20_000_000;

    /// Itemsets of any length with at least `min_support`.
    pub fn new(min_support: MinSupport) -> Self {
        AprioriOptions {
            min_support,
            max_len: None,
            max_candidates: Self::DEFAULT_MAX_CANDIDATES,
        }
    }

    /// The same, but no itemset longer than `max_len`.
    pub fn with_max_len(self, max_len: Option<NonZeroUsize>) -> Self {
        AprioriOptions { max_len, ..self }
    }
}

/// What the observer is told after each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelReport {
    /// The length of this level's itemsets, from 1.
    pub level: usize,
    /// The number of itemsets that were asked for.
    pub candidates: usize,
    /// How many of them are frequent.
    pub frequent: usize,
}

/// Why mining stopped without a result. Items are given by number, since names
/// are not known here.
#[derive(Debug, thiserror::Error)]
pub enum AprioriError<E: std::error::Error + 'static> {
    /// The counter failed.
    #[error(transparent)]
    Counter(E),
    /// More or fewer answers than questions.
    #[error(
        "{asked} itemsets of length {level} were asked for, but {answered} supports came back; the counter is faulty, so nothing is reported"
    )]
    AnswerCount {
        /// The length of the itemsets.
        level: usize,
        /// The number of questions.
        asked: usize,
        /// The number of answers.
        answered: usize,
    },
    /// A support above the number of transactions.
    #[error(
        "itemset {itemset} came back with support {support}, but there are only {transactions} transactions; the answer was altered or is not of this dataset, so nothing is reported"
    )]
    AboveTransactions {
        /// The itemset.
        itemset: Itemset,
        /// The support that came back.
        support: u64,
        /// The number of transactions.
        transactions: u64,
    },
    /// A support above that of a subset.
    #[error(
        "itemset {itemset} came back with support {support}, but its subset {subset} has only {subset_support}; an answer was altered or is not of this dataset, so nothing is reported"
    )]
    AboveSubset {
        /// The itemset.
        itemset: Itemset,
        /// The support that came back.
        support: u64,
        /// The subset.
        subset: Itemset,
        /// The subset's support.
        subset_support: u64,
    },
    /// A support below what two subsets must have in common.
    #[error(
        "itemset {itemset} came back with support {support}, but its subsets occur together in at least {least} transactions; an answer was altered or is not of this dataset, so nothing is reported"
    )]
    BelowOverlap {
        /// The itemset.
        itemset: Itemset,
        /// The support that came back.
        support: u64,
        /// The least support possible.
        least: u64,
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

/// Finds the frequent itemsets among the transactions of `counter`.
///
/// Level 1 asks for all items; level `k` for the itemsets of length `k` whose
/// subsets of length `k - 1` are all frequent. `observer` hears of each level
/// once it is counted and checked.
///
/// # Errors
/// The counter's own, an answer that no transactions could give, or too many
/// candidates.
pub fn apriori<C: SupportCounter>(
    counter: &mut C,
    options: AprioriOptions,
    mut observer: impl FnMut(LevelReport),
) -> Result<FrequentItemsets, AprioriError<C::Error>> {
    let transactions = counter.transactions();
    let threshold = options.min_support.threshold(transactions);
    let too_many = |level| AprioriError::TooManyCandidates {
        level,
        limit: options.max_candidates,
    };
    let mut known: HashMap<Itemset, u64> = HashMap::new();
    let mut found: Vec<FrequentItemset> = Vec::new();
    if counter.items() as usize > options.max_candidates {
        return Err(too_many(1));
    }
    let mut candidates: Vec<Itemset> = (0..counter.items()).map(Itemset::single).collect();
    let mut level = 1;
    while !candidates.is_empty() {
        let supports = counter
            .count(level, &candidates)
            .map_err(AprioriError::Counter)?;
        if supports.len() != candidates.len() {
            return Err(AprioriError::AnswerCount {
                level,
                asked: candidates.len(),
                answered: supports.len(),
            });
        }
        for (itemset, &support) in candidates.iter().zip(&supports) {
            check_possible(itemset, support, transactions, &known)?;
        }
        let asked = candidates.len();
        let frequent: Vec<Itemset> = candidates
            .into_iter()
            .zip(supports)
            .filter(|&(_, support)| support >= threshold)
            .map(|(itemset, support)| {
                known.insert(itemset.clone(), support);
                found.push(FrequentItemset {
                    itemset: itemset.clone(),
                    support,
                });
                itemset
            })
            .collect();
        observer(LevelReport {
            level,
            candidates: asked,
            frequent: frequent.len(),
        });
        if options
            .max_len
            .is_some_and(|max_len| level >= max_len.get())
        {
            break;
        }
        level += 1;
        let is_frequent = |subset: &Itemset| known.contains_key(subset);
        candidates = candidates_from(&frequent, is_frequent, options.max_candidates)
            .ok_or_else(|| too_many(level))?;
    }
    Ok(FrequentItemsets::collect(transactions, threshold, found))
}

/// The itemsets one longer than `frequent` (all of one length, ascending) whose
/// immediate subsets are all frequent, ascending; `None` if more than `limit`.
///
/// Join: two frequent itemsets that differ in the last item only. Prune: the
/// candidate's other subsets must be frequent too.
fn candidates_from(
    frequent: &[Itemset],
    is_frequent: impl Fn(&Itemset) -> bool,
    limit: usize,
) -> Option<Vec<Itemset>> {
    let mut candidates = Vec::new();
    let same_prefix = |a: &Itemset, b: &Itemset| {
        let prefix = a.len() - 1;
        a.items()[..prefix] == b.items()[..prefix]
    };
    for group in frequent.chunk_by(same_prefix) {
        for (place, first) in group.iter().enumerate() {
            for second in &group[place + 1..] {
                let last = second.items()[second.len() - 1];
                let candidate = first.extended_by(last);
                // Without its last or its last but one item it is one of the joined.
                let others = candidate.immediate_subsets().take(candidate.len() - 2);
                if others.into_iter().all(|subset| is_frequent(&subset)) {
                    if candidates.len() == limit {
                        return None;
                    }
                    candidates.push(candidate);
                }
            }
        }
    }
    Some(candidates)
}

/// Whether `support` can be that of `itemset`, given the supports of all its
/// proper subsets: at most that of each, and for `A`, `B` that lack one item each
/// at least supp(A) + supp(B) − supp(A ∩ B).
fn check_possible<E: std::error::Error + 'static>(
    itemset: &Itemset,
    support: u64,
    transactions: u64,
    known: &HashMap<Itemset, u64>,
) -> Result<(), AprioriError<E>> {
    if support > transactions {
        return Err(AprioriError::AboveTransactions {
            itemset: itemset.clone(),
            support,
            transactions,
        });
    }
    if itemset.len() < 2 {
        return Ok(());
    }
    let support_of = |subset: &Itemset| {
        if subset.is_empty() {
            return transactions;
        }
        known[subset]
    };
    let mut subset_supports = Vec::with_capacity(itemset.len());
    for subset in itemset.immediate_subsets() {
        let subset_support = support_of(&subset);
        if support > subset_support {
            return Err(AprioriError::AboveSubset {
                itemset: itemset.clone(),
                support,
                subset,
                subset_support,
            });
        }
        subset_supports.push(subset_support);
    }
    for first in 0..itemset.len() {
        let without_first = itemset.without_position(first);
        for second in first + 1..itemset.len() {
            let without_both = without_first.without_position(second - 1);
            let sum = u128::from(subset_supports[first]) + u128::from(subset_supports[second]);
            let least = sum.saturating_sub(u128::from(support_of(&without_both)));
            if u128::from(support) < least {
                return Err(AprioriError::BelowOverlap {
                    itemset: itemset.clone(),
                    support,
                    least: least as u64,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::PlaintextCounter;
    use crate::testing::{arbitrary_transactions, brute_force};
    use crate::transactions::Transactions;
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

    /// Answers truthfully except for one itemset.
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

        fn items(&self) -> u32 {
            self.truth.items()
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
        let options = AprioriOptions::new(MinSupport::Count(1));
        apriori(&mut liar, options, |_| ()).unwrap_err().to_string()
    }

    #[test]
    fn impossible_answers_are_errors_that_name_the_itemset() {
        assert!(lie(&[3], 5).contains("{3} came back with support 5, but there are only 4"));
        assert!(
            lie(&[1, 2], 4)
                .contains("{1, 2} came back with support 4, but its subset {2} has only 3")
        );
        assert!(lie(&[0, 1], 2).contains("{0, 1} came back with support 2, but its subsets"));
        assert!(lie(&[0, 1, 2], 1).contains("at least 2 transactions"));
    }

    #[test]
    fn a_wrong_number_of_answers_is_an_error() {
        struct Mute;
        impl SupportCounter for Mute {
            type Error = Infallible;
            fn transactions(&self) -> u64 {
                9
            }
            fn items(&self) -> u32 {
                2
            }
            fn count(&mut self, _: usize, _: &[Itemset]) -> Result<Vec<u64>, Infallible> {
                Ok(vec![1])
            }
        }
        let error = apriori(&mut Mute, AprioriOptions::new(MinSupport::Count(1)), |_| ());
        assert!(matches!(
            error,
            Err(AprioriError::AnswerCount {
                level: 1,
                asked: 2,
                answered: 1
            })
        ));
    }

    #[test]
    fn levels_are_reported_as_they_are_counted() {
        let data = sample();
        let mut reports = Vec::new();
        let options = AprioriOptions::new(MinSupport::Fraction(0.5));
        let found = apriori(&mut PlaintextCounter::new(&data), options, |report| {
            reports.push((report.level, report.candidates, report.frequent));
        });
        assert_eq!(reports, [(1, 4, 3), (2, 3, 3), (3, 1, 1)]);
        let found = found.unwrap();
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
    fn candidates_whose_subsets_are_not_all_frequent_are_pruned() {
        let frequent: Vec<Itemset> = [[0, 1], [0, 2], [0, 3], [1, 2]].map(Itemset::new).into();
        let candidates = candidates_from(&frequent, |set| frequent.contains(set), 9).unwrap();
        assert_eq!(candidates, [Itemset::new([0, 1, 2])]);
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
            let found = apriori(&mut PlaintextCounter::new(&data), options, |_| ()).unwrap();
            let expected = brute_force(&data, threshold, max_len.unwrap().get());
            prop_assert_eq!(found.iter().cloned().collect::<Vec<_>>(), expected);
            prop_assert_eq!(crate::eclat::eclat(&data, min_support, max_len), found);
        }

        #[test]
        fn no_answers_make_the_driver_panic(
            answers in prop::collection::vec(prop_oneof![0u64..6, any::<u64>()], 64),
        ) {
            struct Random(Vec<u64>);
            impl SupportCounter for Random {
                type Error = Infallible;
                fn transactions(&self) -> u64 {
                    5
                }
                fn items(&self) -> u32 {
                    5
                }
                fn count(&mut self, _: usize, asked: &[Itemset]) -> Result<Vec<u64>, Infallible> {
                    Ok(self.0.iter().copied().cycle().take(asked.len()).collect())
                }
            }
            let options = AprioriOptions::new(MinSupport::Count(1));
            let _ = apriori(&mut Random(answers), options, |_| ());
        }
    }
}
