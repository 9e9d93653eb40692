//! Moments in messages and back. Whatever a peer sends gets an answer or an error, never a panic.

use crate::{FieldError, MOMENTS_CHUNK_BYTES, v1};
use oboro_ring::pack::{pack, packed_len, unpack};
use std::ops::Range;

/// Messages of about a mebibyte for moments with `each` residues (1 for scalars, else `N`).
pub fn moments_messages(
    limb: usize,
    blocks: Range<u64>,
    moments: Range<usize>,
    each: usize,
    residues: &[u32],
) -> impl Iterator<Item = v1::Moments> {
    debug_assert_eq!(residues.len(), moments.len() * each);
    let step = (MOMENTS_CHUNK_BYTES / packed_len(each + each % 2)).max(1);
    residues
        .chunks(step * each)
        .enumerate()
        .map(move |(i, part)| v1::Moments {
            limb: limb as u32,
            first_block: blocks.start,
            blocks: blocks.end - blocks.start,
            first_moment: (moments.start + i * step) as u64,
            moments: (part.len() / each) as u64,
            residues: packed(part).into(),
        })
}

fn packed(residues: &[u32]) -> Vec<u8> {
    let even = residues.len() / 2 * 2;
    let mut bytes = vec![0; packed_len(residues.len().next_multiple_of(2))];
    let (whole, last) = bytes.split_at_mut(packed_len(even));
    pack(&residues[..even], whole);
    if let [odd] = residues[even..] {
        pack(&[odd, 0], last);
    }
    bytes
}

/// The number of moments and the residues of a message; whether they fit the question is for the
/// caller to check.
///
/// # Errors
/// A length that no number of residues has, or numbers that do not fit this machine.
pub fn unpack_moments(
    message: &v1::Moments,
    each_of: impl Fn(usize) -> usize,
) -> Result<(Range<usize>, Vec<u32>), FieldError> {
    let bad = |field, problem| FieldError { field, problem };
    let first =
        usize::try_from(message.first_moment).map_err(|_| bad("first_moment", "is too large"))?;
    let count = usize::try_from(message.moments).map_err(|_| bad("moments", "is too large"))?;
    let end = first
        .checked_add(count)
        .ok_or(bad("moments", "is too large"))?;
    let wanted = count
        .checked_mul(each_of(first))
        .ok_or(bad("moments", "is too large"))?;
    let even = wanted
        .checked_next_multiple_of(2)
        .ok_or(bad("moments", "is too large"))?;
    // Compared before anything of that size is made: the bytes are here, the claim may be anything.
    if message.residues.len() / 7 != even / 2 || !message.residues.len().is_multiple_of(7) {
        return Err(bad("residues", "do not have the length of their moments"));
    }
    let mut residues = vec![0; even];
    unpack(&message.residues, &mut residues);
    if residues.len() > wanted && residues.pop() != Some(0) {
        return Err(bad("residues", "end with padding that is not zero"));
    }
    Ok((first..end, residues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(count: usize, each: usize) {
        let residues: Vec<u32> = (0..(count * each) as u32)
            .map(|i| i.wrapping_mul(2_654_435_761) >> 4)
            .collect();
        let mut next = 3;
        let mut all = Vec::new();
        for message in moments_messages(1, 4..6, 3..3 + count, each, &residues) {
            assert_eq!(
                (message.limb, message.first_block, message.blocks),
                (1, 4, 2)
            );
            assert!(message.residues.len() <= MOMENTS_CHUNK_BYTES + 7);
            let (moments, part) = unpack_moments(&message, |_| each).unwrap();
            assert_eq!(moments.start, next);
            next = moments.end;
            all.extend(part);
        }
        assert_eq!((next, all), (3 + count, residues));
    }

    #[test]
    fn messages_carry_all_residues() {
        for (count, each) in [
            (1, 1),
            (2, 1),
            (7, 1),
            (300_001, 1),
            (1, 4096),
            (100, 4096),
            (90, 8192),
        ] {
            round_trip(count, each);
        }
    }

    #[test]
    fn claims_that_do_not_fit_are_errors() {
        let good = v1::Moments {
            moments: 3,
            residues: vec![0; 14].into(),
            ..Default::default()
        };
        assert!(unpack_moments(&good, |_| 1).is_ok());
        for bad in [
            v1::Moments {
                moments: 4096,
                ..good.clone()
            },
            v1::Moments {
                moments: u64::MAX,
                ..good.clone()
            },
            v1::Moments {
                first_moment: u64::MAX,
                ..good.clone()
            },
            v1::Moments {
                moments: 5,
                ..good.clone()
            },
            v1::Moments {
                residues: vec![0; 15].into(),
                ..good.clone()
            },
            v1::Moments {
                residues: vec![0xff; 14].into(),
                ..good.clone()
            },
        ] {
            assert!(unpack_moments(&bad, |_| 1).is_err(), "{bad:?}");
        }
        assert!(unpack_moments(&good, |_| usize::MAX).is_err());
    }
}
