//! Ordinary BGV, as the paper's library has it: a ciphertext for each item and block, products one after another, each
//! relinearised with a public key that every product reads.
//!
//! Residues are in evaluation form, limb after limb. A ciphertext is two polynomials `(c0, c1)` whose phase
//! `c0 + c1·s` is `m + t·e`. The switching key has for each limb `j` an encryption of `s²` times the number that is 1
//! modulo `q_j` and 0 modulo the other limbs, so that the digits of a polynomial are its residues.

use crate::output::Failure;
use oboro_ring::{Ntt, Parameters, Ring, sample, vector};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

/// `N = 8192`, four limbs of 28 bits: deep enough for three factors and their sums, and far within 128 bits of security.
const LOG_DEGREE: u32 = 13;
const LIMBS: usize = 4;
const PLAINTEXT_MODULUS: u32 = 65_537;

/// The ring, and the owner's secret.
pub struct Scheme {
    ring: Ring,
    secret: Vec<u32>,
}

/// Polynomials of one thread while it multiplies.
pub struct Workspace {
    /// The part of a product that the square of the secret belongs to, in evaluation form and then as digits.
    square: Vec<u32>,
    digits: Vec<u32>,
    lifted: Vec<u32>,
}

impl Scheme {
    /// With a secret from a seed: this is data for a bench.
    pub fn new(seed: u64) -> Result<Self, Failure> {
        let ring = Ring::new(Parameters::new(LOG_DEGREE, LIMBS, PLAINTEXT_MODULUS)?);
        let mut scheme = Self {
            secret: Vec::new(),
            ring,
        };
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut ternary = vec![0; scheme.slots()];
        sample::ternary(&rng.random(), &mut ternary);
        scheme.secret = vec![0; scheme.polynomial()];
        for (ntt, out) in scheme
            .ring
            .limbs()
            .iter()
            .zip(scheme.secret.chunks_exact_mut(ternary.len()))
        {
            let signed = ternary
                .iter()
                .map(|&x| ntt.modulus().reduce_signed(x.into()));
            out.iter_mut().zip(signed).for_each(|(out, x)| *out = x);
            ntt.forward(out);
        }
        Ok(scheme)
    }

    /// The slots of a ciphertext.
    pub fn slots(&self) -> usize {
        self.ring.degree()
    }

    /// The words of a polynomial.
    fn polynomial(&self) -> usize {
        self.ring.degree() * LIMBS
    }

    /// The words of a ciphertext.
    pub fn ciphertext_words(&self) -> usize {
        2 * self.polynomial()
    }

    /// The words of a switching key.
    pub fn key_words(&self) -> usize {
        LIMBS * self.ciphertext_words()
    }

    pub fn workspace(&self) -> Workspace {
        Workspace {
            square: vec![0; self.polynomial()],
            digits: vec![0; self.polynomial()],
            lifted: vec![0; self.slots()],
        }
    }

    /// The transforms of the limbs, each with a range of the words of a polynomial.
    fn limbs(&self) -> impl Iterator<Item = (&Ntt, std::ops::Range<usize>)> {
        let degree = self.ring.degree();
        let range = move |limb: usize| limb * degree..(limb + 1) * degree;
        (self.ring.limbs().iter().enumerate()).map(move |(limb, ntt)| (ntt, range(limb)))
    }

    /// Encrypts slots.
    pub fn encrypt(&self, slots: impl Iterator<Item = bool>, seed: u64, out: &mut [u32]) {
        let t = self.ring.slots();
        let mut message: Vec<u32> = slots.map(u32::from).collect();
        message.resize(self.slots(), 0);
        t.inverse(&mut message);
        let message: Vec<i32> = message.iter().map(|&m| t.modulus().centre(m)).collect();
        self.encrypt_polynomial(&message, seed, out);
    }

    /// Encrypts coefficients.
    fn encrypt_polynomial(&self, message: &[i32], seed: u64, out: &mut [u32]) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut errors = vec![0; self.slots()];
        sample::centred_binomial(&rng.random(), &mut errors);
        let (values, mask) = out.split_at_mut(self.polynomial());
        for (ntt, limb) in self.limbs() {
            let q = ntt.modulus();
            let (values, mask) = (&mut values[limb.clone()], &mut mask[limb.clone()]);
            for ((value, &m), &e) in values.iter_mut().zip(message).zip(&errors) {
                *value =
                    q.reduce_signed(i64::from(m) + i64::from(PLAINTEXT_MODULUS) * i64::from(e));
            }
            ntt.forward(values);
            mask.fill_with(|| sample::below(&mut rng, q.value().into()) as u32);
            vector::subtract_product(q, values, mask, &self.secret[limb]);
        }
    }

    /// Makes the key that every product reads.
    pub fn switching_key(&self, seed: u64, out: &mut [u32]) {
        let nothing = vec![0; self.slots()];
        for (digit, key) in out.chunks_exact_mut(self.ciphertext_words()).enumerate() {
            self.encrypt_polynomial(&nothing, seed + digit as u64, key);
            let (ntt, limb) = self.limbs().nth(digit).expect("a digit for each limb");
            let secret = &self.secret[limb.clone()];
            vector::multiply_add(ntt.modulus(), secret, secret, &mut key[limb]);
        }
    }

    /// `out` becomes the product of two ciphertexts.
    pub fn multiply(
        &self,
        a: &[u32],
        b: &[u32],
        key: &[u32],
        out: &mut [u32],
        work: &mut Workspace,
    ) {
        let polynomial = self.polynomial();
        let ((a0, a1), (b0, b1)) = (a.split_at(polynomial), b.split_at(polynomial));
        let (out0, out1) = out.split_at_mut(polynomial);
        for (ntt, limb) in self.limbs() {
            let q = ntt.modulus();
            let [a0, a1, b0, b1] = [a0, a1, b0, b1].map(|part| &part[limb.clone()]);
            vector::multiply(q, a0, b0, &mut out0[limb.clone()]);
            vector::multiply(q, a0, b1, &mut out1[limb.clone()]);
            vector::multiply_add(q, a1, b0, &mut out1[limb.clone()]);
            vector::multiply(q, a1, b1, &mut work.square[limb.clone()]);
            let digit = &mut work.digits[limb.clone()];
            digit.copy_from_slice(&work.square[limb]);
            ntt.inverse(digit);
        }
        let keys = key.chunks_exact(2 * polynomial);
        for (digit, (key, (_, own))) in keys.zip(self.limbs()).enumerate() {
            let (key0, key1) = key.split_at(polynomial);
            for (number, (ntt, limb)) in self.limbs().enumerate() {
                let lifted = if number == digit {
                    &work.square[limb.clone()]
                } else {
                    // Below 2q, which the transform takes: limbs are of one size.
                    work.lifted.copy_from_slice(&work.digits[own.clone()]);
                    ntt.forward(&mut work.lifted);
                    &work.lifted
                };
                let q = ntt.modulus();
                vector::multiply_add(q, lifted, &key0[limb.clone()], &mut out0[limb.clone()]);
                vector::multiply_add(q, lifted, &key1[limb.clone()], &mut out1[limb]);
            }
        }
    }

    /// Adds a ciphertext to a sum.
    pub fn add(&self, ciphertext: &[u32], sum: &mut [u32]) {
        let polynomials = ciphertext
            .chunks_exact(self.polynomial())
            .zip(sum.chunks_exact_mut(self.polynomial()));
        for (ciphertext, sum) in polynomials {
            for (ntt, limb) in self.limbs() {
                vector::add_assign(ntt.modulus(), &ciphertext[limb.clone()], &mut sum[limb]);
            }
        }
    }

    /// The sum of all slots; they are fewer than `t` in each.
    pub fn decrypt_sum(&self, ciphertext: &[u32]) -> u64 {
        let (values, mask) = ciphertext.split_at(self.polynomial());
        let mut phase = values.to_vec();
        for (ntt, limb) in self.limbs() {
            let phase = &mut phase[limb.clone()];
            vector::multiply_add(
                ntt.modulus(),
                &mask[limb.clone()],
                &self.secret[limb],
                phase,
            );
            ntt.inverse(phase);
        }
        let moduli: Vec<_> = self.ring.limbs().iter().map(Ntt::modulus).collect();
        let all: u128 = moduli.iter().map(|q| u128::from(q.value())).product();
        let others = |limb: usize| all / u128::from(moduli[limb].value());
        let residue = |limb: usize| (others(limb) % u128::from(moduli[limb].value())) as u32;
        let inverses: Vec<u32> = (0..LIMBS).map(|l| moduli[l].inverse(residue(l))).collect();
        let t = self.ring.slots();
        let mut message: Vec<u32> = (0..self.slots())
            .map(|at| {
                let term = |limb: usize| {
                    let residue = phase[limb * self.slots() + at];
                    others(limb) * u128::from(moduli[limb].mul(residue, inverses[limb]))
                };
                let value = (0..LIMBS).map(term).sum::<u128>() % all;
                let signed = if value > all / 2 {
                    value as i128 - all as i128
                } else {
                    value as i128
                };
                signed.rem_euclid(i128::from(PLAINTEXT_MODULUS)) as u32
            })
            .collect();
        t.forward(&mut message);
        message.iter().map(|&slot| u64::from(slot)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_products_of_three_decrypt_to_counts() {
        let scheme = Scheme::new(1).unwrap();
        let mut key = vec![0; scheme.key_words()];
        scheme.switching_key(7, &mut key);
        let bit = |item: usize, slot: usize| (slot * (2 * item + 3) / 7).is_multiple_of(3);
        let columns = [0, 1, 2].map(|item| {
            let mut column = vec![0; scheme.ciphertext_words()];
            let slots = (0..scheme.slots()).map(|slot| bit(item, slot));
            scheme.encrypt(slots, 100 + item as u64, &mut column);
            column
        });
        let mut work = scheme.workspace();
        let mut multiply = |a: &[u32], b: &[u32]| {
            let mut product = vec![0; scheme.ciphertext_words()];
            scheme.multiply(a, b, &key, &mut product, &mut work);
            product
        };
        let pair = multiply(&columns[0], &columns[1]);
        let mut sum = multiply(&pair, &columns[2]);
        let triple = sum.clone();
        for _ in 1..40 {
            scheme.add(&triple, &mut sum);
        }
        let count = |items: &[usize]| {
            let all = |&slot: &usize| items.iter().all(|&item| bit(item, slot));
            (0..scheme.slots()).filter(all).count() as u64
        };
        assert_eq!(scheme.decrypt_sum(&columns[2]), count(&[2]));
        assert_eq!(scheme.decrypt_sum(&pair), count(&[0, 1]));
        assert_eq!(scheme.decrypt_sum(&sum), 40 * count(&[0, 1, 2]));
        assert!(count(&[0, 1, 2]) > 0);
    }
}
