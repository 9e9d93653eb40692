//! AVX-512 kernels: sixteen residues at a time, halved as in the AVX2 kernels. Needs AVX-512 F only.

#![allow(unsafe_code)]

use super::kernels::kernels;
use super::{AHEAD, LAZY_SUMS, Sum, scalar};
use crate::Modulus;
use crate::avx512::{WORDS, load, store};
use std::arch::x86_64::*;

type Words = __m512i;
type Half = __m512i;
type Wide = __m512i;
type Shift = __m128i;

/// Prefixes per register tile: four by four sums, four split prefixes and a leaf fit the thirty-two registers.
const TILE_PREFIXES: usize = 4;

#[target_feature(enable = "avx512f")]
#[inline]
fn words(x: u32) -> Words {
    _mm512_set1_epi32(x.cast_signed())
}

#[target_feature(enable = "avx512f")]
#[inline]
fn half(x: u32) -> Half {
    _mm512_set1_epi64(x.into())
}

#[target_feature(enable = "avx512f")]
#[inline]
fn shift(bits: u32) -> Shift {
    _mm_cvtsi32_si128(bits.cast_signed())
}

#[target_feature(enable = "avx512f")]
#[inline]
fn split(x: Words) -> (Half, Half) {
    (x, _mm512_srli_epi64::<32>(x))
}

/// The inverse of `split` for lanes below 2^32.
#[target_feature(enable = "avx512f")]
#[inline]
fn join(first: Wide, second: Wide) -> Words {
    _mm512_or_si512(first, _mm512_slli_epi64::<32>(second))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn add(a: Words, b: Words) -> Words {
    _mm512_add_epi32(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn subtract(a: Words, b: Words) -> Words {
    _mm512_sub_epi32(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn minimum(a: Words, b: Words) -> Words {
    _mm512_min_epu32(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn multiply_halves(a: Half, b: Half) -> Wide {
    _mm512_mul_epu32(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn zero() -> Wide {
    _mm512_setzero_si512()
}

#[target_feature(enable = "avx512f")]
#[inline]
fn add_wide(a: Wide, b: Wide) -> Wide {
    _mm512_add_epi64(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn subtract_wide(a: Wide, b: Wide) -> Wide {
    _mm512_sub_epi64(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn shift_right(x: Wide, bits: Shift) -> Wide {
    _mm512_srl_epi64(x, bits)
}

/// The low words of all lanes as factors.
#[target_feature(enable = "avx512f")]
#[inline]
fn low(x: Wide) -> Half {
    x
}

/// The high words of all lanes as factors.
#[target_feature(enable = "avx512f")]
#[inline]
fn high(x: Wide) -> Half {
    _mm512_srli_epi64::<32>(x)
}

/// The low words of all lanes as 64-bit integers.
#[target_feature(enable = "avx512f")]
#[inline]
fn low_words(x: Wide) -> Wide {
    _mm512_and_si512(x, _mm512_set1_epi64(0xffff_ffff))
}

/// The high words of all lanes as 64-bit integers.
#[target_feature(enable = "avx512f")]
#[inline]
fn high_words(x: Wide) -> Wide {
    _mm512_srli_epi64::<32>(x)
}

/// The sum of all lanes.
#[target_feature(enable = "avx512f")]
#[inline]
fn total(x: Wide) -> u64 {
    _mm512_reduce_add_epi64(x).cast_unsigned()
}

/// The sum of all lanes of each register.
#[target_feature(enable = "avx512f")]
#[inline]
fn totals(x: [Wide; 4]) -> [u64; 4] {
    let pairs = |a, b| _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (first, second) = (pairs(x[0], x[1]), pairs(x[2], x[3]));
    // Lanes of 128 bits: two of the first, two of the second.
    let even = _mm512_shuffle_i64x2::<0b10_00_10_00>(first, second);
    let odd = _mm512_shuffle_i64x2::<0b11_01_11_01>(first, second);
    let sums = _mm512_add_epi64(even, odd);
    let low = _mm512_castsi512_si256(sums);
    let high = _mm512_extracti64x4_epi64::<1>(sums);
    let sums = _mm256_add_epi64(
        _mm256_permute2x128_si256::<0x20>(low, high),
        _mm256_permute2x128_si256::<0x31>(low, high),
    );
    let mut totals = [0; 4];
    // SAFETY: 32 bytes are writable; the store is unaligned.
    unsafe { _mm256_storeu_si256(totals.as_mut_ptr().cast(), sums) };
    totals
}

/// Eight words as 64-bit integers.
#[target_feature(enable = "avx512f")]
#[inline]
fn widen(x: &[u32]) -> Wide {
    let mut wide = [0; WORDS / 2];
    for (to, &from) in wide.iter_mut().zip(x) {
        *to = u64::from(from);
    }
    load_wide(&wide)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_wide(from: &[u64]) -> Wide {
    assert!(from.len() >= WORDS / 2);
    // SAFETY: eight 64-bit words are readable, just checked; the load is unaligned.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store_wide(to: &mut [u64], x: Wide) {
    assert!(to.len() >= WORDS / 2);
    // SAFETY: eight 64-bit words are writable, just checked; the store is unaligned.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
}

kernels!(target_feature(enable = "avx512f"));
