//! Seals under a passphrase: Argon2id makes the key, XChaCha20-Poly1305 seals.

use crate::seal::{NONCE_BYTES, TAG_BYTES, decrypt, encrypt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use std::ops::Range;
use thiserror::Error;
use zeroize::Zeroizing;

/// Argon2id costs of new seals: the memory and passes of RFC 9106's second recommendation, on one lane, since the
/// implementation computes lanes sequentially.
pub(crate) const COST: Cost = Cost {
    memory_kib: 64 << 10,
    passes: 3,
    lanes: 1,
};
/// Costs above these are refused: altered bytes must not exhaust memory or time.
pub(crate) const COST_LIMIT: Cost = Cost {
    memory_kib: 1 << 20,
    passes: 64,
    lanes: 64,
};

/// A passphrase, wiped when dropped.
pub type Passphrase = Zeroizing<String>;

#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) memory_kib: u32,
    pub(crate) passes: u32,
    pub(crate) lanes: u32,
}

impl Cost {
    pub(crate) fn is_beyond_limit(self) -> bool {
        self.memory_kib > COST_LIMIT.memory_kib
            || self.passes > COST_LIMIT.passes
            || self.lanes > COST_LIMIT.lanes
    }
}

pub(crate) const SALT_BYTES: usize = 16;
const SALT: Range<usize> = 12..12 + SALT_BYTES;
const NONCE: Range<usize> = SALT.end..SALT.end + NONCE_BYTES;

/// Bytes that [`seal_under_passphrase`] adds: costs, salt and nonce before the ciphertext, the tag after it.
pub const PASSPHRASE_SEAL_BYTES: usize = NONCE.end + TAG_BYTES;

/// What could not be sealed or opened under a passphrase.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum PassphraseError {
    #[error("an empty passphrase protects nothing; give one")]
    Empty,
    #[error(
        "the passphrase does not open it, or it was altered; try again with the passphrase that it was sealed under"
    )]
    Open,
    #[error("it was altered: {0}")]
    Malformed(&'static str),
    #[error("the operating system gave no randomness ({0}); nothing was written, try again")]
    Randomness(#[from] getrandom::Error),
}

/// Encrypts and authenticates `plaintext`, binding it to `context`, with a fresh salt and nonce. Layout in
/// `docs/formats.md`.
///
/// # Errors
/// An empty passphrase, no randomness.
pub fn seal_under_passphrase(
    passphrase: &Passphrase,
    context: &[u8],
    plaintext: &[u8],
) -> Result<Vec<u8>, PassphraseError> {
    if passphrase.is_empty() {
        return Err(PassphraseError::Empty);
    }
    let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; NONCE_BYTES]);
    getrandom::fill(&mut salt)?;
    getrandom::fill(&mut nonce)?;
    Ok(seal(passphrase, context, plaintext, &salt, &nonce))
}

fn seal(
    passphrase: &Passphrase,
    context: &[u8],
    plaintext: &[u8],
    salt: &[u8; SALT_BYTES],
    nonce: &[u8; NONCE_BYTES],
) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(PASSPHRASE_SEAL_BYTES + plaintext.len());
    for cost in [COST.memory_kib, COST.passes, COST.lanes] {
        sealed.extend(cost.to_le_bytes());
    }
    sealed.extend(salt);
    sealed.extend(nonce);
    let key = wrapping_key(passphrase, salt, COST).expect("the built-in costs are valid");
    let ciphertext = encrypt(&key, nonce, &[context, &sealed].concat(), plaintext);
    sealed.extend(ciphertext);
    sealed
}

/// Opens what [`seal_under_passphrase`] sealed with the same context.
///
/// # Errors
/// Another passphrase or context, altered bytes, costs beyond any that Oboro writes.
pub fn open_under_passphrase(
    passphrase: &Passphrase,
    context: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    let (head, ciphertext) = sealed
        .split_at_checked(NONCE.end)
        .ok_or(PassphraseError::Malformed("it ends too early"))?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let cost = Cost {
        memory_kib: word(0),
        passes: word(4),
        lanes: word(8),
    };
    if cost.is_beyond_limit() {
        let what = "its Argon2id costs are beyond any that Oboro writes";
        return Err(PassphraseError::Malformed(what));
    }
    let key = wrapping_key(passphrase, &head[SALT], cost)
        .ok_or(PassphraseError::Malformed("its Argon2id costs are invalid"))?;
    let context = [context, head].concat();
    decrypt(&key, &head[NONCE], &context, ciphertext).ok_or(PassphraseError::Open)
}

/// Argon2id (RFC 9106) of the passphrase; `None` if the costs are invalid.
pub(crate) fn wrapping_key(
    passphrase: &Passphrase,
    salt: &[u8],
    cost: Cost,
) -> Option<Zeroizing<[u8; 32]>> {
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).ok()?;
    let mut key = Zeroizing::new([0; 32]);
    let mut memory = Zeroizing::new(vec![Block::default(); params.block_count()]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(passphrase.as_bytes(), salt, &mut *key, &mut memory[..])
        .ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moon() -> Passphrase {
        Zeroizing::new("moon".to_owned())
    }

    fn golden() -> Vec<u8> {
        seal(&moon(), b"context", b"plaintext", &[1; 16], &[2; 24])
    }

    #[test]
    fn golden_seal() {
        let hex: String = golden().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            include_str!("../tests/golden/passphrase-seal.hex").trim()
        );
    }

    #[test]
    fn opens_only_what_was_sealed_under_this_passphrase() {
        let open = |passphrase: &str, context: &[u8], sealed: &[u8]| {
            open_under_passphrase(&Zeroizing::new(passphrase.to_owned()), context, sealed)
        };
        let sealed = golden();
        assert_eq!(sealed.len(), PASSPHRASE_SEAL_BYTES + 9);
        assert_eq!(**open("moon", b"context", &sealed).unwrap(), *b"plaintext");
        for (passphrase, context) in [("sun", &b"context"[..]), ("", b"context"), ("moon", b"-")] {
            let error = open(passphrase, context, &sealed).unwrap_err();
            assert!(matches!(error, PassphraseError::Open), "{error}");
        }
        // One byte of each field, and the ends.
        for at in [0, 4, 8, 12, 27, 28, 51, 52, 61, 76] {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(open("moon", b"context", &altered).is_err(), "byte {at}");
            assert!(open("moon", b"context", &sealed[..at]).is_err(), "{at}");
        }
        // Costs first: altered bytes must not exhaust memory.
        let mut greedy = sealed.clone();
        greedy[..4].fill(0xff);
        let error = open("moon", b"context", &greedy).unwrap_err();
        assert!(matches!(error, PassphraseError::Malformed(_)), "{error}");
    }

    #[test]
    fn seals_are_fresh_and_need_a_passphrase() {
        let seal = || seal_under_passphrase(&moon(), b"", b"x").unwrap();
        let (one, other) = (seal(), seal());
        assert_ne!(one[SALT], other[SALT]);
        assert_ne!(one[NONCE], other[NONCE]);
        let empty = seal_under_passphrase(&Passphrase::default(), b"", b"x");
        assert!(matches!(empty, Err(PassphraseError::Empty)));
    }
}
