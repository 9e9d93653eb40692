//! Sealed file of the kept data of a range: tokens and fixed parts (docs/formats.md, "Range").

use crate::fingerprint::PairTokens;
use crate::fixed::FixedParts;
use crate::focus::Row;
use crate::key::DatasetKey;
use crate::order::ColumnOrder;
use crate::prefix_tokens::{LONGEST_VERIFIED, PrefixTokens, VerifiedLimbs};
use crate::range::{KeptPairs, RangeLimb};
use crate::seal::SealError;
use oboro_ring::{Column, Limb, QuadraticField};
use thiserror::Error;
use zeroize::Zeroizing;

const CONTEXT: &str = "oboro range";
const VERSION: u32 = 2;
/// Version, columns, those with fixed parts, focus columns, the limbs of each length, and blocks.
const HEADER_BYTES: usize = 4 * (4 + LONGEST_VERIFIED - 1) + 8;

/// Error: the range file cannot be read.
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
    /// Seals the kept data of a range: a part for each of the first limbs, at least one.
    ///
    /// # Errors
    /// The system provides no randomness.
    ///
    /// # Panics
    /// If the limbs, columns, blocks or lengths of the parts do not match.
    pub fn seal_range(&self, limbs: &[RangeLimb]) -> Result<Vec<u8>, SealError> {
        let RangeLimb { order, blocks, .. } = &limbs[0];
        let verified = VerifiedLimbs::of_parts(limbs);
        let shape = self.shape(verified, order).words();
        let words = shape.expect("what there is can be counted");
        // Allocated once: growing would leave copies in freed memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + 4 * words));
        let focus = order.focus().iter().map(|&it| order.columns()[it]);
        let counts = [order.columns().len(), order.paired().len(), focus.len()];
        bytes.extend(VERSION.to_le_bytes());
        let numbers = counts.into_iter().chain(verified.0);
        bytes.extend(numbers.flat_map(|it| (it as u32).to_le_bytes()));
        bytes.extend(blocks.to_le_bytes());
        let columns = order.columns().iter().copied().chain(focus);
        bytes.extend(columns.flat_map(|it| it.0.to_le_bytes()));
        for (number, limb) in Limb::enumerate(limbs) {
            assert_eq!(
                (limb.limb, &limb.order, limb.blocks),
                (number, order, *blocks),
                "parts of one range"
            );
            if let Some(KeptPairs {
                tokens,
                fixed,
                rows,
            }) = &limb.pairs
            {
                bytes.extend(tokens.tokens().flat_map(u32::to_le_bytes));
                bytes.extend(fixed.parts().iter().flat_map(|it| it.to_le_bytes()));
                let rows = rows.iter().flat_map(Row::all);
                bytes.extend(rows.flat_map(u32::to_le_bytes));
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

    /// Opens data sealed by [`seal_range`](Self::seal_range).
    ///
    /// # Errors
    /// The bytes are any others.
    pub fn open_range(&self, sealed: &[u8]) -> Result<Vec<RangeLimb>, RangeError> {
        let bytes = self.open(CONTEXT, sealed)?;
        self.decode_range(&bytes).ok_or(RangeError::Malformed)
    }

    fn decode_range(&self, bytes: &[u8]) -> Option<Vec<RangeLimb>> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let (numbers, blocks) = header.split_at(HEADER_BYTES - 8);
        let [version, columns, paired, focus, ref verified @ ..] = words(numbers)?[..] else {
            return None;
        };
        let blocks = i64::from_le_bytes(blocks.try_into().ok()?);
        let limbs: Vec<usize> = verified.iter().map(|&it| it as usize).collect();
        let verified = VerifiedLimbs(limbs.try_into().ok()?);
        let shape = Shape {
            verified,
            columns: columns as usize,
            paired: paired as usize,
            focus: focus as usize,
        };
        let fits = version == VERSION
            && (1..=self.ring().limbs().len()).contains(&verified.limbs())
            && shape.words()?.checked_mul(4)? == rest.len();
        if !fits {
            return None;
        }
        let all = words(rest)?;
        let (columns, rest) = all.split_at(shape.columns);
        let (focus, mut rest) = rest.split_at(shape.focus);
        let [columns, focus] =
            [columns, focus].map(|it| it.iter().copied().map(Column).collect::<Vec<_>>());
        let order = ColumnOrder::new(columns, shape.paired, &focus).ok()?;
        let limb = |limb: Limb| {
            let q = self.ring().parameters().limb_moduli()[limb];
            let mut take = |words: usize| {
                let (taken, left) = rest.split_at(words);
                rest = left;
                taken
            };
            let pairs = if verified.has_pairs(limb) {
                let tokens = take(shape.pair_tokens());
                let fixed = Zeroizing::new(take(shape.pairs()).to_vec());
                let mut row = |_| Row::kept(&q, take(Row::words(shape.columns)));
                let rows = (0..shape.focus).map(&mut row).collect::<Option<_>>()?;
                Some(KeptPairs {
                    tokens: PairTokens::kept(&q, shape.paired, shape.rows(), tokens)?,
                    fixed: FixedParts::kept(q, shape.paired, fixed)?,
                    rows,
                })
            } else {
                None
            };
            let lengths = verified.longer(limb);
            let longer = verified.longer(limb).count() * shape.tokens();
            Some(RangeLimb {
                limb,
                field: QuadraticField::new(q),
                order: order.clone(),
                blocks,
                pairs,
                prefixes: PrefixTokens::kept(&q, lengths, shape.paired, take(longer))?,
            })
        };
        Limb::first(verified.limbs()).map(limb).collect()
    }

    fn shape(&self, verified: VerifiedLimbs, order: &ColumnOrder) -> Shape {
        Shape {
            verified,
            columns: order.columns().len(),
            paired: order.paired().len(),
            focus: order.focus().len(),
        }
    }
}

/// Numbers of 4-byte words.
struct Shape {
    verified: VerifiedLimbs,
    columns: usize,
    paired: usize,
    focus: usize,
}

impl Shape {
    /// Number of rows of the columns themselves, if all pairs have fixed parts.
    fn rows(&self) -> usize {
        if self.paired == self.columns {
            self.columns
        } else {
            0
        }
    }

    /// Number of tokens of pairs, per limb.
    fn pair_tokens(&self) -> usize {
        2 * (self.paired + self.rows())
    }

    /// Number of fixed parts per limb.
    fn pairs(&self) -> usize {
        self.paired * self.paired.saturating_sub(1) / 2
    }

    /// Number of words of the rows of focus columns per limb; `None` on overflow.
    fn focus_rows(&self) -> Option<usize> {
        self.focus.checked_mul(Row::words(self.columns))
    }

    /// Number of tokens per limb and length from three on.
    fn tokens(&self) -> usize {
        2 * (self.paired + 1)
    }

    /// Number of all words after the header; `None` if it exceeds the limit of a file.
    fn words(&self) -> Option<usize> {
        const MOST: usize = 1 << 31;
        let Self {
            columns, paired, ..
        } = *self;
        // Products of values within these limits do not overflow.
        if columns > MOST || paired > columns.min(1 << 16) || self.verified.limbs() > 1 << 16 {
            return None;
        }
        let [pairs, longer @ ..] = self.verified.0;
        let of_pairs = (self.pair_tokens() + self.pairs()).checked_add(self.focus_rows()?)?;
        let longer = longer.iter().sum::<usize>() * self.tokens();
        (columns + self.focus + longer).checked_add(pairs.checked_mul(of_pairs)?)
    }
}

/// Splits into 4-byte words; `None` if bytes are left over.
fn words(bytes: &[u8]) -> Option<Zeroizing<Vec<u32>>> {
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|it| u32::from_le_bytes(*it)).collect();
    rest.is_empty().then(|| Zeroizing::new(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockResidues;
    use crate::key::tests::key;
    use crate::range::RangeSums;
    use oboro_ring::Parameters;

    /// Numbers for pairs modulo two limbs, triples modulo three, quadruples modulo all four.
    const ALL: VerifiedLimbs = VerifiedLimbs([2, 3, 4]);
    const PAIRS: VerifiedLimbs = VerifiedLimbs([2, 0, 0]);

    fn in_ring() -> DatasetKey {
        key(1, &Parameters::new(12, 4, 40_961).unwrap())
    }

    /// Gives all pairs of the columns 4, 0 and 2 fixed parts.
    fn narrow() -> ColumnOrder {
        ColumnOrder::new([4, 0, 2].map(Column).to_vec(), 3, &[]).unwrap()
    }

    /// Gives only the pairs of the first two, and of the last, fixed parts.
    fn wide() -> ColumnOrder {
        ColumnOrder::new([4, 0, 2].map(Column).to_vec(), 2, &[Column(2)]).unwrap()
    }

    fn sums(
        key: &DatasetKey,
        verified: VerifiedLimbs,
        order: &ColumnOrder,
        seed: u32,
    ) -> Vec<RangeLimb> {
        let residues = |at: u32| -> Vec<u32> {
            (0..4096u32)
                .map(|it| (it + seed) * (at + 77) % 100_003)
                .collect()
        };
        let columns: Vec<Vec<u32>> = (1..=3).map(residues).collect();
        let columns: Vec<&[u32]> = columns.iter().map(Vec::as_slice).collect();
        let mask = residues(0);
        let limb = |limb| {
            let mut sums = RangeSums::new(key, verified, limb, order);
            sums.add(&[BlockResidues {
                mask: &mask,
                columns: &columns[..order.paired().len()],
            }]);
            let focus = order.focus().iter().map(|&it| columns[it]).collect();
            if let Some(mut pass) = sums.pass(&[&mask], &[focus]) {
                (0..3).for_each(|place| pass.add(place, &[columns[place]]));
            }
            sums.finish(key)
        };
        Limb::first(verified.limbs()).map(limb).collect()
    }

    fn plain(key: &DatasetKey, limbs: &[RangeLimb]) -> Vec<u8> {
        let sealed = key.seal_range(limbs).unwrap();
        key.open(CONTEXT, &sealed).unwrap().to_vec()
    }

    #[test]
    fn a_range_opens_as_it_was_sealed_and_adds_up() {
        let key = in_ring();
        // Columns take their numbers, pairs 16 bytes per column and limb, and 4 per pair; longer ones take 8 per
        // column. Of many columns, those with pairs take tokens of 8 bytes, and a focus column 4 bytes beside each.
        let wide_pairs = 2 * (16 + 4 + 8 + 12);
        for (verified, order, bytes) in [
            (PAIRS, narrow(), 12 + 2 * (48 + 12)),
            (ALL, narrow(), 12 + 2 * (48 + 12) + (3 + 4) * 32),
            (PAIRS, wide(), 16 + wide_pairs),
            (ALL, wide(), 16 + wide_pairs + (3 + 4) * 24),
        ] {
            let [one, two] = [1, 2].map(|seed| sums(&key, verified, &order, seed));
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
        let refused = |plain: &[u8], at: usize, byte: u8| {
            let mut wrong = plain.to_vec();
            wrong[at] = byte;
            assert!(key.decode_range(&wrong).is_none(), "{at}");
        };
        let all = plain(&key, &sums(&key, ALL, &narrow(), 1));
        assert!(key.decode_range(&all).is_some());
        for end in 0..all.len() {
            assert!(key.decode_range(&all[..end]).is_none(), "{end}");
        }
        let (tokens, fixed) = (HEADER_BYTES + 12, HEADER_BYTES + 12 + 48);
        let longer = fixed + 12;
        // Version, columns, those with fixed parts, focus, limbs, a repeated column; tokens and fixed parts that are
        // not residues.
        for (at, byte) in [
            (0, 1),
            (4, 4),
            (4, 0),
            (7, 0xff),
            (8, 2),
            (8, 4),
            (11, 0xff),
            (12, 1),
            (15, 0xff),
            (16, 5),
            (20, 4),
            (24, 0),
            (24, 5),
            (27, 0xff),
            (HEADER_BYTES, 2),
            (tokens + 3, 0xff),
            (fixed + 3, 0xff),
            (longer + 3, 0xff),
            (all.len() - 1, 0xff),
        ] {
            refused(&all, at, byte);
        }
        assert!(key.decode_range(&[&all[..], &[0]].concat()).is_none());
        let many = plain(&key, &sums(&key, PAIRS, &wide(), 1));
        assert!(key.decode_range(&many).is_some());
        let focus = HEADER_BYTES + 12;
        let row = focus + 4 + 16 + 4;
        // An invalid focus column; a row's token and fixed parts that are not residues.
        for (at, byte) in [
            (focus, 7),
            (row + 3, 0xff),
            (row + 8 + 3, 0xff),
            (row + 16 + 3, 0xff),
            (many.len() - 1, 0xff),
        ] {
            refused(&many, at, byte);
        }
        let sealed = key.seal("oboro record", &all).unwrap();
        assert!(matches!(key.open_range(&sealed), Err(RangeError::Seal(_))));
        let sealed = key.seal(CONTEXT, &all[1..]).unwrap();
        assert!(matches!(
            key.open_range(&sealed),
            Err(RangeError::Malformed)
        ));
    }
}
