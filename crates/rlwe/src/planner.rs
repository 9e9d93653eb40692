//! Chooses the ring for a dataset: degree, limbs and plaintext modulus.

use crate::key::SecretGeneration;
use crate::totals::{Bounds, Strata};
use oboro_ring::{MAX_LOG_DEGREE, Parameters, most_limbs, plaintext_moduli};
use thiserror::Error;

/// Smallest degree to consider: below it, fixed costs dominate.
const MIN_LOG_DEGREE: u32 = 12;
/// Largest plaintext modulus to consider: above it level 2 reads a third limb, at no saving.
const MAX_PLAINTEXT_MODULUS: u32 = 1 << 20;

/// Error: no parameters support the dataset.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum PlanError {
    #[error(
        "a dataset needs at least one transaction and one item; the input has {transactions} and {columns}"
    )]
    Empty { transactions: u64, columns: u64 },
    #[error("itemsets of length 0 have no support to count; choose a maximum length of 1 or more")]
    NoLength,
    #[error(
        "itemsets of length {wanted} are beyond what 128-bit secure parameters carry; the longest possible is {longest}, choose that or less"
    )]
    TooLong { wanted: usize, longest: usize },
}

/// Ring that the planner considers.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// `log2 N`.
    pub log_degree: u32,
    /// Plaintext modulus `t`.
    pub plaintext_modulus: u32,
    /// Parameters with the fewest limbs for the itemsets; `None` if no secure number of limbs is enough.
    pub parameters: Option<Parameters>,
    /// Verdict of the planner.
    pub verdict: Verdict,
}

/// Reason for which a ring was chosen or rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Best ring.
    Chosen,
    /// Itemsets that need more limbs than the 128-bit security bound of the degree allows.
    NotSecure {
        /// Largest number of limbs that the bound allows.
        most_limbs: usize,
    },
    /// More bytes for the dataset.
    MoreBytes,
    /// Equally many bytes, but more ranges of blocks, hence larger answers.
    MoreRanges,
    /// Equally good, but of a larger degree.
    LargerDegree,
    /// Equally good, but with a larger plaintext modulus.
    LargerModulus,
}

/// Cost of a ring for some transactions; compared lexicographically.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// Residues per column.
    stored: u128,
    ranges: usize,
    log_degree: u32,
    plaintext_modulus: u32,
}

impl Cost {
    /// Computes the cost of a ring with these bounds.
    fn new((parameters, bounds): &(Parameters, Bounds), transactions: u64) -> Self {
        let strata = bounds.strata_of(transactions, SecretGeneration::default());
        let strata = strata.and_then(|it| Strata::new(bounds.clone(), &it));
        let ranges = strata.map_or(usize::MAX, |it| it.ranges().len());
        let degree = parameters.degree() as u64;
        let blocks = transactions.div_ceil(degree);
        Self {
            stored: u128::from(blocks) * u128::from(degree) * parameters.limb_count() as u128,
            ranges,
            log_degree: parameters.log_degree(),
            plaintext_modulus: parameters.plaintext_modulus(),
        }
    }

    /// Returns the reason to reject it in favour of `best`.
    fn verdict(&self, best: &Self) -> Verdict {
        if self.stored > best.stored {
            Verdict::MoreBytes
        } else if self.ranges > best.ranges {
            Verdict::MoreRanges
        } else if self.log_degree > best.log_degree {
            Verdict::LargerDegree
        } else if self.plaintext_modulus > best.plaintext_modulus {
            Verdict::LargerModulus
        } else {
            Verdict::Chosen
        }
    }
}

/// Lists every ring that [`plan`] considers, with its verdict.
///
/// # Errors
/// As [`plan`].
pub fn alternatives(
    transactions: u64,
    columns: u64,
    max_len: usize,
) -> Result<Vec<Alternative>, PlanError> {
    let parameters = plan(transactions, columns, max_len)?;
    let bounds =
        Bounds::new(&parameters, columns, max_len).expect("they hold for what was planned");
    let best = Cost::new(&(parameters, bounds), transactions);
    let alternative = |ring: Ring| {
        let found = ring.parameters(columns, max_len);
        let verdict = match &found {
            Some(found) => Cost::new(found, transactions).verdict(&best),
            None => Verdict::NotSecure {
                most_limbs: ring.most_limbs,
            },
        };
        Alternative {
            log_degree: ring.log_degree,
            plaintext_modulus: ring.plaintext_modulus,
            parameters: found.map(|(parameters, _)| parameters),
            verdict,
        }
    };
    Ok(rings().map(alternative).collect())
}

/// Chooses the parameters that need the fewest bytes of ciphertext for `transactions` transactions and still decrypt
/// supports of itemsets up to `max_len`. Ties are broken by the fewest ranges (hence the smallest answers), then the
/// smallest degree, then the smallest plaintext modulus.
pub fn plan(transactions: u64, columns: u64, max_len: usize) -> Result<Parameters, PlanError> {
    if transactions == 0 || columns == 0 {
        return Err(PlanError::Empty {
            transactions,
            columns,
        });
    }
    if max_len == 0 {
        return Err(PlanError::NoLength);
    }
    candidates(columns, max_len)
        .min_by_key(|found| Cost::new(found, transactions))
        .map(|(parameters, _)| parameters)
        .ok_or_else(|| PlanError::TooLong {
            wanted: max_len,
            longest: (1..max_len)
                .rev()
                .find(|&k| candidates(columns, k).next().is_some())
                .unwrap_or(0),
        })
}

/// Degree, number of limbs that are secure there, and plaintext modulus.
#[derive(Clone, Copy)]
struct Ring {
    log_degree: u32,
    most_limbs: usize,
    plaintext_modulus: u32,
}

impl Ring {
    /// Returns parameters with the fewest limbs for `max_len`.
    fn parameters(self, columns: u64, max_len: usize) -> Option<(Parameters, Bounds)> {
        // Each factor needs most of a limb.
        let least = max_len.div_ceil(2);
        (least..=self.most_limbs).find_map(|limbs| {
            let with = Parameters::new(self.log_degree, limbs, self.plaintext_modulus).ok()?;
            let bounds = Bounds::new(&with, columns, max_len)?;
            Some((with, bounds))
        })
    }
}

fn rings() -> impl Iterator<Item = Ring> {
    (MIN_LOG_DEGREE..=MAX_LOG_DEGREE)
        .filter_map(|log_degree| Some((log_degree, most_limbs(log_degree)?)))
        .flat_map(|(log_degree, most_limbs)| {
            plaintext_moduli(log_degree, MAX_PLAINTEXT_MODULUS).map(move |plaintext_modulus| Ring {
                log_degree,
                most_limbs,
                plaintext_modulus,
            })
        })
}

/// All rings that support `max_len`.
fn candidates(columns: u64, max_len: usize) -> impl Iterator<Item = (Parameters, Bounds)> {
    rings().filter_map(move |ring| ring.parameters(columns, max_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_few_limbs_and_few_ranges() {
        let of = |transactions, max_len| {
            let p = plan(transactions, 30, max_len).unwrap();
            (p.degree(), p.limb_count(), p.plaintext_modulus())
        };
        // Two million transactions, pairs: two limbs and a sample instead of t > 2^21 and three.
        assert_eq!(of(1_943_424, 2), (4096, 2, 114_689));
        assert_eq!(of(1_943_424, 3), (4096, 3, 114_689));
        assert_eq!(of(1_943_424, 4), (4096, 4, 114_689));
        assert_eq!(of(2_000, 2).1, 2);
        assert_eq!(of(8_124, 5).1, 5);
        assert_eq!(of(8_124, 5).0, 8192);
        assert_eq!(of(100_000, 7), (8192, 7, 114_689));
    }

    #[test]
    fn every_level_up_to_the_maximum_decrypts() {
        for max_len in 1..=15 {
            let p = plan(88_162, 16_470, max_len).unwrap();
            let bounds = Bounds::new(&p, 16_470, max_len).unwrap();
            for level in 1..=max_len {
                assert!(bounds.limbs(level).is_some(), "level {level} of {max_len}");
            }
        }
    }

    #[test]
    fn alternatives_tell_what_was_better() {
        for (transactions, max_len) in [(1_943_424, 2), (8_124, 5), (100_000, 3), (40, 16)] {
            let chosen = plan(transactions, 30, max_len).unwrap();
            let all = alternatives(transactions, 30, max_len).unwrap();
            let verdict = |wanted: fn(&Verdict) -> bool| {
                all.iter()
                    .filter(move |it| wanted(&it.verdict))
                    .collect::<Vec<_>>()
            };
            let best = verdict(|it| *it == Verdict::Chosen);
            assert_eq!(best.len(), 1);
            assert_eq!(best[0].parameters, Some(chosen.clone()));
            for insecure in verdict(|it| matches!(it, Verdict::NotSecure { .. })) {
                assert_eq!(insecure.parameters, None);
            }
            for alternative in &all {
                assert_eq!(
                    alternative.parameters.is_none(),
                    matches!(alternative.verdict, Verdict::NotSecure { .. })
                );
            }
        }
        let all = alternatives(8_124, 112, 5).unwrap();
        assert!(
            all.iter()
                .any(|it| it.verdict == Verdict::NotSecure { most_limbs: 4 })
        );
        assert!(all.iter().any(|it| it.verdict == Verdict::MoreBytes));
        assert_eq!(alternatives(0, 1, 1), Err(plan(0, 1, 1).unwrap_err()));
    }

    #[test]
    fn refusals_say_what_is_possible() {
        assert_eq!(
            plan(0, 3, 2),
            Err(PlanError::Empty {
                transactions: 0,
                columns: 3
            })
        );
        assert_eq!(
            plan(3, 0, 2),
            Err(PlanError::Empty {
                transactions: 3,
                columns: 0
            })
        );
        assert_eq!(plan(3, 3, 0), Err(PlanError::NoLength));
        let Err(PlanError::TooLong {
            wanted: 1000,
            longest,
        }) = plan(3, 3, 1000)
        else {
            panic!("1000 is too long")
        };
        assert!(longest >= 20 && plan(3, 3, longest).is_ok() && plan(3, 3, longest + 1).is_err());
    }
}
