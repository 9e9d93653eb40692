//! Four residues at a time: the halves of a register are its first and its last two words.

use super::kernels::kernels;
use super::{LAZY_SUMS, Sum, scalar};
use crate::Modulus;
use std::arch::aarch64::*;

type Words = uint32x4_t;
type Half = uint32x2_t;
type Wide = uint64x2_t;
type Shift = int64x2_t;

const WORDS: usize = 4;
/// Four by four sums, four split prefixes and a leaf fit the thirty-two registers.
const TILE_PREFIXES: usize = 4;

#[target_feature(enable = "neon")]
#[inline]
fn words(x: u32) -> Words {
    vdupq_n_u32(x)
}

#[target_feature(enable = "neon")]
#[inline]
fn half(x: u32) -> Half {
    vdup_n_u32(x)
}

/// NEON shifts left by a variable; to the right is a negative number.
#[target_feature(enable = "neon")]
#[inline]
fn shift(bits: u32) -> Shift {
    vdupq_n_s64(-i64::from(bits))
}

#[target_feature(enable = "neon")]
#[inline]
fn split(x: Words) -> (Half, Half) {
    (vget_low_u32(x), vget_high_u32(x))
}

/// The inverse of `split` for lanes below 2^32.
#[target_feature(enable = "neon")]
#[inline]
fn join(first: Wide, second: Wide) -> Words {
    vcombine_u32(vmovn_u64(first), vmovn_u64(second))
}

#[target_feature(enable = "neon")]
#[inline]
fn add(a: Words, b: Words) -> Words {
    vaddq_u32(a, b)
}

#[target_feature(enable = "neon")]
#[inline]
fn subtract(a: Words, b: Words) -> Words {
    vsubq_u32(a, b)
}

#[target_feature(enable = "neon")]
#[inline]
fn minimum(a: Words, b: Words) -> Words {
    vminq_u32(a, b)
}

#[target_feature(enable = "neon")]
#[inline]
fn multiply_halves(a: Half, b: Half) -> Wide {
    vmull_u32(a, b)
}

#[target_feature(enable = "neon")]
#[inline]
fn zero() -> Wide {
    vdupq_n_u64(0)
}

#[target_feature(enable = "neon")]
#[inline]
fn add_wide(a: Wide, b: Wide) -> Wide {
    vaddq_u64(a, b)
}

#[target_feature(enable = "neon")]
#[inline]
fn subtract_wide(a: Wide, b: Wide) -> Wide {
    vsubq_u64(a, b)
}

#[target_feature(enable = "neon")]
#[inline]
fn shift_right(x: Wide, bits: Shift) -> Wide {
    vshlq_u64(x, bits)
}

/// The low words of all lanes as factors.
#[target_feature(enable = "neon")]
#[inline]
fn low(x: Wide) -> Half {
    vmovn_u64(x)
}

/// The high words of all lanes as factors.
#[target_feature(enable = "neon")]
#[inline]
fn high(x: Wide) -> Half {
    vshrn_n_u64::<32>(x)
}

/// The low words of all lanes as 64-bit integers.
#[target_feature(enable = "neon")]
#[inline]
fn low_words(x: Wide) -> Wide {
    vandq_u64(x, vdupq_n_u64(0xffff_ffff))
}

/// The high words of all lanes as 64-bit integers.
#[target_feature(enable = "neon")]
#[inline]
fn high_words(x: Wide) -> Wide {
    vshrq_n_u64::<32>(x)
}

/// The sum of all lanes.
#[target_feature(enable = "neon")]
#[inline]
fn total(x: Wide) -> u64 {
    vaddvq_u64(x)
}

/// Two words as 64-bit integers.
#[target_feature(enable = "neon")]
#[inline]
fn widen(x: &[u32]) -> Wide {
    load_wide(&[x[0].into(), x[1].into()])
}

/// The first four residues of a slice. Panics if there are fewer.
#[target_feature(enable = "neon")]
#[inline]
fn load(from: &[u32]) -> Words {
    assert!(from.len() >= WORDS);
    // SAFETY: four words are readable, just checked.
    unsafe { vld1q_u32(from.as_ptr()) }
}

/// Writes the first four residues of a slice. Panics if there are fewer.
#[target_feature(enable = "neon")]
#[inline]
fn store(to: &mut [u32], x: Words) {
    assert!(to.len() >= WORDS);
    // SAFETY: four words are writable, just checked.
    unsafe { vst1q_u32(to.as_mut_ptr(), x) }
}

#[target_feature(enable = "neon")]
#[inline]
fn load_wide(from: &[u64]) -> Wide {
    assert!(from.len() >= WORDS / 2);
    // SAFETY: two 64-bit words are readable, just checked.
    unsafe { vld1q_u64(from.as_ptr()) }
}

#[target_feature(enable = "neon")]
#[inline]
fn store_wide(to: &mut [u64], x: Wide) {
    assert!(to.len() >= WORDS / 2);
    // SAFETY: two 64-bit words are writable, just checked.
    unsafe { vst1q_u64(to.as_mut_ptr(), x) }
}

kernels!("neon");
