//! Panels lie site by site, so the rows of a window are transposed, in squares of one word a side that stay in
//! registers and strips of rows that stay in the cache.

use crate::Rows;
use crate::packing::{number_unknown, per_word, transpose, words_for};
use std::ops::Range;

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

    /// Row by row, with the unknown symbol behind all others.
    pub(crate) fn transposed(&self) -> Rows {
        let per_site = words_for(self.rows, self.bits);
        let len = self.words.len() / per_site;
        let per_row = words_for(len, self.bits);
        let strip_rows = STRIP * per_word(self.bits);
        let mut words = vec![0; self.rows * per_row];
        for (strip, rows) in words.chunks_mut(strip_rows * per_row).enumerate() {
            let start = strip * STRIP;
            self.transpose_strip(start..per_site.min(start + STRIP), per_site, rows, per_row);
        }
        number_unknown(&mut words, self.bits);
        Rows::new(len, self.bits, words)
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
