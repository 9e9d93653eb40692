//! A query of the owner: its encryption, and the key that reads its answers.

use crate::Pattern;
use oboro_genome::wire::{Answer, Ciphertext, EncryptedQuery, WireError};
use oboro_genome::{Kind, Plan};
use oboro_ring::Nonce;
use oboro_rlwe::QueryKey;
use std::sync::Arc;
use thiserror::Error;
use zeroize::Zeroizing;

/// A query in flight: its key, and the results of its answers so far.
pub struct OwnQuery {
    plan: Arc<Plan>,
    key: QueryKey,
    encrypted: EncryptedQuery,
}

impl std::fmt::Debug for OwnQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnQuery").finish_non_exhaustive()
    }
}

/// Why a query cannot be encrypted.
#[derive(Debug, Clone, Error)]
#[allow(missing_docs)]
pub enum EncryptError {
    #[error("the system gives no randomness: {0}; try again later")]
    Randomness(#[from] getrandom::Error),
    #[error(transparent)]
    Seeds(#[from] WireError),
}

/// Answers that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum ReadError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the server sent {found} answers where {expected} belong; ask again")]
    Answers { expected: u64, found: u64 },
    #[error(
        "the server's answers contradict each other: a beginning of {length} symbols is there, but not a shorter one"
    )]
    Contradiction { length: u32 },
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Matching rows; distinct ones, unless the server was asked to count duplicates.
    Matches(u64),
    /// The length of the longest prefix that some row has.
    Longest(u32),
}

impl OwnQuery {
    /// Encrypts a pattern under the nonce that the server drew for it. `asked` encodes what else the query is about,
    /// the collection and the positions in it; distinct queries must have distinct bytes.
    ///
    /// # Errors
    /// No randomness, or randomness from which no query can be made.
    ///
    /// # Panics
    /// If the pattern does not match the plan.
    pub fn encrypt(
        plan: Arc<Plan>,
        pattern: &Pattern,
        nonce: &Nonce,
        asked: &[u8],
    ) -> Result<Self, EncryptError> {
        let terms = Zeroizing::new(plan.spec().encode(pattern.symbols()));
        let asked = [&*plan.encode(), asked];
        let (key, query) = QueryKey::encrypt(plan.ring(), nonce, &asked, plan.width(), &terms)?;
        let ciphertext = |(seed, residues)| Ciphertext { seed, residues };
        let encrypted = EncryptedQuery {
            ciphertexts: query.terms.into_iter().map(ciphertext).collect(),
            public_key: query.public_key,
        };
        encrypted.check_seeds(nonce)?;
        Ok(Self {
            plan,
            key,
            encrypted,
        })
    }

    /// The encrypted query to send.
    pub fn encrypted(&self) -> &EncryptedQuery {
        &self.encrypted
    }

    /// The plan of the query.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The decrypted tests of an answer, modulo the plan's prime: 0 where they hold.
    pub fn values(&self, answer: &Answer) -> Vec<u32> {
        let mask = (&*answer.mask, self.plan.mask_bits());
        self.key
            .decrypt(mask, self.places(answer), self.plan.value_bits())
    }

    /// The same before rounding, in units of 2^-64 of the modulus; includes the noise.
    pub fn phases(&self, answer: &Answer) -> Vec<u64> {
        let mask = (&*answer.mask, self.plan.mask_bits());
        self.key
            .phases(mask, self.places(answer), self.plan.value_bits())
    }

    fn places(&self, answer: &Answer) -> impl Iterator<Item = (usize, u64)> {
        let values = answer.values.iter().enumerate();
        values.map(|(place, &value)| (self.plan.coefficient(place), value))
    }

    /// Reads all answers of a window, in order.
    ///
    /// # Errors
    /// Too few or too many answers, or values that no rows could have produced.
    pub fn read(&self, answers: &[Answer]) -> Result<Found, ReadError> {
        let (expected, found) = (self.plan.answers(), answers.len() as u64);
        if expected != found {
            return Err(ReadError::Answers { expected, found });
        }
        let mut values = answers.iter().flat_map(|answer| self.values(answer));
        let groups = self.plan.spec().groups();
        let mut count = |tests: u64| -> u64 {
            let tests = values.by_ref().take(tests as usize);
            tests.filter(|&value| value == 0).count() as u64
        };
        let there: Vec<u64> = groups.into_iter().map(&mut count).collect();
        match self.plan.spec().kind() {
            Kind::Match { .. } => Ok(Found::Matches(there[0])),
            Kind::Longest => {
                let longest = there.iter().take_while(|&&count| count > 0).count();
                match there[longest..].iter().position(|&count| count > 0) {
                    Some(beyond) => Err(ReadError::Contradiction {
                        length: (longest + beyond + 1) as u32,
                    }),
                    None => Ok(Found::Longest(longest as u32)),
                }
            }
        }
    }
}
