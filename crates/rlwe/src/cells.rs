//! Sealed cells: a second copy of a column's bits, under an AEAD (docs/cryptography.md, "Sealed cells").
//!
//! The server returns them when the owner counts locally. The associated data names one column of one segment by the
//! digest of the segment's mask seeds, which are drawn anew for every segment. Exactly one ciphertext therefore opens
//! in each position: an older one, or that of another column, does not.

use crate::key::DatasetKey;
use crate::seal::{NONCE_BYTES, SealError, TAG_BYTES};
use oboro_ring::Column;
use zeroize::Zeroizing;

/// Number of bytes that sealing adds to the cells of a column.
pub const CELL_SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;
const CONTEXT: &[u8] = b"oboro cells";
/// Number of bits of a cell.
const CELL_BITS: u32 = 1;

/// Identity of the cells of one column in one segment.
#[derive(Debug, Clone, Copy)]
pub struct CellsId<'a> {
    /// Number of the segment.
    pub segment: u32,
    /// Digest of the segment's mask seeds.
    pub seeds: &'a [u8; 32],
    /// Column.
    pub column: Column,
}

impl DatasetKey {
    /// Seals the bits of a column in a segment, 64 slots per word, least significant first. The result has 8 bytes per
    /// word, and [`CELL_SEAL_BYTES`].
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn seal_cells(&self, which: CellsId<'_>, bits: &[u64]) -> Result<Vec<u8>, SealError> {
        let bytes = bits.iter().flat_map(|word| word.to_le_bytes());
        let bytes: Zeroizing<Vec<u8>> = Zeroizing::new(bytes.collect());
        self.seal_bytes(&self.cells_context(which), &bytes)
    }

    /// Opens cells sealed by [`seal_cells`](Self::seal_cells) for this column and segment.
    ///
    /// # Errors
    /// The bytes are any others.
    pub fn open_cells(
        &self,
        which: CellsId<'_>,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u64>>, SealError> {
        let bytes = self.open_bytes(&self.cells_context(which), sealed)?;
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let (words, rest) = bytes.as_chunks();
        match rest {
            [] => Ok(Zeroizing::new(words.iter().map(word).collect())),
            _ => Err(SealError::Open),
        }
    }

    fn cells_context(&self, which: CellsId<'_>) -> Vec<u8> {
        [
            CONTEXT,
            &self.dataset(),
            &self.generation(),
            &which.segment.to_le_bytes(),
            which.seeds,
            &which.column.0.to_le_bytes(),
            &CELL_BITS.to_le_bytes(),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::{key, master};
    use oboro_ring::Parameters;

    const OF: CellsId<'_> = CellsId {
        segment: 3,
        seeds: &[7; 32],
        column: Column(5),
    };

    fn parameters() -> Parameters {
        Parameters::new(10, 1, 12289).unwrap()
    }

    #[test]
    fn cells_open_as_they_were_sealed() {
        let key = key(1, &parameters());
        let bits: Vec<u64> = (0..16u64)
            .map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let sealed = key.seal_cells(OF, &bits).unwrap();
        assert_eq!(sealed.len(), 8 * bits.len() + CELL_SEAL_BYTES);
        assert_eq!(*key.open_cells(OF, &sealed).unwrap(), bits);
        for at in [0, 23, 24, sealed.len() - 17, sealed.len() - 1] {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(key.open_cells(OF, &altered).is_err(), "byte {at}");
        }
        assert!(key.open_cells(OF, &sealed[1..]).is_err());
        assert!(key.open_cells(OF, &[]).is_err());
    }

    #[test]
    fn cells_of_another_place_do_not_open() {
        let parameters = parameters();
        let key = key(1, &parameters);
        let sealed = key.seal_cells(OF, &[1, 2]).unwrap();
        for other in [
            CellsId { segment: 4, ..OF },
            CellsId {
                seeds: &[8; 32],
                ..OF
            },
            CellsId {
                column: Column(6),
                ..OF
            },
        ] {
            assert!(key.open_cells(other, &sealed).is_err(), "{other:?}");
        }
        for (owner, dataset, generation) in [(2, 1, 2), (1, 9, 2), (1, 1, 9)] {
            let other = DatasetKey::new(
                &master(owner),
                parameters.clone(),
                [dataset; 16],
                [generation; 16],
            );
            assert!(other.open_cells(OF, &sealed).is_err());
        }
    }

    #[test]
    fn equal_cells_are_sealed_differently() {
        let key = key(1, &parameters());
        let sealed = || key.seal_cells(OF, &[0; 64]).unwrap();
        assert_ne!(sealed(), sealed());
    }
}
