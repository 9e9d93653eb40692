//! Wire encoding of an encrypted query and its answers.

use crate::Plan;
use crate::plan::SEED_BYTES;
use oboro_ring::{Nonce, QuerySeed, pack};
use std::collections::HashSet;
use thiserror::Error;

/// One ciphertext of a query: `(b, a)` with `a` expanded from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ciphertext {
    /// Seed of `a`.
    pub seed: QuerySeed,
    /// `b`: `N` residues in evaluation form modulo the first limb, then the next.
    pub residues: Vec<u32>,
}

/// Query that only its owner can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptedQuery {
    /// Ciphertexts; the plan fixes their number.
    pub ciphertexts: Vec<Ciphertext>,
    /// Encryption of 0 in evaluation form; its `a` is expanded from the server's nonce.
    pub public_key: Vec<u32>,
}

/// Error: the bytes are not a query, or not an answer, of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum WireError {
    #[error(
        "{what} has {found} bytes where {expected} belong; both sides must run the same version of Oboro"
    )]
    Length {
        what: &'static str,
        expected: u64,
        found: u64,
    },
    #[error(
        "{what} has a residue that is not below its modulus; it was altered on the way or made by another program"
    )]
    Residue { what: &'static str },
    #[error(
        "the encrypted query uses a seed twice, for two ciphertexts or for one and the public key, which would tell of what is encrypted; encrypt it again, and update the program that made it if that does not help"
    )]
    RepeatedSeed,
}

impl EncryptedQuery {
    /// Encoded length of any query of a plan.
    pub fn bytes(plan: &Plan) -> u64 {
        let polynomials = plan.ciphertexts() as u64 + 1;
        polynomials * plan.polynomial_bytes() as u64 + (plan.ciphertexts() * SEED_BYTES) as u64
    }

    /// Encodes each ciphertext's seed and residues, packed to 28 bits, then the public key's residues.
    pub fn encode(&self, plan: &Plan) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::bytes(plan) as usize);
        for ciphertext in &self.ciphertexts {
            bytes.extend(ciphertext.seed.0);
            put_polynomial(&ciphertext.residues, &mut bytes);
        }
        put_polynomial(&self.public_key, &mut bytes);
        bytes
    }

    /// Decodes and validates a query of this plan under this nonce.
    ///
    /// # Errors
    /// The length is wrong, a residue is invalid, or a seed is repeated.
    pub fn decode(bytes: &[u8], plan: &Plan, nonce: &Nonce) -> Result<Self, WireError> {
        const WHAT: &str = "the encrypted query";
        check_length(WHAT, Self::bytes(plan), bytes)?;
        let one = plan.polynomial_bytes();
        let (ciphertexts, public_key) = bytes.split_at(bytes.len() - one);
        let ciphertext = |bytes: &[u8]| {
            let (seed, residues) = bytes.split_at(SEED_BYTES);
            Ok(Ciphertext {
                seed: QuerySeed(seed.try_into().expect("as long as a seed")),
                residues: polynomial(WHAT, residues, plan)?,
            })
        };
        let query = Self {
            ciphertexts: ciphertexts
                .chunks_exact(SEED_BYTES + one)
                .map(ciphertext)
                .collect::<Result<_, _>>()?,
            public_key: polynomial(WHAT, public_key, plan)?,
        };
        query.check_seeds(nonce)?;
        Ok(query)
    }

    /// Checks that all masks have distinct seeds.
    ///
    /// # Errors
    /// A seed is repeated, or equal to the nonce.
    pub fn check_seeds(&self, nonce: &Nonce) -> Result<(), WireError> {
        let mut seen = HashSet::from([&nonce.0]);
        let mut seeds = self.ciphertexts.iter().map(|it| &it.seed.0);
        if seeds.all(|seed| seen.insert(seed)) {
            Ok(())
        } else {
            Err(WireError::RepeatedSeed)
        }
    }
}

/// Answer: fractions of `Q`, from which the owner of the query decrypts which tests are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// All `N` coefficients of the mask, of [`Plan::mask_bits`] each.
    pub mask: Vec<u64>,
    /// Value of each slot, of [`Plan::value_bits`] each.
    pub values: Vec<u64>,
}

impl Answer {
    /// Encodes masks, then values.
    pub fn encode(&self, plan: &Plan) -> Vec<u8> {
        let mut bytes = vec![0; plan.answer_bytes()];
        let (mask, values) = bytes.split_at_mut(mask_bytes(plan));
        pack::pack_bits(&self.mask, plan.mask_bits(), mask);
        let mut whole = self.values.clone();
        whole.resize(plan.tests_per_answer().next_multiple_of(8), 0);
        pack::pack_bits(&whole, plan.value_bits(), values);
        bytes
    }

    /// Checks the length of an encoded answer; nothing else can be wrong with it.
    ///
    /// # Errors
    /// The length is wrong.
    pub fn check_length(bytes: &[u8], plan: &Plan) -> Result<(), WireError> {
        check_length("an answer", plan.answer_bytes() as u64, bytes)
    }

    /// Decodes and validates an answer.
    ///
    /// # Errors
    /// The length is wrong.
    pub fn decode(bytes: &[u8], plan: &Plan) -> Result<Self, WireError> {
        Self::check_length(bytes, plan)?;
        let (packed_mask, packed_values) = bytes.split_at(mask_bytes(plan));
        let mut mask = vec![0; plan.ring().basis().degree()];
        pack::unpack_bits(packed_mask, plan.mask_bits(), &mut mask);
        let mut values = vec![0; plan.tests_per_answer().next_multiple_of(8)];
        pack::unpack_bits(packed_values, plan.value_bits(), &mut values);
        values.truncate(plan.tests_per_answer());
        Ok(Self { mask, values })
    }
}

fn mask_bytes(plan: &Plan) -> usize {
    pack::bits_packed_len(plan.ring().basis().degree(), plan.mask_bits())
}

fn put_polynomial(residues: &[u32], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + pack::packed_len(residues.len()), 0);
    pack::pack(residues, &mut bytes[start..]);
}

fn polynomial(what: &'static str, bytes: &[u8], plan: &Plan) -> Result<Vec<u32>, WireError> {
    let basis = plan.ring().basis();
    let mut residues = vec![0; basis.degree() * basis.limbs().len()];
    pack::unpack(bytes, &mut residues);
    let limbs = residues.chunks_exact(basis.degree()).zip(basis.limbs());
    for (values, q) in limbs {
        if values.iter().any(|&x| x >= q.value()) {
            return Err(WireError::Residue { what });
        }
    }
    Ok(residues)
}

fn check_length(what: &'static str, expected: u64, bytes: &[u8]) -> Result<(), WireError> {
    match bytes.len() as u64 {
        found if found == expected => Ok(()),
        found => Err(WireError::Length {
            what,
            expected,
            found,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, SearchSpec};

    fn plan() -> Plan {
        let spec = SearchSpec::new(5, 2, 3, Kind::Match { within: 0 }).unwrap();
        Plan::new(spec).unwrap()
    }

    const NONCE: Nonce = Nonce([200; 32]);

    fn query(plan: &Plan) -> EncryptedQuery {
        let basis = plan.ring().basis();
        let residues: Vec<u32> = (0..basis.limbs().len() * basis.degree())
            .map(|i| i as u32 * 7919 % (1 << 27))
            .collect();
        let ciphertext = |number| Ciphertext {
            seed: QuerySeed([number; 32]),
            residues: residues.clone(),
        };
        EncryptedQuery {
            ciphertexts: (0..plan.ciphertexts() as u8).map(ciphertext).collect(),
            public_key: residues.clone(),
        }
    }

    #[test]
    fn queries_and_answers_come_back() {
        let plan = plan();
        let query = query(&plan);
        let mut bytes = query.encode(&plan);
        assert_eq!(bytes.len() as u64, EncryptedQuery::bytes(&plan));
        let decode = |bytes: &[u8]| EncryptedQuery::decode(bytes, &plan, &NONCE);
        assert_eq!(decode(&bytes).as_ref(), Ok(&query));
        let answer = Answer {
            mask: (0..plan.ring().basis().degree() as u64)
                .map(|i| i % 64)
                .collect(),
            values: vec![1; plan.tests_per_answer()],
        };
        let encoded = answer.encode(&plan);
        assert_eq!(encoded.len(), plan.answer_bytes());
        assert_eq!(Answer::decode(&encoded, &plan), Ok(answer));
        assert_eq!(
            EncryptedQuery::bytes(&plan) + plan.answers() * plan.answer_bytes() as u64,
            plan.bytes() - SEED_BYTES as u64
        );

        let last = bytes.len() - 1;
        assert!(matches!(
            decode(&bytes[..last]),
            Err(WireError::Length { .. })
        ));
        // 28 one bits are above every limb.
        bytes[last - 6..].fill(0xff);
        assert!(matches!(decode(&bytes), Err(WireError::Residue { .. })));
        assert!(Answer::decode(&encoded[1..], &plan).is_err());
    }

    #[test]
    fn a_query_that_repeats_a_seed_is_refused() {
        let spec = *plan().spec();
        let plan = Plan::of_width(spec, 2).unwrap();
        let good = query(&plan);
        assert_eq!(good.ciphertexts.len(), 3);
        assert_eq!(good.check_seeds(&NONCE), Ok(()));
        for (ciphertext, seed) in [(2, [0; 32]), (0, [1; 32]), (1, NONCE.0)] {
            let mut query = good.clone();
            query.ciphertexts[ciphertext].seed = QuerySeed(seed);
            let decoded = EncryptedQuery::decode(&query.encode(&plan), &plan, &NONCE);
            assert_eq!(decoded, Err(WireError::RepeatedSeed));
        }
    }
}
