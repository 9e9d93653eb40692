//! Fractions of the ciphertext modulus, from polynomials or sums of slots: the input of decryption and the content of
//! genome answers.
//!
//! The fraction of a polynomial `c`, given modulo each limb `q_1 … q_L`, is `[t^{-1}·c mod Q]/Q` modulo 1, coefficient
//! by coefficient. By the Chinese remainder theorem it is `Σ_l y_l/q_l mod 1` with
//! `y_l = c·t^{-1}·(Q/q_l)^{-1} mod q_l`. The sum is computed in 64-bit fixed point, which wraps modulo 1, and rounded
//! to the requested bits. No number exceeds a word. `docs/cryptography.md`, "Fractions", explains the uses.

#![allow(unsafe_code)]

use crate::{Ntt, Ring};

/// The largest error of a sum of fractions before rounding, in units of 2^-64.
pub const FIXED_POINT_ERROR: u32 = 3;

/// Coefficients processed at a time.
const CHUNK: usize = 16;

/// Converts residues modulo the first limbs of a ring to fractions of their product.
#[derive(Debug, Clone)]
pub struct Fractions<'r> {
    degree: usize,
    limbs: Vec<Limb<'r>>,
}

#[derive(Debug, Clone, Copy)]
struct Limb<'r> {
    ntt: &'r Ntt,
    /// `t^{-1}·(Q/q)^{-1} mod q`.
    factor: u32,
    reciprocal: Reciprocal,
}

/// `2^95/q`, rounded, in parts that multiply a residue without overflow:
/// `high·2^63 + middle·2^31 + low`.
#[derive(Debug, Clone, Copy)]
struct Reciprocal {
    high: u32,
    middle: u32,
    low: u32,
}

impl Reciprocal {
    fn new(q: u32) -> Self {
        let rounded = ((1u128 << 95) + u128::from(q / 2)) / u128::from(q);
        Self {
            high: (rounded >> 63) as u32,
            middle: (rounded >> 31) as u32,
            low: rounded as u32 & (u32::MAX >> 1),
        }
    }

    /// Adds `y/q` for a residue `y`: to `sum` in units of 2^-64 modulo 1, to `rest` in units of 2^-95. The reciprocal's
    /// error is at most 1/2, the product's at most 2^-4 units of 2^-64. 32 rests below 2^59 do not overflow.
    #[inline(always)]
    fn add_product(&self, y: u32, sum: &mut u64, rest: &mut u64) {
        let y = u64::from(y);
        *sum = sum
            .wrapping_add((y * u64::from(self.high)) << 32)
            .wrapping_add(y.wrapping_mul(u64::from(self.middle)));
        *rest += y * u64::from(self.low);
    }
}

impl<'r> Fractions<'r> {
    /// Prepares fractions of the product `Q` of the first `limbs` limbs of `ring`.
    ///
    /// Panics if the ring has fewer.
    pub fn new(ring: &'r Ring, limbs: usize) -> Self {
        Self::over(
            &ring.limbs()[..limbs],
            ring.parameters().plaintext_modulus(),
        )
    }

    /// Prepares fractions of the product `Q` of these limbs, at least one. `divisor`, a unit modulo each limb, replaces
    /// `t`.
    pub fn over(ntts: &'r [Ntt], divisor: u32) -> Self {
        let limb = |ntt: &'r Ntt| {
            let q = ntt.modulus();
            let others = ntts
                .iter()
                .map(|other| other.modulus().value())
                .filter(|&other| other != q.value());
            let denominator = others
                .chain([divisor])
                .fold(1, |product, x| q.mul(product, q.reduce(x.into())));
            Limb {
                ntt,
                factor: q.inverse(denominator),
                reciprocal: Reciprocal::new(q.value()),
            }
        };
        Self {
            degree: ntts[0].degree(),
            limbs: ntts.iter().map(limb).collect(),
        }
    }

    /// Computes the fractions of a polynomial, `bits` bits each (1 to 64), rounded to nearest modulo 1, in coefficient
    /// form. `residues` is its evaluation form, `N` canonical residues modulo the first limb, then the next; it is
    /// overwritten. Before rounding, the error of a fraction is at most [`FIXED_POINT_ERROR`]·2^-64. Allocates nothing.
    ///
    /// Panics if the shapes do not match.
    pub fn of_polynomial(&self, residues: &mut [u32], bits: u32, fractions: &mut [u64]) {
        assert!((1..=64).contains(&bits));
        assert_eq!(fractions.len(), self.degree);
        assert_eq!(residues.len(), self.limbs.len() * self.degree);
        for (limb, values) in self
            .limbs
            .iter()
            .zip(residues.chunks_exact_mut(self.degree))
        {
            limb.ntt.inverse_times(values, limb.factor);
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 was just detected, the function's only requirement.
            return unsafe { add_up_avx2(&self.limbs, residues, bits, fractions) };
        }
        add_up(&self.limbs, residues, bits, fractions);
    }

    /// Returns the fraction of a constant coefficient, `bits` bits (1 to 64), from each limb's sum of the polynomial's
    /// evaluation form. As precise as [`of_polynomial`](Self::of_polynomial).
    ///
    /// Panics if the number of sums is not the number of limbs.
    pub fn of_slot_sum(&self, sums: &[u32], bits: u32) -> u64 {
        assert!((1..=64).contains(&bits));
        assert_eq!(sums.len(), self.limbs.len());
        let (mut sum, mut rest) = (half_a_unit(bits), 0);
        for (limb, &slots) in self.limbs.iter().zip(sums) {
            let q = limb.ntt.modulus();
            let y = q.mul(q.mul(slots, limb.ntt.degree_inverse()), limb.factor);
            limb.reciprocal.add_product(y, &mut sum, &mut rest);
        }
        sum.wrapping_add(rest >> 31) >> (64 - bits)
    }
}

/// Half of 2^-bits in units of 2^-64, added before truncation to round.
fn half_a_unit(bits: u32) -> u64 {
    (1u64 << 63).checked_shr(bits).unwrap_or(0)
}

/// `fractions[j] = Σ_l residues[l·N + j]/q_l mod 1`, rounded to `bits` bits.
#[inline(always)]
fn add_up(limbs: &[Limb<'_>], residues: &[u32], bits: u32, fractions: &mut [u64]) {
    let degree = fractions.len();
    for (chunk, fractions) in fractions.chunks_exact_mut(CHUNK).enumerate() {
        let (mut sums, mut rests) = ([half_a_unit(bits); CHUNK], [0; CHUNK]);
        for (limb, residues) in limbs.iter().zip(residues.chunks_exact(degree)) {
            let residues = &residues[chunk * CHUNK..][..CHUNK];
            for ((sum, rest), &y) in sums.iter_mut().zip(&mut rests).zip(residues) {
                limb.reciprocal.add_product(y, sum, rest);
            }
        }
        for ((fraction, sum), rest) in fractions.iter_mut().zip(sums).zip(rests) {
            *fraction = sum.wrapping_add(rest >> 31) >> (64 - bits);
        }
    }
}

/// [`add_up`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_up_avx2(limbs: &[Limb<'_>], residues: &[u32], bits: u32, fractions: &mut [u64]) {
    add_up(limbs, residues, bits, fractions);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;
    use proptest::prelude::*;

    const UNIT: u128 = 1 << 64;

    /// The first 64 bits of `v/q`, truncated, by long division; `q` below 2^127.
    fn quotient(v: u128, q: u128) -> u128 {
        let (mut rest, mut bits) = (v, 0);
        for _ in 0..64 {
            rest *= 2;
            bits = bits * 2 + u128::from(rest >= q);
            rest %= q;
        }
        bits
    }

    fn ring(log_degree: u32, limbs: usize) -> Ring {
        let t = crate::plaintext_moduli(log_degree, 1 << 20).next().unwrap();
        Ring::new(Parameters::new(log_degree, limbs, t).unwrap())
    }

    fn product(ring: &Ring) -> u128 {
        let primes = ring.limbs().iter().map(|l| l.modulus().value());
        primes.map(u128::from).product()
    }

    /// The evaluation form modulo every limb of `t·v`, limb after limb.
    fn residues(ring: &Ring, v: &[u128]) -> Vec<u32> {
        let t = u128::from(ring.parameters().plaintext_modulus());
        ring.limbs()
            .iter()
            .flat_map(|ntt| {
                let q = u128::from(ntt.modulus().value());
                let mut values: Vec<u32> = v.iter().map(|&x| (x % q * t % q) as u32).collect();
                ntt.forward(&mut values);
                values
            })
            .collect()
    }

    /// Returns true if a fraction of `bits` bits is `exact` (64 bits, truncated) within the promised error.
    fn is_near(fraction: u64, bits: u32, exact: u128) -> bool {
        let step = UNIT >> bits;
        let distance = (u128::from(fraction) * step).wrapping_sub(exact) % UNIT;
        distance.min(UNIT - distance) <= step / 2 + u128::from(FIXED_POINT_ERROR) + 1
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn fractions_are_those_of_exact_division(
            limbs in 1usize..=4,
            bits in 1u32..=64,
            v in prop::collection::vec((any::<u128>(), 0u8..8), 64),
        ) {
            let ring = ring(13, limbs);
            let q = product(&ring);
            // Includes values near 0, near Q and in the middle, repeated to fill the polynomial.
            let v: Vec<u128> = v.iter().cycle().take(ring.degree()).map(|&(x, kind)| match kind {
                0 => x % 5,
                1 => q - 1 - x % 5,
                2 => q / 2 + x % 5 - 2,
                _ => x % q,
            }).collect();
            let fractions = Fractions::new(&ring, limbs);
            let mut out = vec![0; ring.degree()];
            fractions.of_polynomial(&mut residues(&ring, &v), bits, &mut out);
            for (&f, &v) in out.iter().zip(&v) {
                prop_assert!(bits == 64 || f >> bits == 0);
                prop_assert!(is_near(f, bits, quotient(v, q)), "{f:#x} for {v}/{q}");
            }
        }

        #[test]
        fn the_sum_of_the_slots_gives_the_constant_coefficient(limbs in 1usize..=4, bits in 1u32..=64, v: u128) {
            let ring = ring(13, limbs);
            let q = product(&ring);
            let v: Vec<u128> = (0..ring.degree() as u128).map(|j| (v ^ j << 70) % q).collect();
            let evaluations = residues(&ring, &v);
            let sums: Vec<u32> = evaluations.chunks_exact(ring.degree()).zip(ring.limbs())
                .map(|(values, ntt)| crate::vector::sum(ntt.modulus(), values)).collect();
            let fractions = Fractions::new(&ring, limbs);
            let fraction = fractions.of_slot_sum(&sums, bits);
            prop_assert!(is_near(fraction, bits, quotient(v[0], q)), "{fraction:#x}");
        }

        #[test]
        fn with_and_without_avx2_the_bits_are_the_same(seed: u64, limbs in 1usize..=7, bits in 1u32..=64) {
            let ring = ring(13, limbs);
            let mut state = seed;
            let mut residues: Vec<u32> = ring.limbs().iter().flat_map(|ntt| {
                let q = ntt.modulus().value();
                (0..ring.degree()).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) as u32 % q
                }).collect::<Vec<_>>()
            }).collect();
            let fractions = Fractions::new(&ring, limbs);
            let (mut fast, mut reference) = (vec![0; ring.degree()], vec![0; ring.degree()]);
            fractions.of_polynomial(&mut residues, bits, &mut fast);
            // The residues were left in the form that `add_up` takes.
            add_up(&fractions.limbs, &residues, bits, &mut reference);
            prop_assert_eq!(fast, reference);
        }
    }

    #[test]
    fn the_most_limbs_that_are_secure_keep_the_promised_error() {
        let ring = ring(15, 31);
        // Next to 0 and next to Q, where the limbs' parts must cancel.
        let mut sums: Vec<u32> = vec![ring.parameters().plaintext_modulus(); 31];
        let fractions = Fractions::new(&ring, 31);
        for (sum, ntt) in sums.iter_mut().zip(ring.limbs()) {
            let q = ntt.modulus();
            *sum = q.mul(*sum, q.reduce(ring.degree() as u64));
        }
        assert!(is_near(fractions.of_slot_sum(&sums, 64), 64, 0));
        for (sum, ntt) in sums.iter_mut().zip(ring.limbs()) {
            *sum = ntt.modulus().neg(*sum);
        }
        assert!(is_near(fractions.of_slot_sum(&sums, 64), 64, UNIT - 1));
    }

    /// Vector from Python: 2^40·(c·pow(t, -1, Q) % Q)/Q, rounded, with c = 123456789, t = 40961 and Q the product of
    /// the two limbs of degree 4096.
    #[test]
    fn golden_vector() {
        let ring = ring(12, 2);
        let slots = |l: usize| {
            let q = ring.limbs()[l].modulus();
            q.mul(q.reduce(123_456_789), q.reduce(4096))
        };
        let fractions = Fractions::new(&ring, 2);
        assert_eq!(
            fractions.of_slot_sum(&[slots(0), slots(1)], 40),
            0x08_d18b_7d87
        );
    }
}
