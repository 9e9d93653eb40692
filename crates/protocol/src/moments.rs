//! Encodes and decodes moments in messages. Invalid messages give errors, never panics.

use crate::{FieldError, MAX_RANGES, MOMENTS_CHUNK_BYTES, v1};
use oboro_ring::Blocks;
use prost::bytes::Bytes;
use std::collections::HashSet;
use std::ops::Range;

/// Splits the packed moments of a range into messages of about a mebibyte. The moments have one size.
pub fn moments_messages(
    range: u64,
    moments: Range<usize>,
    packed: impl Into<Bytes>,
) -> impl Iterator<Item = v1::Moments> {
    let packed = packed.into();
    let each = packed.len() / moments.len();
    debug_assert_eq!(packed.len(), moments.len() * each);
    let step = (MOMENTS_CHUNK_BYTES / each).max(1);
    moments.clone().step_by(step).map(move |first| {
        let count = step.min(moments.end - first);
        let at = (first - moments.start) * each;
        v1::Moments {
            range,
            first_moment: first as u64,
            moments: count as u64,
            residues: packed.slice(at..at + count * each),
        }
    })
}

/// Returns the indices of the moments in a message; the caller checks them against the query and the number of bytes.
///
/// # Errors
/// The numbers do not fit this machine.
pub fn moments_range(message: &v1::Moments) -> Result<Range<usize>, FieldError> {
    let first = usize::try_from(message.first_moment).ok();
    let count = usize::try_from(message.moments).ok();
    first
        .zip(count)
        .and_then(|(first, count)| Some(first..first.checked_add(count)?))
        .ok_or(FieldError {
            field: "moments",
            problem: "are numbered beyond any",
        })
}

impl From<Blocks> for v1::BlockRange {
    fn from(range: Blocks) -> Self {
        Self {
            first_block: range.start,
            blocks: range.len(),
        }
    }
}

/// Validates the ranges of a query about a dataset of `blocks` blocks.
///
/// # Errors
/// The list is empty or has more than [`MAX_RANGES`] ranges. A range is empty, repeated or out of bounds.
pub fn block_ranges(ranges: &[v1::BlockRange], blocks: u64) -> Result<Vec<Blocks>, FieldError> {
    let bad = |problem| FieldError {
        field: "ranges",
        problem,
    };
    if ranges.is_empty() {
        return Err(bad("are missing"));
    }
    if ranges.len() > MAX_RANGES {
        return Err(bad("are too many"));
    }
    let range = |range: &v1::BlockRange| {
        let end = range.first_block.checked_add(range.blocks)?;
        (range.blocks > 0 && end <= blocks).then(|| Blocks::from(range.first_block..end))
    };
    let found: Option<Vec<Blocks>> = ranges.iter().map(range).collect();
    let found = found.ok_or_else(|| bad("are not of blocks that the dataset has"))?;
    let distinct: HashSet<&Blocks> = found.iter().collect();
    if distinct.len() == found.len() {
        Ok(found)
    } else {
        Err(bad("are there twice"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(count: usize, each: usize) {
        let packed: Vec<u8> = (0..count * each).map(|i| ((i * 31) >> 3) as u8).collect();
        let mut next = 3;
        let mut all = Vec::new();
        for message in moments_messages(5, 3..3 + count, packed.clone()) {
            assert_eq!(message.range, 5);
            assert!(message.residues.len() <= MOMENTS_CHUNK_BYTES.max(each));
            let moments = moments_range(&message).unwrap();
            assert_eq!(moments.start, next);
            assert_eq!(message.residues.len(), moments.len() * each);
            next = moments.end;
            all.extend_from_slice(&message.residues);
        }
        assert_eq!((next, all), (3 + count, packed));
    }

    #[test]
    fn messages_carry_all_moments() {
        for (count, each) in [
            (1, 1),
            (7, 3),
            (400_001, 3),
            (1, 4096),
            (100, 33_000),
            (2, MOMENTS_CHUNK_BYTES + 1),
        ] {
            round_trip(count, each);
        }
    }

    #[test]
    fn numbers_beyond_any_are_errors() {
        let of = |first_moment, moments| {
            moments_range(&v1::Moments {
                first_moment,
                moments,
                ..Default::default()
            })
        };
        assert_eq!(of(2, 3), Ok(2..5));
        assert_eq!(of(u64::MAX, 0).is_ok(), usize::BITS == 64);
        assert!(of(u64::MAX, 1).is_err());
        assert!(of(1, u64::MAX).is_err());
    }

    #[test]
    fn ranges_are_checked() {
        let of = |ranges: &[(u64, u64)]| {
            let range = |&(first_block, blocks)| v1::BlockRange {
                first_block,
                blocks,
            };
            block_ranges(&ranges.iter().map(range).collect::<Vec<_>>(), 10)
        };
        let good = of(&[(0, 10), (0, 4), (9, 1)]).unwrap();
        assert_eq!(good, [0..10, 0..4, 9..10].map(Blocks::from));
        assert!(
            good.iter()
                .cloned()
                .map(v1::BlockRange::from)
                .eq(
                    [(0, 10), (0, 4), (9, 1)].map(|(first_block, blocks)| v1::BlockRange {
                        first_block,
                        blocks
                    })
                )
        );
        let many: Vec<_> = (0..=MAX_RANGES as u64).map(|_| (0, 1)).collect();
        for bad in [
            &[][..],
            &[(0, 0)],
            &[(9, 2)],
            &[(10, 1)],
            &[(u64::MAX, 2)],
            &[(0, 4), (5, 1), (0, 4)],
            &many,
        ] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }
}
