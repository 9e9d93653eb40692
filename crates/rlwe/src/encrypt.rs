//! Encryption of blocks: `c = m + t·e − a·s`, once per block seed and column secret.
//!
//! A [`Block`] draws a fresh seed when it is created, together with all its columns; secrets, errors and the ring come
//! from its key. A seed therefore never encrypts a second plaintext or with a second error: encrypting a column again
//! yields identical bytes.

use crate::key::DatasetKey;
use crate::noise::{BlockNoise, Limits, NoiseMeter, measures_plaintexts};
use oboro_ring::{Column, Limb, Seed, mask, vector};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

/// Error: the block could not be encrypted.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum EncryptError {
    #[error("the operating system gave no randomness ({0}); nothing was encrypted, try again")]
    Randomness(#[from] getrandom::Error),
    #[error(
        "block {block}, column {column}: what was drawn would weaken the noise bound, which happens once in 2^40 times; encrypt again, everything is drawn and shuffled anew"
    )]
    Unlucky { block: u64, column: Column },
}

/// Encrypts columns of one dataset on one thread; holds a column's secret in evaluation form and all buffers.
pub struct Encryptor<'a> {
    key: &'a DatasetKey,
    column: Option<Column>,
    secret: Vec<Zeroizing<Vec<u32>>>,
    plaintext: Zeroizing<Vec<u32>>,
    phase: Zeroizing<Vec<i32>>,
    errors: Zeroizing<Vec<i32>>,
    meter: NoiseMeter,
    limits: Limits,
}

/// Block of a dataset: `N` transactions, all columns, one fresh mask.
pub struct Block<'a> {
    key: &'a DatasetKey,
    number: u64,
    seed: Seed,
    masks: Vec<Vec<u32>>,
    columns: &'a [&'a [u64]],
}

impl<'a> Block<'a> {
    /// Makes block `number` of the dataset, with a seed never used before. `columns[i]` holds the `N` slots of column
    /// `i` as bits, 64 per word, least significant first. This includes columns that are only sealed under the block's
    /// seed and not encrypted.
    ///
    /// The seed is hedged:
    /// `PRF(dataset key, "mask seed", generation, ring, secret generation, randomness, block, hash of the plaintext)`.
    /// A generator may repeat its output, as after a rollback of a virtual machine. It then repeats a seed only for
    /// equal plaintext, ring and generation of secrets.
    ///
    /// Panics if a column does not have `N` bits.
    pub fn new(
        key: &'a DatasetKey,
        number: u64,
        columns: &'a [&'a [u64]],
    ) -> Result<Self, EncryptError> {
        let mut randomness = [0; 32];
        getrandom::fill(&mut randomness)?;
        Ok(Self::with_randomness(key, number, columns, randomness))
    }

    fn with_randomness(
        key: &'a DatasetKey,
        number: u64,
        columns: &'a [&'a [u64]],
        randomness: [u8; 32],
    ) -> Self {
        let ring = key.ring();
        let mut hash = Sha256::new();
        for (column, words) in columns.iter().enumerate() {
            assert_eq!(words.len() * 64, ring.degree(), "a block has N slots");
            hash.update((column as u32).to_le_bytes());
            for word in *words {
                hash.update(word.to_le_bytes());
            }
        }
        let plaintext = Zeroizing::new(<[u8; 32]>::from(hash.finalize()));
        let seed = Seed(*key.derive_in_generation(
            "mask seed",
            &[&randomness, &number.to_le_bytes(), &*plaintext],
        ));
        let masks = Limb::first(ring.limbs().len())
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
    /// Allocates the buffers of one thread.
    pub fn new(key: &'a DatasetKey) -> Self {
        let degree = key.ring().degree();
        Self {
            key,
            column: None,
            secret: Vec::new(),
            plaintext: Zeroizing::new(vec![0; degree]),
            phase: Zeroizing::new(vec![0; degree]),
            errors: Zeroizing::new(vec![0; degree]),
            meter: NoiseMeter::new(degree),
            limits: Limits::default(),
        }
    }

    /// Selects a column: transforms its secret once for all blocks.
    pub fn begin_column(&mut self, column: Column) {
        let (secret, ring) = (self.key.column_secret(column), self.key.ring());
        self.column = Some(column);
        self.secret = Limb::first(ring.limbs().len())
            .map(|limb| secret.evaluate(ring, limb))
            .collect();
    }

    /// Encrypts the selected column of `block` into `limbs`: for each limb, `N` residues in evaluation form. Returns
    /// the measured noise of the phase factor.
    ///
    /// Panics if no column was selected, the block is of another dataset or the shapes do not match.
    ///
    /// # Errors
    /// The noise is above the limits on which the bound relies; see [`EncryptError::Unlucky`].
    pub fn encrypt(
        &mut self,
        block: &Block<'_>,
        limbs: &mut [&mut [u32]],
    ) -> Result<BlockNoise, EncryptError> {
        let column = self.column.expect("begin_column comes first");
        let ring = self.key.ring();
        assert!(
            block.key.is_same(self.key),
            "a block is encrypted under its own key"
        );
        assert_eq!(limbs.len(), ring.limbs().len());
        self.encode(block.columns[column]);
        let t = ring.slots().modulus().value();
        let plaintext_peak = if measures_plaintexts(ring.parameters()) {
            self.meter.measure(&self.phase, t).peak
        } else {
            0.0
        };
        self.add_errors(block.seed, column);
        let noise = BlockNoise {
            plaintext_peak,
            ..self.meter.measure(&self.phase, t)
        };
        if !self.limits.hold_for(noise) {
            return Err(EncryptError::Unlucky {
                block: block.number,
                column,
            });
        }
        for (((out, ntt), mask), secret) in limbs
            .iter_mut()
            .zip(ring.limbs())
            .zip(&block.masks)
            .zip(&self.secret)
        {
            let q = ntt.modulus();
            // Parameters guarantee |φ| < q/2; φ + q is below 2q, which the transform accepts.
            for (r, &x) in out.iter_mut().zip(self.phase.iter()) {
                *r = q.value().wrapping_add_signed(x);
            }
            ntt.forward(out);
            vector::subtract_product(q, out, mask, secret);
        }
        Ok(noise)
    }

    /// Encodes a batch: the centred polynomial `m` whose slots are the bits, modulo `t`, in coefficient form.
    fn encode(&mut self, bits: &[u64]) {
        for (slots, &word) in self.plaintext.chunks_exact_mut(64).zip(bits) {
            for (i, slot) in slots.iter_mut().enumerate() {
                *slot = (word >> i & 1) as u32;
            }
        }
        let slots = self.key.ring().slots();
        slots.inverse(&mut self.plaintext);
        for (x, &m) in self.phase.iter_mut().zip(self.plaintext.iter()) {
            *x = slots.modulus().centre(m);
        }
    }

    /// Adds `t·e` to `m`, giving `φ`, with `e` a function of mask seed and column.
    fn add_errors(&mut self, mask_seed: Seed, column: Column) {
        let t = self.key.ring().slots().modulus().value() as i32;
        let seed = self
            .key
            .derive_in_generation("error", &[&mask_seed.0, &column.0.to_le_bytes()]);
        oboro_ring::sample::centred_binomial(&seed, &mut self.errors);
        for (x, &e) in self.phase.iter_mut().zip(self.errors.iter()) {
            *x += t * e;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SecretGeneration;
    use crate::key::tests::{key as key_in, master};
    use oboro_ring::Parameters;

    fn key() -> DatasetKey {
        key_in(9, &Parameters::new(12, 2, 65537).unwrap())
    }

    fn encrypt(block: &Block<'_>, column: Column) -> (Vec<Vec<u32>>, BlockNoise) {
        let ring = block.key.ring();
        let mut encryptor = Encryptor::new(block.key);
        encryptor.begin_column(column);
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
        let key = key();
        let ring = key.ring();
        let bits: Vec<u64> = (0..64u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let columns: [&[u64]; 1] = [&bits];
        let block = Block::new(&key, 5, &columns).unwrap();
        let (limbs, noise) = encrypt(&block, Column(0));
        assert!(
            Limits::default().hold_for(noise) && noise.norm > 3.0 && noise.peak > 7.0,
            "{noise:?}"
        );
        for (limb, c) in Limb::enumerate(&limbs) {
            let ntt = &ring.limbs()[limb];
            let secret = key.column_secret(Column(0)).evaluate(ring, limb);
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

    /// Checks sparse, dense, periodic, constant and half-block plaintexts, as unshuffled rows would give.
    #[test]
    fn peaks_of_plaintexts_are_measured_and_small() {
        let bits: [&dyn Fn(usize) -> bool; 9] = [
            &|slot| slot == 0,
            &|slot| slot == 1 || slot == 4095,
            &|slot| slot.is_multiple_of(2),
            &|slot| slot.is_multiple_of(3),
            &|slot| slot < 2048,
            &|slot| slot >= 1000,
            &|slot| (slot as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1,
            &|_| true,
            &|_| false,
        ];
        let words = |bit: &&dyn Fn(usize) -> bool| -> Vec<u64> {
            let word = |word: usize| (0..64).fold(0, |w, i| w | u64::from(bit(64 * word + i)) << i);
            (0..64).map(word).collect()
        };
        let columns: Vec<Vec<u64>> = bits.iter().map(words).collect();
        let columns: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
        for t in [40_961, 65_537, 114_689] {
            let key = key_in(9, &Parameters::new(12, 4, t).unwrap());
            let block = Block::new(&key, 0, &columns).unwrap();
            let peaks: Vec<f64> = Column::first(columns.len() as u32)
                .map(|column| encrypt(&block, column).1.plaintext_peak)
                .collect();
            assert!(peaks.iter().all(|&it| it < 1.5), "{peaks:?}");
            assert!(peaks[6] > 0.5 && peaks[8] == 0.0, "{peaks:?}");
        }
        // Three limbs are too few for itemsets of four.
        let key = key_in(9, &Parameters::new(12, 3, 114_689).unwrap());
        let block = Block::new(&key, 0, &columns).unwrap();
        assert_eq!(encrypt(&block, Column(6)).1.plaintext_peak, 0.0);
    }

    #[test]
    fn a_retry_makes_identical_bytes_and_a_new_block_a_new_seed() {
        let key = key();
        let bits = vec![7u64; 64];
        let columns: [&[u64]; 2] = [&bits, &bits];
        let block = Block::new(&key, 0, &columns).unwrap();
        assert_eq!(encrypt(&block, Column(0)).0, encrypt(&block, Column(0)).0);
        let again = Block::new(&key, 0, &columns).unwrap();
        assert_ne!(block.seed(), again.seed());
        // Equal columns of one block have different secrets and errors.
        assert_ne!(encrypt(&block, Column(0)).0, encrypt(&block, Column(1)).0);
    }

    #[test]
    fn a_repeating_generator_repeats_a_seed_only_with_the_plaintext() {
        let key = key();
        let (bits, mut other) = (vec![7u64; 64], vec![7u64; 64]);
        other[63] ^= 1 << 63;
        let a: [&[u64]; 2] = [&bits, &bits];
        let b: [&[u64]; 2] = [&bits, &other];
        let swapped: [&[u64]; 2] = [&other, &bits];
        let stuck = |number, columns| Block::with_randomness(&key, number, columns, [3; 32]);
        let first = stuck(0, &a);
        assert_eq!(first.seed(), stuck(0, &a).seed());
        assert_eq!(
            encrypt(&first, Column(1)).0,
            encrypt(&stuck(0, &a), Column(1)).0
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
        let elsewhere = DatasetKey::new(
            &master(9),
            key.ring().parameters().clone(),
            [1; 16],
            [3; 16],
        );
        assert_ne!(
            Block::with_randomness(&elsewhere, 0, &a, [3; 32]).seed(),
            first.seed()
        );
    }

    #[test]
    fn another_ring_has_other_seeds_and_errors() {
        // Equal id, generation, randomness and plaintext, as after a rollback of a machine, but another max_len:
        // related ciphertexts would reveal (t − t')·e.
        let bits = vec![7u64; 64];
        let columns: [&[u64]; 1] = [&bits];
        let keys = [(2, 65537), (3, 65537), (2, 40961)]
            .map(|(limbs, t)| key_in(9, &Parameters::new(12, limbs, t).unwrap()));
        let blocks = keys
            .each_ref()
            .map(|key| Block::with_randomness(key, 0, &columns, [3; 32]));
        let errors = |i: usize| {
            // With equal seeds, only the ring distinguishes them.
            let mut encryptor = Encryptor::new(&keys[i]);
            encryptor.encode(&[0; 64]);
            encryptor.add_errors(Seed([5; 32]), Column(0));
            let t = keys[i].ring().slots().modulus().value() as i32;
            encryptor.phase.iter().map(|x| x / t).collect::<Vec<_>>()
        };
        for (i, j) in [(0, 1), (0, 2), (1, 2)] {
            assert_ne!(blocks[i].seed(), blocks[j].seed());
            assert_ne!(errors(i), errors(j));
        }
    }

    /// Attack: a party that knows the secrets of one generation sees the difference of two ciphertexts. With equal mask
    /// and error, it would be that of the secrets, times the mask.
    #[test]
    fn another_generation_of_secrets_has_other_seeds_and_errors() {
        let bits = vec![7u64; 64];
        let columns: [&[u64]; 1] = [&bits];
        let keys =
            [0, 1, 2].map(|number| key().with_secret_generation(SecretGeneration([number; 16])));
        let errors = |key: &DatasetKey| {
            let mut encryptor = Encryptor::new(key);
            encryptor.encode(&[0; 64]);
            encryptor.add_errors(Seed([5; 32]), Column(0));
            encryptor.phase.to_vec()
        };
        let seed = |key| Block::with_randomness(key, 0, &columns, [3; 32]).seed();
        for (i, j) in [(0, 1), (0, 2), (1, 2)] {
            assert_ne!(seed(&keys[i]), seed(&keys[j]));
            assert_ne!(errors(&keys[i]), errors(&keys[j]));
        }
    }

    #[test]
    #[should_panic(expected = "under its own key")]
    fn a_block_is_not_encrypted_under_another_key() {
        let (key, other) = (key(), key_in(8, &Parameters::new(12, 2, 65537).unwrap()));
        let bits = vec![7u64; 64];
        let columns: [&[u64]; 1] = [&bits];
        let block = Block::new(&key, 0, &columns).unwrap();
        let mut encryptor = Encryptor::new(&other);
        encryptor.begin_column(Column(0));
        let mut limbs = vec![vec![0; 4096]; 2];
        let _ = encryptor.encrypt(
            &block,
            &mut limbs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
        );
    }

    #[test]
    fn noise_above_the_limits_makes_no_ciphertext() {
        let key = key_in(9, &Parameters::new(12, 4, 65537).unwrap());
        let bits = vec![7u64; 64];
        let columns: [&[u64]; 1] = [&bits];
        let block = Block::new(&key, 4, &columns).unwrap();
        for limits in [
            Limits {
                norm: 3.0,
                ..Limits::default()
            },
            Limits {
                peak: 3.0,
                ..Limits::default()
            },
            Limits {
                plaintext_peak: 0.1,
                ..Limits::default()
            },
        ] {
            let mut encryptor = Encryptor::new(&key);
            encryptor.limits = limits;
            encryptor.begin_column(Column(0));
            let mut limbs = vec![vec![0; 4096]; 4];
            let outcome = encryptor.encrypt(
                &block,
                &mut limbs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
            );
            assert!(matches!(
                outcome,
                Err(EncryptError::Unlucky {
                    block: 4,
                    column: Column(0)
                })
            ));
            assert!(
                limbs.iter().flatten().all(|&r| r == 0),
                "nothing was written"
            );
        }
    }

    #[test]
    fn one_error_serves_all_limbs() {
        // c + a·s mod q_1 and mod q_2 are residues of one small integer polynomial.
        let key = key();
        let ring = key.ring();
        let bits = vec![u64::MAX; 64];
        let columns: [&[u64]; 1] = [&bits];
        let block = Block::new(&key, 0, &columns).unwrap();
        let (limbs, _) = encrypt(&block, Column(0));
        let phases: Vec<Vec<i32>> = Limb::enumerate(&limbs)
            .map(|(limb, c)| {
                let ntt = &ring.limbs()[limb];
                let mut phase = c.clone();
                let secret = key.column_secret(Column(0)).evaluate(ring, limb);
                vector::multiply_add(ntt.modulus(), &block.masks[limb], &secret, &mut phase);
                ntt.inverse(&mut phase);
                phase.iter().map(|&x| ntt.modulus().centre(x)).collect()
            })
            .collect();
        assert_eq!(phases[0], phases[1]);
    }
}
