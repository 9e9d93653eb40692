//! Seals the owner's own records: XChaCha20-Poly1305 under keys derived from the master key.

use crate::key::MasterKey;
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes that sealing adds: the nonce before the ciphertext, the tag after it.
pub(crate) const NONCE_BYTES: usize = 24;
pub(crate) const TAG_BYTES: usize = 16;

/// A record that could not be sealed or opened.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum SealError {
    #[error(
        "the record does not open with this key: it was altered, or it belongs to another key; use the key it was made with"
    )]
    Open,
    #[error("the operating system gave no randomness ({0}); nothing was written, try again")]
    Randomness(#[from] getrandom::Error),
}

impl MasterKey {
    /// Encrypts and authenticates `plaintext`, binding it to `context`. The nonce is hedged:
    /// `PRF(master, "seal nonce", randomness ‖ context ‖ SHA-256-sized PRF of the plaintext)`, so a
    /// generator that repeats its output repeats a nonce only for the same bytes.
    pub fn seal(&self, context: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut randomness = [0; 32];
        getrandom::fill(&mut randomness)?;
        let content = self.derive("seal content", &[plaintext]);
        let output = self.derive("seal nonce", &[&randomness, context, &*content]);
        let nonce = &output[..NONCE_BYTES];
        let mut sealed = nonce.to_vec();
        sealed.extend(encrypt(
            &self.derive("seal key", &[]),
            nonce,
            context,
            plaintext,
        ));
        Ok(sealed)
    }

    /// Opens data that [`MasterKey::seal`] sealed with the same context.
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (nonce, ciphertext) = sealed
            .split_at_checked(NONCE_BYTES)
            .ok_or(SealError::Open)?;
        decrypt(&self.derive("seal key", &[]), nonce, context, ciphertext).ok_or(SealError::Open)
    }
}

pub(crate) fn encrypt(key: &[u8; 32], nonce: &[u8], context: &[u8], plaintext: &[u8]) -> Vec<u8> {
    XChaCha20Poly1305::new(key.into())
        .encrypt(
            &xnonce(nonce),
            Payload {
                msg: plaintext,
                aad: context,
            },
        )
        .expect("the length is far below the cipher's limit")
}

pub(crate) fn decrypt(
    key: &[u8; 32],
    nonce: &[u8],
    context: &[u8],
    ciphertext: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    XChaCha20Poly1305::new(key.into())
        .decrypt(
            &xnonce(nonce),
            Payload {
                msg: ciphertext,
                aad: context,
            },
        )
        .ok()
        .map(Zeroizing::new)
}

fn xnonce(bytes: &[u8]) -> XNonce {
    XNonce::try_from(bytes).expect("callers pass 24 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_what_was_sealed() {
        let key = MasterKey::take(&mut [1; 32]);
        let sealed = key.seal(b"record", b"names").unwrap();
        assert_eq!(**key.open(b"record", &sealed).unwrap(), *b"names");
        assert!(key.open(b"other", &sealed).is_err());
        assert!(
            MasterKey::take(&mut [2; 32])
                .open(b"record", &sealed)
                .is_err()
        );
        for i in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[i] ^= 1;
            assert!(key.open(b"record", &altered).is_err(), "byte {i}");
            assert!(key.open(b"record", &sealed[..i]).is_err(), "length {i}");
        }
        assert_ne!(sealed, key.seal(b"record", b"names").unwrap());
    }
}
