//! AVX2 kernels: eight residues at a time. AVX2 multiplies 32-bit lanes four at a time into 64 bits: the halves of a
//! register are its even and its odd lanes. The high 32 bits of a half are ignored.

#![allow(unsafe_code)]

use super::kernels::kernels;
use super::{AHEAD, LAZY_SUMS, Sum, scalar};
use crate::Modulus;
use crate::avx2::{load, store};
use std::arch::x86_64::*;

type Words = __m256i;
type Half = __m256i;
type Wide = __m256i;
type Shift = __m128i;

const WORDS: usize = 8;
/// Prefixes per register tile: two by four sums, two split prefixes and a leaf fill the sixteen registers.
const TILE_PREFIXES: usize = 2;

#[target_feature(enable = "avx2")]
#[inline]
fn words(x: u32) -> Words {
    _mm256_set1_epi32(x.cast_signed())
}

#[target_feature(enable = "avx2")]
#[inline]
fn half(x: u32) -> Half {
    _mm256_set1_epi64x(x.into())
}

#[target_feature(enable = "avx2")]
#[inline]
fn shift(bits: u32) -> Shift {
    _mm_cvtsi32_si128(bits.cast_signed())
}

#[target_feature(enable = "avx2")]
#[inline]
fn split(x: Words) -> (Half, Half) {
    (x, _mm256_srli_epi64::<32>(x))
}

/// The inverse of `split` for lanes below 2^32.
#[target_feature(enable = "avx2")]
#[inline]
fn join(first: Wide, second: Wide) -> Words {
    _mm256_or_si256(first, _mm256_slli_epi64::<32>(second))
}

#[target_feature(enable = "avx2")]
#[inline]
fn add(a: Words, b: Words) -> Words {
    _mm256_add_epi32(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn subtract(a: Words, b: Words) -> Words {
    _mm256_sub_epi32(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn minimum(a: Words, b: Words) -> Words {
    _mm256_min_epu32(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn multiply_halves(a: Half, b: Half) -> Wide {
    _mm256_mul_epu32(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn zero() -> Wide {
    _mm256_setzero_si256()
}

#[target_feature(enable = "avx2")]
#[inline]
fn add_wide(a: Wide, b: Wide) -> Wide {
    _mm256_add_epi64(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn subtract_wide(a: Wide, b: Wide) -> Wide {
    _mm256_sub_epi64(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn shift_right(x: Wide, bits: Shift) -> Wide {
    _mm256_srl_epi64(x, bits)
}

/// The low words of all lanes as factors.
#[target_feature(enable = "avx2")]
#[inline]
fn low(x: Wide) -> Half {
    x
}

/// The high words of all lanes as factors.
#[target_feature(enable = "avx2")]
#[inline]
fn high(x: Wide) -> Half {
    _mm256_srli_epi64::<32>(x)
}

/// The low words of all lanes as 64-bit integers.
#[target_feature(enable = "avx2")]
#[inline]
fn low_words(x: Wide) -> Wide {
    _mm256_and_si256(x, _mm256_set1_epi64x(0xffff_ffff))
}

/// The high words of all lanes as 64-bit integers.
#[target_feature(enable = "avx2")]
#[inline]
fn high_words(x: Wide) -> Wide {
    _mm256_srli_epi64::<32>(x)
}

/// The sum of all lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn total(x: Wide) -> u64 {
    let pair = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
    let sum = _mm_add_epi64(pair, _mm_unpackhi_epi64(pair, pair));
    _mm_cvtsi128_si64(sum).cast_unsigned()
}

/// The sum of all lanes of each register.
#[target_feature(enable = "avx2")]
#[inline]
fn totals(x: [Wide; 4]) -> [u64; 4] {
    let pairs = |a, b| _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let (first, second) = (pairs(x[0], x[1]), pairs(x[2], x[3]));
    let sums = _mm256_add_epi64(
        _mm256_permute2x128_si256::<0x20>(first, second),
        _mm256_permute2x128_si256::<0x31>(first, second),
    );
    let mut totals = [0; 4];
    store_wide(&mut totals, sums);
    totals
}

/// Four words as 64-bit integers.
#[target_feature(enable = "avx2")]
#[inline]
fn widen(x: &[u32]) -> Wide {
    _mm256_set_epi64x(x[3].into(), x[2].into(), x[1].into(), x[0].into())
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_wide(from: &[u64]) -> Wide {
    assert!(from.len() >= WORDS / 2);
    // SAFETY: four 64-bit words are readable, just checked; the load is unaligned.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn store_wide(to: &mut [u64], x: Wide) {
    assert!(to.len() >= WORDS / 2);
    // SAFETY: four 64-bit words are writable, just checked; the store is unaligned.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
}

kernels!(target_feature(enable = "avx2"));
