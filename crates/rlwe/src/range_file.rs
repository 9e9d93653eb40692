//! What the owner keeps of a range of blocks, sealed: tokens and fixed parts (docs/formats.md, "Range").

use crate::fingerprint::PairTokens;
use crate::fixed::FixedParts;
use crate::key::DatasetKey;
use crate::pairs::RangeLimb;
use crate::prefixes::{LONGEST_VERIFIED, PrefixTokens, VerifiedLimbs};
use crate::seal::SealError;
use oboro_ring::QuadraticField;
use thiserror::Error;
use zeroize::Zeroizing;

const CONTEXT: &str = "oboro range";
const VERSION: u32 = 1;
/// Version, columns, the limbs of each length, and blocks.
const HEADER_BYTES: usize = 4 * (2 + LONGEST_VERIFIED - 1) + 8;

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
    /// If parts are of other limbs, columns, blocks or lengths.
    pub fn seal_range(&self, limbs: &[RangeLimb]) -> Result<Vec<u8>, SealError> {
        let RangeLimb {
            columns, blocks, ..
        } = &limbs[0];
        let verified = VerifiedLimbs::of_parts(limbs);
        let words = Shape::new(verified, columns.len()).map(|it| it.words());
        let words = words.expect("what there is can be counted");
        // Room for all: growing would leave copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + 4 * words));
        for number in [VERSION, columns.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(verified.0.iter().flat_map(|&it| (it as u32).to_le_bytes()));
        bytes.extend(blocks.to_le_bytes());
        bytes.extend(columns.iter().flat_map(|it| it.to_le_bytes()));
        for (place, limb) in limbs.iter().enumerate() {
            assert_eq!(
                (limb.limb, &limb.columns, limb.blocks),
                (place, columns, *blocks),
                "parts of one range"
            );
            if let Some((tokens, fixed)) = &limb.pairs {
                bytes.extend(tokens.tokens().flat_map(u32::to_le_bytes));
                bytes.extend(fixed.parts().iter().flat_map(|it| it.to_le_bytes()));
            }
            bytes.extend(limb.prefixes.tokens().flat_map(u32::to_le_bytes));
        }
        assert_eq!(
            bytes.len(),
            HEADER_BYTES + 4 * words,
            "each length is in the first limbs"
        );
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
        let (numbers, blocks) = header.split_at(HEADER_BYTES - 8);
        let [version, columns, ref verified @ ..] = words(numbers)?[..] else {
            return None;
        };
        let blocks = u64::from_le_bytes(blocks.try_into().ok()?);
        let limbs: Vec<usize> = verified.iter().map(|&it| it as usize).collect();
        let verified = VerifiedLimbs(limbs.try_into().ok()?);
        let shape = Shape::new(verified, columns as usize)?;
        let fits = version == VERSION
            && (1..=self.ring().limbs().len()).contains(&verified.limbs())
            && shape.words().checked_mul(4)? == rest.len();
        if !fits {
            return None;
        }
        let all = words(rest)?;
        let (columns, mut rest) = all.split_at(shape.columns);
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        if columns.is_empty() || !sorted.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let limb = |limb: usize| {
            let q = self.ring().parameters().limb_moduli()[limb];
            let mut take = |words: usize| {
                let (taken, left) = rest.split_at(words);
                rest = left;
                taken
            };
            let pairs = match verified.has_pairs(limb) {
                true => {
                    let tokens = PairTokens::kept(&q, columns.len(), take(4 * columns.len()))?;
                    let fixed = Zeroizing::new(take(shape.pairs).to_vec());
                    Some((tokens, FixedParts::kept(q, columns.len(), fixed)?))
                }
                false => None,
            };
            let longer = verified.longer(limb).count() * shape.tokens;
            let lengths = verified.longer(limb);
            Some(RangeLimb {
                limb,
                field: QuadraticField::new(q),
                columns: columns.to_vec(),
                blocks,
                pairs,
                prefixes: PrefixTokens::kept(&q, lengths, columns.len(), take(longer))?,
            })
        };
        (0..verified.limbs()).map(limb).collect()
    }
}

/// How many numbers of four bytes there are.
struct Shape {
    verified: VerifiedLimbs,
    columns: usize,
    /// Fixed parts of a limb.
    pairs: usize,
    /// Tokens of a limb and length from three on.
    tokens: usize,
}

impl Shape {
    /// `None` if there are more than can be counted.
    fn new(verified: VerifiedLimbs, columns: usize) -> Option<Self> {
        // What has more does not fit a file.
        const MOST: usize = 1 << 16;
        let is_small = columns <= MOST && verified.limbs() <= MOST;
        is_small.then_some(Self {
            verified,
            columns,
            pairs: columns * columns.saturating_sub(1) / 2,
            tokens: 2 * (columns + 1),
        })
    }

    /// All behind the header.
    fn words(&self) -> usize {
        let [pairs, longer @ ..] = self.verified.0;
        self.columns
            + pairs * (4 * self.columns + self.pairs)
            + longer.iter().sum::<usize>() * self.tokens
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

    /// Pairs modulo two limbs, triples modulo three, quadruples modulo all four.
    const ALL: VerifiedLimbs = VerifiedLimbs([2, 3, 4]);
    const PAIRS: VerifiedLimbs = VerifiedLimbs([2, 0, 0]);

    fn in_ring() -> DatasetKey {
        key(1, &Parameters::new(12, 4, 40_961).unwrap())
    }

    fn sums(key: &DatasetKey, verified: VerifiedLimbs, seed: u32) -> Vec<RangeLimb> {
        let residues = |at: u32| -> Vec<u32> {
            (0..4096u32)
                .map(|it| (it + seed) * (at + 77) % 100_003)
                .collect()
        };
        let columns: Vec<Vec<u32>> = (1..=3).map(residues).collect();
        let columns: Vec<&[u32]> = columns.iter().map(Vec::as_slice).collect();
        let limb = |limb| {
            let mut sums = RangeSums::new(key, verified, limb, &[4, 0, 2]);
            sums.add(&[BlockResidues {
                mask: &residues(0),
                columns: &columns,
            }]);
            sums.finish(key)
        };
        (0..verified.limbs()).map(limb).collect()
    }

    fn plain(key: &DatasetKey, limbs: &[RangeLimb]) -> Vec<u8> {
        let sealed = key.seal_range(limbs).unwrap();
        key.open(CONTEXT, &sealed).unwrap().to_vec()
    }

    #[test]
    fn a_range_opens_as_it_was_sealed_and_adds_up() {
        let key = in_ring();
        // Of columns their numbers; of pairs 16 bytes a column and limb, and 4 a pair; of longer ones 8 a column.
        for (verified, bytes) in [
            (PAIRS, 12 + 2 * (48 + 12)),
            (ALL, 12 + 2 * (48 + 12) + (3 + 4) * 32),
        ] {
            let (one, two) = (sums(&key, verified, 1), sums(&key, verified, 2));
            let sealed = key.seal_range(&one).unwrap();
            let mut kept = key.open_range(&sealed).unwrap();
            let bytes_of = |limbs: &[RangeLimb]| plain(&key, limbs);
            assert_eq!(bytes_of(&kept), bytes_of(&one));
            assert_eq!(bytes_of(&one).len(), HEADER_BYTES + bytes);
            for (sum, more) in kept.iter_mut().zip(&two) {
                sum.merge(more);
            }
            let mut other = two;
            for (sum, more) in other.iter_mut().zip(&one) {
                sum.merge(more);
            }
            assert_eq!(bytes_of(&kept), bytes_of(&other));
            assert_eq!(kept[0].blocks, 2);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let key = in_ring();
        let plain = plain(&key, &sums(&key, ALL, 1));
        assert!(key.decode_range(&plain).is_some());
        for end in 0..plain.len() {
            assert!(key.decode_range(&plain[..end]).is_none(), "{end}");
        }
        let (tokens, fixed) = (HEADER_BYTES + 12, HEADER_BYTES + 12 + 48);
        let longer = fixed + 12;
        // Version, columns, limbs, a column twice, tokens and fixed parts that are no residues.
        for (at, byte) in [
            (0, 2),
            (4, 4),
            (4, 0),
            (7, 0xff),
            (8, 5),
            (12, 4),
            (16, 0),
            (16, 5),
            (19, 0xff),
            (HEADER_BYTES, 2),
            (tokens + 3, 0xff),
            (fixed + 3, 0xff),
            (longer + 3, 0xff),
            (plain.len() - 1, 0xff),
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
