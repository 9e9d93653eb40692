//! Symbols in 1, 2 or 4 bits, the first in the lowest bits of a word; no symbol spans two words.
//!
//! With 4 bits the code 15 stands for [`UNKNOWN`]; every other code is the symbol.

use crate::Alphabet;
use oboro_genome::UNKNOWN;

const UNKNOWN_CODE: u8 = 15;
/// Number of known bases.
const BASES: u8 = 4;

/// Smallest number of bits that holds all of these symbols.
pub(crate) fn bits_for(symbols: &[u8]) -> u32 {
    match symbols.iter().max() {
        None | Some(0..=1) => 1,
        Some(2..=3) => 2,
        Some(_) => 4,
    }
}

/// Number of words that `count` symbols take.
pub(crate) fn words_for(count: usize, bits: u32) -> usize {
    count.div_ceil(per_word(bits))
}

/// Number of symbols in a word.
pub(crate) fn per_word(bits: u32) -> usize {
    64 / bits as usize
}

/// Appends the words that hold these symbols, zero behind the last.
pub(crate) fn pack(symbols: &[u8], bits: u32, words: &mut Vec<u64>) {
    words.extend(symbols.chunks(per_word(bits)).map(|chunk| {
        chunk.iter().rev().fold(0, |word, &symbol| {
            word << bits | u64::from(symbol.min(UNKNOWN_CODE))
        })
    }));
}

/// Symbol number `index` of packed words.
pub(crate) fn symbol(words: &[u64], bits: u32, index: usize) -> u8 {
    let shift = index % per_word(bits) * bits as usize;
    let code = words[index / per_word(bits)] >> shift & ((1 << bits) - 1);
    match code as u8 {
        UNKNOWN_CODE => UNKNOWN,
        symbol => symbol,
    }
}

/// Appends `count` symbols in `to` bits, widened from `from` bits, which are not more.
pub(crate) fn widen(words: &[u64], from: u32, to: u32, count: usize, wider: &mut Vec<u64>) {
    let wanted = words_for(count, to);
    if from == to {
        wider.extend(&words[..wanted])
    } else {
        let doubled: Vec<u64> = words
            .iter()
            .flat_map(|&word| [word as u32, (word >> 32) as u32])
            .map(|half| spread(half, from))
            .collect();
        widen(&doubled, 2 * from, to, count, wider);
    }
}

/// Widens each symbol of `bits` bits to twice the bits.
fn spread(half: u32, bits: u32) -> u64 {
    let mut word = u64::from(half);
    let mut shift = 16;
    while shift >= bits {
        word = (word | word << shift) & lower_halves(shift);
        shift /= 2;
    }
    word
}

/// Mask of `bits` ones, `bits` zeros, and so on, from the lowest bit up.
fn lower_halves(bits: u32) -> u64 {
    u64::MAX / ((1 << bits) + 1)
}

/// Renumbers the unknown symbol of bases to follow theirs; no other alphabet has its code.
pub(crate) fn number_unknown(words: &mut [u64], bits: u32) {
    if bits == 4 {
        for word in words {
            let halves = *word & *word >> 1;
            let unknown = halves & halves >> 2 & (u64::MAX / 15);
            *word ^= unknown * u64::from(UNKNOWN_CODE ^ BASES);
        }
    }
}

/// Transposes a square of symbols, with as many words as a word has symbols. Symbol `j` of word `i` becomes symbol `i`
/// of word `j`.
pub(crate) fn transpose(square: &mut [u64], bits: u32) {
    let mut half = per_word(bits) / 2;
    while half > 0 {
        let shift = half as u32 * bits;
        let mask = lower_halves(shift);
        for pair in square.chunks_exact_mut(2 * half) {
            let (upper, lower) = pair.split_at_mut(half);
            for (upper, lower) in upper.iter_mut().zip(lower) {
                let exchanged = (*upper >> shift ^ *lower) & mask;
                *upper ^= exchanged << shift;
                *lower ^= exchanged;
            }
        }
        half /= 2;
    }
}

/// Returns true if every code in these bytes is a symbol of the alphabet.
pub(crate) fn are_of(bytes: &[u8], bits: u32, alphabet: Alphabet) -> bool {
    let fits = |byte: u8| {
        let word = [u64::from(byte)];
        (0..8 / bits as usize).all(|index| alphabet.holds(symbol(&word, bits, index)))
    };
    let table: [bool; 256] = std::array::from_fn(|byte| fits(byte as u8));
    bytes.iter().all(|&byte| table[usize::from(byte)])
}

/// Encodes words as in files.
pub(crate) fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Inverts [`to_bytes`]; the length of `bytes` is a multiple of 8.
pub(crate) fn to_words(bytes: &[u8]) -> Vec<u64> {
    let (words, rest) = bytes.as_chunks();
    debug_assert!(rest.is_empty());
    words.iter().map(|&word| u64::from_le_bytes(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates symbols that take at most `bits` bits, some of them exactly as many.
    fn symbols(bits: u32) -> impl Strategy<Value = Vec<u8>> {
        let largest: u8 = [1, 3, 14][bits.ilog2() as usize];
        let unknown = if bits == 4 { UNKNOWN } else { 0 };
        let symbol = prop_oneof![4 => 0..=largest, 1 => Just(unknown)];
        prop::collection::vec(symbol, 1..300)
    }

    fn unpacked(words: &[u64], bits: u32, count: usize) -> Vec<u8> {
        (0..count).map(|index| symbol(words, bits, index)).collect()
    }

    proptest! {
        #[test]
        fn symbols_round_trip_at_every_width((bits, symbols) in prop::sample::select(vec![1, 2, 4])
            .prop_flat_map(|bits| (Just(bits), symbols(bits))))
        {
            prop_assert!(bits_for(&symbols) <= bits);
            let mut words = Vec::new();
            pack(&symbols, bits, &mut words);
            prop_assert_eq!(words.len(), words_for(symbols.len(), bits));
            prop_assert_eq!(&unpacked(&words, bits, symbols.len()), &symbols);
            prop_assert_eq!(&to_words(&to_bytes(&words)), &words);
            for to in [1, 2, 4].into_iter().filter(|&to| to >= bits) {
                let mut wider = Vec::new();
                widen(&words, bits, to, symbols.len(), &mut wider);
                let mut expected = Vec::new();
                pack(&symbols, to, &mut expected);
                prop_assert_eq!(wider, expected);
            }
        }

        #[test]
        fn transposing_exchanges_row_and_column(words: [u64; 64], bits in prop::sample::select(vec![1, 2, 4])) {
            let side = per_word(bits);
            let square = &words[..side];
            let mut transposed = square.to_vec();
            transpose(&mut transposed, bits);
            for (i, row) in transposed.iter().enumerate() {
                for (j, column) in square.iter().enumerate() {
                    prop_assert_eq!(symbol(&[*row], bits, j), symbol(&[*column], bits, i));
                }
            }
        }
    }

    #[test]
    fn unknown_symbols_are_numbered_behind_bases() {
        let bases = [0, 1, UNKNOWN, 2, 3, UNKNOWN, UNKNOWN, 0];
        let mut words = Vec::new();
        pack(&bases, 4, &mut words);
        number_unknown(&mut words, 4);
        assert_eq!(unpacked(&words, 4, 8), [0, 1, 4, 2, 3, 4, 4, 0]);
    }

    #[test]
    fn codes_outside_the_alphabet_are_found() {
        let three = Alphabet::Alleles { largest: 2 };
        assert!(are_of(&[0b10_01_00_10], 2, three));
        assert!(!are_of(&[0, 0b10_11_00_10], 2, three));
        assert!(are_of(&[0xf3], 4, Alphabet::Bases));
        assert!(!are_of(&[0xe3], 4, Alphabet::Bases));
        assert!(!are_of(&[0xf3], 4, three));
    }
}
