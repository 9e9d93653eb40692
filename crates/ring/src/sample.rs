//! Distributions of the scheme: ternary secrets and small errors from 32-byte seeds; uniform numbers and permutations
//! from a generator.
//!
//! A sample is as secret as its seed; owner and server sample separately. No function branches on values that it
//! returns: rejection sampling branches on rejected values only. Numbers and permutations are exactly uniform if the
//! generator's words are.

#![allow(unsafe_code)]

use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20::rand_core::{Rng, SeedableRng};
use chacha20::{ChaCha20Legacy, ChaCha20Rng};
use shake::{ExtendableOutput, Shake256, Update, XofReader};
use zeroize::Zeroizing;

/// Half the number of coins of one error coefficient: a centred binomial of variance 10.5, as in Microsoft SEAL.
pub const ETA: u32 = 21;

/// Largest magnitude of an error coefficient.
pub const MAX_ERROR: i32 = ETA as i32;

/// Variance of an error coefficient, and its variance proxy as a sub-Gaussian variable.
pub const ERROR_VARIANCE: f64 = ETA as f64 / 2.0;

/// Fills `out` with uniform ternary coefficients −1, 0, 1: bytes of
/// `SHAKE256("oboro v1 ternary" ‖ seed)` below 255, modulo 3, with 2 standing for −1.
pub fn ternary(seed: &[u8; 32], out: &mut [i8]) {
    let mut xof = Shake256::default();
    xof.update(b"oboro v1 ternary");
    xof.update(seed);
    let mut stream = xof.finalize_xof();
    let mut buffer = Zeroizing::new([0u8; 136]);
    let mut filled = 0;
    while filled < out.len() {
        stream.read(&mut *buffer);
        for &byte in buffer.iter() {
            if byte != 255 && filled < out.len() {
                let trit = (byte % 3) as i8;
                out[filled] = trit - 3 * (trit >> 1);
                filled += 1;
            }
        }
    }
}

/// Fills `out` with centred binomial errors: 42 coins each, from the ChaCha20 stream (64-bit nonce and counter, both 0
/// at first) keyed by the seed.
pub fn centred_binomial(seed: &[u8; 32], out: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: this processor has the instruction.
        return unsafe { count_coins_by_instruction(seed, out) };
    }
    count_coins(seed, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn count_coins_by_instruction(seed: &[u8; 32], out: &mut [i32]) {
    count_coins(seed, out);
}

#[inline(always)]
fn count_coins(seed: &[u8; 32], out: &mut [i32]) {
    const BYTES: usize = 6;
    const HEADS: u64 = (1 << ETA) - 1;
    const TAILS: u64 = HEADS << ETA;
    /// Errors per batch: three times the widest batch of cipher blocks.
    const AT_ONCE: usize = 512;
    let mut stream = ChaCha20Legacy::new(seed.into(), &[0; 8].into());
    // The last word read extends beyond the last coins.
    let mut buffer = Zeroizing::new([0u8; AT_ONCE * BYTES + (size_of::<u64>() - BYTES)]);
    for errors in out.chunks_mut(AT_ONCE) {
        stream.write_keystream(&mut buffer[..AT_ONCE * BYTES]);
        let words = buffer.windows(size_of::<u64>()).step_by(BYTES);
        for (error, coins) in errors.iter_mut().zip(words) {
            let word = u64::from_le_bytes(coins.try_into().expect("eight bytes"));
            // Ones of the lower half minus ones of the upper, plus `ETA`, since upper bits are inverted.
            let coins = (word ^ TAILS) & (HEADS | TAILS);
            *error = coins.count_ones() as i32 - MAX_ERROR;
        }
    }
}

/// Derives the seed for one `purpose`: `SHAKE256("oboro v1 seed" ‖ randomness ‖ purpose)`. A generator that repeats its
/// randomness, as after a rollback of a virtual machine, repeats a seed only for an equal purpose.
pub fn seed(randomness: &[u8; 32], purpose: &[&[u8; 32]]) -> Zeroizing<[u8; 32]> {
    let mut xof = Shake256::default();
    xof.update(b"oboro v1 seed");
    xof.update(randomness);
    for part in purpose {
        xof.update(*part);
    }
    let mut seed = Zeroizing::new([0; 32]);
    xof.finalize_xof().read(&mut *seed);
    seed
}

/// Returns a generator for one purpose, seeded by the operating system. A long-lived generator, such as the
/// thread-local one of `rand`, would repeat its stream in every fork.
///
/// # Errors
/// The operating system provides no randomness.
pub fn fresh_generator() -> Result<ChaCha20Rng, getrandom::Error> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    Ok(ChaCha20Rng::from_seed(*seed))
}

/// Returns a uniform number below `bound`: the high word of its product with a random word. Words that would cause a
/// bias are rejected (Lemire, ACM TOMACS 29, 2019).
///
/// Panics if the bound is 0.
pub fn below(random: &mut impl Rng, bound: u64) -> u64 {
    let rejected = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(random.next_u64()) * u128::from(bound);
        if product as u64 >= rejected {
            return (product >> 64) as u64;
        }
    }
}

/// Permutes items uniformly (Fisher and Yates).
pub fn shuffle<T>(random: &mut impl Rng, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(random, last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::rand_core::{TryRng, utils};
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    /// Generator that returns given words.
    struct Words(Vec<u64>);

    impl TryRng for Words {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            self.try_next_u64().map(|word| word as u32)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(self.0.remove(0))
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
        }
    }

    #[test]
    fn words_that_would_favour_a_number_are_rejected() {
        // 2^64 = 1 mod 3: one word is too many. 2^64 = 2^62 mod 3·2^62: a quarter of them are.
        assert_eq!(below(&mut Words(vec![0, u64::MAX]), 3), 2);
        assert_eq!(below(&mut Words(vec![1]), 3), 0);
        let large = 3 << 62;
        assert_eq!(below(&mut Words(vec![0, 4, 3]), large), 2);
        assert_eq!(below(&mut Words(vec![0]), 1 << 63), 0);
        assert_eq!(below(&mut Words(vec![u64::MAX]), 1), 0);
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut random = ChaCha20Rng::from_seed([8; 32]);
        let mut counts = BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            shuffle(&mut random, &mut items);
            *counts.entry(items).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        // 23 degrees of freedom: above 65 with probability 10^-5.
        let chi: f64 = counts
            .values()
            .map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0)
            .sum();
        assert!(chi < 65.0, "chi-square {chi}");
    }

    #[test]
    fn ternary_is_uniform_and_stable() {
        let mut all = vec![0i8; 1 << 18];
        ternary(&[3; 32], &mut all);
        // 2^18 thirds: four standard deviations are 970.
        for value in [-1, 0, 1] {
            let count = all.iter().filter(|&&x| x == value).count() as i64;
            assert!((count - (1 << 18) / 3).abs() < 970, "{value}: {count}");
        }
        // Python: [(0,1,-1)[b%3] for b in hashlib.shake_256(b"oboro v1 ternary"+bytes([3])*32).digest(8)]
        assert_eq!(all[..8], [1, -1, 1, 1, -1, 1, 1, 0]);
    }

    #[test]
    fn errors_are_centred_binomial() {
        let mut all = vec![0i32; 1 << 18];
        centred_binomial(&[5; 32], &mut all);
        // From an independent ChaCha20 (RFC 8439). Retries stay identical only if the errors do.
        assert_eq!(all[..8], [-8, 0, -1, 4, -4, -4, 3, -2]);
        let n = all.len() as f64;
        let mean = all.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = all.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n;
        let fourth = all.iter().map(|&x| f64::from(x).powi(4)).sum::<f64>() / n;
        assert!(mean.abs() < 0.03, "mean {mean}");
        assert!((variance - 10.5).abs() < 0.15, "variance {variance}");
        // Kurtosis of the sum of 42 fair ±1/2 steps: 3 − 2/42.
        assert!((fourth / variance.powi(2) - (3.0 - 2.0 / 42.0)).abs() < 0.05);
        assert!(all.iter().all(|x| x.abs() <= MAX_ERROR));
        let mut portable = vec![0i32; all.len()];
        count_coins(&[5; 32], &mut portable);
        assert!(portable == all);
        // Any prefix has the coins of the generator of the same name.
        let mut coins = vec![0; 5000 * 6];
        ChaCha20Rng::from_seed([5; 32]).fill_bytes(&mut coins);
        let ones = |word: u64| (word % (1 << ETA)).count_ones() as i32;
        let word = |c: &[u8]| u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], 0, 0]);
        let words = coins.chunks_exact(6).map(word);
        let expected: Vec<i32> = words.map(|word| ones(word) - ones(word >> ETA)).collect();
        for count in [1, 511, 512, 513, 5000] {
            let mut some = vec![0; count];
            centred_binomial(&[5; 32], &mut some);
            assert_eq!(some, expected[..count]);
        }
    }
}
