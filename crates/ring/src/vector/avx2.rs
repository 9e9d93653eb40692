//! Eight residues at a time. AVX2 multiplies 32-bit lanes four at a time into 64 bits, so each
//! register is worked on as its even lanes and its odd lanes; remainders go to the reference.

use super::{LAZY_SUMS, scalar};
use crate::Modulus;
use crate::avx2::{load, load_signed, store};
use std::arch::x86_64::*;

/// Barrett's constants in every 64-bit lane.
#[derive(Clone, Copy)]
struct Lanes {
    q: __m256i,
    barrett: __m256i,
    low_shift: __m128i,
    high_shift: __m128i,
}

impl Lanes {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(q: &Modulus) -> Self {
        Self {
            q: _mm256_set1_epi64x(i64::from(q.value())),
            barrett: _mm256_set1_epi64x(i64::from(q.barrett())),
            low_shift: _mm_cvtsi32_si128(q.bits() as i32 - 1),
            high_shift: _mm_cvtsi32_si128(q.bits() as i32 + 1),
        }
    }

    /// Products below `q²` in 64-bit lanes to residues in their low halves (high halves zero);
    /// as [`Modulus::mul`].
    #[target_feature(enable = "avx2")]
    #[inline]
    fn reduce(self, product: __m256i) -> __m256i {
        let quotient = _mm256_srl_epi64(
            _mm256_mul_epu32(_mm256_srl_epi64(product, self.low_shift), self.barrett),
            self.high_shift,
        );
        let r = _mm256_sub_epi64(product, _mm256_mul_epu32(quotient, self.q));
        self.subtract_if_reached(self.subtract_if_reached(r))
    }

    /// Works on 32-bit lanes; the modulus has zero high halves, so those stay as they are.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn subtract_if_reached(self, r: __m256i) -> __m256i {
        _mm256_min_epu32(r, _mm256_sub_epi32(r, self.q))
    }

    /// `a·b mod q` in all eight lanes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn multiply(self, a: __m256i, b: __m256i) -> __m256i {
        let even = self.reduce(_mm256_mul_epu32(a, b));
        let odd = self.reduce(_mm256_mul_epu32(odd_lanes(a), odd_lanes(b)));
        _mm256_or_si256(even, _mm256_slli_epi64(odd, 32))
    }

    /// The modulus in all eight 32-bit lanes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn q_everywhere(self) -> __m256i {
        _mm256_or_si256(self.q, _mm256_slli_epi64(self.q, 32))
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn odd_lanes(x: __m256i) -> __m256i {
    _mm256_srli_epi64(x, 32)
}

/// The length of the part that whole registers cover.
fn whole(length: usize) -> usize {
    length / 8 * 8
}

#[target_feature(enable = "avx2")]
pub(super) fn multiply(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    let lanes = Lanes::new(q);
    let whole = whole(out.len());
    for ((r, x), y) in out
        .chunks_exact_mut(8)
        .zip(a.chunks_exact(8))
        .zip(b.chunks_exact(8))
    {
        store(r, lanes.multiply(load(x), load(y)));
    }
    scalar::multiply(q, &a[whole..], &b[whole..], &mut out[whole..]);
}

#[target_feature(enable = "avx2")]
pub(super) fn multiply_add(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    let lanes = Lanes::new(q);
    let q_lanes = lanes.q_everywhere();
    let whole = whole(out.len());
    for ((r, x), y) in out
        .chunks_exact_mut(8)
        .zip(a.chunks_exact(8))
        .zip(b.chunks_exact(8))
    {
        let sum = _mm256_add_epi32(load(r), lanes.multiply(load(x), load(y)));
        store(r, _mm256_min_epu32(sum, _mm256_sub_epi32(sum, q_lanes)));
    }
    scalar::multiply_add(q, &a[whole..], &b[whole..], &mut out[whole..]);
}

#[target_feature(enable = "avx2")]
pub(super) fn subtract_product(q: &Modulus, a: &mut [u32], b: &[u32], c: &[u32]) {
    let lanes = Lanes::new(q);
    let q_lanes = lanes.q_everywhere();
    let whole = whole(a.len());
    for ((r, x), y) in a
        .chunks_exact_mut(8)
        .zip(b.chunks_exact(8))
        .zip(c.chunks_exact(8))
    {
        let difference = _mm256_sub_epi32(load(r), lanes.multiply(load(x), load(y)));
        store(
            r,
            _mm256_min_epu32(difference, _mm256_add_epi32(difference, q_lanes)),
        );
    }
    scalar::subtract_product(q, &mut a[whole..], &b[whole..], &c[whole..]);
}

#[target_feature(enable = "avx2")]
pub(super) fn multiply_accumulate(a: &[u32], b: &[u32], accumulator: &mut [u64]) {
    let whole = whole(a.len());
    for ((sums, x), y) in accumulator
        .chunks_exact_mut(8)
        .zip(a.chunks_exact(8))
        .zip(b.chunks_exact(8))
    {
        // Widening loads keep lanes in order, so the accumulator stays in natural order.
        let (x, y) = (load(x), load(y));
        let low = _mm256_mul_epu32(widen_low(x), widen_low(y));
        let high = _mm256_mul_epu32(widen_high(x), widen_high(y));
        add_wide(&mut sums[..4], low);
        add_wide(&mut sums[4..], high);
    }
    scalar::multiply_accumulate(&a[whole..], &b[whole..], &mut accumulator[whole..]);
}

#[target_feature(enable = "avx2")]
#[inline]
fn widen_low(x: __m256i) -> __m256i {
    _mm256_cvtepu32_epi64(_mm256_castsi256_si128(x))
}

#[target_feature(enable = "avx2")]
#[inline]
fn widen_high(x: __m256i) -> __m256i {
    _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(x))
}

#[target_feature(enable = "avx2")]
#[inline]
fn add_wide(sums: &mut [u64], x: __m256i) {
    assert!(sums.len() >= 4);
    let at: *mut __m256i = sums.as_mut_ptr().cast();
    // SAFETY: four 64-bit words are readable and writable, just checked; accesses are unaligned.
    unsafe { _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), x)) }
}

#[target_feature(enable = "avx2")]
pub(super) fn dot(q: &Modulus, a: &[u32], b: &[u32]) -> u32 {
    // Each of the eight 64-bit lanes takes one product from every eight residues.
    const RUN: usize = 8 * LAZY_SUMS;
    let mut total = 0;
    for (a, b) in a.chunks(RUN).zip(b.chunks(RUN)) {
        let whole = whole(a.len());
        let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
            let (x, y) = (load(x), load(y));
            even = _mm256_add_epi64(even, _mm256_mul_epu32(x, y));
            odd = _mm256_add_epi64(odd, _mm256_mul_epu32(odd_lanes(x), odd_lanes(y)));
        }
        let mut lanes = [0u64; 8];
        add_wide(&mut lanes[..4], even);
        add_wide(&mut lanes[4..], odd);
        for lane in lanes {
            total = q.add(total, q.reduce(lane));
        }
        total = q.add(total, scalar::dot(q, &a[whole..], &b[whole..]));
    }
    total
}

#[target_feature(enable = "avx2")]
pub(super) fn wrapping_dot(a: &[i32], b: &[i32]) -> u64 {
    let whole = whole(a.len());
    let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let (x, y) = (load_signed(x), load_signed(y));
        even = _mm256_add_epi64(even, _mm256_mul_epi32(x, y));
        odd = _mm256_add_epi64(odd, _mm256_mul_epi32(odd_lanes(x), odd_lanes(y)));
    }
    let mut lanes = [0u64; 4];
    add_wide(&mut lanes, _mm256_add_epi64(even, odd));
    let rest = scalar::wrapping_dot(&a[whole..], &b[whole..]);
    lanes.into_iter().fold(rest, u64::wrapping_add)
}
