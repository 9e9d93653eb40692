//! Decodes a pair's sums over evaluation points, one per limb, to its sum of slots modulo `t` (docs/cryptography.md,
//! "Verified sums"). Residues are combined in mixed radix (Garner 1959).

use crate::noise::log2_phase_bound;
use oboro_ring::{Modulus, Parameters};
use zeroize::Zeroizing;

/// Largest number of limbs of pairs: a phase and its modulus fit into 128 bits.
const MAX_LIMBS: usize = 4;

/// Decodes sums over evaluation points to sums of slots.
pub(crate) struct Decoder {
    limbs: Vec<Limb>,
    /// Product of all limbs.
    product: i128,
    /// Bound on a phase.
    bound: i128,
    plaintext: Modulus,
    degree: i64,
}

/// Constants of a limb for combining residues (Garner 1959).
struct Limb {
    modulus: Modulus,
    /// `N^{-1}` modulo the limb.
    degree_inverse: u32,
    /// Product of the previous limbs.
    before: i128,
    /// Inverse of `before` modulo the limb.
    before_inverse: u32,
}

impl Decoder {
    /// Prepares for phases of pairs over `blocks` blocks; `None` if the limbs cannot represent them.
    pub(crate) fn new(
        parameters: &Parameters,
        limbs: usize,
        blocks: u64,
        log2_supports: f64,
    ) -> Option<Self> {
        let bound = log2_phase_bound(parameters, 2, blocks, log2_supports);
        if !(1..=MAX_LIMBS.min(parameters.limb_count())).contains(&limbs)
            || bound >= parameters.log2_q(limbs) - 1.0
        {
            return None;
        }
        let mut product = 1i128;
        let limb = |&modulus: &Modulus| {
            let q = i128::from(modulus.value());
            let before = product;
            product *= q;
            Limb {
                degree_inverse: modulus.inverse(modulus.reduce(parameters.degree() as u64)),
                before,
                before_inverse: modulus.inverse(modulus.reduce((before % q) as u64)),
                modulus,
            }
        };
        let limbs = parameters.limb_moduli()[..limbs].iter().map(limb).collect();
        Some(Self {
            limbs,
            product,
            bound: bound.exp2().ceil() as i128,
            plaintext: *parameters.plaintext(),
            degree: parameters.degree() as i64,
        })
    }

    /// Decodes the sum of the slots modulo `t`. Takes for each limb the sum of the evaluation points of the pair's
    /// product, and its fixed part. `None` if the phase exceeds its bound.
    pub(crate) fn slot_sum(&self, sums: impl Iterator<Item = (u32, u32)>) -> Option<u32> {
        let phase = Zeroizing::new(self.phase(sums));
        (phase.abs() <= self.bound).then(|| {
            let phase = (*phase % i128::from(self.plaintext.value())) as i64;
            let t = &self.plaintext;
            t.mul(t.reduce_signed(phase), t.reduce_signed(self.degree))
        })
    }

    /// The bound on a phase.
    #[cfg(test)]
    pub(crate) fn bound(&self) -> i128 {
        self.bound
    }

    /// Computes the constant coefficient of the phase: `N^{-1}` times the sum of the evaluation points, between `−Q/2`
    /// and `Q/2`.
    pub(crate) fn phase(&self, sums: impl Iterator<Item = (u32, u32)>) -> i128 {
        let mut phase = 0i128;
        for (limb, (sum, fixed)) in self.limbs.iter().zip(sums) {
            let q = &limb.modulus;
            let residue = q.mul(q.add(sum, fixed), limb.degree_inverse);
            let here = q.reduce((phase % i128::from(q.value())) as u64);
            let digit = q.mul(q.sub(residue, here), limb.before_inverse);
            phase += i128::from(digit) * limb.before;
        }
        phase - self.product * i128::from(phase > self.product / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_put_together_from_its_residues() {
        for limbs in 2..=MAX_LIMBS {
            let parameters = Parameters::new(13, limbs, 65_537).unwrap();
            let decoder = Decoder {
                bound: i128::MAX,
                ..Decoder::new(&parameters, limbs, 1, 0.0).unwrap()
            };
            let half = decoder.product / 2;
            for phase in [0, 1, -1, 65_536, half, -half, half - 1, half / 3, -half / 7] {
                let sums = decoder.limbs.iter().map(|limb| {
                    let q = i128::from(limb.modulus.value());
                    let sum = (phase * 8192).rem_euclid(q) as u32;
                    // Split into two parts.
                    let fixed = limb.modulus.value() - 1;
                    (limb.modulus.sub(sum, fixed), fixed)
                });
                assert_eq!(decoder.phase(sums.clone()), phase);
                let slots = (phase * 8192).rem_euclid(65_537) as u32;
                assert_eq!(decoder.slot_sum(sums), Some(slots));
            }
        }
    }

    #[test]
    fn a_phase_beyond_its_bound_is_refused() {
        const LOG2_SUPPORTS: f64 = 10.0;
        let parameters = Parameters::new(11, 2, 12_289).unwrap();
        let decoder = Decoder::new(&parameters, 2, 20, LOG2_SUPPORTS).unwrap();
        let sums = |phase: i128| {
            let residues = decoder.limbs.iter().map(move |limb| {
                let q = i128::from(limb.modulus.value());
                ((phase * 2048).rem_euclid(q) as u32, 0)
            });
            decoder.slot_sum(residues)
        };
        assert!(sums(decoder.bound).is_some() && sums(-decoder.bound).is_some());
        assert_eq!(
            (sums(decoder.bound + 1), sums(-decoder.bound - 1)),
            (None, None)
        );
        // One limb is too small for pairs.
        assert!(Decoder::new(&parameters, 1, 20, LOG2_SUPPORTS).is_none());
        assert!(Decoder::new(&parameters, 3, 20, LOG2_SUPPORTS).is_none());
        assert!(Decoder::new(&parameters, 2, 1 << 30, LOG2_SUPPORTS).is_none());
    }
}
