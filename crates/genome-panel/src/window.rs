//! Windows: all rows of a panel at a few sites, row by row.
//!
//! Panels lie site by site, so a window is transposed, in squares of one word a side that stay in registers
//! and strips of rows that stay in the cache.

use crate::packing::{per_word, symbol, transpose, words_for};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Rows of symbols, each row from a word of its own on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    rows: usize,
    len: usize,
    bits: u32,
    words: Vec<u64>,
}

impl Window {
    /// The number of rows: the panel's haplotypes.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The symbols of a row: the window's sites.
    #[allow(clippy::len_without_is_empty, reason = "a window has a site")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bits of a symbol: 1, 2 or 4. With 4 bits, 15 stands for [`UNKNOWN`](crate::UNKNOWN).
    pub fn symbol_bits(&self) -> u32 {
        self.bits
    }

    /// A row, its first symbol in the lowest bits of the first word, zero behind the last. No symbol spans two
    /// words.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[u64] {
        let words = words_for(self.len, self.bits);
        &self.words[row * words..(row + 1) * words]
    }

    /// The symbol of a row at a site, counted from the window's first.
    ///
    /// # Panics
    /// If there is no such row or site.
    pub fn symbol(&self, row: usize, site: usize) -> u8 {
        assert!(site < self.len, "there is no site {site}");
        symbol(self.row(row), self.bits, site)
    }

    /// The first row of each distinct pattern and the number of rows that have it, by first row.
    pub fn distinct(&self) -> Vec<(u32, u32)> {
        let mut places: HashMap<&[u64], usize> = HashMap::new();
        let mut patterns: Vec<(u32, u32)> = Vec::new();
        for row in 0..self.rows {
            match places.entry(self.row(row)) {
                Entry::Occupied(place) => patterns[*place.get()].1 += 1,
                Entry::Vacant(place) => {
                    place.insert(patterns.len());
                    patterns.push((row as u32, 1));
                }
            }
        }
        patterns
    }
}

/// A window as it lies in a panel: the symbols of all rows at the first site, each site from a word of its own
/// on.
pub(crate) struct SiteMajor {
    rows: usize,
    pub(crate) bits: u32,
    pub(crate) words: Vec<u64>,
}

/// Words of a site that are transposed together: a line of the cache.
const STRIP: usize = 8;

impl SiteMajor {
    pub(crate) fn new(rows: usize, bits: u32) -> Self {
        Self {
            rows,
            bits,
            words: Vec::new(),
        }
    }

    pub(crate) fn transposed(&self) -> Window {
        let per_site = words_for(self.rows, self.bits);
        let len = self.words.len() / per_site;
        let per_row = words_for(len, self.bits);
        let strip_rows = STRIP * per_word(self.bits);
        let mut words = vec![0; self.rows * per_row];
        for (strip, rows) in words.chunks_mut(strip_rows * per_row).enumerate() {
            let start = strip * STRIP;
            self.transpose_strip(start..per_site.min(start + STRIP), per_site, rows, per_row);
        }
        Window {
            rows: self.rows,
            len,
            bits: self.bits,
            words,
        }
    }

    /// Fills `rows` from these words of every site.
    fn transpose_strip(
        &self,
        columns: Range<usize>,
        per_site: usize,
        rows: &mut [u64],
        per_row: usize,
    ) {
        let side = per_word(self.bits);
        for (place, sites) in self.words.chunks(side * per_site).enumerate() {
            let mut squares = [[0; 64]; STRIP];
            for (number, site) in sites.chunks(per_site).enumerate() {
                for (square, &word) in squares.iter_mut().zip(&site[columns.clone()]) {
                    square[number] = word;
                }
            }
            for (square, rows) in squares.iter_mut().zip(rows.chunks_mut(side * per_row)) {
                transpose(&mut square[..side], self.bits);
                for (row, &word) in rows.chunks_mut(per_row).zip(square.iter()) {
                    row[place] = word;
                }
            }
        }
    }
}
