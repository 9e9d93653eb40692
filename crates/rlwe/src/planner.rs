//! Chooses the ring for a dataset: degree, limbs and plaintext modulus.
//!
//! The group size follows from the plaintext modulus ([`Parameters::group_blocks`]).

use crate::noise::limbs_for_level;
use oboro_ring::{MAX_LOG_DEGREE, Parameters, plaintext_moduli, security_bound};
use thiserror::Error;

/// The smallest degree the planner considers: below it fixed costs dominate.
const MIN_LOG_DEGREE: u32 = 12;
/// Plaintext moduli above this make level 2 read a third limb without saving anything.
const MAX_PLAINTEXT_MODULUS: u32 = 1 << 20;

/// A dataset that no parameters carry.
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
        "itemsets of length {wanted} are beyond what 128-bit secure parameters carry; the longest possible is {longest}, choose --max-len {longest} or less"
    )]
    TooLong { wanted: usize, longest: usize },
}

/// The parameters under which `transactions` take the fewest bytes of ciphertext and supports of
/// itemsets up to `max_len` still decrypt; among equals the fewest groups (hence the smallest
/// answers), then the smallest degree, then the smallest plaintext modulus.
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
    candidates(max_len)
        .min_by_key(|p| {
            let blocks = transactions.div_ceil(p.degree() as u64);
            let stored = u128::from(blocks) * p.degree() as u128 * p.limb_count() as u128;
            (
                stored,
                blocks.div_ceil(p.group_blocks()),
                p.log_degree(),
                p.plaintext_modulus(),
            )
        })
        .ok_or_else(|| PlanError::TooLong {
            wanted: max_len,
            longest: (1..max_len)
                .rev()
                .find(|&k| candidates(k).next().is_some())
                .unwrap_or(0),
        })
}

/// All rings that carry `max_len`, each with the fewest limbs.
fn candidates(max_len: usize) -> impl Iterator<Item = Parameters> {
    (MIN_LOG_DEGREE..=MAX_LOG_DEGREE)
        .flat_map(|log_degree| {
            plaintext_moduli(log_degree, MAX_PLAINTEXT_MODULUS).map(move |t| (log_degree, t))
        })
        .filter_map(move |(log_degree, t)| {
            // Limbs have 28 bits, so this many are secure and one more would not be.
            let most = security_bound(log_degree)? as usize / 28;
            // Each factor takes most of a limb, so longer itemsets need not be tried.
            let widest =
                (max_len <= 2 * most).then(|| Parameters::new(log_degree, most, t).ok())??;
            let limbs = limbs_for_level(&widest, max_len)?;
            Parameters::new(log_degree, limbs, t).ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_few_limbs_and_few_groups() {
        let of = |transactions, max_len| {
            let p = plan(transactions, 30, max_len).unwrap();
            (p.degree(), p.limb_count(), p.plaintext_modulus())
        };
        // Two million transactions, pairs: two limbs and 28-block groups instead of t > 2^21 and three.
        assert_eq!(of(1_943_424, 2), (4096, 2, 114_689));
        assert_eq!(of(1_943_424, 3), (4096, 3, 114_689));
        assert_eq!(of(2_000, 2).1, 2);
        assert_eq!(of(8_124, 5).1, 5);
        assert_eq!(of(8_124, 5).0, 8192);
        assert_eq!(of(100_000, 7), (8192, 7, 114_689));
    }

    #[test]
    fn every_level_up_to_the_maximum_decrypts() {
        for max_len in 1..=15 {
            let p = plan(88_162, 16_470, max_len).unwrap();
            for level in 1..=max_len {
                assert!(
                    limbs_for_level(&p, level).is_some(),
                    "level {level} of {max_len}"
                );
            }
            assert!(p.group_blocks() >= 1);
        }
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
