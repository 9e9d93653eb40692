//! The master key, and what is derived from it for one dataset.
//!
//! A master key never leaves the owner. A column's secret is a function of the master key, the
//! dataset, its generation and the column, so nothing else needs to be kept.

use crate::prf::{Output, prf};
use crate::sampler;
use oboro_ring::Ring;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Identifies a master key without revealing it: the owner's files carry it so that a key that
/// does not match is noticed before anything is computed.
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

/// The owner's 32-byte secret, from which all others come.
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
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self { bytes })
    }

    /// A key from its bytes, which are wiped.
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

/// A master key at work on one generation of one dataset.
#[derive(Debug, Clone)]
pub struct DatasetKey {
    master: MasterKey,
    dataset: [u8; 16],
    generation: [u8; 16],
}

impl DatasetKey {
    /// The key of an existing dataset. Ids and generations are drawn once, by
    /// [`DatasetKey::fresh`], and never used for another dataset.
    pub fn new(master: &MasterKey, dataset: [u8; 16], generation: [u8; 16]) -> Self {
        Self {
            master: master.clone(),
            dataset,
            generation,
        }
    }

    /// The key of a new dataset, with an id and a generation that were never used before.
    pub fn fresh(master: &MasterKey) -> Result<Self, getrandom::Error> {
        let (mut dataset, mut generation) = ([0; 16], [0; 16]);
        getrandom::fill(&mut dataset)?;
        getrandom::fill(&mut generation)?;
        Ok(Self::new(master, dataset, generation))
    }

    /// The dataset's id.
    pub fn dataset(&self) -> [u8; 16] {
        self.dataset
    }

    /// The generation of the columns' secrets.
    pub fn generation(&self) -> [u8; 16] {
        self.generation
    }

    /// `PRF(master, label, dataset ‖ generation ‖ fields)`.
    pub(crate) fn derive(&self, label: &str, fields: &[&[u8]]) -> Output {
        let mut all: Vec<&[u8]> = vec![&self.dataset, &self.generation];
        all.extend(fields);
        self.master.derive(label, &all)
    }

    /// The secret of a column: ternary, expanded from
    /// `PRF(master, "column secret", dataset ‖ generation ‖ column)`.
    pub fn column_secret(&self, ring: &Ring, column: u32) -> ColumnSecret {
        let seed = self.derive("column secret", &[&column.to_le_bytes()]);
        let mut coefficients = Zeroizing::new(vec![0; ring.degree()]);
        sampler::ternary(&seed, &mut coefficients);
        ColumnSecret {
            column,
            coefficients,
        }
    }
}

/// `s_i`: `N` coefficients −1, 0 or 1.
pub struct ColumnSecret {
    column: u32,
    coefficients: Zeroizing<Vec<i8>>,
}

impl fmt::Debug for ColumnSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnSecret(column {}, secret)", self.column)
    }
}

impl ColumnSecret {
    /// The column it belongs to.
    pub fn column(&self) -> u32 {
        self.column
    }

    /// The secret in evaluation form modulo limb `limb`.
    pub(crate) fn evaluate(&self, ring: &Ring, limb: usize) -> Zeroizing<Vec<u32>> {
        let ntt = &ring.limbs()[limb];
        let q = ntt.modulus().value();
        // −1 becomes q − 1, 0 becomes q: both below 4q, which the transform takes.
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
mod tests {
    use super::*;
    use oboro_ring::Parameters;

    pub(crate) fn master(byte: u8) -> MasterKey {
        MasterKey::take(&mut [byte; 32])
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let ring = Ring::new(Parameters::new(10, 1, 12289).unwrap());
        let key = DatasetKey::new(&master(0xab), [1; 16], [2; 16]);
        let shown = format!(
            "{key:?} {:?} {:?}",
            key.column_secret(&ring, 3),
            master(0xab)
        );
        assert!(shown.contains("secret"));
        for leak in ["171", "ab", "AB", "-1"] {
            assert!(!shown.contains(leak), "{leak} in {shown}");
        }
    }

    #[test]
    fn every_part_of_the_name_of_a_column_changes_its_secret() {
        let ring = Ring::new(Parameters::new(10, 1, 12289).unwrap());
        let secret = |m: u8, d: u8, g: u8, c: u32| {
            DatasetKey::new(&master(m), [d; 16], [g; 16])
                .column_secret(&ring, c)
                .coefficients
                .to_vec()
        };
        let base = secret(1, 1, 1, 1);
        assert_eq!(base, secret(1, 1, 1, 1));
        for other in [
            secret(2, 1, 1, 1),
            secret(1, 2, 1, 1),
            secret(1, 1, 2, 1),
            secret(1, 1, 1, 2),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn fresh_datasets_never_share_their_ids() {
        let (a, b) = (
            DatasetKey::fresh(&master(1)).unwrap(),
            DatasetKey::fresh(&master(1)).unwrap(),
        );
        assert_ne!(a.dataset(), b.dataset());
        assert_ne!(a.generation(), b.generation());
    }

    #[test]
    fn evaluation_form_is_the_transform_of_the_coefficients() {
        let ring = Ring::new(Parameters::new(10, 1, 12289).unwrap());
        let secret = DatasetKey::new(&master(1), [1; 16], [1; 16]).column_secret(&ring, 0);
        let ntt = &ring.limbs()[0];
        let mut values = secret.evaluate(&ring, 0).to_vec();
        ntt.inverse(&mut values);
        let back: Vec<i8> = values
            .iter()
            .map(|&x| ntt.modulus().centre(x) as i8)
            .collect();
        assert_eq!(back, *secret.coefficients);
    }
}
