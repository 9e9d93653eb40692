//! Loads and stores of sixteen words, shared by the AVX-512 kernels.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// Words in a register.
pub(crate) const WORDS: usize = 16;

/// Returns the first sixteen residues of a slice. Panics if it is shorter.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn load(from: &[u32]) -> __m512i {
    assert!(from.len() >= WORDS);
    // SAFETY: sixteen words are readable, just checked; the load is unaligned.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// Writes the first sixteen residues of a slice. Panics if it is shorter.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn store(to: &mut [u32], x: __m512i) {
    assert!(to.len() >= WORDS);
    // SAFETY: sixteen words are writable, just checked; the store is unaligned.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
}
