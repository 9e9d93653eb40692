//! What may be computed on, shown and asked further about: answers that were verified.
//!
//! A server that lies chooses what the owner decrypts, and the owner's next question is one bit of it (`SECURITY.md`,
//! "A server that lies"). So nothing that chooses a question or shows a result takes an answer as it came, only a
//! [`Verified`] one, and only the modules below this one make those.

pub(crate) mod arriving;
pub(crate) mod cells;
pub(crate) mod prefixes;
pub(crate) mod rows;

use crate::error::ClientError;
use oboro_mining::Dataset;

/// Refuses to ask about a dataset after an answer was found to be false, until the owner decides.
pub(crate) fn check_trust(dataset: &Dataset) -> Result<(), ClientError> {
    match dataset.trust()?.failure {
        None => Ok(()),
        Some(failure) => Err(ClientError::Distrusted {
            directory: dataset.bundle().directory().into(),
            unix_seconds: failure.unix_seconds,
            what: failure.what,
        }),
    }
}

/// An answer that is what the owner encrypted, or what follows from such answers and the owner's record alone.
///
/// Nobody else makes one:
///
/// ```compile_fail,E0423
/// let claimed = oboro_client::Verified(1943);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// What was verified.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// The same, given away.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// What follows from it and from what the owner knows.
    pub(crate) fn try_map<U, E>(
        self,
        follows: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<Verified<U>, E> {
        follows(self.0).map(Verified)
    }
}

impl<T> Verified<Vec<T>> {
    /// No answers.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// One more.
    pub(crate) fn push(&mut self, answer: Verified<T>) {
        self.0.push(answer.0);
    }
}
