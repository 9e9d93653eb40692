//! Bounds on an itemset's support from those of its subsets (Calders and Goethals, "Mining all non-derivable frequent
//! itemsets", PKDD 2002).
//!
//! For a subset `X` of an itemset `I`, the number of transactions that contain
//! `X` and no item of `I∖X` is, by inclusion and exclusion,
//! `Σ_{X⊆J⊆I} (−1)^{|J∖X|} supp(J)`. It is not negative, and `supp(I)` is the last
//! of the terms, so with
//!
//! ```text
//! σ_X(I) = Σ_{X⊆J⊂I} (−1)^{|I∖J|+1} supp(J)
//! ```
//!
//! `supp(I) ≤ σ_X(I)` if `|I∖X|` is odd, and `supp(I) ≥ σ_X(I)` if it is even. The tightest of these bounds are the
//! tightest possible.

use std::fmt;

use oboro_ring::moment::MAX_LENGTH;

/// The number of last items of an itemset that a subset used for bounds may lack. For lengths that an encrypted
/// dataset can count, these are all subsets. Longer itemsets have more than 65,536, too many to visit; bounds from
/// some of them are valid, though less tight.
const MAX_FREE: usize = MAX_LENGTH;

/// Returns the number of subsets used for bounds of itemsets of `length` items.
pub(crate) fn subsets_used(length: usize) -> usize {
    1 << length.min(MAX_FREE)
}

/// Least and largest possible support of an itemset, given those of its subsets. Both are attainable, and `lower` is
/// at most `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least possible support.
    pub lower: u64,
    /// The largest possible support.
    pub upper: u64,
}

/// Supports of subsets that allow no support of the itemset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it would have to be at least {at_least} and at most {at_most}")]
pub struct Contradiction {
    /// The largest of the lower bounds, which is above `at_most`.
    pub at_least: i128,
    /// The smallest of the upper bounds.
    pub at_most: i128,
}

impl Bounds {
    /// Computes the bounds of an itemset of `m ≥ 1` items from the supports of its proper subsets and the number of
    /// transactions. `supports[b]` is that of the subset with the items at the set bits of `b`. The last entry, the
    /// itemset's own, is ignored, and `supports` is used as scratch space. Takes `m·2^m` steps.
    ///
    /// Items contained in every subset may be left out of the `m`: the bounds are then those within the transactions
    /// that have these items.
    ///
    /// # Errors
    /// No support is possible, so one of those given is wrong.
    ///
    /// # Panics
    /// If the number of supports is not `2^m`, or one does not fit into 64 bits.
    pub fn from_subsets(supports: &mut [i128]) -> Result<Self, Contradiction> {
        assert!(supports.len() >= 2 && supports.len().is_power_of_two());
        let whole = supports.len() - 1;
        supports[whole] = 0;
        exclude_supersets(supports);
        let (mut at_least, mut at_most) = (0, i128::MAX);
        for (subset, &exactly) in supports.iter().enumerate() {
            let lacking = (whole ^ subset).count_ones();
            if lacking % 2 == 1 {
                at_most = at_most.min(exactly);
            } else {
                at_least = at_least.max(-exactly);
            }
        }
        if at_least > at_most {
            return Err(Contradiction { at_least, at_most });
        }
        // From 0 to, since σ_X(I) = supp(X) for one item less, the support of a subset.
        let support = |bound: i128| u64::try_from(bound).expect("a support has 64 bits");
        Ok(Bounds {
            lower: support(at_least),
            upper: support(at_most),
        })
    }

    /// Returns true if `support` is within the bounds.
    pub fn contain(self, support: u64) -> bool {
        (self.lower..=self.upper).contains(&support)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lower == self.upper {
            write!(f, "{}", self.lower)
        } else {
            write!(f, "{} to {}", self.lower, self.upper)
        }
    }
}

/// Möbius transform over supersets: entry `X` becomes `Σ_{J⊇X} (−1)^{|J∖X|} supports[J]`.
pub fn exclude_supersets(supports: &mut [i128]) {
    let mut half = 1;
    while half < supports.len() {
        for pair in supports.chunks_exact_mut(2 * half) {
            let (without, with) = pair.split_at_mut(half);
            for (without, with) in without.iter_mut().zip(with) {
                *without -= *with;
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::Bitmap;
    use crate::itemset::Itemset;
    use crate::testing::arbitrary_transactions;
    use proptest::prelude::*;

    /// Computes the bounds by definition: every σ_X as a sum over all J.
    fn by_definition(supports: &[i128]) -> (i128, i128) {
        let whole = supports.len() - 1;
        let rule = |x: usize| -> i128 {
            (0..whole)
                .filter(|j| j & x == x)
                .map(|j| match (whole ^ j).count_ones() % 2 {
                    1 => supports[j],
                    _ => -supports[j],
                })
                .sum()
        };
        let (odd, even): (Vec<usize>, Vec<usize>) =
            (0..whole).partition(|x| (whole ^ x).count_ones() % 2 == 1);
        let lower = even.into_iter().map(rule).fold(0, i128::max);
        let upper = odd.into_iter().map(rule).min().unwrap();
        (lower, upper)
    }

    #[test]
    fn three_items_are_bounded_from_all_sides() {
        // 10 transactions, A in 5, B and C in 6, AB and AC in 3, BC in 4: at least
        // AB + AC − A = 1, at most 10 − A − B − C + AB + AC + BC = 3.
        let mut supports = [10, 5, 6, 3, 6, 3, 4, -1];
        let bounds = Bounds::from_subsets(&mut supports).unwrap();
        assert_eq!(bounds, Bounds { lower: 1, upper: 3 });
        assert_eq!(bounds.to_string(), "1 to 3");
        assert!(bounds.contain(1) && bounds.contain(3));
        assert!(!bounds.contain(0) && !bounds.contain(4));
    }

    #[test]
    fn supports_that_contradict_each_other_are_refused() {
        // A, B and C are in half the transactions each; AB and AC coincide with A, so BC cannot be
        // 1.
        let mut supports = [10, 5, 5, 5, 5, 5, 1, 0];
        let contradiction = Contradiction {
            at_least: 5,
            at_most: 1,
        };
        assert_eq!(Bounds::from_subsets(&mut supports), Err(contradiction));
        // Three items that never occur together need three transactions.
        let error = Bounds::from_subsets(&mut [2, 1, 1, 0, 1, 0, 0, 0]);
        assert_eq!(error.unwrap_err().at_most, -1);
    }

    proptest! {
        #[test]
        fn the_transform_gives_the_bounds_by_definition(
            length in 1u32..6,
            supports in prop::collection::vec(prop_oneof![0u64..9, any::<u64>()], 32),
        ) {
            let mut supports: Vec<i128> = (supports.into_iter().map(i128::from))
                .take(1 << length)
                .collect();
            let (lower, upper) = by_definition(&supports);
            match Bounds::from_subsets(&mut supports) {
                Ok(bounds) => {
                    prop_assert_eq!(i128::from(bounds.lower), lower);
                    prop_assert_eq!(i128::from(bounds.upper), upper);
                }
                Err(contradiction) => {
                    prop_assert_eq!(contradiction.at_least, lower);
                    prop_assert_eq!(contradiction.at_most, upper);
                    prop_assert!(lower > upper);
                }
            }
        }

        #[test]
        fn true_supports_lie_within(data in arbitrary_transactions(6, 40)) {
            let bitmap = Bitmap::new(&data);
            for mask in 1u32..1 << 6 {
                let items: Vec<u32> = (0..6).filter(|item| mask >> item & 1 == 1).collect();
                let truth = bitmap.support(&Itemset::new(items.clone())).unwrap();
                for fixed in 0..items.len() {
                    let free = items.len() - fixed;
                    let mut supports: Vec<i128> = (0..1u32 << free)
                        .map(|chosen| {
                            let with = (0..free).filter(|bit| chosen >> bit & 1 == 1);
                            let with = with.map(|bit| items[fixed + bit]);
                            let subset = items[..fixed].iter().copied().chain(with).collect();
                            i128::from(bitmap.support(&subset).unwrap())
                        })
                        .collect();
                    let bounds = Bounds::from_subsets(&mut supports).unwrap();
                    prop_assert!(bounds.contain(truth), "{truth} {bounds:?}");
                    // Each item at least halves the interval.
                    let transactions = data.len() as u64;
                    prop_assert!(bounds.upper - bounds.lower <= transactions >> (free - 1));
                }
            }
        }
    }
}
