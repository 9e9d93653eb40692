//! Packs numbers of a fixed width into bytes, in little-endian bit order (`docs/formats.md`).
//!
//! Residues take 28 bits each, two in seven bytes, on disk and on the wire; fractions have any width. Unpacking any
//! bytes yields values below 2^width: kernels rely on that and on nothing else.

const PAIR_BYTES: usize = 7;
const MASK: u32 = (1 << 28) - 1;

/// Number of bytes of `count` packed residues; `count` must be even.
pub const fn packed_len(count: usize) -> usize {
    assert!(count.is_multiple_of(2), "residues are packed in pairs");
    count / 2 * PAIR_BYTES
}

/// Number of bytes of a moment with `power` factors of the mask modulo `limbs` limbs. Power 0 takes one residue per
/// limb, padded with a 0 to an even number; others take `degree` residues per limb.
pub const fn moment_packed_len(degree: usize, limbs: usize, power: usize) -> usize {
    match power {
        0 => packed_len(limbs.next_multiple_of(2)),
        _ => packed_len(degree * limbs),
    }
}

/// Number of residues in `bytes` bytes.
pub const fn unpacked_len(bytes: usize) -> usize {
    bytes / PAIR_BYTES * 2
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

/// Number of bytes of `count` numbers of `bits` bits; together they must fill whole bytes.
pub const fn bits_packed_len(count: usize, bits: u32) -> usize {
    let all = count * bits as usize;
    assert!(all.is_multiple_of(8), "packed numbers fill whole bytes");
    all / 8
}

/// Packs numbers below `2^bits`, 1 to 64 bits each. Bit `j` of number `i` becomes bit `i·bits + j` of the bytes,
/// counted from the least significant bit of the first. Panics if the lengths do not match (see [`bits_packed_len`]).
pub fn pack_bits(numbers: &[u64], bits: u32, bytes: &mut [u8]) {
    assert!((1..=64).contains(&bits));
    assert_eq!(bytes.len(), bits_packed_len(numbers.len(), bits));
    let mut words = bytes.chunks_exact_mut(8);
    let (mut word, mut filled) = (0u64, 0);
    for &number in numbers {
        word |= number << filled;
        filled += bits;
        if filled >= 64 {
            let out = words.next().expect("no more words than were counted");
            out.copy_from_slice(&word.to_le_bytes());
            filled -= 64;
            // The remaining bits; 0 if the shift is by all 64 bits.
            word = number.checked_shr(bits - filled).unwrap_or(0);
        }
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
}

/// Unpacks numbers of `bits` bits. Panics if the lengths do not match (see [`bits_packed_len`]).
pub fn unpack_bits(bytes: &[u8], bits: u32, numbers: &mut [u64]) {
    assert!((1..=64).contains(&bits));
    assert_eq!(bytes.len(), bits_packed_len(numbers.len(), bits));
    let (width, mask) = (bits as usize, u64::MAX >> (64 - bits));
    // Eight numbers fill whole bytes; reading the last one reads up to nine bytes ahead.
    let run = |bytes: &[u8], numbers: &mut [u64]| {
        for (i, number) in numbers.iter_mut().enumerate() {
            let (at, shift) = (i * width / 8, i * width % 8);
            let word = bytes[at..at + 8].try_into().expect("eight bytes");
            let low = u64::from_le_bytes(word) >> shift;
            let high = u64::from(bytes[at + 8]) << 1 << (63 - shift);
            *number = (low | high) & mask;
        }
    };
    for (i, numbers) in numbers.chunks_mut(8).enumerate() {
        let bytes = &bytes[i * width..];
        if bytes.len() >= width + 9 {
            run(bytes, numbers);
        } else {
            let mut padded = [0; 64 + 9];
            padded[..bytes.len()].copy_from_slice(bytes);
            run(&padded, numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_are_as_documented() {
        let mut bytes = [0; 5];
        pack_bits(&[0x3ff, 0x001, 0x2aa, 0x155], 10, &mut bytes);
        assert_eq!(bytes, [0xff, 0x07, 0xa0, 0x6a, 0x55]);
        let mut bytes = [0; 24];
        let numbers = [0x0123_4567_89ab_cdef, 1, u64::MAX];
        pack_bits(&numbers, 64, &mut bytes);
        assert_eq!(bytes[..8], numbers[0].to_le_bytes());
        assert_eq!(bytes[8..], [[1, 0, 0, 0, 0, 0, 0, 0], [0xff; 8]].concat());
    }

    /// Numbers of one width that together fill whole bytes.
    fn numbers() -> impl Strategy<Value = (u32, Vec<u64>)> {
        (1u32..=64).prop_flat_map(|bits| {
            let number =
                prop_oneof![any::<u64>(), Just(u64::MAX)].prop_map(move |x| x >> (64 - bits));
            prop::collection::vec(number, 0..=300).prop_map(move |mut all| {
                all.truncate(all.len() / 8 * 8);
                (bits, all)
            })
        })
    }

    #[test]
    fn bytes_are_as_documented() {
        let mut bytes = [0; 7];
        pack(&[0x0123_4567, 0x089a_bcde], &mut bytes);
        assert_eq!(bytes, [0x67, 0x45, 0x23, 0xe1, 0xcd, 0xab, 0x89]);
    }

    proptest! {
        /// Checks bit by bit, as the format defines it.
        #[test]
        fn packed_bits_are_where_they_belong((bits, numbers) in numbers()) {
            let mut bytes = vec![0xaa; bits_packed_len(numbers.len(), bits)];
            pack_bits(&numbers, bits, &mut bytes);
            for (i, number) in numbers.iter().enumerate() {
                for j in 0..bits as usize {
                    let at = i * bits as usize + j;
                    prop_assert_eq!(number >> j & 1, u64::from(bytes[at / 8] >> (at % 8) & 1));
                }
            }
            let mut back = vec![0; numbers.len()];
            unpack_bits(&bytes, bits, &mut back);
            prop_assert_eq!(back, numbers);
        }

        #[test]
        fn any_bytes_unpack_below_their_width(bits in 1u32..=64, bytes in prop::collection::vec(any::<u8>(), 64 * 9)) {
            let mut numbers = vec![0; 72];
            unpack_bits(&bytes[..9 * bits as usize], bits, &mut numbers);
            prop_assert!(numbers.iter().all(|n| n.checked_shr(bits).unwrap_or(0) == 0));
        }

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
