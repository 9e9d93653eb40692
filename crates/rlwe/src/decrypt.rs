//! Decryption of whole columns from one limb (docs/cryptography.md, "Decryption of one column").
//!
//! `φ = [c + a·s]_q` is exact modulo the first limb alone, for `|φ| ≤ 21.5·t < q/2`; then `m = φ mod t`,
//! whose evaluation form modulo `t` has the bits.

use crate::key::DatasetKey;
use oboro_ring::{Parameters, pack, vector};
use oboro_sample::MAX_ERROR;
use thiserror::Error;
use zeroize::Zeroizing;

/// The limb that columns are decrypted from.
pub const COLUMN_LIMB: usize = 0;

/// A ciphertext that no encryption under the column's secret has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "column {column} does not decrypt: its phase or a slot is out of bounds; the data on the server was altered, or it was encrypted with another key"
)]
pub struct DecryptError {
    /// The column.
    pub column: u32,
}

/// Decrypts blocks of one column: its secret in evaluation form modulo the first limb, and the buffers
/// that everything happens in.
pub struct ColumnDecryptor<'a> {
    key: &'a DatasetKey,
    column: u32,
    secret: Zeroizing<Vec<u32>>,
    values: Zeroizing<Vec<u32>>,
    largest_phase: u32,
}

impl<'a> ColumnDecryptor<'a> {
    /// Derives and transforms the column's secret.
    pub fn new(key: &'a DatasetKey, column: u32) -> Self {
        Self {
            key,
            column,
            secret: key.column_secret(column).evaluate(key.ring(), COLUMN_LIMB),
            values: Zeroizing::new(vec![0; key.ring().degree()]),
            largest_phase: 0,
        }
    }

    /// Decrypts one block into `bits`: `N` of them, 64 to a word, lowest first. `mask` is the block's
    /// mask, `N` residues modulo the first limb in evaluation form; `packed` the column's ciphertext
    /// modulo the same, in 28 bits.
    ///
    /// Panics if the shapes do not match.
    ///
    /// # Errors
    /// A phase beyond what encryption makes, or a slot that is no bit; `bits` means nothing then.
    pub fn decrypt(
        &mut self,
        mask: &[u32],
        packed: &[u8],
        bits: &mut [u64],
    ) -> Result<(), DecryptError> {
        let ring = self.key.ring();
        assert_eq!(bits.len() * 64, ring.degree(), "a block has N slots");
        let (limb, slots) = (&ring.limbs()[COLUMN_LIMB], ring.slots());
        let (q, t) = (limb.modulus(), slots.modulus());
        pack::unpack(packed, &mut self.values);
        // Checked on public values, so that nothing but residues meets the kernels.
        if self.values.iter().any(|&residue| residue >= q.value()) {
            return Err(self.error());
        }
        vector::multiply_add(q, mask, &self.secret, &mut self.values);
        limb.inverse(&mut self.values);
        let mut largest = 0;
        for value in self.values.iter_mut() {
            let phase = q.centre(*value);
            largest = largest.max(phase.unsigned_abs());
            *value = t.reduce_signed(phase.into());
        }
        slots.forward(&mut self.values);
        // Collected without a branch on any of them.
        let mut beyond = 0;
        for (word, slots) in bits.iter_mut().zip(self.values.chunks_exact(64)) {
            *word = 0;
            for (i, &slot) in slots.iter().enumerate() {
                beyond |= slot & !1;
                *word |= u64::from(slot & 1) << i;
            }
        }
        if beyond != 0 || largest > largest_phase(ring.parameters()) {
            return Err(self.error());
        }
        self.largest_phase = self.largest_phase.max(largest);
        Ok(())
    }

    /// `log2` of the largest coefficient of a phase factor met so far.
    pub fn log2_largest_phase(&self) -> f64 {
        f64::from(self.largest_phase.max(1)).log2()
    }

    fn error(&self) -> DecryptError {
        DecryptError {
            column: self.column,
        }
    }
}

/// What a coefficient of a phase factor `m + t·e` is at most: `|m| ≤ (t − 1)/2`.
fn largest_phase(parameters: &Parameters) -> u32 {
    let t = parameters.plaintext_modulus();
    t / 2 + t * MAX_ERROR as u32
}

/// `log2` of the largest coefficient that a phase factor can have.
pub fn log2_column_phase_bound(parameters: &Parameters) -> f64 {
    f64::from(largest_phase(parameters)).log2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;
    use crate::{Block, Encryptor};
    use oboro_ring::mask;
    use proptest::prelude::*;

    /// The mask and packed ciphertext of one column of a block, both modulo the first limb.
    fn encrypt(key: &DatasetKey, columns: &[&[u64]], column: u32) -> (Vec<u32>, Vec<u8>) {
        let ring = key.ring();
        let block = Block::new(key, 3, columns).unwrap();
        let mut limbs = vec![vec![0; ring.degree()]; ring.limbs().len()];
        let mut encryptor = Encryptor::new(key);
        encryptor.begin_column(column);
        let mut out: Vec<_> = limbs.iter_mut().map(Vec::as_mut_slice).collect();
        encryptor.encrypt(&block, &mut out).unwrap();
        let mut mask = vec![0; ring.degree()];
        mask::expand(&block.seed(), ring.parameters(), COLUMN_LIMB, &mut mask);
        let mut packed = vec![0; pack::packed_len(ring.degree())];
        pack::pack(&limbs[COLUMN_LIMB], &mut packed);
        (mask, packed)
    }

    fn rings() -> [Parameters; 3] {
        [(12, 1, 40961), (12, 3, 114_689), (13, 7, 65537)]
            .map(|(log_degree, limbs, t)| Parameters::new(log_degree, limbs, t).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn what_was_encrypted_is_decrypted(seed: u64, ring in 0usize..3, sparse: bool) {
            let key = key(7, &rings()[ring]);
            let words = key.ring().degree() / 64;
            let random = |i: usize| {
                let word = (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
                if sparse { word & word << 1 & word << 7 } else { word.wrapping_mul(word | 1) }
            };
            let (ones, bits): (Vec<u64>, Vec<u64>) = (vec![u64::MAX; words], (0..words).map(random).collect());
            let columns = [&ones[..], &bits[..]];
            for (column, expected) in (0..).zip(columns) {
                let (mask, packed) = encrypt(&key, &columns, column);
                let mut decryptor = ColumnDecryptor::new(&key, column);
                let mut found = vec![seed; words];
                decryptor.decrypt(&mask, &packed, &mut found).unwrap();
                prop_assert_eq!(&found, expected);
                let bound = log2_column_phase_bound(key.ring().parameters());
                let largest = decryptor.log2_largest_phase();
                prop_assert!(largest <= bound && largest > bound - 3.0);
            }
        }
    }

    #[test]
    fn what_is_not_the_columns_ciphertext_is_an_error() {
        let parameters = Parameters::new(12, 2, 65537).unwrap();
        let right = key(7, &parameters);
        let bits = vec![0x5555_aaaa_0f0f_1234; 64];
        let (mask, packed) = encrypt(&right, &[&bits, &bits], 1);
        let decrypt = |key: &DatasetKey, column, mask: &[u32], packed: &[u8]| {
            let mut found = vec![0; 64];
            let outcome = ColumnDecryptor::new(key, column).decrypt(mask, packed, &mut found);
            outcome.map(|()| found)
        };
        assert_eq!(decrypt(&right, 1, &mask, &packed), Ok(bits));
        let refused = |column| Err(DecryptError { column });
        assert_eq!(decrypt(&key(8, &parameters), 1, &mask, &packed), refused(1));
        assert_eq!(decrypt(&right, 0, &mask, &packed), refused(0));
        for at in [0, 7000, packed.len() - 1] {
            let mut altered = packed.clone();
            altered[at] ^= 1;
            assert_eq!(decrypt(&right, 1, &mask, &altered), refused(1));
        }
        assert_eq!(
            decrypt(&right, 1, &mask, &vec![0xff; packed.len()]),
            refused(1)
        );
        let mut other = mask.clone();
        other[17] ^= 1;
        assert_eq!(decrypt(&right, 1, &other, &packed), refused(1));
    }
}
