//! NEON kernels: four residues at a time; the halves of a register are its first and its last two words.
//!
//! Other processors compile them for tests only, over emulated intrinsics.

#![allow(unsafe_code)]

use super::kernels::kernels;
use super::{AHEAD, LAZY_SUMS, Sum, scalar};
use crate::Modulus;
#[cfg(not(target_arch = "aarch64"))]
use emulated::*;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;

type Words = uint32x4_t;
type Half = uint32x2_t;
type Wide = uint64x2_t;
type Shift = int64x2_t;

const WORDS: usize = 4;
/// Prefixes per register tile: four by four sums, four split prefixes and a leaf fit the thirty-two registers.
const TILE_PREFIXES: usize = 4;

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn words(x: u32) -> Words {
    vdupq_n_u32(x)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn half(x: u32) -> Half {
    vdup_n_u32(x)
}

/// Negates a right shift: NEON shifts left by a variable amount, and right by a negative one.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn shift(bits: u32) -> Shift {
    vdupq_n_s64(-i64::from(bits))
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn split(x: Words) -> (Half, Half) {
    (vget_low_u32(x), vget_high_u32(x))
}

/// The inverse of `split` for lanes below 2^32.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn join(first: Wide, second: Wide) -> Words {
    vcombine_u32(vmovn_u64(first), vmovn_u64(second))
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn add(a: Words, b: Words) -> Words {
    vaddq_u32(a, b)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn subtract(a: Words, b: Words) -> Words {
    vsubq_u32(a, b)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn minimum(a: Words, b: Words) -> Words {
    vminq_u32(a, b)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn multiply_halves(a: Half, b: Half) -> Wide {
    vmull_u32(a, b)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn zero() -> Wide {
    vdupq_n_u64(0)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn add_wide(a: Wide, b: Wide) -> Wide {
    vaddq_u64(a, b)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn subtract_wide(a: Wide, b: Wide) -> Wide {
    vsubq_u64(a, b)
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn shift_right(x: Wide, bits: Shift) -> Wide {
    vshlq_u64(x, bits)
}

/// The low words of all lanes as factors.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn low(x: Wide) -> Half {
    vmovn_u64(x)
}

/// The high words of all lanes as factors.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn high(x: Wide) -> Half {
    vshrn_n_u64::<32>(x)
}

/// The low words of all lanes as 64-bit integers.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn low_words(x: Wide) -> Wide {
    vandq_u64(x, vdupq_n_u64(0xffff_ffff))
}

/// The high words of all lanes as 64-bit integers.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn high_words(x: Wide) -> Wide {
    vshrq_n_u64::<32>(x)
}

/// The sum of all lanes.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn total(x: Wide) -> u64 {
    vaddvq_u64(x)
}

/// The sum of all lanes of each register.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn totals(x: [Wide; 4]) -> [u64; 4] {
    [total(x[0]), total(x[1]), total(x[2]), total(x[3])]
}

/// Two words as 64-bit integers.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn widen(x: &[u32]) -> Wide {
    load_wide(&[x[0].into(), x[1].into()])
}

/// Returns the first four residues of a slice. Panics if it is shorter.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn load(from: &[u32]) -> Words {
    assert!(from.len() >= WORDS);
    // SAFETY: four words are readable, just checked.
    unsafe { vld1q_u32(from.as_ptr()) }
}

/// Writes the first four residues of a slice. Panics if it is shorter.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn store(to: &mut [u32], x: Words) {
    assert!(to.len() >= WORDS);
    // SAFETY: four words are writable, just checked.
    unsafe { vst1q_u32(to.as_mut_ptr(), x) }
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn load_wide(from: &[u64]) -> Wide {
    assert!(from.len() >= WORDS / 2);
    // SAFETY: two 64-bit words are readable, just checked.
    unsafe { vld1q_u64(from.as_ptr()) }
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[inline]
fn store_wide(to: &mut [u64], x: Wide) {
    assert!(to.len() >= WORDS / 2);
    // SAFETY: two 64-bit words are writable, just checked.
    unsafe { vst1q_u64(to.as_mut_ptr(), x) }
}

kernels!(cfg_attr(
    target_arch = "aarch64",
    target_feature(enable = "neon")
));

/// Semantics of the intrinsics used here, by Arm's Instruction Set Reference for Intrinsics.
#[cfg(not(target_arch = "aarch64"))]
#[allow(non_camel_case_types)]
mod emulated {
    pub type uint32x2_t = [u32; 2];
    pub type uint32x4_t = [u32; 4];
    pub type uint64x2_t = [u64; 2];
    pub type int64x2_t = [i64; 2];

    pub fn vdupq_n_u32(x: u32) -> uint32x4_t {
        [x; 4]
    }

    pub fn vdup_n_u32(x: u32) -> uint32x2_t {
        [x; 2]
    }

    pub fn vdupq_n_s64(x: i64) -> int64x2_t {
        [x; 2]
    }

    pub fn vdupq_n_u64(x: u64) -> uint64x2_t {
        [x; 2]
    }

    pub fn vget_low_u32(x: uint32x4_t) -> uint32x2_t {
        [x[0], x[1]]
    }

    pub fn vget_high_u32(x: uint32x4_t) -> uint32x2_t {
        [x[2], x[3]]
    }

    pub fn vcombine_u32(low: uint32x2_t, high: uint32x2_t) -> uint32x4_t {
        [low[0], low[1], high[0], high[1]]
    }

    pub fn vmovn_u64(x: uint64x2_t) -> uint32x2_t {
        x.map(|x| x as u32)
    }

    pub fn vshrn_n_u64<const BITS: i32>(x: uint64x2_t) -> uint32x2_t {
        x.map(|x| (x >> BITS) as u32)
    }

    pub fn vshrq_n_u64<const BITS: i32>(x: uint64x2_t) -> uint64x2_t {
        x.map(|x| x >> BITS)
    }

    /// Shifts left by a positive number of bits, right by a negative one.
    pub fn vshlq_u64(x: uint64x2_t, bits: int64x2_t) -> uint64x2_t {
        std::array::from_fn(|i| match bits[i] {
            0.. => x[i] << bits[i],
            right => x[i] >> -right,
        })
    }

    pub fn vaddq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    pub fn vsubq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }

    pub fn vminq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        std::array::from_fn(|i| a[i].min(b[i]))
    }

    pub fn vmull_u32(a: uint32x2_t, b: uint32x2_t) -> uint64x2_t {
        std::array::from_fn(|i| u64::from(a[i]) * u64::from(b[i]))
    }

    pub fn vaddq_u64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    pub fn vsubq_u64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }

    pub fn vandq_u64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        std::array::from_fn(|i| a[i] & b[i])
    }

    pub fn vaddvq_u64(x: uint64x2_t) -> u64 {
        x[0].wrapping_add(x[1])
    }

    /// Loads four words, which must be readable at `from`.
    pub unsafe fn vld1q_u32(from: *const u32) -> uint32x4_t {
        // SAFETY: as the caller's.
        unsafe { from.cast::<uint32x4_t>().read_unaligned() }
    }

    /// Stores four words, which must be writable at `to`.
    pub unsafe fn vst1q_u32(to: *mut u32, x: uint32x4_t) {
        // SAFETY: as the caller's.
        unsafe { to.cast::<uint32x4_t>().write_unaligned(x) }
    }

    /// Loads two words, which must be readable at `from`.
    pub unsafe fn vld1q_u64(from: *const u64) -> uint64x2_t {
        // SAFETY: as the caller's.
        unsafe { from.cast::<uint64x2_t>().read_unaligned() }
    }

    /// Stores two words, which must be writable at `to`.
    pub unsafe fn vst1q_u64(to: *mut u64, x: uint64x2_t) {
        // SAFETY: as the caller's.
        unsafe { to.cast::<uint64x2_t>().write_unaligned(x) }
    }
}
