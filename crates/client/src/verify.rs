//! Verified answers: the only ones that requests, computations and output may depend on.
//!
//! A lying server chooses what the owner decrypts, and the owner's next request reveals one bit of it (`SECURITY.md`,
//! "A server that lies"). Code that chooses a request or shows a result therefore takes a [`Verified`] answer, which
//! only the submodules of this module construct.

pub(crate) mod arriving;
pub(crate) mod cells;
pub(crate) mod prefixes;
pub(crate) mod reading;
pub(crate) mod rows;

/// Answer that equals what the owner encrypted, or a value computed from such answers and the owner's record alone.
///
/// It cannot be constructed elsewhere:
///
/// ```compile_fail,E0423
/// let claimed = oboro_client::Verified(1943);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// Returns the verified value.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Computes a value from it and from the owner's own data.
    pub(crate) fn try_map<U, E>(
        self,
        follows: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<Verified<U>, E> {
        follows(self.0).map(Verified)
    }
}

impl<T> Verified<Vec<T>> {
    /// Creates an empty list of answers.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds an answer.
    pub(crate) fn push(&mut self, answer: Verified<T>) {
        self.0.push(answer.0);
    }
}
