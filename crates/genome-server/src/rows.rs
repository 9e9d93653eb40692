//! Rows that a query is compared with, packed and sorted.

use std::cmp::Ordering;

/// Rows of one length, packed: symbol `j` of a row is at bit `j·bits` of its words, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    origin: [u8; 32],
    length: usize,
    bits: u32,
    words_per_row: usize,
    words: Vec<u64>,
}

impl Rows {
    /// Takes rows of `length` symbols of `bits` bits each, a divisor of 64. Each starts at a word boundary, and the
    /// rest of its last word is 0. `origin` is a digest of their collection, in its present version, and of the
    /// position in it.
    ///
    /// Panics if the words are no whole number of rows.
    pub fn new(origin: [u8; 32], length: usize, bits: u32, words: Vec<u64>) -> Self {
        assert!(length > 0 && bits > 0 && u64::BITS.is_multiple_of(bits));
        let words_per_row = Self::words_per_row(length, bits);
        assert!(words.len().is_multiple_of(words_per_row));
        Self {
            origin,
            length,
            bits,
            words_per_row,
            words,
        }
    }

    /// Digest of collection and position, distinct for different ones.
    pub fn origin(&self) -> &[u8; 32] {
        &self.origin
    }

    /// Number of words of a row.
    pub fn words_per_row(length: usize, bits: u32) -> usize {
        length.div_ceil((u64::BITS / bits) as usize)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.words.len() / self.words_per_row
    }

    /// Returns true if the row set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Number of symbols of a row.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of bits of a symbol.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The words of row `row`.
    ///
    /// Panics if it does not exist.
    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.words_per_row..][..self.words_per_row]
    }

    /// Reads the first symbols of row `row`, as many as `out` holds.
    ///
    /// Panics if the row does not exist, or is shorter.
    pub fn read(&self, row: usize, out: &mut [u8]) {
        assert!(out.len() <= self.length);
        let (per_word, mask) = (u64::BITS / self.bits, u64::MAX >> (64 - self.bits));
        for (symbols, &word) in out.chunks_mut(per_word as usize).zip(self.row(row)) {
            for (symbol, shift) in symbols.iter_mut().zip((0..).step_by(self.bits as usize)) {
                *symbol = (word >> shift & mask) as u8;
            }
        }
    }

    /// Returns the length of the common prefix of two rows, and their order.
    fn compare(&self, a: usize, b: usize) -> (usize, Ordering) {
        let per_word = (u64::BITS / self.bits) as usize;
        for (number, (x, y)) in self.row(a).iter().zip(self.row(b)).enumerate() {
            if x != y {
                let offset = (x ^ y).trailing_zeros() / self.bits;
                let of = |word: &u64| word >> (offset * self.bits) & (u64::MAX >> (64 - self.bits));
                return (number * per_word + offset as usize, of(x).cmp(&of(y)));
            }
        }
        (self.length, Ordering::Equal)
    }
}

/// Rows prepared for searching, shared by all queries of this window.
#[derive(Debug, Clone)]
pub struct Window {
    rows: Rows,
    /// Numbers of the rows in lexicographic order.
    order: Vec<u32>,
    /// Length of the prefix that each of these shares with the one before it; 0 for the first.
    common: Vec<u16>,
}

impl Window {
    /// Sorts the rows.
    ///
    /// Panics for more than 2^32 rows, or rows of more than 2^16 symbols.
    pub fn new(rows: Rows) -> Self {
        assert!(rows.length() <= usize::from(u16::MAX) + 1);
        let count = u32::try_from(rows.len()).expect("rows are numbered by 32 bits");
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_unstable_by(|&a, &b| rows.compare(a as usize, b as usize).1);
        let shared = |pair: &[u32]| rows.compare(pair[0] as usize, pair[1] as usize).0 as u16;
        let common = [0].into_iter().chain(order.windows(2).map(shared));
        Self {
            common: common.take(order.len()).collect(),
            order,
            rows,
        }
    }

    /// The rows.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Returns one row for each distinct prefix of `length` symbols.
    pub fn beginnings(&self, length: usize) -> impl Iterator<Item = u32> {
        let rows = self.order.iter().zip(&self.common).enumerate();
        rows.filter(move |&(index, (_, &common))| index == 0 || usize::from(common) < length)
            .map(|(_, (&row, _))| row)
    }

    /// Memory of a window of `rows` rows of `length` symbols of `bits` bits, in bytes.
    pub fn bytes_of(rows: usize, length: usize, bits: u32) -> u64 {
        let row = Rows::words_per_row(length, bits) * size_of::<u64>();
        (rows * (row + size_of::<u32>() + size_of::<u16>())) as u64
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows.words) + size_of_val(&*self.order) + size_of_val(&*self.common)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn pack(rows: &[Vec<u8>], bits: u32) -> Rows {
        let length = rows[0].len();
        let per_row = Rows::words_per_row(length, bits);
        let mut words = vec![0; rows.len() * per_row];
        for (row, words) in rows.iter().zip(words.chunks_exact_mut(per_row)) {
            for (j, &symbol) in row.iter().enumerate() {
                let at = j * bits as usize;
                words[at / 64] |= u64::from(symbol) << (at % 64);
            }
        }
        Rows::new([0; 32], length, bits, words)
    }

    proptest! {
        #[test]
        fn beginnings_are_the_different_ones(
            (bits, rows) in (prop::sample::select(vec![1u32, 2, 4]), 1usize..90).prop_flat_map(|(bits, length)| {
                let row = prop::collection::vec(0..1u8 << bits, length);
                (Just(bits), prop::collection::vec(row, 1..40))
            }),
        ) {
            let window = Window::new(pack(&rows, bits));
            prop_assert_eq!(window.rows().len(), rows.len());
            let mut read = vec![0; rows[0].len()];
            for (number, row) in rows.iter().enumerate() {
                window.rows().read(number, &mut read);
                prop_assert_eq!(&read, row);
            }
            for length in 1..=rows[0].len() {
                let expected: BTreeSet<&[u8]> = rows.iter().map(|row| &row[..length]).collect();
                let found: Vec<&[u8]> = window.beginnings(length).map(|row| &rows[row as usize][..length]).collect();
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
