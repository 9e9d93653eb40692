//! Negacyclic number-theoretic transform on 32-bit residues.
//!
//! Forward takes coefficients in natural order to *evaluation form*: entry `j` is the value at
//! `ψ^(2·rev(j)+1)`, where `ψ` is [`Modulus::root_of_unity`](crate::Modulus::root_of_unity) of order `2N` and `rev` reverses
//! `log2 N` bits. Products of polynomials become products entry by entry. The loops are
//! Cooley–Tukey forward and Gentleman–Sande back with merged twists (Longa and Naehrig, 2016)
//! on Harvey's lazy butterflies (2014): values stay below `4q < 2^30` forward, `2q` back.
//! The AVX2 and AVX-512 kernels compute the same canonical result; all are constant-time in the data.

#![allow(unsafe_code)]

use crate::vector::Kernels;
pub use tables::{Ntt, NttError};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod tables;

impl Ntt {
    /// Transforms coefficients to evaluation form in place. Input: any values below `4q` (canonical residues in
    /// particular); output canonical.
    ///
    /// Panics if the length of `values` is not `N`.
    pub fn forward(&self, values: &mut [u32]) {
        assert_eq!(values.len(), self.degree);
        self.forward_by(Kernels::current(), values);
    }

    /// Transforms evaluation form to coefficients in place. Input and output canonical.
    ///
    /// Panics if the length of `values` is not `N`.
    pub fn inverse(&self, values: &mut [u32]) {
        self.inverse_times(values, 1);
    }

    /// As [`inverse`](Self::inverse), with each coefficient times the residue `factor`, at no extra cost.
    ///
    /// Panics if the length of `values` is not `N`.
    pub fn inverse_times(&self, values: &mut [u32], factor: u32) {
        assert_eq!(values.len(), self.degree);
        let scale = self.modulus.mul(self.degree_inverse, factor);
        self.inverse_by(Kernels::current(), values, scale);
    }

    fn forward_by(&self, kernels: Kernels, values: &mut [u32]) {
        match kernels {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: AVX-512 F and AVX2 were detected; the caller checked the length.
            Kernels::Avx512 => unsafe { avx512::forward(self, values) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: AVX2 was detected; the caller checked the length.
            Kernels::Avx2 => unsafe { avx2::forward(self, values) },
            _ => self.forward_scalar(values),
        }
    }

    fn inverse_by(&self, kernels: Kernels, values: &mut [u32], scale: u32) {
        match kernels {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: AVX-512 F and AVX2 were detected; the caller checked the length.
            Kernels::Avx512 => unsafe { avx512::inverse(self, values, scale) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: AVX2 was detected; the caller checked the length.
            Kernels::Avx2 => unsafe { avx2::inverse(self, values, scale) },
            _ => self.inverse_scalar(values, scale),
        }
    }

    /// Reference implementation of [`forward`](Self::forward).
    #[doc(hidden)]
    pub fn forward_scalar(&self, values: &mut [u32]) {
        let (q, two_q) = (self.modulus.value(), 2 * self.modulus.value());
        let mut stride = self.degree;
        let mut first = 1;
        while stride > 1 {
            stride /= 2;
            for (block, i) in values.chunks_exact_mut(2 * stride).zip(first..) {
                let (w, w_shoup) = (self.roots.value[i], self.roots.shoup[i]);
                let (low, high) = block.split_at_mut(stride);
                for (x, y) in low.iter_mut().zip(high) {
                    let u = subtract_if_reached(*x, two_q);
                    let v = self.modulus.mul_shoup_lazy(*y, w, w_shoup);
                    *x = u + v;
                    *y = u + two_q - v;
                }
            }
            first *= 2;
        }
        for x in values {
            *x = subtract_if_reached(subtract_if_reached(*x, two_q), q);
        }
    }

    /// Reference implementation of [`inverse_times`](Self::inverse_times); `scale` is `N^{-1}` times the factor.
    fn inverse_scalar(&self, values: &mut [u32], scale: u32) {
        let (q, two_q) = (self.modulus.value(), 2 * self.modulus.value());
        let mut stride = 1;
        let mut first = self.degree / 2;
        while stride < self.degree {
            for (block, i) in values.chunks_exact_mut(2 * stride).zip(first..) {
                let (w, w_shoup) = (self.inverse_roots.value[i], self.inverse_roots.shoup[i]);
                let (low, high) = block.split_at_mut(stride);
                for (x, y) in low.iter_mut().zip(high) {
                    let (u, v) = (*x, *y);
                    *x = subtract_if_reached(u + v, two_q);
                    *y = self.modulus.mul_shoup_lazy(u + two_q - v, w, w_shoup);
                }
            }
            first /= 2;
            stride *= 2;
        }
        let shoup = self.modulus.shoup(scale);
        for x in values {
            *x = subtract_if_reached(self.modulus.mul_shoup_lazy(*x, scale, shoup), q);
        }
    }
}

/// Returns `x − bound` unless that is negative, else `x`; branch-free.
#[inline]
fn subtract_if_reached(x: u32, bound: u32) -> u32 {
    x.min(x.wrapping_sub(bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Modulus;
    use crate::limb_primes;
    use proptest::prelude::*;

    fn residues(modulus: u32, degree: usize, seed: u64) -> Vec<u32> {
        // A multiplicative walk is random enough to exercise every lane.
        let mut state = seed | 1;
        (0..degree)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32 % modulus
            })
            .collect()
    }

    fn product(ntt: &Ntt, a: &[u32], b: &[u32]) -> Vec<u32> {
        let (mut a, mut b) = (a.to_vec(), b.to_vec());
        ntt.forward(&mut a);
        ntt.forward(&mut b);
        let mut c: Vec<u32> = a
            .iter()
            .zip(&b)
            .map(|(&x, &y)| ntt.modulus.mul(x, y))
            .collect();
        ntt.inverse(&mut c);
        c
    }

    #[test]
    fn entries_are_values_at_odd_powers_in_reversed_order() {
        let q = Modulus::new(limb_primes(12, 1)[0]).unwrap();
        let n = 64;
        let ntt = Ntt::new(q, n).unwrap();
        let a = residues(q.value(), n, 3);
        let mut values = a.clone();
        ntt.forward(&mut values);
        let root = q.root_of_unity(2 * n as u32).unwrap();
        for (j, &value) in values.iter().enumerate() {
            let point = q.pow(root, 2 * (j.reverse_bits() >> (usize::BITS - 6)) as u64 + 1);
            let horner = a
                .iter()
                .rev()
                .fold(0, |sum, &c| q.add(q.mul(sum, point), c));
            assert_eq!(value, horner, "entry {j}");
        }
    }

    #[test]
    fn refuses_rings_without_a_transform() {
        let q = Modulus::new(12289).unwrap();
        assert!(Ntt::new(q, 2048).is_ok());
        for degree in [0, 1, 16, 48, 4096, 1 << 25] {
            assert!(Ntt::new(q, degree).is_err(), "{degree}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn vector_and_scalar_transforms_agree_and_invert(log_degree in 5u32..=15, limb in 0usize..3, seed: u64, lazy: bool) {
            let q = Modulus::new(limb_primes(15, 3)[limb]).unwrap();
            let ntt = Ntt::new(q, 1 << log_degree).unwrap();
            // Forward accepts any values below 4q.
            let a = residues(if lazy { 4 * q.value() } else { q.value() }, 1 << log_degree, seed);
            let factor = seed as u32 % q.value();
            let scale = q.mul(ntt.degree_inverse, factor);
            let multiples: Vec<u32> = a.iter().map(|&x| q.mul(x % q.value(), factor)).collect();
            for kernels in Kernels::available() {
                let (mut fast, mut reference) = (a.clone(), a.clone());
                ntt.forward_by(kernels, &mut fast);
                ntt.forward_scalar(&mut reference);
                prop_assert_eq!(&fast, &reference, "{:?}", kernels);
                prop_assert!(fast.iter().all(|&x| x < q.value()));
                ntt.inverse_by(kernels, &mut fast, scale);
                ntt.inverse_scalar(&mut reference, scale);
                prop_assert_eq!(&fast, &reference, "{:?}", kernels);
                prop_assert_eq!(&fast, &multiples);
            }
        }

        #[test]
        fn extreme_values_stay_within_their_bounds(log_degree in 5u32..=10, t in prop::sample::select(vec![12289, 40961, 65537, 114_689, 268_369_921]), pattern: u64) {
            let q = Modulus::new(t).unwrap();
            prop_assume!((t - 1).is_multiple_of(2 << log_degree));
            let ntt = Ntt::new(q, 1 << log_degree).unwrap();
            // The largest and the smallest allowed values, in any mixture.
            let mixed = |largest: u32| (0..1u32 << log_degree).map(|i| if pattern.rotate_left(i * 7) & 1 == 1 { largest } else { 0 }).collect::<Vec<_>>();
            for kernels in Kernels::available() {
                let (mut fast, mut reference) = (mixed(4 * t - 1), mixed(4 * t - 1));
                ntt.forward_by(kernels, &mut fast);
                ntt.forward_scalar(&mut reference);
                prop_assert_eq!(&fast, &reference, "{:?}", kernels);
                ntt.inverse_by(kernels, &mut fast, ntt.degree_inverse);
                prop_assert_eq!(fast, mixed((4 * t - 1) % t));
                let (mut fast, mut reference) = (mixed(t - 1), mixed(t - 1));
                ntt.inverse_by(kernels, &mut fast, ntt.degree_inverse);
                ntt.inverse_scalar(&mut reference, ntt.degree_inverse);
                prop_assert_eq!(fast, reference, "{:?}", kernels);
            }
        }

        #[test]
        fn multiplication_is_negacyclic(seed: u64, shift in 0usize..64) {
            let q = Modulus::new(limb_primes(12, 1)[0]).unwrap();
            let ntt = Ntt::new(q, 64).unwrap();
            let a = residues(q.value(), 64, seed);
            let mut monomial = vec![0; 64];
            monomial[shift] = 1;
            let c = product(&ntt, &a, &monomial);
            for i in 0..64 {
                let expected = if i + shift < 64 { a[i] } else { q.neg(a[i]) };
                prop_assert_eq!(c[(i + shift) % 64], expected);
            }
        }
    }
}
