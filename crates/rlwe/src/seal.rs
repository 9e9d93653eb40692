//! Seals the owner's own records: XChaCha20-Poly1305 under a key derived from the dataset key.

use crate::key::DatasetKey;
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use thiserror::Error;
use zeroize::Zeroizing;

/// Number of bytes that sealing adds: the nonce before the ciphertext, the tag after it.
pub(crate) const NONCE_BYTES: usize = 24;
pub(crate) const TAG_BYTES: usize = 16;

/// Error: the record could not be sealed or opened.
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

impl DatasetKey {
    /// Seals a record of this dataset: encrypts and authenticates it, bound to dataset and purpose.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn seal(&self, what: &str, plaintext: &[u8]) -> Result<Vec<u8>, SealError> {
        self.seal_bytes(&self.context(what), plaintext)
    }

    /// Opens a record that [`DatasetKey::seal`] sealed for this dataset and purpose.
    ///
    /// # Errors
    /// The record was altered, or sealed by another key, for another dataset or purpose.
    pub fn open(&self, what: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        self.open_bytes(&self.context(what), sealed)
    }

    fn context(&self, what: &str) -> Vec<u8> {
        [what.as_bytes(), &self.dataset()].concat()
    }

    /// Encrypts and authenticates `plaintext`, binding it to `context`. The nonce is hedged:
    /// `PRF(dataset key, "seal nonce", randomness, context, PRF(dataset key, "seal content", plaintext))`. A generator
    /// that repeats its output repeats a nonce only for equal bytes.
    pub(crate) fn seal_bytes(
        &self,
        context: &[u8],
        plaintext: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let mut randomness = [0; 32];
        getrandom::fill(&mut randomness)?;
        let content = self.derive_plain("seal content", &[plaintext]);
        let output = self.derive_plain("seal nonce", &[&randomness, context, &*content]);
        let nonce = &output[..NONCE_BYTES];
        let mut sealed = nonce.to_vec();
        sealed.extend(encrypt(
            &self.derive_plain("seal key", &[]),
            nonce,
            context,
            plaintext,
        ));
        Ok(sealed)
    }

    /// Opens data that [`DatasetKey::seal_bytes`] sealed with this context.
    pub(crate) fn open_bytes(
        &self,
        context: &[u8],
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (nonce, ciphertext) = sealed
            .split_at_checked(NONCE_BYTES)
            .ok_or(SealError::Open)?;
        let key = self.derive_plain("seal key", &[]);
        decrypt(&key, nonce, context, ciphertext).ok_or(SealError::Open)
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
    use crate::key::tests::key as key_of;
    use oboro_ring::Parameters;

    #[test]
    fn opens_only_what_was_sealed() {
        let parameters = Parameters::new(10, 1, 12289).unwrap();
        let (key, other) = (key_of(1, &parameters), key_of(2, &parameters));
        let sealed = key.seal_bytes(b"record", b"names").unwrap();
        assert_eq!(**key.open_bytes(b"record", &sealed).unwrap(), *b"names");
        assert!(key.open_bytes(b"other", &sealed).is_err());
        assert!(other.open_bytes(b"record", &sealed).is_err());
        for i in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[i] ^= 1;
            assert!(key.open_bytes(b"record", &altered).is_err(), "byte {i}");
            assert!(
                key.open_bytes(b"record", &sealed[..i]).is_err(),
                "length {i}"
            );
        }
        assert_ne!(sealed, key.seal_bytes(b"record", b"names").unwrap());
    }
}
