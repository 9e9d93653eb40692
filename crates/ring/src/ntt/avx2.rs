//! The transform on AVX2: eight butterflies at a time, with the bounds and results of the scalar reference.
//!
//! Strides of eight and more use one broadcast factor. Strides four, two and one shuffle the halves of their
//! butterflies into two registers; the factors are laid out to match.

use super::tables::{Ntt, Twiddles};
use crate::avx2::{load, store};
use std::arch::x86_64::*;

/// The modulus in every lane.
#[derive(Clone, Copy)]
struct Lanes {
    q: __m256i,
    two_q: __m256i,
}

/// A factor and its Shoup constant, lane by lane.
#[derive(Clone, Copy)]
struct Factor {
    value: __m256i,
    shoup: __m256i,
}

impl Lanes {
    #[target_feature(enable = "avx2")]
    fn new(q: u32) -> Self {
        Self {
            q: _mm256_set1_epi32(q as i32),
            two_q: _mm256_set1_epi32(2 * q as i32),
        }
    }

    /// `x·w mod q` in `[0, 2q)`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn mul_lazy(self, x: __m256i, w: Factor) -> __m256i {
        let even = _mm256_mul_epu32(x, w.shoup);
        let odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(w.shoup, 32));
        let quotient = _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64(even, 32), odd);
        _mm256_sub_epi32(
            _mm256_mullo_epi32(x, w.value),
            _mm256_mullo_epi32(quotient, self.q),
        )
    }

    /// Maps two values in `[0, 4q)` to two in `[0, 4q)`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn forward_butterfly(self, x: __m256i, y: __m256i, w: Factor) -> (__m256i, __m256i) {
        let u = subtract_if_reached(x, self.two_q);
        let v = self.mul_lazy(y, w);
        (
            _mm256_add_epi32(u, v),
            _mm256_sub_epi32(_mm256_add_epi32(u, self.two_q), v),
        )
    }

    /// Maps two values in `[0, 2q)` to two in `[0, 2q)`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn inverse_butterfly(self, x: __m256i, y: __m256i, w: Factor) -> (__m256i, __m256i) {
        let sum = subtract_if_reached(_mm256_add_epi32(x, y), self.two_q);
        let difference = _mm256_sub_epi32(_mm256_add_epi32(x, self.two_q), y);
        (sum, self.mul_lazy(difference, w))
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn subtract_if_reached(x: __m256i, bound: __m256i) -> __m256i {
    _mm256_min_epu32(x, _mm256_sub_epi32(x, bound))
}

#[target_feature(enable = "avx2")]
#[inline]
fn broadcast(twiddles: &Twiddles, i: usize) -> Factor {
    Factor {
        value: _mm256_set1_epi32(twiddles.value[i] as i32),
        shoup: _mm256_set1_epi32(twiddles.shoup[i] as i32),
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn factor(twiddles: &Twiddles, pair: usize) -> Factor {
    Factor {
        value: load(&twiddles.value[8 * pair..]),
        shoup: load(&twiddles.shoup[8 * pair..]),
    }
}

/// Moves the first halves of butterflies of stride 4, 2 or 1 (`STAGE` 0, 1, 2) into one register, the second halves
/// into the other.
#[target_feature(enable = "avx2")]
#[inline]
fn part<const STAGE: usize>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    match STAGE {
        0 => (
            _mm256_permute2x128_si256::<0x20>(a, b),
            _mm256_permute2x128_si256::<0x31>(a, b),
        ),
        1 => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
        _ => {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            (
                _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b)),
                _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b)),
            )
        }
    }
}

/// Undoes [`part`].
#[target_feature(enable = "avx2")]
#[inline]
fn join<const STAGE: usize>(low: __m256i, high: __m256i) -> (__m256i, __m256i) {
    match STAGE {
        0 => (
            _mm256_permute2x128_si256::<0x20>(low, high),
            _mm256_permute2x128_si256::<0x31>(low, high),
        ),
        1 => (
            _mm256_unpacklo_epi64(low, high),
            _mm256_unpackhi_epi64(low, high),
        ),
        _ => (
            _mm256_unpacklo_epi32(low, high),
            _mm256_unpackhi_epi32(low, high),
        ),
    }
}

/// See [`Ntt::forward`]. The length of `values` must be the degree.
#[target_feature(enable = "avx2")]
pub(super) fn forward(ntt: &Ntt, values: &mut [u32]) {
    forward_from(ntt, values, ntt.degree / 2);
}

/// Runs the stages of [`forward`] from the given stride (at least 8) on.
#[target_feature(enable = "avx2")]
pub(super) fn forward_from(ntt: &Ntt, values: &mut [u32], mut stride: usize) {
    let lanes = Lanes::new(ntt.modulus.value());
    let mut first = ntt.degree / (2 * stride);
    while stride >= 8 {
        for (block, i) in values.chunks_exact_mut(2 * stride).zip(first..) {
            let w = broadcast(&ntt.roots, i);
            let (low, high) = block.split_at_mut(stride);
            for (x, y) in low.chunks_exact_mut(8).zip(high.chunks_exact_mut(8)) {
                let (u, v) = lanes.forward_butterfly(load(x), load(y), w);
                store(x, u);
                store(y, v);
            }
        }
        first *= 2;
        stride /= 2;
    }
    let [w4, w2, w1] = &ntt.narrow.forward;
    for (i, pair) in values.chunks_exact_mut(16).enumerate() {
        let (x, y) = part::<0>(load(pair), load(&pair[8..]));
        let (x, y) = lanes.forward_butterfly(x, y, factor(w4, i));
        let (x, y) = join::<0>(x, y);
        let (x, y) = part::<1>(x, y);
        let (x, y) = lanes.forward_butterfly(x, y, factor(w2, i));
        let (x, y) = join::<1>(x, y);
        let (x, y) = part::<2>(x, y);
        let (x, y) = lanes.forward_butterfly(x, y, factor(w1, i));
        let (x, y) = join::<2>(x, y);
        let canonical = |z| subtract_if_reached(subtract_if_reached(z, lanes.two_q), lanes.q);
        store(pair, canonical(x));
        store(&mut pair[8..], canonical(y));
    }
}

/// See [`Ntt::inverse_times`]; `scale` is `N^{-1}` times the factor. The length of `values` must be
/// the degree.
#[target_feature(enable = "avx2")]
pub(super) fn inverse(ntt: &Ntt, values: &mut [u32], scale: u32) {
    inverse_to(ntt, values, ntt.degree);
    let lanes = Lanes::new(ntt.modulus.value());
    let scale = Factor {
        value: _mm256_set1_epi32(scale as i32),
        shoup: _mm256_set1_epi32(ntt.modulus.shoup(scale) as i32),
    };
    for x in values.chunks_exact_mut(8) {
        store(
            x,
            subtract_if_reached(lanes.mul_lazy(load(x), scale), lanes.q),
        );
    }
}

/// Runs the stages of [`inverse`] before the given stride (at least 8), without the scale.
#[target_feature(enable = "avx2")]
pub(super) fn inverse_to(ntt: &Ntt, values: &mut [u32], end: usize) {
    let lanes = Lanes::new(ntt.modulus.value());
    let [w4, w2, w1] = &ntt.narrow.inverse;
    for (i, pair) in values.chunks_exact_mut(16).enumerate() {
        let (x, y) = part::<2>(load(pair), load(&pair[8..]));
        let (x, y) = lanes.inverse_butterfly(x, y, factor(w1, i));
        let (x, y) = join::<2>(x, y);
        let (x, y) = part::<1>(x, y);
        let (x, y) = lanes.inverse_butterfly(x, y, factor(w2, i));
        let (x, y) = join::<1>(x, y);
        let (x, y) = part::<0>(x, y);
        let (x, y) = lanes.inverse_butterfly(x, y, factor(w4, i));
        let (x, y) = join::<0>(x, y);
        store(pair, x);
        store(&mut pair[8..], y);
    }
    let mut stride = 8;
    let mut first = ntt.degree / 16;
    while stride < end {
        for (block, i) in values.chunks_exact_mut(2 * stride).zip(first..) {
            let w = broadcast(&ntt.inverse_roots, i);
            let (low, high) = block.split_at_mut(stride);
            for (x, y) in low.chunks_exact_mut(8).zip(high.chunks_exact_mut(8)) {
                let (u, v) = lanes.inverse_butterfly(load(x), load(y), w);
                store(x, u);
                store(y, v);
            }
        }
        first /= 2;
        stride *= 2;
    }
}
