//! The master key, and the keys derived from it for one dataset.
//!
//! A master key never leaves the owner. A column's secret is a function of the master key, the dataset, its generation
//! and the column, so nothing else needs to be stored.

use crate::prf::{Output, prf};
use crate::seal::SealError;
use oboro_ring::{Column, Limb, Parameters, Ring};
use std::fmt;
use std::sync::Arc;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Identifies a master key without revealing it. The owner's files contain it, so that a wrong key is detected before
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

/// The owner's 32-byte secret, from which all others are derived.
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
    /// A new key from the operating system's generator.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bytes)?;
        Ok(Self::take(&mut bytes))
    }

    /// Creates a key from its bytes, which are wiped.
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

    /// The value that identifies this key: `PRF(master, "key check")`, first 16 bytes.
    pub fn check(&self) -> KeyCheck {
        let output = self.derive("key check", &[]);
        KeyCheck(output[..16].try_into().expect("sixteen bytes"))
    }
}

/// A master key for one generation of one dataset, in one ring.
///
/// The ring is an input of every derivation: the same dataset in another ring has other secrets, masks and errors, so
/// nothing is ever encrypted twice under related randomness.
#[derive(Debug, Clone)]
pub struct DatasetKey {
    master: MasterKey,
    ring: Arc<Ring>,
    dataset: [u8; 16],
    generation: [u8; 16],
    secret_generation: u32,
}

impl DatasetKey {
    /// The key of an existing dataset. Ids and generations are drawn once, by
    /// [`DatasetKey::fresh`], and never used for another dataset.
    pub fn new(
        master: &MasterKey,
        parameters: Parameters,
        dataset: [u8; 16],
        generation: [u8; 16],
    ) -> Self {
        let ring = Arc::new(Ring::new(parameters));
        Self {
            master: master.clone(),
            ring,
            dataset,
            generation,
            secret_generation: 0,
        }
    }

    /// The same key with another generation of column secrets: learning those of one generation reveals nothing about
    /// those of another. Everything else that is derived stays the same.
    #[must_use]
    pub fn with_secret_generation(&self, generation: u32) -> Self {
        Self {
            secret_generation: generation,
            ..self.clone()
        }
    }

    /// The key of the same dataset under another master key, with a fresh generation: nothing that was derived from or
    /// sealed by this one has to do with it.
    ///
    /// # Errors
    /// No randomness.
    pub fn rotated(&self, master: &MasterKey) -> Result<Self, getrandom::Error> {
        let mut generation = [0; 16];
        getrandom::fill(&mut generation)?;
        Ok(Self {
            master: master.clone(),
            generation,
            secret_generation: 0,
            ..self.clone()
        })
    }

    /// The key of a new dataset, with a fresh id and generation.
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

    /// The dataset's id.
    pub fn dataset(&self) -> [u8; 16] {
        self.dataset
    }

    /// The random input of the derivation of column secrets.
    pub fn generation(&self) -> [u8; 16] {
        self.generation
    }

    /// The number of the generation of column secrets.
    pub fn secret_generation(&self) -> u32 {
        self.secret_generation
    }

    pub(crate) fn master(&self) -> &MasterKey {
        &self.master
    }

    /// Whether both are keys of the same dataset, ring and owner.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.dataset, self.generation, self.secret_generation)
            == (other.dataset, other.generation, other.secret_generation)
            && self.ring.parameters() == other.ring.parameters()
            && self.master.check() == other.master.check()
    }

    /// Seals a record of this dataset; see [`MasterKey::seal`].
    ///
    /// # Errors
    /// No randomness.
    pub fn seal(&self, what: &str, plaintext: &[u8]) -> Result<Vec<u8>, SealError> {
        self.master.seal(&self.context(what), plaintext)
    }

    /// Opens a record that [`DatasetKey::seal`] sealed for the same dataset and purpose.
    ///
    /// # Errors
    /// Altered, or sealed by another key, for another dataset or purpose.
    pub fn open(&self, what: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        self.master.open(&self.context(what), sealed)
    }

    fn context(&self, what: &str) -> Vec<u8> {
        [what.as_bytes(), &self.dataset].concat()
    }

    /// `PRF(master, label, dataset, generation, ring, fields…)`, with the ring as `log2 N` and `L` (a byte each) and
    /// `t` (four bytes).
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
        let mut all: Vec<&[u8]> = vec![&self.dataset, &self.generation, &ring];
        all.extend(fields);
        self.master.derive(label, &all)
    }

    /// Derives for one generation of secrets: from the second on with its number as a further field.
    pub(crate) fn derive_in_generation(&self, label: &str, fields: &[&[u8]]) -> Output {
        let number = self.secret_generation.to_le_bytes();
        match self.secret_generation {
            0 => self.derive(label, fields),
            _ => self.derive(label, &[fields, &[&number]].concat()),
        }
    }

    /// The secret of a column: ternary, expanded from
    /// `PRF(master, "column secret", dataset, generation, ring, column)` in its generation.
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

/// `s_i`: `N` coefficients −1, 0 or 1.
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
    /// The secret in evaluation form modulo a limb.
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
        let shown = format!("{key:?}");
        assert!(
            shown.contains("MasterKey(secret)") && !shown.contains("171, 171"),
            "{shown}"
        );
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
            let key = key.with_secret_generation(number);
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
