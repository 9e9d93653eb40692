//! How many bits of each fraction an answer needs (docs/cryptography.md, "Fractions").
//!
//! The rounding of fractions adds `t·Σ_T ⟨σ_T, e_T⟩` to `Φ_0/Q + w`, with errors `e` of half a unit
//! in the last place at most. That must stay below the slack `1/2 − |Φ_0|/Q`. Everything here is a
//! public function of public numbers.

use crate::noise::{limbs_for_level, log2_phase_bound};
use oboro_ring::Parameters;
use oboro_ring::fraction::{FIXED_POINT_ERROR, WHOLE, moment_bytes};

/// The most bits of a fraction: beyond, the error of 64-bit fixed point would show.
const MAX_BITS: u32 = 60;

/// `−log2` of the probability that one itemset over one group is off by more than the slack.
const SECURITY_OF_ROUNDING: f64 = 64.0;

/// What the itemsets of a level need, and what their moments take.
#[derive(Debug, Clone, PartialEq)]
pub struct Precision {
    /// The limbs to compute with, the first ones.
    pub limbs: usize,
    /// The bits of a fraction for each power of the mask, from 0 to the level: whole bytes for the
    /// scalars of power 0, at most 60 for polynomials, or [`WHOLE`] where that is not enough or
    /// [not wanted](Self::with_whole_moments).
    pub bits: Vec<u32>,
    /// What rounding adds to `Φ_0/Q` at most, but for the probability that is allowed.
    pub error: f64,
    degree: usize,
}

impl Precision {
    /// For itemsets of length `level`; `None` if the parameters do not carry it.
    pub fn new(parameters: &Parameters, level: usize) -> Option<Self> {
        let limbs = limbs_for_level(parameters, level)?;
        let full_group = parameters.group_blocks();
        let slack = 0.5 - relative_phase_bound(parameters, limbs, level, full_group);
        let model = Model { parameters, level };
        // Most moments have few factors of the mask, so the smaller powers get the larger shares.
        let mut left = model.variance_within(slack - model.fixed_point());
        let mut bits = vec![WHOLE; level + 1];
        for power in 1..=level {
            let enough = |&bits: &u32| model.variance(power, bits) <= left / 2.0;
            if let Some(least) = (1..=MAX_BITS).find(enough) {
                bits[power] = least;
                left -= model.variance(power, least);
            }
        }
        bits[0] = (8..=MAX_BITS)
            .step_by(8)
            .find(|&bits| model.variance(0, bits) <= left)?;
        let error = model.error(&bits);
        Some(Self {
            limbs,
            bits,
            error,
            degree: parameters.degree(),
        })
    }

    /// The same with all polynomial moments travelling [`WHOLE`]: more bytes, and less work at both ends,
    /// which neither transform them nor round.
    #[must_use]
    pub fn with_whole_moments(mut self, parameters: &Parameters) -> Self {
        let level = self.bits.len() - 1;
        self.bits[1..].fill(WHOLE);
        self.error = Model { parameters, level }.error(&self.bits);
        self
    }

    /// The bytes of a moment with `power` factors of the mask.
    pub fn moment_bytes(&self, power: usize) -> usize {
        moment_bytes(self.degree, self.limbs, power, self.bits[power])
    }

    /// The bytes of the moments of a level over one group of blocks, of which `count` tells how many
    /// there are with each power of the mask.
    pub fn group_bytes(&self, count: impl Fn(usize) -> u64) -> u64 {
        (0..self.bits.len()).fold(0, |bytes, power| {
            count(power)
                .saturating_mul(self.moment_bytes(power) as u64)
                .saturating_add(bytes)
        })
    }
}

/// `|Φ_0|/Q` at most, for itemsets of length `level` over `blocks` blocks.
pub(crate) fn relative_phase_bound(
    parameters: &Parameters,
    limbs: usize,
    level: usize,
    blocks: u64,
) -> f64 {
    (log2_phase_bound(parameters, level, blocks) - parameters.log2_q(limbs)).exp2()
}

/// Rounding errors of one itemset over one group: sums of independent ones, whose sub-Gaussian
/// variance proxies add up.
struct Model<'a> {
    parameters: &'a Parameters,
    level: usize,
}

impl Model<'_> {
    /// The proxy of the moments with `power` factors of the mask, in units of `t²`: an error within
    /// `±h` has proxy `h²` (Hoeffding), and `C(level, power)` products of secrets weigh it with
    /// `‖σ‖₂² ≤ (4N/3)^power`.
    fn variance(&self, power: usize, bits: u32) -> f64 {
        let half = f64::from(bits + 1).exp2().recip() + f64::from(FIXED_POINT_ERROR) * UNIT;
        let norm = (4.0 / 3.0 * self.parameters.degree() as f64).powi(power as i32);
        binomial(self.level, power) * norm * half * half
    }

    /// The proxy, in units of `t²`, under which `error` is not exceeded:
    /// `2·exp(−error²/2t²V) = 2^−64`.
    fn variance_within(&self, error: f64) -> f64 {
        (error / self.t()).powi(2) / (2.0 * Self::exponent())
    }

    /// What is not exceeded with these bits.
    fn error(&self, bits: &[u32]) -> f64 {
        let fractions = bits.iter().enumerate().filter(|(_, bits)| **bits != WHOLE);
        let variance: f64 = fractions.map(|(r, &bits)| self.variance(r, bits)).sum();
        self.t() * (2.0 * Self::exponent() * variance).sqrt() + self.fixed_point()
    }

    /// What moments that travel whole may add: each use becomes a fraction of 64 bits.
    fn fixed_point(&self) -> f64 {
        let uses = f64::from(self.level as u32).exp2();
        self.t() * uses * f64::from(FIXED_POINT_ERROR + 1) * UNIT
    }

    fn t(&self) -> f64 {
        self.parameters.plaintext_modulus().into()
    }

    fn exponent() -> f64 {
        (SECURITY_OF_ROUNDING + 1.0) * std::f64::consts::LN_2
    }
}

/// 2^-64.
const UNIT: f64 = 1.0 / (1u128 << 64) as f64;

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::{
        MAX_LOG_DEGREE, MIN_LOG_DEGREE, limb_primes, plaintext_moduli, security_bound,
    };

    fn bits(log_degree: u32, limbs: usize, t: u32, level: usize) -> Vec<u32> {
        Precision::new(&Parameters::new(log_degree, limbs, t).unwrap(), level)
            .unwrap()
            .bits
    }

    /// docs/cryptography.md, "Fractions", has this table.
    #[test]
    fn documented_bits_hold() {
        assert_eq!(bits(12, 3, 114_689, 1), [24, 28]);
        assert_eq!(bits(12, 3, 114_689, 2), [24, 29, 35]);
        assert_eq!(bits(12, 3, 114_689, 3), [24, 29, 35, 41]);
        assert_eq!(bits(13, 7, 114_689, 4), [24, 30, 37, 44, 50]);
        assert_eq!(bits(13, 7, 114_689, 5), [24, 30, 37, 45, 51, 57]);
        assert_eq!(bits(13, 7, 65537, 5), [24, 28, 36, 42, 49, 55]);
        assert_eq!(bits(13, 7, 114_689, 6), [24, 30, 38, 45, 51, 58, WHOLE]);
        assert_eq!(
            bits(13, 7, 114_689, 7),
            [24, 30, 38, 45, 52, 59, WHOLE, WHOLE]
        );
        assert_eq!(
            Precision::new(&Parameters::new(12, 2, 114_689).unwrap(), 3),
            None
        );
    }

    #[test]
    fn every_level_that_parameters_carry_has_bits_that_keep_within_the_slack() {
        for log_degree in MIN_LOG_DEGREE..=MAX_LOG_DEGREE {
            let width = if log_degree <= 11 { 27 } else { 28 };
            let most = (security_bound(log_degree).unwrap() / width) as usize;
            let smallest_limb = limb_primes(log_degree, most)[most - 1];
            for t in plaintext_moduli(log_degree, smallest_limb / 43) {
                let parameters = Parameters::new(log_degree, most, t).unwrap();
                for level in 1..=16 {
                    let Some(limbs) = limbs_for_level(&parameters, level) else {
                        continue;
                    };
                    let p = Precision::new(&parameters, level).unwrap();
                    let bound =
                        relative_phase_bound(&parameters, limbs, level, parameters.group_blocks());
                    assert!(bound + p.error <= 0.5, "{parameters:?}, {level}: {p:?}");
                    assert!(p.bits[0].is_multiple_of(8) && p.bits[0] > 0);
                    // The moments that there are most of never travel whole.
                    assert!(
                        (1..=MAX_BITS).contains(&p.bits[1]),
                        "{parameters:?}, {level}: {p:?}"
                    );
                    // Were there many bits to spare, the formula would waste them.
                    assert!(
                        level == 1 || bound + 8.0 * p.error > 0.5,
                        "{parameters:?}, {level}: {p:?}"
                    );
                }
            }
        }
    }
}
