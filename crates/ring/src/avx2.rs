//! Loads and stores of eight words, shared by the AVX2 kernels.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// Returns the first eight residues of a slice. Panics if it is shorter.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn load(from: &[u32]) -> __m256i {
    assert!(from.len() >= 8);
    // SAFETY: eight words are readable, just checked; the load is unaligned.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Writes the first eight residues of a slice. Panics if it is shorter.
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn store(to: &mut [u32], x: __m256i) {
    assert!(to.len() >= 8);
    // SAFETY: eight words are writable, just checked; the store is unaligned.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
}
