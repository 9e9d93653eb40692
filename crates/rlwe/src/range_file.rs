//! What the owner keeps of a range of blocks, sealed: tokens and fixed parts (docs/formats.md, "Range").

use crate::fingerprint::PairTokens;
use crate::fixed::FixedParts;
use crate::key::DatasetKey;
use crate::pairs::RangeLimb;
use crate::seal::SealError;
use thiserror::Error;
use zeroize::Zeroizing;

const CONTEXT: &str = "oboro range";
const VERSION: u32 = 1;
/// Version, limbs, columns and blocks.
const HEADER_BYTES: usize = 4 + 4 + 4 + 8;

/// What cannot be read of a range.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum RangeError {
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(
        "a sealed range has not the form that this Oboro writes; it was written by another version"
    )]
    Malformed,
}

impl DatasetKey {
    /// Seals what is kept of a range: a part for each of the first limbs, at least one.
    ///
    /// # Errors
    /// No randomness.
    ///
    /// # Panics
    /// If parts are of other limbs, columns or blocks.
    pub fn seal_range(&self, limbs: &[RangeLimb]) -> Result<Vec<u8>, SealError> {
        let RangeLimb {
            columns, blocks, ..
        } = &limbs[0];
        let words = columns.len() * (1 + 4 * limbs.len());
        let parts: usize = limbs.iter().map(|it| it.fixed.parts().len()).sum();
        // Room for all: growing would leave copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + 4 * (words + parts)));
        for number in [VERSION, limbs.len() as u32, columns.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(blocks.to_le_bytes());
        bytes.extend(columns.iter().flat_map(|it| it.to_le_bytes()));
        for (place, limb) in limbs.iter().enumerate() {
            assert_eq!(
                (limb.limb, &limb.columns, limb.blocks),
                (place, columns, *blocks),
                "parts of one range"
            );
            bytes.extend(limb.tokens.tokens().flat_map(u32::to_le_bytes));
            bytes.extend(limb.fixed.parts().iter().flat_map(|it| it.to_le_bytes()));
        }
        self.seal(CONTEXT, &bytes)
    }

    /// Opens what [`seal_range`](Self::seal_range) made.
    ///
    /// # Errors
    /// Any other bytes.
    pub fn open_range(&self, sealed: &[u8]) -> Result<Vec<RangeLimb>, RangeError> {
        let bytes = self.open(CONTEXT, sealed)?;
        self.decode_range(&bytes).ok_or(RangeError::Malformed)
    }

    fn decode_range(&self, bytes: &[u8]) -> Option<Vec<RangeLimb>> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let (numbers, blocks) = header.split_at(12);
        let [version, limbs, columns] = words(numbers)?[..] else {
            return None;
        };
        let blocks = u64::from_le_bytes(blocks.try_into().ok()?);
        let (limbs, columns) = (limbs as usize, columns as usize);
        let pairs = columns.checked_mul(columns.saturating_sub(1))? / 2;
        let part = pairs.checked_add(columns.checked_mul(4)?)?;
        let expected = part.checked_mul(limbs)?.checked_add(columns)?;
        let fits = version == VERSION
            && (1..=self.ring().limbs().len()).contains(&limbs)
            && expected.checked_mul(4)? == rest.len();
        if !fits {
            return None;
        }
        let all = words(rest)?;
        let (columns, parts) = all.split_at(columns);
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        if !sorted.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let limb = |(limb, words): (usize, &[u32])| {
            let (tokens, fixed) = words.split_at(4 * columns.len());
            let q = self.ring().parameters().limb_moduli()[limb];
            let fixed = Zeroizing::new(fixed.to_vec());
            Some(RangeLimb {
                limb,
                columns: columns.to_vec(),
                blocks,
                tokens: PairTokens::kept(self, limb, columns, tokens)?,
                fixed: FixedParts::kept(q, columns.len(), fixed)?,
            })
        };
        match part {
            0 => None,
            part => parts.chunks_exact(part).enumerate().map(limb).collect(),
        }
    }
}

/// Numbers of four bytes; `None` if there are others left over.
fn words(bytes: &[u8]) -> Option<Zeroizing<Vec<u32>>> {
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|it| u32::from_le_bytes(*it)).collect();
    rest.is_empty().then(|| Zeroizing::new(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;
    use crate::pairs::{BlockResidues, RangeSums};
    use oboro_ring::Parameters;

    fn sums(key: &DatasetKey, seed: u32) -> Vec<RangeLimb> {
        let residues = |at: u32| -> Vec<u32> {
            (0..2048u32)
                .map(|it| (it + seed) * (at + 77) % 100_003)
                .collect()
        };
        let columns: Vec<Vec<u32>> = (1..=3).map(residues).collect();
        let columns: Vec<&[u32]> = columns.iter().map(Vec::as_slice).collect();
        let limb = |limb| {
            let mut sums = RangeSums::new(key, limb, &[4, 0, 2]);
            sums.add(&[BlockResidues {
                mask: &residues(0),
                columns: &columns,
            }]);
            sums.finish(key)
        };
        (0..2).map(limb).collect()
    }

    fn plain(key: &DatasetKey, limbs: &[RangeLimb]) -> Vec<u8> {
        let sealed = key.seal_range(limbs).unwrap();
        key.open(CONTEXT, &sealed).unwrap().to_vec()
    }

    #[test]
    fn a_range_opens_as_it_was_sealed_and_adds_up() {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        let (one, two) = (sums(&key, 1), sums(&key, 2));
        let mut kept = key.open_range(&key.seal_range(&one).unwrap()).unwrap();
        assert_eq!(plain(&key, &kept), plain(&key, &one));
        // 8 bytes a pair, 36 a column, and what sealing adds.
        assert_eq!(plain(&key, &one).len(), HEADER_BYTES + 3 * 8 + 3 * 36);
        for (sum, more) in kept.iter_mut().zip(&two) {
            sum.merge(more);
        }
        let mut other = two;
        for (sum, more) in other.iter_mut().zip(&one) {
            sum.merge(more);
        }
        assert_eq!(plain(&key, &kept), plain(&key, &other));
        assert_eq!(kept[0].blocks, 2);
    }

    #[test]
    fn other_bytes_are_refused() {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        let plain = plain(&key, &sums(&key, 1));
        assert!(key.decode_range(&plain).is_some());
        for end in 0..plain.len() {
            assert!(key.decode_range(&plain[..end]).is_none(), "{end}");
        }
        // Version, limbs, columns, a column twice, tokens and fixed parts that are no residues.
        for (at, byte) in [
            (0, 2),
            (4, 3),
            (4, 0),
            (8, 4),
            (8, 0),
            (24, 4),
            (32 + 3, 0xff),
            (80 + 3, 0xff),
        ] {
            let mut wrong = plain.clone();
            wrong[at] = byte;
            assert!(key.decode_range(&wrong).is_none(), "{at}");
        }
        assert!(key.decode_range(&[&plain[..], &[0]].concat()).is_none());
        let sealed = key.seal("oboro record", &plain).unwrap();
        assert!(matches!(key.open_range(&sealed), Err(RangeError::Seal(_))));
        let sealed = key.seal(CONTEXT, &plain[1..]).unwrap();
        assert!(matches!(
            key.open_range(&sealed),
            Err(RangeError::Malformed)
        ));
    }
}
