//! Queries: small numbers encrypted for one question, under a key that lives no longer.
//!
//! Everything secret about a query (its key, its errors) and its public seeds come from one root:
//! `HMAC-SHA-256(randomness, "query", nonce, terms)`. So even a generator that repeats itself, as after
//! a rolled-back virtual machine, repeats a seed only together with the whole query. Encoding in the
//! most significant part, see [`Scaled`]; the argument is in `docs/cryptography.md`, "Genome search".

use crate::prf::{Output, prf};
use oboro_ring::{Scaled, Seed, mask, vector};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The key of one query.
pub struct QueryKey {
    ring: Arc<Scaled>,
    root: Output,
    /// In evaluation form, limb after limb.
    secret: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for QueryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryKey(secret)")
    }
}

impl QueryKey {
    /// A key for the query of these terms under the nonce that the server drew for it.
    ///
    /// # Errors
    /// No randomness.
    pub fn fresh(
        ring: &Arc<Scaled>,
        nonce: &Seed,
        terms: &[i32],
    ) -> Result<Self, getrandom::Error> {
        let mut randomness = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *randomness)?;
        Ok(Self::with_randomness(ring, nonce, terms, &randomness))
    }

    fn with_randomness(
        ring: &Arc<Scaled>,
        nonce: &Seed,
        terms: &[i32],
        randomness: &[u8; 32],
    ) -> Self {
        let bytes = terms.iter().flat_map(|term| term.to_le_bytes());
        let bytes = Zeroizing::new(bytes.collect::<Vec<u8>>());
        let root = prf(randomness, "query", &[&nonce.0, &bytes]);
        let mut coefficients = Zeroizing::new(vec![0i8; ring.basis().degree()]);
        oboro_sample::ternary(&prf(&root, "query secret", &[]), &mut coefficients);
        Self {
            secret: Zeroizing::new(evaluate(ring, &coefficients)),
            ring: Arc::clone(ring),
            root,
        }
    }

    /// The `number`-th ciphertext of the query, of terms as the first coefficients:
    /// `b = round(Q·m/t) + e − a·s`, as the seed of `a` and the residues of `b`, in evaluation form,
    /// limb after limb.
    ///
    /// Panics if there are more terms than coefficients.
    pub fn encrypt(&self, number: u32, terms: &[i32]) -> (Seed, Vec<u32>) {
        let number = number.to_le_bytes();
        let seed = Seed(*prf(&self.root, "query mask", &[&number]));
        let error = prf(&self.root, "query error", &[&number]);
        (seed, self.encryption(&seed, &error, terms))
    }

    /// The public key under the server's nonce: an encryption of 0 whose `a` is expanded from it.
    pub fn public_key(&self, nonce: &Seed) -> Vec<u32> {
        let error = prf(&self.root, "query public key", &[]);
        self.encryption(nonce, &error, &[])
    }

    fn encryption(&self, mask_seed: &Seed, error_seed: &[u8; 32], terms: &[i32]) -> Vec<u32> {
        let degree = self.ring.basis().degree();
        let mut errors = Zeroizing::new(vec![0; degree]);
        oboro_sample::centred_binomial(error_seed, &mut errors);
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
        for (limb, (residues, ntt)) in limbs.enumerate() {
            mask::expand(mask_seed, self.ring.basis(), limb, &mut mask);
            vector::subtract_product(ntt.modulus(), residues, &mask, self.secret(limb));
        }
        residues
    }

    fn secret(&self, limb: usize) -> &[u32] {
        let degree = self.ring.basis().degree();
        &self.secret[limb * degree..][..degree]
    }

    /// What coefficients of a ciphertext hold modulo `t`, given as fractions of `Q`: all `N` of the mask
    /// in `mask_bits` bits, and for each coefficient asked for its value in `value_bits` bits.
    ///
    /// Panics if the mask has another length, a coefficient does not exist, the ring has one limb, or
    /// more than 40 bits are given.
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

    /// The same before rounding: in units of 2^-64, modulo 1.
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

    /// The product of a mask and the secret over the integers. Centred, the mask is below `2^39`, so
    /// the product is at most `N·2^39 ≤ 2^54`: two limbs tell it apart.
    fn times_secret(&self, mask: &[u64], mask_bits: u32) -> Zeroizing<Vec<i64>> {
        let degree = self.ring.basis().degree();
        assert_eq!(mask.len(), degree);
        let shift = 64 - mask_bits;
        let product = |limb: usize| {
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
        let [p, q] = [0, 1].map(|limb| self.ring.limbs()[limb].modulus());
        let inverse = q.inverse(q.reduce(p.value().into()));
        let lift = |(x, y): (&u32, &u32)| {
            let difference = q.sub(*y, q.reduce((*x).into()));
            let quotient = q.centre(q.mul(difference, inverse));
            i64::from(*x) + i64::from(p.value()) * i64::from(quotient)
        };
        let (first, second) = (product(0), product(1));
        Zeroizing::new(first.iter().zip(second.iter()).map(lift).collect())
    }
}

/// Residues of signed coefficients in evaluation form, limb after limb.
fn evaluate(ring: &Scaled, coefficients: &[i8]) -> Vec<u32> {
    evaluate_with(ring, |limb, values| {
        let q = ring.limbs()[limb].modulus().value();
        // −1 becomes q − 1, 0 becomes q: both below 4q, which the transform takes.
        for (value, &x) in values.iter_mut().zip(coefficients) {
            *value = q.wrapping_add_signed(x.into());
        }
    })
}

/// A polynomial in evaluation form, limb after limb, of the coefficients that are filled in for each.
fn evaluate_with(ring: &Scaled, mut fill: impl FnMut(usize, &mut [u32])) -> Vec<u32> {
    let degree = ring.basis().degree();
    let mut residues = vec![0; degree * ring.limbs().len()];
    let limbs = residues.chunks_exact_mut(degree).zip(ring.limbs());
    for (limb, (values, ntt)) in limbs.enumerate() {
        fill(limb, values);
        ntt.forward(values);
    }
    residues
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::{Basis, Fractions};

    const NONCE: Seed = Seed([7; 32]);

    fn ring() -> Arc<Scaled> {
        Arc::new(Scaled::new(Basis::new(12, 3).unwrap(), 41))
    }

    fn fractions(ring: &Scaled, mut residues: Vec<u32>, bits: u32) -> Vec<u64> {
        let mut fractions = vec![0; ring.basis().degree()];
        Fractions::over(ring.limbs(), 1).of_polynomial(&mut residues, bits, &mut fractions);
        fractions
    }

    /// All residues of `a`, in evaluation form.
    fn expanded(ring: &Scaled, seed: &Seed) -> Vec<u32> {
        let mut mask = vec![0; ring.basis().degree() * 3];
        for (limb, out) in mask.chunks_exact_mut(ring.basis().degree()).enumerate() {
            mask::expand(seed, ring.basis(), limb, out);
        }
        mask
    }

    #[test]
    fn small_numbers_come_back() {
        let ring = ring();
        let terms: Vec<i32> = (-41..200).map(|i| i % 41).collect();
        let key = QueryKey::fresh(&ring, &NONCE, &terms).unwrap();
        let (seed, residues) = key.encrypt(0, &terms);
        for (mask_bits, value_bits) in [(14, 9), (40, 40)] {
            let mask = fractions(&ring, expanded(&ring, &seed), mask_bits);
            let values = fractions(&ring, residues.clone(), value_bits);
            let values = values.into_iter().enumerate();
            let decrypted = key.decrypt((&mask, mask_bits), values, value_bits);
            for (j, value) in decrypted.into_iter().enumerate() {
                let term = terms.get(j).copied().unwrap_or(0);
                assert_eq!(value, term.rem_euclid(41) as u32, "coefficient {j}");
            }
        }
    }

    #[test]
    fn the_public_key_holds_zero() {
        let ring = ring();
        let key = QueryKey::fresh(&ring, &NONCE, &[1]).unwrap();
        let mask = fractions(&ring, expanded(&ring, &NONCE), 20);
        let values = fractions(&ring, key.public_key(&NONCE), 20);
        let values = key.decrypt((&mask, 20), values.into_iter().enumerate(), 20);
        assert!(values.into_iter().all(|value| value == 0));
    }

    #[test]
    fn nothing_repeats_but_with_the_whole_query() {
        let ring = ring();
        let key = |nonce: u8, terms: &[i32], randomness: u8| {
            QueryKey::with_randomness(&ring, &Seed([nonce; 32]), terms, &[randomness; 32])
        };
        let (a, same) = (key(1, &[1, 0], 2), key(1, &[1, 0], 2));
        assert_eq!(a.encrypt(0, &[1]), same.encrypt(0, &[1]));
        assert_ne!(a.encrypt(0, &[1]).0, a.encrypt(1, &[1]).0);
        for other in [key(2, &[1, 0], 2), key(1, &[1, 1], 2), key(1, &[1, 0], 3)] {
            assert_ne!(a.encrypt(0, &[1]).0, other.encrypt(0, &[1]).0);
            assert!(*a.secret != *other.secret);
        }
        assert_eq!(format!("{a:?}"), "QueryKey(secret)");
    }
}
