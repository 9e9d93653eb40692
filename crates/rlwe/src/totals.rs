//! Totals: supports over more transactions than the plaintext modulus has room for (docs/cryptography.md, "Totals").
//!
//! What decrypts of a sum over all blocks is the support modulo `t`. The first blocks, few enough that their supports
//! stay below `t`, are a sample of the transactions, which were shuffled: its exact support says which multiple of `t`
//! is lacking.

use oboro_ring::Parameters;

/// `−log2` of the probability that an honest answer is lifted wrongly, and that its phase is beyond its bound, each over
/// all supports together.
pub(crate) const FAILURE_BITS: f64 = 64.0;

/// What conditioning on draws that are accepted costs in bits (docs/cryptography.md, "Totals").
const ACCEPTANCE_BITS: f64 = 0.01;

/// Transactions that were shuffled together and that are counted together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stratum {
    transactions: u64,
    plaintext_modulus: u64,
    /// The transactions of the sample; all of them if `t` has room.
    sample: u64,
    sample_blocks: u64,
    /// How far the total and what the sample says of it may be apart.
    deviation: f64,
}

impl Stratum {
    /// Those of an encryption, of which up to `2^log2_supports` supports, times their ranges, may ever be asked for.
    /// `None` if a sample does not tell the multiples of `t` apart.
    ///
    /// # Panics
    /// If that is no number from 0 on.
    pub fn new(parameters: &Parameters, transactions: u64, log2_supports: f64) -> Option<Self> {
        assert!(log2_supports >= 0.0 && log2_supports.is_finite());
        let t = u64::from(parameters.plaintext_modulus());
        let sample_blocks = parameters.group_blocks();
        let sample = transactions.min(sample_blocks * parameters.degree() as u64);
        let deviation = match sample == transactions {
            true => 0.0,
            false => {
                // 2·exp(−λ) is the failure of one support.
                let bits = 1.0 + FAILURE_BITS + ACCEPTANCE_BITS + log2_supports;
                let lambda = bits * std::f64::consts::LN_2;
                transactions as f64 * (lambda / (2.0 * sample as f64)).sqrt()
            }
        };
        // A multiple of t apart, no two totals are within the deviation of one number.
        (2.0 * deviation < t as f64).then_some(Self {
            transactions,
            plaintext_modulus: t,
            sample,
            sample_blocks,
            deviation,
        })
    }

    /// The number of its first blocks whose supports are counted apart; `None` if `t` has room for all.
    pub fn sample_blocks(&self) -> Option<u64> {
        (self.sample < self.transactions).then_some(self.sample_blocks)
    }

    /// The support of which `total` is the residue modulo `t`, given that of the sample, which is exact; `None` if
    /// there is none that the two allow. Without a sample that is `total` itself.
    ///
    /// # Panics
    /// If there is a sample and none is given, or the other way round.
    pub(crate) fn lift(&self, total: u32, sample: Option<u32>) -> Option<u64> {
        assert_eq!(sample.is_some(), self.sample_blocks().is_some());
        let (total, t) = (u64::from(total), self.plaintext_modulus);
        let Some(sample) = sample.map(u64::from) else {
            return (total <= self.transactions).then_some(total);
        };
        if total >= t || sample > self.sample {
            return None;
        }
        let expected = self.transactions as f64 * sample as f64 / self.sample as f64;
        let multiples = ((expected - total as f64) / t as f64).round().max(0.0) as u64;
        let support = total + multiples * t;
        let possible = sample..=sample + self.transactions - self.sample;
        let is_near = (support as f64 - expected).abs() <= self.deviation;
        (is_near && possible.contains(&support)).then_some(support)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// t = 114,689: samples of 28 blocks, 114,688 transactions.
    fn parameters() -> Parameters {
        Parameters::new(12, 2, 114_689).unwrap()
    }

    /// DESIGN.md's figures: 1.94 million transactions, supports of pairs, ranges.
    #[test]
    fn the_deviation_is_about_a_quarter_of_the_modulus() {
        let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
        assert_eq!(stratum.sample_blocks(), Some(28));
        assert!(
            (27_000.0..35_000.0).contains(&stratum.deviation),
            "{stratum:?}"
        );
        // All supports of up to 4 of 4096 columns in 1024 ranges, 3.03 million transactions.
        assert!(Stratum::new(&parameters(), 3_030_000, 53.5).is_some());
        assert!(Stratum::new(&parameters(), 4_000_000, 53.5).is_none());
    }

    #[test]
    fn what_has_room_is_not_lifted() {
        let stratum = Stratum::new(&parameters(), 114_688, 50.0).unwrap();
        assert_eq!(stratum.sample_blocks(), None);
        assert_eq!(stratum.lift(114_688, None), Some(114_688));
        assert_eq!(
            Stratum::new(&parameters(), 100, 50.0)
                .unwrap()
                .lift(101, None),
            None
        );
    }

    #[test]
    fn what_the_sample_excludes_is_refused() {
        let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
        // Nothing in the sample: at most 30,000 or so in all.
        assert_eq!(stratum.lift(20_000, Some(0)), Some(20_000));
        assert_eq!(stratum.lift(60_000, Some(0)), None);
        // All of the sample: nearly all.
        assert_eq!(
            stratum.lift((1_943_424u64 % 114_689) as u32, Some(114_688)),
            Some(1_943_424)
        );
        assert_eq!(
            stratum.lift((1_943_425u64 % 114_689) as u32, Some(114_688)),
            None
        );
        // No residue, no support.
        assert_eq!(stratum.lift(114_689, Some(0)), None);
        assert_eq!(stratum.lift(0, Some(114_689)), None);
        // Fewer than the sample has.
        assert_eq!(stratum.lift(4, Some(5)), None);
    }

    proptest! {
        /// Whatever the support is, a sample that is as far from it as the proof allows lifts it.
        #[test]
        fn supports_are_lifted_from_any_likely_sample(support in 0u64..=1_943_424, off in -1.0f64..=1.0) {
            let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
            let share = 114_688.0 / 1_943_424.0;
            let sample = (support as f64 + off * (stratum.deviation - 20.0)) * share;
            let least = support.saturating_sub(1_943_424 - 114_688);
            let sample = (sample.round().max(0.0) as u64).clamp(least, support.min(114_688));
            let residue = (support % 114_689) as u32;
            prop_assert_eq!(stratum.lift(residue, Some(sample as u32)), Some(support));
        }

        /// No sample has the lift of another support.
        #[test]
        fn no_two_supports_are_taken_for_each_other(residue in 0u32..114_689, sample in 0u32..=114_688) {
            let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
            let expected = 1_943_424.0 * f64::from(sample) / 114_688.0;
            let near = (0..17).map(|it| u64::from(residue) + it * 114_689).filter(|&it| {
                (it as f64 - expected).abs() <= stratum.deviation
            });
            prop_assert!(near.clone().count() <= 1);
            if let Some(support) = stratum.lift(residue, Some(sample)) {
                prop_assert!(near.collect::<Vec<_>>() == [support]);
            }
        }
    }
}
