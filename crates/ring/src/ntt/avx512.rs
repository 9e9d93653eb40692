//! The transform on AVX-512: sixteen butterflies at a time for strides of sixteen and more. The other stages are those
//! of the AVX2 kernel, with the same bounds and results. Needs AVX-512 F and AVX2.

use super::avx2;
use super::tables::{Ntt, Twiddles};
use crate::avx512::{WORDS, load, store};
use std::arch::x86_64::*;

/// Narrowest stride of this kernel.
const NARROWEST: usize = WORDS;

/// The modulus in every lane.
#[derive(Clone, Copy)]
struct Lanes {
    q: __m512i,
    two_q: __m512i,
}

/// A factor and its Shoup constant in every lane.
#[derive(Clone, Copy)]
struct Factor {
    value: __m512i,
    shoup: __m512i,
}

impl Factor {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new(value: u32, shoup: u32) -> Self {
        Self {
            value: _mm512_set1_epi32(value.cast_signed()),
            shoup: _mm512_set1_epi32(shoup.cast_signed()),
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn of(twiddles: &Twiddles, i: usize) -> Self {
        Self::new(twiddles.value[i], twiddles.shoup[i])
    }
}

impl Lanes {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new(q: u32) -> Self {
        Self {
            q: _mm512_set1_epi32(q.cast_signed()),
            two_q: _mm512_set1_epi32((2 * q).cast_signed()),
        }
    }

    /// `x·w mod q` in `[0, 2q)`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn mul_lazy(self, x: __m512i, w: Factor) -> __m512i {
        const ODD: __mmask16 = 0b1010_1010_1010_1010;
        let even = _mm512_mul_epu32(x, w.shoup);
        let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), w.shoup);
        let quotient = _mm512_mask_blend_epi32(ODD, _mm512_srli_epi64::<32>(even), odd);
        _mm512_sub_epi32(
            _mm512_mullo_epi32(x, w.value),
            _mm512_mullo_epi32(quotient, self.q),
        )
    }

    /// Maps two values in `[0, 4q)` to two in `[0, 4q)`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn forward_butterfly(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i) {
        let u = subtract_if_reached(x, self.two_q);
        let v = self.mul_lazy(y, w);
        let difference = _mm512_sub_epi32(_mm512_add_epi32(u, self.two_q), v);
        (_mm512_add_epi32(u, v), difference)
    }

    /// Maps two values in `[0, 2q)` to two in `[0, 2q)`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn inverse_butterfly(self, x: __m512i, y: __m512i, w: Factor) -> (__m512i, __m512i) {
        let sum = subtract_if_reached(_mm512_add_epi32(x, y), self.two_q);
        let difference = _mm512_sub_epi32(_mm512_add_epi32(x, self.two_q), y);
        (sum, self.mul_lazy(difference, w))
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn subtract_if_reached(x: __m512i, bound: __m512i) -> __m512i {
    _mm512_min_epu32(x, _mm512_sub_epi32(x, bound))
}

/// See [`Ntt::forward`]. The length of `values` must be the degree.
#[target_feature(enable = "avx512f,avx2")]
pub(super) fn forward(ntt: &Ntt, values: &mut [u32]) {
    let lanes = Lanes::new(ntt.modulus.value());
    let mut stride = ntt.degree / 2;
    let mut first = 1;
    while stride >= NARROWEST {
        for (block, i) in values.chunks_exact_mut(2 * stride).zip(first..) {
            let w = Factor::of(&ntt.roots, i);
            let (low, high) = block.split_at_mut(stride);
            let halves = low
                .chunks_exact_mut(WORDS)
                .zip(high.chunks_exact_mut(WORDS));
            for (x, y) in halves {
                let (u, v) = lanes.forward_butterfly(load(x), load(y), w);
                store(x, u);
                store(y, v);
            }
        }
        first *= 2;
        stride /= 2;
    }
    avx2::forward_from(ntt, values, stride);
}

/// See [`Ntt::inverse_times`]; `scale` is `N^{-1}` times the factor. The length of `values` must be
/// the degree.
#[target_feature(enable = "avx512f,avx2")]
pub(super) fn inverse(ntt: &Ntt, values: &mut [u32], scale: u32) {
    let lanes = Lanes::new(ntt.modulus.value());
    avx2::inverse_to(ntt, values, NARROWEST);
    let mut stride = NARROWEST;
    while stride < ntt.degree {
        let first = ntt.degree / (2 * stride);
        for (block, i) in values.chunks_exact_mut(2 * stride).zip(first..) {
            let w = Factor::of(&ntt.inverse_roots, i);
            let (low, high) = block.split_at_mut(stride);
            let halves = low
                .chunks_exact_mut(WORDS)
                .zip(high.chunks_exact_mut(WORDS));
            for (x, y) in halves {
                let (u, v) = lanes.inverse_butterfly(load(x), load(y), w);
                store(x, u);
                store(y, v);
            }
        }
        stride *= 2;
    }
    let scale = Factor::new(scale, ntt.modulus.shoup(scale));
    for x in values.chunks_exact_mut(WORDS) {
        store(
            x,
            subtract_if_reached(lanes.mul_lazy(load(x), scale), lanes.q),
        );
    }
}
