//! Moments in messages and back. Whatever a peer sends gets an answer or an error, never a panic.

use crate::{FieldError, MOMENTS_CHUNK_BYTES, v1};
use oboro_ring::fraction::WHOLE;
use prost::bytes::Bytes;
use std::ops::Range;

/// Messages of about a mebibyte for packed moments of a group, all of one size.
pub fn moments_messages(
    group: u64,
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
            group,
            first_moment: first as u64,
            moments: count as u64,
            fractions: packed.slice(at..at + count * each),
        }
    })
}

/// Which moments a message says that it has; whether they fit the question and its bytes is for the
/// caller to check.
///
/// # Errors
/// Numbers that do not fit this machine.
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

/// That a question for itemsets of `length` asks for fractions that can be: a number of bits for
/// each power of the mask, at most 64, whole bytes for scalars; 0 for moments that travel whole.
///
/// # Errors
/// Anything else.
pub fn check_fraction_bits(length: usize, bits: &[u32]) -> Result<(), FieldError> {
    let bad = |problem| FieldError {
        field: "fraction_bits",
        problem,
    };
    let Some((&scalar, polynomials)) = bits.split_first() else {
        return Err(bad("are missing"));
    };
    if polynomials.len() != length {
        return Err(bad("are not one for each power of the mask"));
    }
    if scalar == WHOLE || !scalar.is_multiple_of(8) {
        return Err(bad("are not whole bytes for scalars"));
    }
    if bits.iter().any(|&bits| bits > 64) {
        return Err(bad("are more than 64"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(count: usize, each: usize) {
        let packed: Vec<u8> = (0..count * each).map(|i| ((i * 31) >> 3) as u8).collect();
        let mut next = 3;
        let mut all = Vec::new();
        for message in moments_messages(5, 3..3 + count, packed.clone()) {
            assert_eq!(message.group, 5);
            assert!(message.fractions.len() <= MOMENTS_CHUNK_BYTES.max(each));
            let moments = moments_range(&message).unwrap();
            assert_eq!(moments.start, next);
            assert_eq!(message.fractions.len(), moments.len() * each);
            next = moments.end;
            all.extend_from_slice(&message.fractions);
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
    fn fraction_bits_are_checked() {
        for good in [&[8, 1, 64][..], &[24, 29, 35], &[64, WHOLE, WHOLE]] {
            assert_eq!(check_fraction_bits(2, good), Ok(()), "{good:?}");
        }
        for bad in [
            &[][..],
            &[24],
            &[24, 29],
            &[24, 29, 35, 41],
            &[WHOLE, 29, 35],
            &[25, 29, 35],
            &[72, 29, 35],
            &[24, 65, 35],
            &[24, 29, u32::MAX],
        ] {
            assert!(check_fraction_bits(2, bad).is_err(), "{bad:?}");
        }
    }
}
