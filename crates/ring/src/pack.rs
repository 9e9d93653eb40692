//! Residues as bytes: 28 bits each, two in seven bytes, little-endian bit order.
//!
//! The one packed form of disk and wire (`docs/formats.md`). Unpacking always yields
//! values below 2^28, whatever the bytes: kernels rely on that and on nothing else.

const PAIR_BYTES: usize = 7;
const MASK: u32 = (1 << 28) - 1;

/// The number of bytes that `count` residues take; `count` must be even.
pub const fn packed_len(count: usize) -> usize {
    assert!(count.is_multiple_of(2), "residues are packed in pairs");
    count / 2 * PAIR_BYTES
}

/// Packs residues below 2^28. Panics if the lengths do not match (see [`packed_len`]).
pub fn pack(residues: &[u32], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), packed_len(residues.len()));
    for (pair, out) in residues
        .chunks_exact(2)
        .zip(bytes.chunks_exact_mut(PAIR_BYTES))
    {
        let word = u64::from(pair[0]) | u64::from(pair[1]) << 28;
        out.copy_from_slice(&word.to_le_bytes()[..PAIR_BYTES]);
    }
}

/// Unpacks residues. Panics if the lengths do not match (see [`packed_len`]).
pub fn unpack(bytes: &[u8], residues: &mut [u32]) {
    assert_eq!(bytes.len(), packed_len(residues.len()));
    for (input, pair) in bytes
        .chunks_exact(PAIR_BYTES)
        .zip(residues.chunks_exact_mut(2))
    {
        let mut word = [0; 8];
        word[..PAIR_BYTES].copy_from_slice(input);
        let word = u64::from_le_bytes(word);
        pair[0] = word as u32 & MASK;
        pair[1] = (word >> 28) as u32 & MASK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_as_documented() {
        let mut bytes = [0; 7];
        pack(&[0x0123_4567, 0x089a_bcde], &mut bytes);
        assert_eq!(bytes, [0x67, 0x45, 0x23, 0xe1, 0xcd, 0xab, 0x89]);
    }

    proptest! {
        #[test]
        fn unpack_inverts_pack(half in prop::collection::vec((0u32..1 << 28, 0u32..1 << 28), 0..100)) {
            let residues: Vec<u32> = half.into_iter().flat_map(|(a, b)| [a, b]).collect();
            let mut bytes = vec![0; packed_len(residues.len())];
            pack(&residues, &mut bytes);
            let mut back = vec![0; residues.len()];
            unpack(&bytes, &mut back);
            prop_assert_eq!(back, residues);
        }

        #[test]
        fn any_bytes_unpack_below_two_to_the_28(bytes in prop::collection::vec(any::<u8>(), 70)) {
            let mut residues = vec![0; 20];
            unpack(&bytes, &mut residues);
            prop_assert!(residues.iter().all(|&r| r < 1 << 28));
        }
    }
}
