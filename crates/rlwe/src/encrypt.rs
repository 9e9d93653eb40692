//! Encryption of blocks: `c = m + t·e − a·s`, once for each block seed and column secret.
//!
//! A [`Block`] draws its own fresh seed when it is made and takes all its columns then, so there
//! is no way to use a seed for a second plaintext; errors are a function of seed and column, so
//! encrypting a column of it again yields the same bytes.

use crate::key::{ColumnSecret, DatasetKey};
use crate::noise::{BlockNoise, NoiseMeter};
use crate::sampler;
use oboro_ring::{Ring, Seed, mask, vector};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

/// Draws of an error before giving up; one suffices but for a chance below 2^-40.
const MAX_DRAWS: u32 = 16;

/// A block that could not be encrypted.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum EncryptError {
    #[error("the operating system gave no randomness ({0}); nothing was encrypted, try again")]
    Randomness(#[from] getrandom::Error),
    #[error(
        "block {block}, column {column}: the transactions have a structure that would weaken the noise bound; encrypt again (they are shuffled anew each time)"
    )]
    Structured { block: u64, column: u32 },
}

/// Encrypts columns of one dataset on one thread: a column's secret in evaluation form and the
/// buffers that everything happens in.
pub struct Encryptor<'a> {
    ring: &'a Ring,
    secret_column: Option<u32>,
    secret: Vec<Zeroizing<Vec<u32>>>,
    plaintext: Zeroizing<Vec<u32>>,
    phase: Zeroizing<Vec<i32>>,
    meter: NoiseMeter,
}

/// One block of a dataset: `N` transactions, all columns, one fresh mask.
pub struct Block<'a> {
    key: &'a DatasetKey,
    number: u64,
    seed: Seed,
    masks: Vec<Vec<u32>>,
    columns: &'a [&'a [u64]],
}

impl<'a> Block<'a> {
    /// Block `number` of the dataset, with a seed never used before. `columns[i]` holds the
    /// `N` slots of column `i` as bits, 64 to a word, lowest first.
    ///
    /// The seed is hedged: `PRF(master, "mask seed", dataset ‖ generation ‖ randomness ‖ block ‖
    /// hash of the plaintext)`. Even a generator that repeats itself, as after a rolled-back
    /// virtual machine, repeats a seed only together with the plaintext.
    ///
    /// Panics if a column does not have `N` bits.
    pub fn new(
        ring: &'a Ring,
        key: &'a DatasetKey,
        number: u64,
        columns: &'a [&'a [u64]],
    ) -> Result<Self, EncryptError> {
        let mut randomness = [0; 32];
        getrandom::fill(&mut randomness)?;
        Ok(Self::with_randomness(
            ring, key, number, columns, randomness,
        ))
    }

    fn with_randomness(
        ring: &'a Ring,
        key: &'a DatasetKey,
        number: u64,
        columns: &'a [&'a [u64]],
        randomness: [u8; 32],
    ) -> Self {
        let mut hash = Sha256::new();
        for (column, words) in columns.iter().enumerate() {
            assert_eq!(words.len() * 64, ring.degree(), "a block has N slots");
            hash.update((column as u32).to_le_bytes());
            for word in *words {
                hash.update(word.to_le_bytes());
            }
        }
        let plaintext = Zeroizing::new(<[u8; 32]>::from(hash.finalize()));
        let seed = Seed(*key.derive(
            "mask seed",
            &[&randomness, &number.to_le_bytes(), &*plaintext],
        ));
        let masks = (0..ring.limbs().len())
            .map(|limb| {
                let mut values = vec![0; ring.degree()];
                mask::expand(&seed, ring.parameters(), limb, &mut values);
                values
            })
            .collect();
        Self {
            key,
            number,
            seed,
            masks,
            columns,
        }
    }

    /// The public seed of the mask.
    pub fn seed(&self) -> Seed {
        self.seed
    }
}

impl<'a> Encryptor<'a> {
    /// Buffers for one thread.
    pub fn new(ring: &'a Ring) -> Self {
        Self {
            ring,
            secret_column: None,
            secret: Vec::new(),
            plaintext: Zeroizing::new(vec![0; ring.degree()]),
            phase: Zeroizing::new(vec![0; ring.degree()]),
            meter: NoiseMeter::new(ring.degree()),
        }
    }

    /// Takes up a column: its secret is transformed once for all blocks.
    pub fn begin_column(&mut self, secret: &ColumnSecret) {
        self.secret_column = Some(secret.column());
        self.secret = (0..self.ring.limbs().len())
            .map(|limb| secret.evaluate(self.ring, limb))
            .collect();
    }

    /// Encrypts the present column of `block` into `limbs`: for each limb, `N` residues in
    /// evaluation form. Returns what was measured of the phase factor.
    ///
    /// Panics if no column was taken up or the shapes do not match.
    pub fn encrypt(
        &mut self,
        block: &Block<'_>,
        limbs: &mut [&mut [u32]],
    ) -> Result<BlockNoise, EncryptError> {
        let column = self.secret_column.expect("begin_column comes first");
        assert_eq!(limbs.len(), self.ring.limbs().len());
        self.encode(block.columns[column as usize]);
        let noise = self.add_errors(block, column)?;
        for (((out, ntt), mask), secret) in limbs
            .iter_mut()
            .zip(self.ring.limbs())
            .zip(&block.masks)
            .zip(&self.secret)
        {
            let q = ntt.modulus();
            // |φ| < q, so φ + q is positive and below 2q, which the transform takes.
            for (r, &x) in out.iter_mut().zip(self.phase.iter()) {
                *r = q.value().wrapping_add_signed(x);
            }
            ntt.forward(out);
            vector::subtract_product(q, out, mask, secret);
        }
        Ok(noise)
    }

    /// Batch encoding: the polynomial whose slots are the bits, modulo `t`, in coefficient form.
    fn encode(&mut self, bits: &[u64]) {
        for (slots, &word) in self.plaintext.chunks_exact_mut(64).zip(bits) {
            for (i, slot) in slots.iter_mut().enumerate() {
                *slot = (word >> i & 1) as u32;
            }
        }
        self.ring.slots().inverse(&mut self.plaintext);
    }

    /// `φ = m + t·e` with `m` centred; draws anew until the noise bound may count on it.
    fn add_errors(&mut self, block: &Block<'_>, column: u32) -> Result<BlockNoise, EncryptError> {
        let t = self.ring.slots().modulus();
        for draw in 0..MAX_DRAWS {
            let seed = block.key.derive(
                "error",
                &[&block.seed.0, &column.to_le_bytes(), &draw.to_le_bytes()],
            );
            sampler::centred_binomial(&seed, &mut self.phase);
            for (x, &m) in self.phase.iter_mut().zip(self.plaintext.iter()) {
                *x = t.centre(m) + t.value() as i32 * *x;
            }
            let noise = self.meter.measure(&self.phase, t.value());
            if noise.is_within_limits() {
                return Ok(noise);
            }
        }
        Err(EncryptError::Structured {
            block: block.number,
            column,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MasterKey;
    use oboro_ring::Parameters;

    fn ring() -> Ring {
        Ring::new(Parameters::new(12, 2, 65537).unwrap())
    }

    fn key() -> DatasetKey {
        DatasetKey::new(&MasterKey::take(&mut [9; 32]), [1; 16], [2; 16])
    }

    fn encrypt(ring: &Ring, block: &Block<'_>, column: u32) -> (Vec<Vec<u32>>, BlockNoise) {
        let mut encryptor = Encryptor::new(ring);
        encryptor.begin_column(&block.key.column_secret(ring, column));
        let mut limbs = vec![vec![0; ring.degree()]; ring.limbs().len()];
        let noise = encryptor
            .encrypt(
                block,
                &mut limbs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
            )
            .unwrap();
        (limbs, noise)
    }

    #[test]
    fn decryption_by_definition_gives_the_bits() {
        let (ring, key) = (ring(), key());
        let bits: Vec<u64> = (0..64u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let columns: [&[u64]; 1] = [&bits];
        let block = Block::new(&ring, &key, 5, &columns).unwrap();
        let (limbs, noise) = encrypt(&ring, &block, 0);
        assert!(
            noise.is_within_limits() && noise.norm > 3.0 && noise.peak > 7.0,
            "{noise:?}"
        );
        for (limb, c) in limbs.iter().enumerate() {
            let ntt = &ring.limbs()[limb];
            let secret = key.column_secret(&ring, 0).evaluate(&ring, limb);
            let mut phase = c.clone();
            vector::multiply_add(ntt.modulus(), &block.masks[limb], &secret, &mut phase);
            ntt.inverse(&mut phase);
            let t = ring.slots().modulus();
            let mut slots: Vec<u32> = phase
                .iter()
                .map(|&x| t.reduce_signed(ntt.modulus().centre(x).into()))
                .collect();
            ring.slots().forward(&mut slots);
            for (j, &slot) in slots.iter().enumerate() {
                assert_eq!(
                    u64::from(slot),
                    bits[j / 64] >> (j % 64) & 1,
                    "limb {limb}, slot {j}"
                );
            }
        }
    }

    #[test]
    fn a_retry_makes_identical_bytes_and_a_new_block_a_new_seed() {
        let (ring, key) = (ring(), key());
        let bits = vec![7u64; 64];
        let columns: [&[u64]; 2] = [&bits, &bits];
        let block = Block::new(&ring, &key, 0, &columns).unwrap();
        assert_eq!(encrypt(&ring, &block, 0).0, encrypt(&ring, &block, 0).0);
        let again = Block::new(&ring, &key, 0, &columns).unwrap();
        assert_ne!(block.seed(), again.seed());
        // Equal columns of one block differ by their secrets and their errors.
        assert_ne!(encrypt(&ring, &block, 0).0, encrypt(&ring, &block, 1).0);
    }

    #[test]
    fn a_repeating_generator_repeats_a_seed_only_with_the_plaintext() {
        let (ring, key) = (ring(), key());
        let (bits, mut other) = (vec![7u64; 64], vec![7u64; 64]);
        other[63] ^= 1 << 63;
        let a: [&[u64]; 2] = [&bits, &bits];
        let b: [&[u64]; 2] = [&bits, &other];
        let swapped: [&[u64]; 2] = [&other, &bits];
        let stuck = |number, columns| Block::with_randomness(&ring, &key, number, columns, [3; 32]);
        let first = stuck(0, &a);
        assert_eq!(first.seed(), stuck(0, &a).seed());
        assert_eq!(
            encrypt(&ring, &first, 1).0,
            encrypt(&ring, &stuck(0, &a), 1).0
        );
        let seeds = [
            first.seed(),
            stuck(0, &b).seed(),
            stuck(0, &swapped).seed(),
            stuck(1, &a).seed(),
        ];
        for (i, x) in seeds.iter().enumerate() {
            assert!(seeds[..i].iter().all(|y| y != x), "{i}");
        }
        let elsewhere = DatasetKey::new(&MasterKey::take(&mut [9; 32]), [1; 16], [3; 16]);
        assert_ne!(
            Block::with_randomness(&ring, &elsewhere, 0, &a, [3; 32]).seed(),
            first.seed()
        );
    }

    #[test]
    fn one_error_serves_all_limbs() {
        // c + a·s mod q_1 and mod q_2 are residues of one small integer polynomial.
        let (ring, key) = (ring(), key());
        let bits = vec![u64::MAX; 64];
        let columns: [&[u64]; 1] = [&bits];
        let block = Block::new(&ring, &key, 0, &columns).unwrap();
        let (limbs, _) = encrypt(&ring, &block, 0);
        let phases: Vec<Vec<i32>> = limbs
            .iter()
            .enumerate()
            .map(|(limb, c)| {
                let ntt = &ring.limbs()[limb];
                let mut phase = c.clone();
                let secret = key.column_secret(&ring, 0).evaluate(&ring, limb);
                vector::multiply_add(ntt.modulus(), &block.masks[limb], &secret, &mut phase);
                ntt.inverse(&mut phase);
                phase.iter().map(|&x| ntt.modulus().centre(x)).collect()
            })
            .collect();
        assert_eq!(phases[0], phases[1]);
    }
}
