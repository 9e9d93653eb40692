//! Seals under a passphrase: Argon2id derives the key, XChaCha20-Poly1305 seals.

use crate::prf::prf;
use crate::seal::{NONCE_BYTES, TAG_BYTES, decrypt, encrypt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use std::ops::Range;
use thiserror::Error;
use zeroize::Zeroizing;

/// Argon2id costs: memory and passes of RFC 9106's second recommendation, on one lane, since the implementation
/// computes lanes sequentially. No others are accepted: altered bytes must not set memory or time.
pub(crate) const COST: Cost = Cost {
    memory_kib: 64 << 10,
    passes: 3,
    lanes: 1,
};
/// Reason for rejecting other costs.
pub(crate) const OTHER_COSTS: &str = "its Argon2id costs are not those that Oboro writes";

/// Passphrase, wiped when dropped.
pub type Passphrase = Zeroizing<String>;

/// Argon2id costs, in the order in which they are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) memory_kib: u32,
    pub(crate) passes: u32,
    pub(crate) lanes: u32,
}

pub(crate) const SALT_BYTES: usize = 16;
const SALT: Range<usize> = 12..12 + SALT_BYTES;
const NONCE: Range<usize> = SALT.end..SALT.end + NONCE_BYTES;

/// Number of bytes that [`seal_under_passphrase`] adds: costs, salt and nonce before the ciphertext, the tag after it.
pub const PASSPHRASE_SEAL_BYTES: usize = NONCE.end + TAG_BYTES;

/// Error of sealing or opening under a passphrase.
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

/// Encrypts and authenticates `plaintext`, binding it to `context`, with a fresh, hedged salt and nonce.
/// `docs/formats.md` has the layout.
///
/// # Errors
/// The passphrase is empty, or the system provides no randomness.
pub fn seal_under_passphrase(
    passphrase: &Passphrase,
    context: &[u8],
    plaintext: &[u8],
) -> Result<Vec<u8>, PassphraseError> {
    if passphrase.is_empty() {
        return Err(PassphraseError::Empty);
    }
    let mut randomness = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *randomness)?;
    let (salt, nonce) = salt_and_nonce(&randomness, context, plaintext);
    Ok(seal(passphrase, context, plaintext, &salt, &nonce))
}

/// Derives the salt, `PRF(PRF(randomness, "passphrase content", context ‖ plaintext), "passphrase salt")`, and likewise
/// the nonce. A generator that repeats its output repeats them only for equal bytes. The passphrase is no input: a
/// guess of it could be tested without Argon2id.
pub(crate) fn salt_and_nonce(
    randomness: &[u8; 32],
    context: &[u8],
    plaintext: &[u8],
) -> ([u8; SALT_BYTES], [u8; NONCE_BYTES]) {
    let content = prf(randomness, "passphrase content", &[context, plaintext]);
    let salt = prf(&content, "passphrase salt", &[]);
    let nonce = prf(&content, "passphrase nonce", &[]);
    let start = "an output is longer";
    (
        *salt.first_chunk().expect(start),
        *nonce.first_chunk().expect(start),
    )
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
    let key = wrapping_key(passphrase, salt);
    let ciphertext = encrypt(&key, nonce, &[context, &sealed].concat(), plaintext);
    sealed.extend(ciphertext);
    sealed
}

/// Opens bytes that [`seal_under_passphrase`] sealed with this context.
///
/// # Errors
/// The passphrase or context is another, the bytes were altered, or the costs are not Oboro's.
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
    if cost != COST {
        return Err(PassphraseError::Malformed(OTHER_COSTS));
    }
    let key = wrapping_key(passphrase, &head[SALT]);
    let context = [context, head].concat();
    decrypt(&key, &head[NONCE], &context, ciphertext).ok_or(PassphraseError::Open)
}

/// Computes Argon2id (RFC 9106) of the passphrase.
pub(crate) fn wrapping_key(passphrase: &Passphrase, salt: &[u8]) -> Zeroizing<[u8; 32]> {
    let Cost {
        memory_kib,
        passes,
        lanes,
    } = COST;
    let params = Params::new(memory_kib, passes, lanes, Some(32)).expect("valid costs");
    let mut key = Zeroizing::new([0; 32]);
    let mut memory = Zeroizing::new(vec![Block::default(); params.block_count()]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(passphrase.as_bytes(), salt, &mut *key, &mut memory[..])
        .expect("a salt and a key of valid lengths, and memory for these costs");
    key
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
        // The costs come first: altered ones set neither memory nor time. 1 GiB, 64 passes, 4 lanes; then small ones.
        for (at, cost) in [(0, 1 << 20), (4, 64), (8, 4), (0, 8), (4, 1)] {
            let mut altered = sealed.clone();
            altered[at..at + 4].copy_from_slice(&u32::to_le_bytes(cost));
            let error = open("moon", b"context", &altered).unwrap_err();
            assert!(
                matches!(error, PassphraseError::Malformed(OTHER_COSTS)),
                "{error}"
            );
        }
    }

    #[test]
    fn a_repeating_generator_repeats_salt_and_nonce_for_the_same_bytes_only() {
        let (randomness, other) = ([7; 32], [8; 32]);
        let first = salt_and_nonce(&randomness, b"context", b"plaintext");
        assert_eq!(salt_and_nonce(&randomness, b"context", b"plaintext"), first);
        for (randomness, context, plaintext) in [
            (&other, &b"context"[..], &b"plaintext"[..]),
            (&randomness, b"another", b"plaintext"),
            (&randomness, b"context", b"another"),
            (&randomness, b"contextp", b"laintext"),
        ] {
            let (salt, nonce) = salt_and_nonce(randomness, context, plaintext);
            assert!(
                salt != first.0 && nonce != first.1,
                "{context:?} {plaintext:?}"
            );
        }
        assert_ne!(first.0[..], first.1[..SALT_BYTES]);
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
