//! The master key, and the keys derived from it for one dataset.
//!
//! A master key never leaves the owner. It derives the key of each dataset, which derives all secrets of the dataset;
//! the key of one dataset can therefore be handed over. The secret of a column is a function of the dataset key, the
//! generation of the stratum's secrets and the column.

use crate::prf::{Output, prf};
use oboro_ring::{Column, Limb, Parameters, Ring};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Identifier of a master key that does not reveal it. The owner's files contain it, to detect a wrong key before
/// anything is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyCheck(pub [u8; 16]);

impl fmt::Display for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyCheck({self})")
    }
}

/// Owner's 32-byte secret, from which all others are derived.
#[derive(Clone, ZeroizeOnDrop)]
pub struct MasterKey {
    bytes: [u8; 32],
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(secret)")
    }
}

impl MasterKey {
    /// Draws a new key from the operating system's generator.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bytes)?;
        Ok(Self::take(&mut bytes))
    }

    /// Takes a key's bytes and wipes them.
    pub(crate) fn take(bytes: &mut [u8; 32]) -> Self {
        let key = Self { bytes: *bytes };
        bytes.zeroize();
        key
    }

    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.bytes
    }

    pub(crate) fn derive(&self, label: &str, fields: &[&[u8]]) -> Output {
        prf(&self.bytes, label, fields)
    }

    /// Returns the identifier of this key: `PRF(master, "key check")`, first 16 bytes.
    pub fn check(&self) -> KeyCheck {
        let output = self.derive("key check", &[]);
        KeyCheck(output[..16].try_into().expect("sixteen bytes"))
    }
}

/// Generation of the column secrets of a stratum. Generations have no order. No stratum has the default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SecretGeneration(pub [u8; 16]);

/// Hash of the rows of a new stratum: an input of the generation of its secrets.
#[derive(Clone, Default)]
pub struct RowHash(Sha256);

impl RowHash {
    /// Adds a field with its length, which keeps fields from running into each other.
    pub fn add(&mut self, field: &[u8]) {
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
    }

    /// Adds words as one field.
    pub fn add_words(&mut self, words: &[u64]) {
        self.0.update((8 * words.len() as u64).to_le_bytes());
        for word in words {
            self.0.update(word.to_le_bytes());
        }
    }
}

/// Key of one dataset, in one ring, with the secrets of one stratum.
///
/// The ring is an input of every derivation. The dataset in another ring has other secrets, masks and errors; nothing
/// is ever encrypted twice under related randomness.
#[derive(Clone)]
pub struct DatasetKey {
    /// `PRF(master, "dataset key", dataset)`.
    secret: Output,
    check: KeyCheck,
    ring: Arc<Ring>,
    dataset: [u8; 16],
    generation: [u8; 16],
    secrets: SecretGeneration,
}

impl fmt::Debug for DatasetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatasetKey(secret)")
    }
}

impl DatasetKey {
    /// Derives the key of an existing dataset. Ids and generations are drawn once, by [`DatasetKey::fresh`], and never
    /// used for another dataset.
    pub fn new(
        master: &MasterKey,
        parameters: Parameters,
        dataset: [u8; 16],
        generation: [u8; 16],
    ) -> Self {
        Self {
            secret: master.derive("dataset key", &[&dataset]),
            check: master.check(),
            ring: Arc::new(Ring::new(parameters)),
            dataset,
            generation,
            secrets: SecretGeneration::default(),
        }
    }

    /// Returns this key with the column secrets of a stratum. Secrets of one generation reveal nothing about those of
    /// another; all other derivations stay.
    #[must_use]
    pub fn with_secret_generation(&self, secrets: SecretGeneration) -> Self {
        Self {
            secrets,
            ..self.clone()
        }
    }

    /// Draws a generation of secrets for new strata of the version after the one with root `parent`. It is
    /// `PRF(dataset key, "secret generation", generation, ring, randomness, parent, rows)`, its first 16 bytes. Even a
    /// generator that repeats its output repeats one only for equal rows after that version.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn fresh_secrets(
        &self,
        parent: &[u8; 32],
        rows: RowHash,
    ) -> Result<SecretGeneration, getrandom::Error> {
        let mut randomness = [0; 32];
        getrandom::fill(&mut randomness)?;
        Ok(self.secrets_from(&randomness, parent, rows))
    }

    fn secrets_from(
        &self,
        randomness: &[u8; 32],
        parent: &[u8; 32],
        rows: RowHash,
    ) -> SecretGeneration {
        let rows = Zeroizing::new(<[u8; 32]>::from(rows.0.finalize()));
        let output = self.derive("secret generation", &[randomness, parent, &*rows]);
        SecretGeneration(output[..16].try_into().expect("sixteen bytes"))
    }

    /// Returns the dataset's key under another master key, with a fresh generation: unrelated to everything that this
    /// one derived or sealed.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn rotated(&self, master: &MasterKey) -> Result<Self, getrandom::Error> {
        let mut generation = [0; 16];
        getrandom::fill(&mut generation)?;
        let parameters = self.ring.parameters().clone();
        Ok(Self::new(master, parameters, self.dataset, generation))
    }

    /// Draws the key of a new dataset, with a fresh id and generation.
    pub fn fresh(master: &MasterKey, parameters: Parameters) -> Result<Self, getrandom::Error> {
        let (mut dataset, mut generation) = ([0; 16], [0; 16]);
        getrandom::fill(&mut dataset)?;
        getrandom::fill(&mut generation)?;
        Ok(Self::new(master, parameters, dataset, generation))
    }

    /// The ring of the dataset.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Id of the dataset.
    pub fn dataset(&self) -> [u8; 16] {
        self.dataset
    }

    /// Random input of the derivation of all secrets under one master key.
    pub fn generation(&self) -> [u8; 16] {
        self.generation
    }

    /// Returns true if both are keys of one dataset, ring, secrets and owner.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.dataset, self.generation, self.secrets)
            == (other.dataset, other.generation, other.secrets)
            && self.ring.parameters() == other.ring.parameters()
            && self.check == other.check
    }

    /// Derives `PRF(dataset key, label, fields…)`.
    pub(crate) fn derive_plain(&self, label: &str, fields: &[&[u8]]) -> Output {
        prf(&self.secret, label, fields)
    }

    /// Derives `PRF(dataset key, label, generation, ring, fields…)`, with the ring as `log2 N` and `L` (a byte each)
    /// and `t` (four bytes).
    pub(crate) fn derive(&self, label: &str, fields: &[&[u8]]) -> Output {
        let parameters = self.ring.parameters();
        let mut ring = [
            parameters.log_degree() as u8,
            parameters.limb_count() as u8,
            0,
            0,
            0,
            0,
        ];
        ring[2..].copy_from_slice(&parameters.plaintext_modulus().to_le_bytes());
        let mut all: Vec<&[u8]> = vec![&self.generation, &ring];
        all.extend(fields);
        self.derive_plain(label, &all)
    }

    /// Derives for the stratum: the generation of its secrets is a further field before `fields`.
    pub(crate) fn derive_in_generation(&self, label: &str, fields: &[&[u8]]) -> Output {
        self.derive(label, &[&[&self.secrets.0[..]], fields].concat())
    }

    /// Derives the secret of a column: ternary, expanded from
    /// `PRF(dataset key, "column secret", generation, ring, secret generation, column)`.
    pub(crate) fn column_secret(&self, column: Column) -> ColumnSecret {
        let seed = self.derive_in_generation("column secret", &[&column.0.to_le_bytes()]);
        let mut coefficients = Zeroizing::new(vec![0; self.ring.degree()]);
        oboro_ring::sample::ternary(&seed, &mut coefficients);
        ColumnSecret {
            column,
            coefficients,
        }
    }
}

/// Column secret `s_i`: `N` coefficients −1, 0 or 1.
pub(crate) struct ColumnSecret {
    column: Column,
    coefficients: Zeroizing<Vec<i8>>,
}

impl fmt::Debug for ColumnSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnSecret(column {}, secret)", self.column)
    }
}

impl ColumnSecret {
    /// Computes the secret in evaluation form modulo a limb.
    pub(crate) fn evaluate(&self, ring: &Ring, limb: Limb) -> Zeroizing<Vec<u32>> {
        let ntt = &ring.limbs()[limb];
        let q = ntt.modulus().value();
        // −1 becomes q − 1, 0 becomes q: both below 4q, which the transform accepts.
        let lifted = self
            .coefficients
            .iter()
            .map(|&x| q.wrapping_add_signed(i32::from(x)));
        let mut values = Zeroizing::new(lifted.collect::<Vec<_>>());
        ntt.forward(&mut values);
        values
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn master(byte: u8) -> MasterKey {
        MasterKey::take(&mut [byte; 32])
    }

    pub(crate) fn key(byte: u8, parameters: &Parameters) -> DatasetKey {
        DatasetKey::new(&master(byte), parameters.clone(), [1; 16], [2; 16])
    }

    fn small() -> Parameters {
        Parameters::new(10, 1, 12289).unwrap()
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let key = key(0xab, &small());
        let master = format!("{:?}", master(0xab));
        let secret = format!("{:?}", key.column_secret(Column(3)));
        assert_eq!(
            (master.as_str(), secret.as_str()),
            ("MasterKey(secret)", "ColumnSecret(column 3, secret)")
        );
        assert_eq!(format!("{key:?}"), "DatasetKey(secret)");
    }

    #[test]
    fn every_part_of_the_name_of_a_column_changes_its_secret() {
        let secret = |m: u8, parameters: Parameters, d: u8, g: u8, c: u32| {
            let key = DatasetKey::new(&master(m), parameters, [d; 16], [g; 16]);
            key.column_secret(Column(c)).coefficients[..1024].to_vec()
        };
        let of = |log_degree, limbs, t| Parameters::new(log_degree, limbs, t).unwrap();
        let of_generation = |number| {
            let key = DatasetKey::new(&master(1), of(12, 2, 65537), [1; 16], [1; 16]);
            let key = key.with_secret_generation(SecretGeneration([number; 16]));
            key.column_secret(Column(1)).coefficients[..1024].to_vec()
        };
        let all = [
            secret(1, of(12, 2, 65537), 1, 1, 1),
            secret(2, of(12, 2, 65537), 1, 1, 1),
            secret(1, of(12, 3, 65537), 1, 1, 1),
            secret(1, of(12, 2, 40961), 1, 1, 1),
            secret(1, of(13, 2, 65537), 1, 1, 1),
            secret(1, of(12, 2, 65537), 2, 1, 1),
            secret(1, of(12, 2, 65537), 1, 2, 1),
            secret(1, of(12, 2, 65537), 1, 1, 2),
            of_generation(1),
            of_generation(2),
        ];
        assert_eq!(all[0], of_generation(0));
        assert_eq!(all[0], secret(1, of(12, 2, 65537), 1, 1, 1));
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| y != x), "{i}");
        }
    }

    #[test]
    fn a_repeating_generator_repeats_secrets_only_with_version_and_rows() {
        let key = key(1, &small());
        let secrets = |parent: u8, rows: &[&[u8]]| {
            let mut hash = RowHash::default();
            rows.iter().for_each(|row| hash.add(row));
            key.secrets_from(&[7; 32], &[parent; 32], hash)
        };
        let all = [
            secrets(1, &[b"ab", b"c"]),
            secrets(2, &[b"ab", b"c"]),
            secrets(1, &[b"a", b"bc"]),
            secrets(1, &[b"ab"]),
            key.fresh_secrets(&[1; 32], RowHash::default()).unwrap(),
            key.fresh_secrets(&[1; 32], RowHash::default()).unwrap(),
        ];
        assert_eq!(all[0], secrets(1, &[b"ab", b"c"]));
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| y != x), "{i}");
        }
    }

    /// Checks that the key of one dataset derives nothing of another.
    #[test]
    fn every_secret_of_a_dataset_derives_from_its_own_key() {
        let parameters = small();
        let of = |master_byte, dataset| {
            DatasetKey::new(
                &master(master_byte),
                parameters.clone(),
                [dataset; 16],
                [2; 16],
            )
        };
        let (mine, other) = (of(1, 1), of(1, 2));
        let expected = prf(&[1; 32], "dataset key", &[&[1; 16]]);
        assert_eq!((*mine.secret, mine.check), (*expected, master(1).check()));
        let taken = DatasetKey {
            dataset: other.dataset,
            ..mine.clone()
        };
        for label in ["column secret", "fingerprint", "seal key"] {
            assert_ne!(*taken.derive(label, &[]), *other.derive(label, &[]));
        }
        let sealed = other.seal("record", b"names").unwrap();
        assert!(taken.open("record", &sealed).is_err());
        assert!(other.open("record", &sealed).is_ok());
    }

    #[test]
    fn fresh_datasets_never_share_their_ids() {
        let fresh = || DatasetKey::fresh(&master(1), small()).unwrap();
        let (a, b) = (fresh(), fresh());
        assert_ne!(a.dataset(), b.dataset());
        assert_ne!(a.generation(), b.generation());
    }

    #[test]
    fn evaluation_form_is_the_transform_of_the_coefficients() {
        let key = key(1, &small());
        let secret = key.column_secret(Column(0));
        let ntt = &key.ring().limbs()[0];
        let mut values = secret.evaluate(key.ring(), Limb(0)).to_vec();
        ntt.inverse(&mut values);
        let back: Vec<i8> = values
            .iter()
            .map(|&x| ntt.modulus().centre(x) as i8)
            .collect();
        assert_eq!(back, *secret.coefficients);
    }
}
