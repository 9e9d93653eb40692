//! Queries: small numbers encrypted for one search, under an ephemeral key.
//!
//! A query's key, errors and public seeds are derived from one root: the PRF of fresh randomness and of everything that
//! the query is about. A generator may repeat its output, as after a rollback of a virtual machine. It then repeats a
//! seed only for an identical query: its numbers, layout and ring. A key encrypts one query, when it is created.
//! [`ScaledRing`] encodes in the most significant bits; `docs/cryptography.md`, "Genome search", has the security argument.

use crate::prf::{Output, prf};
use oboro_ring::mask::{self, MaskSeed};
use oboro_ring::{Limb, Nonce, QuerySeed, ScaledRing, vector};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Key of one query.
pub struct QueryKey {
    ring: Arc<ScaledRing>,
    /// Secret in evaluation form, limb by limb.
    secret: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for QueryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryKey(secret)")
    }
}

/// Query as sent to the server, in evaluation form, limb by limb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryCiphertexts {
    /// Seed of `a` and residues of `b = round(Q·m/t) + e − a·s` for each run of terms.
    pub terms: Vec<(QuerySeed, Vec<u32>)>,
    /// Encryption of 0 whose `a` is expanded from the server's nonce.
    pub public_key: Vec<u32>,
}

impl QueryKey {
    /// Encrypts terms, `width` per ciphertext as its first coefficients, under the nonce that the server drew for the
    /// query and a fresh key. `asked` encodes everything else that the query is about; distinct queries must have
    /// distinct bytes.
    ///
    /// # Errors
    /// The system provides no randomness.
    ///
    /// # Panics
    /// If the width is 0 or above the ring's degree.
    pub fn encrypt(
        ring: &Arc<ScaledRing>,
        nonce: &Nonce,
        asked: &[&[u8]],
        width: usize,
        terms: &[i32],
    ) -> Result<(Self, QueryCiphertexts), getrandom::Error> {
        let mut randomness = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *randomness)?;
        let root = root(&randomness, ring, nonce, asked, width, terms);
        Ok(Self::from_root(root, ring, nonce, width, terms))
    }

    fn from_root(
        root: Output,
        ring: &Arc<ScaledRing>,
        nonce: &Nonce,
        width: usize,
        terms: &[i32],
    ) -> (Self, QueryCiphertexts) {
        let mut coefficients = Zeroizing::new(vec![0i8; ring.basis().degree()]);
        oboro_ring::sample::ternary(&prf(&root, "query secret", &[]), &mut coefficients);
        let key = Self {
            secret: Zeroizing::new(evaluate(ring, &coefficients)),
            ring: Arc::clone(ring),
        };
        let of_run = |(number, terms): (u32, &[i32])| {
            let number = number.to_le_bytes();
            let seed = QuerySeed(*prf(&root, "query mask", &[&number]));
            let error = prf(&root, "query error", &[&number]);
            (seed, key.encryption(&seed, &error, terms))
        };
        let terms = (0..).zip(terms.chunks(width)).map(of_run).collect();
        let error = prf(&root, "query public key", &[]);
        let public_key = key.encryption(nonce, &error, &[]);
        (key, QueryCiphertexts { terms, public_key })
    }

    fn encryption(
        &self,
        mask_seed: &impl MaskSeed,
        error_seed: &[u8; 32],
        terms: &[i32],
    ) -> Vec<u32> {
        let degree = self.ring.basis().degree();
        let mut errors = Zeroizing::new(vec![0; degree]);
        oboro_ring::sample::centred_binomial(error_seed, &mut errors);
        let mut residues = evaluate_with(&self.ring, |limb, values| {
            let q = self.ring.limbs()[limb].modulus();
            for (value, &error) in values.iter_mut().zip(errors.iter()) {
                *value = q.reduce_signed(error.into());
            }
            for (value, &term) in values[..terms.len()].iter_mut().zip(terms) {
                let term = self.ring.plaintext().reduce_signed(term.into());
                *value = q.add(*value, self.ring.residue(term, limb));
            }
        });
        let mut mask = vec![0; degree];
        let limbs = residues.chunks_exact_mut(degree).zip(self.ring.limbs());
        for (limb, (residues, ntt)) in Limb::enumerate(limbs) {
            mask::expand(mask_seed, self.ring.basis(), limb, &mut mask);
            vector::subtract_product(ntt.modulus(), residues, &mask, self.secret(limb));
        }
        residues
    }

    fn secret(&self, limb: Limb) -> &[u32] {
        let degree = self.ring.basis().degree();
        &self.secret[limb.0 * degree..][..degree]
    }

    /// Decrypts coefficients of a ciphertext modulo `t`, given as fractions of `Q`. The mask has all `N` in `mask_bits`
    /// bits; each requested coefficient has its value in `value_bits` bits.
    ///
    /// Panics if the mask has another length, a coefficient does not exist, the ring has one limb, or more than 40 bits
    /// are given.
    pub fn decrypt(
        &self,
        mask: (&[u64], u32),
        values: impl IntoIterator<Item = (usize, u64)>,
        value_bits: u32,
    ) -> Vec<u32> {
        let t = self.ring.plaintext().value();
        let phases = self.phases(mask, values, value_bits);
        // The nearest multiple of 1/t.
        let nearest = |phase| ((u128::from(phase) * u128::from(t) + (1 << 63)) >> 64) as u32 % t;
        phases.into_iter().map(nearest).collect()
    }

    /// As [`decrypt`](Self::decrypt) before rounding: in units of 2^-64, modulo 1.
    ///
    /// Panics as [`decrypt`](Self::decrypt).
    pub fn phases(
        &self,
        (mask, mask_bits): (&[u64], u32),
        values: impl IntoIterator<Item = (usize, u64)>,
        value_bits: u32,
    ) -> Vec<u64> {
        assert!((1..=40).contains(&mask_bits) && (1..=40).contains(&value_bits));
        let product = self.times_secret(mask, mask_bits);
        let phase = |(coefficient, value): (usize, u64)| {
            let of_mask = (product[coefficient] as u64) << (64 - mask_bits);
            (value << (64 - value_bits)).wrapping_add(of_mask)
        };
        values.into_iter().map(phase).collect()
    }

    /// Computes the product of a mask and the secret over the integers. The centred mask is below `2^39`: the product
    /// is at most `N·2^39 ≤ 2^54`, which two limbs represent.
    fn times_secret(&self, mask: &[u64], mask_bits: u32) -> Zeroizing<Vec<i64>> {
        let degree = self.ring.basis().degree();
        assert_eq!(mask.len(), degree);
        let shift = 64 - mask_bits;
        let product = |limb: Limb| {
            let ntt = &self.ring.limbs()[limb];
            let q = ntt.modulus();
            let centred = mask.iter().map(|&x| ((x << shift) as i64) >> shift);
            let mut values: Vec<u32> = centred.map(|x| q.reduce_signed(x)).collect();
            ntt.forward(&mut values);
            let mut product = Zeroizing::new(vec![0; degree]);
            vector::multiply(q, &values, self.secret(limb), &mut product);
            ntt.inverse(&mut product);
            product
        };
        let [p, q] = [0, 1].map(|limb: usize| self.ring.limbs()[limb].modulus());
        let inverse = q.inverse(q.reduce(p.value().into()));
        let lift = |(x, y): (&u32, &u32)| {
            let difference = q.sub(*y, q.reduce((*x).into()));
            let quotient = q.centre(q.mul(difference, inverse));
            i64::from(*x) + i64::from(p.value()) * i64::from(quotient)
        };
        let (first, second) = (product(Limb(0)), product(Limb(1)));
        Zeroizing::new(first.iter().zip(second.iter()).map(lift).collect())
    }
}

/// Derives the root of a query: `PRF(randomness, "query root", ring, nonce, width, terms, asked…)`. The ring is
/// `log2 N` (1 byte), `t` (4) and the prime of each limb (4); the width has 8 bytes and a term 4.
fn root(
    randomness: &[u8; 32],
    ring: &ScaledRing,
    nonce: &Nonce,
    asked: &[&[u8]],
    width: usize,
    terms: &[i32],
) -> Output {
    let mut encoded = vec![ring.basis().log_degree() as u8];
    encoded.extend(ring.plaintext().value().to_le_bytes());
    for limb in ring.limbs() {
        encoded.extend(limb.modulus().value().to_le_bytes());
    }
    let bytes = terms.iter().flat_map(|term| term.to_le_bytes());
    let bytes = Zeroizing::new(bytes.collect::<Vec<u8>>());
    let width = (width as u64).to_le_bytes();
    let own: [&[u8]; 4] = [&encoded, &nonce.0, &width, &bytes];
    prf(randomness, "query root", &[&own, asked].concat())
}

/// Computes the evaluation form of signed coefficients, limb by limb.
fn evaluate(ring: &ScaledRing, coefficients: &[i8]) -> Vec<u32> {
    evaluate_with(ring, |limb, values| {
        let q = ring.limbs()[limb].modulus().value();
        // −1 becomes q − 1, 0 becomes q: both below 4q, which the transform accepts.
        for (value, &x) in values.iter_mut().zip(coefficients) {
            *value = q.wrapping_add_signed(x.into());
        }
    })
}

/// Computes the evaluation form, limb by limb, of the polynomial whose coefficients `fill` writes for each limb.
fn evaluate_with(ring: &ScaledRing, mut fill: impl FnMut(Limb, &mut [u32])) -> Vec<u32> {
    let degree = ring.basis().degree();
    let mut residues = vec![0; degree * ring.limbs().len()];
    let limbs = residues.chunks_exact_mut(degree).zip(ring.limbs());
    for (limb, (values, ntt)) in Limb::enumerate(limbs) {
        fill(limb, values);
        ntt.forward(values);
    }
    residues
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::{Basis, Fractions};
    use std::collections::HashSet;

    const NONCE: Nonce = Nonce([7; 32]);
    const RANDOMNESS: [u8; 32] = [2; 32];

    fn ring() -> Arc<ScaledRing> {
        Arc::new(ScaledRing::new(Basis::new(12, 3).unwrap(), 41))
    }

    fn fractions(ring: &ScaledRing, mut residues: Vec<u32>, bits: u32) -> Vec<u64> {
        let mut fractions = vec![0; ring.basis().degree()];
        Fractions::over(ring.limbs(), 1).of_polynomial(&mut residues, bits, &mut fractions);
        fractions
    }

    /// Expands all residues of `a`, in evaluation form.
    fn expanded(ring: &ScaledRing, seed: &impl MaskSeed) -> Vec<u32> {
        let mut mask = vec![0; ring.basis().degree() * 3];
        for (limb, out) in Limb::enumerate(mask.chunks_exact_mut(ring.basis().degree())) {
            mask::expand(seed, ring.basis(), limb, out);
        }
        mask
    }

    #[test]
    fn small_numbers_come_back() {
        let ring = ring();
        let terms: Vec<i32> = (-41..200).map(|i| i % 41).collect();
        let (key, query) = QueryKey::encrypt(&ring, &NONCE, &[], 100, &terms).unwrap();
        assert_eq!(query.terms.len(), 3);
        for ((seed, residues), terms) in query.terms.iter().zip(terms.chunks(100)) {
            for (mask_bits, value_bits) in [(14, 9), (40, 40)] {
                let mask = fractions(&ring, expanded(&ring, seed), mask_bits);
                let values = fractions(&ring, residues.clone(), value_bits);
                let values = values.into_iter().enumerate();
                let decrypted = key.decrypt((&mask, mask_bits), values, value_bits);
                for (j, value) in decrypted.into_iter().enumerate() {
                    let term = terms.get(j).copied().unwrap_or(0);
                    assert_eq!(value, term.rem_euclid(41) as u32, "coefficient {j}");
                }
            }
        }
        assert_eq!(format!("{key:?}"), "QueryKey(secret)");
    }

    #[test]
    fn the_public_key_holds_zero() {
        let ring = ring();
        let (key, query) = QueryKey::encrypt(&ring, &NONCE, &[], 1, &[1]).unwrap();
        let mask = fractions(&ring, expanded(&ring, &NONCE), 20);
        let values = fractions(&ring, query.public_key, 20);
        let values = key.decrypt((&mask, 20), values.into_iter().enumerate(), 20);
        assert!(values.into_iter().all(|value| value == 0));
    }

    /// Inputs of a query's derivation.
    #[derive(Clone)]
    struct DerivationInput {
        ring: Arc<ScaledRing>,
        nonce: Nonce,
        asked: Vec<&'static [u8]>,
        width: usize,
        terms: Vec<i32>,
        randomness: [u8; 32],
    }

    impl DerivationInput {
        fn root(&self) -> Output {
            let Self { ring, nonce, .. } = self;
            let (asked, width, terms) = (&self.asked, self.width, &self.terms);
            root(&self.randomness, ring, nonce, asked, width, terms)
        }

        fn encrypted(&self, root: Output) -> (QueryKey, QueryCiphertexts) {
            QueryKey::from_root(root, &self.ring, &self.nonce, self.width, &self.terms)
        }
    }

    /// Makes a query of 38 alleles: 39 numbers from −1 to 1, in one ciphertext.
    fn asked() -> DerivationInput {
        DerivationInput {
            ring: ring(),
            nonce: NONCE,
            asked: vec![b"panel", b"7:100"],
            width: 39,
            terms: (0..39).map(|i| i * i % 7 % 3 - 1).collect(),
            randomness: RANDOMNESS,
        }
    }

    /// Attacks the first ciphertexts of two queries with equal secret, mask and error. Returns the number of terms
    /// read, from index `from` on, in which only one of them has a value.
    fn read(ring: &ScaledRing, a: &[u32], b: &[u32], terms: &[i32], from: usize) -> usize {
        let degree = ring.basis().degree();
        let limbs = a.chunks(degree).zip(b.chunks(degree)).zip(ring.limbs());
        let difference = limbs.flat_map(|((a, b), ntt)| {
            let pairs = a.iter().zip(b);
            pairs.map(|(&a, &b)| ntt.modulus().sub(a, b))
        });
        let shares = fractions(ring, difference.collect(), 40);
        let t = u64::from(ring.plaintext().value());
        let known = shares
            .iter()
            .zip(terms)
            .skip(from)
            .filter(|&(share, term)| {
                let seen = ((share * t + (1 << 39)) >> 40) % t;
                seen == term.rem_euclid(t as i32) as u64
            });
        known.count()
    }

    /// Attack: a rolled-back machine repeats a query, and a server that replays its nonce makes it use another layout.
    #[test]
    fn a_rolled_back_client_shows_a_replaying_server_nothing() {
        let wide = asked();
        let narrow = DerivationInput {
            width: 3,
            ..wide.clone()
        };
        let read_of = |[a, b]: [QueryCiphertexts; 2]| {
            read(&wide.ring, &a.terms[0].1, &b.terms[0].1, &wide.terms, 3)
        };
        // Were the root independent of the layout, as in an earlier version, the attack would read all terms that one
        // ciphertext has beyond the other.
        let without_layout = |asked: &DerivationInput| {
            let bytes: Vec<u8> = asked.terms.iter().flat_map(|it| it.to_le_bytes()).collect();
            let fields: [&[u8]; 2] = [&asked.nonce.0, &bytes];
            let root = prf(&asked.randomness, "query root", &fields);
            asked.encrypted(root).1
        };
        assert_eq!(read_of([&wide, &narrow].map(without_layout)), 36);
        let read = read_of([&wide, &narrow].map(|asked| asked.encrypted(asked.root()).1));
        // By chance one in 41.
        assert!(read < 8, "{read} terms of 36");
    }

    #[test]
    fn nothing_repeats_but_with_the_whole_query() {
        let first = asked();
        assert_eq!(
            first.encrypted(first.root()).1,
            first.encrypted(first.root()).1
        );
        let mut all = vec![first.clone()];
        let mut other = |change: fn(&mut DerivationInput)| {
            let mut asked = first.clone();
            change(&mut asked);
            all.push(asked);
        };
        fn of(log_degree: u32, limbs: usize, t: u32) -> Arc<ScaledRing> {
            Arc::new(ScaledRing::new(Basis::new(log_degree, limbs).unwrap(), t))
        }
        other(|asked| asked.ring = of(12, 2, 41));
        other(|asked| asked.ring = of(13, 3, 41));
        other(|asked| asked.ring = of(12, 3, 43));
        other(|asked| asked.width = 3);
        other(|asked| asked.width = 38);
        other(|asked| asked.nonce = Nonce([8; 32]));
        other(|asked| asked.terms[38] = 9);
        other(|asked| asked.terms.push(0));
        other(|asked| asked.asked = vec![b"panel", b"7:200"]);
        other(|asked| asked.asked = vec![b"other", b"7:100"]);
        other(|asked| asked.asked = vec![b"panel7", b":100"]);
        other(|asked| asked.asked = vec![b"panel"]);
        other(|asked| asked.randomness = [3; 32]);
        let mut seeds = HashSet::from([NONCE.0, [8; 32]]);
        let mut secrets = HashSet::new();
        for (number, asked) in all.iter().enumerate() {
            let (key, query) = asked.encrypted(asked.root());
            for (seed, _) in &query.terms {
                assert!(seeds.insert(seed.0), "query {number} repeats a seed");
            }
            // The coefficients that rings of all degrees have.
            let mut beginning = key.secret[..asked.ring.basis().degree()].to_vec();
            asked.ring.limbs()[0].inverse(&mut beginning);
            let signs = beginning[..1024].iter().map(|&x| x.min(2));
            let secret: Vec<u32> = signs.collect();
            assert!(secrets.insert(secret), "query {number} repeats a secret");
        }
    }
}
