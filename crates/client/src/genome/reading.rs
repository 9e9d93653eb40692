//! A query of the owner: its encryption, and the key that decrypts its answers.

use super::query::Pattern;
use oboro_genome::wire::{Answer, Ciphertext, EncryptedQuery, WireError};
use oboro_genome::{Kind, Plan};
use oboro_ring::Nonce;
use oboro_rlwe::QueryKey;
use std::sync::Arc;
use thiserror::Error;
use zeroize::Zeroizing;

/// Query in flight, with its key.
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

/// Error: the query cannot be encrypted.
#[derive(Debug, Clone, Error)]
#[allow(missing_docs)]
pub enum EncryptError {
    #[error("the system gives no randomness: {0}; try again later")]
    Randomness(#[from] getrandom::Error),
    #[error(transparent)]
    Seeds(#[from] WireError),
}

/// Error: the answers cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum ReadError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the server sent {found} answers where {expected} belong; it may be altered")]
    Answers { expected: u64, found: u64 },
    #[error(
        "the server's answers contradict each other: a beginning of {length} symbols is there, but not a shorter one; nothing is reported: do not ask again before you know why, since other decoys would show which place is meant"
    )]
    Contradiction { length: u32 },
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchResult {
    /// Number of matching rows; distinct ones, unless the query counts duplicates.
    Matches(u64),
    /// Length of the longest prefix that some row has.
    Longest(u32),
}

impl OwnQuery {
    /// Encrypts a pattern under the nonce that the server drew for it. `asked` encodes the collection and the positions
    /// in it; distinct queries must have distinct bytes.
    ///
    /// # Errors
    /// The system provides no randomness, or randomness from which no query can be made.
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

    /// Decrypts the tests of an answer, modulo the plan's prime: 0 where they hold.
    pub fn values(&self, answer: &Answer) -> Vec<u32> {
        let mask = (&*answer.mask, self.plan.mask_bits());
        self.key
            .decrypt(mask, self.places(answer), self.plan.value_bits())
    }

    /// As [`values`](Self::values) before rounding, in units of 2^-64 of the modulus; includes the noise.
    pub fn phases(&self, answer: &Answer) -> Vec<u64> {
        let mask = (&*answer.mask, self.plan.mask_bits());
        self.key
            .phases(mask, self.places(answer), self.plan.value_bits())
    }

    fn places(&self, answer: &Answer) -> impl Iterator<Item = (usize, u64)> {
        let values = answer.values.iter().enumerate();
        values.map(|(place, &value)| (self.plan.coefficient(place), value))
    }

    /// Reads the encoded answers of all windows, window after window, and returns the result of window `own`.
    ///
    /// Every window is decoded and decrypted, whatever the others contain. The work and the error are equal for any
    /// `own`: otherwise a server that alters one window would learn whether it is the real one.
    ///
    /// # Errors
    /// The number of answers is wrong, or any window has values that no rows could have produced.
    ///
    /// # Panics
    /// If window `own` does not exist.
    pub fn read(
        &self,
        answers: &[impl AsRef<[u8]>],
        windows: usize,
        own: usize,
    ) -> Result<SearchResult, ReadError> {
        let expected = self.plan.answers().saturating_mul(windows as u64);
        let found = answers.len() as u64;
        if expected != found {
            return Err(ReadError::Answers { expected, found });
        }
        let of_windows = answers.chunks_exact(answers.len() / windows.max(1));
        let read: Vec<_> = of_windows.map(|window| self.read_window(window)).collect();
        let found = read.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(found[own])
    }

    /// Reads all answers of a window, in order.
    fn read_window(&self, answers: &[impl AsRef<[u8]>]) -> Result<SearchResult, ReadError> {
        let mut zeros = Vec::new();
        for answer in answers {
            let answer = Answer::decode(answer.as_ref(), &self.plan)?;
            zeros.extend(self.values(&answer).into_iter().map(|value| value == 0));
        }
        let mut zeros = zeros.into_iter();
        let mut count = |tests: u64| -> u64 {
            let tests = zeros.by_ref().take(tests as usize);
            tests.map(u64::from).sum()
        };
        let groups = self.plan.spec().groups();
        let there: Vec<u64> = groups.into_iter().map(&mut count).collect();
        match self.plan.spec().kind() {
            Kind::Match { .. } => Ok(SearchResult::Matches(there[0])),
            Kind::Longest => {
                let longest = there.iter().take_while(|&&count| count > 0).count();
                match there[longest..].iter().position(|&count| count > 0) {
                    Some(beyond) => Err(ReadError::Contradiction {
                        length: (longest + beyond + 1) as u32,
                    }),
                    None => Ok(SearchResult::Longest(longest as u32)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_genome::SearchSpec;

    const WINDOWS: usize = 5;

    fn query() -> OwnQuery {
        let spec = SearchSpec::new(4, 2, 3, Kind::Longest).unwrap();
        let plan = Arc::new(Plan::new(spec).unwrap());
        let pattern = Pattern::of_alleles("0101").unwrap();
        OwnQuery::encrypt(plan, &pattern, &Nonce([3; 32]), &[]).unwrap()
    }

    /// Makes the only answer of a window that contains beginnings of these lengths.
    fn answer(plan: &Plan, there: impl Fn(usize) -> bool) -> Vec<u8> {
        assert_eq!(plan.answers(), 1);
        let not_zero = 1 << (plan.value_bits() - 1);
        let groups = (1..).zip(plan.spec().groups());
        let mut values: Vec<u64> = groups
            .flat_map(|(length, tests)| {
                vec![if there(length) { 0 } else { not_zero }; tests as usize]
            })
            .collect();
        values.resize(plan.tests_per_answer(), not_zero);
        // Without a mask a ciphertext is its own phase, whatever the key.
        let mask = vec![0; plan.ring().basis().degree()];
        Answer { mask, values }.encode(plan)
    }

    #[test]
    fn every_window_is_read() {
        let query = query();
        let plan = query.plan();
        let honest: Vec<Vec<u8>> = (0..WINDOWS)
            .map(|window| answer(plan, |length| length <= window))
            .collect();
        for own in 0..WINDOWS {
            let found = query.read(&honest, WINDOWS, own);
            assert_eq!(found, Ok(SearchResult::Longest(own as u32)));
        }
        let contradiction = answer(plan, |length| length == 2);
        let cut = honest[0][1..].to_vec();
        for wrong in [contradiction, cut] {
            let mut errors = Vec::new();
            for altered in 0..WINDOWS {
                let mut answers = honest.clone();
                answers[altered].clone_from(&wrong);
                errors.extend((0..WINDOWS).map(|own| query.read(&answers, WINDOWS, own)));
            }
            assert!(errors[0].is_err());
            assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        }
        let missing = query.read(&honest[1..], WINDOWS, 0);
        assert!(
            matches!(missing, Err(ReadError::Answers { .. })),
            "{missing:?}"
        );
    }
}
