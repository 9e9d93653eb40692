//! Transposition of a window: panels are stored site by site, and rows are needed.
//!
//! It runs whenever as many sites have arrived as a word of a row holds. Squares of one word per side stay in
//! registers, and strips of rows in the cache.

use crate::Rows;
use crate::packing::{number_unknown, per_word, transpose, widen, words_for};
use std::ops::Range;

/// Rows of a window whose sites arrive one after another.
pub(crate) struct Transposer {
    rows: usize,
    sites: usize,
    bits: u32,
    /// Words of the rows, without the pending sites.
    words: Vec<u64>,
    /// Symbols of all rows at the pending sites, each site starting at a word boundary.
    waiting: Vec<u64>,
    /// Word of each row that the pending sites fill.
    word_index: usize,
}

/// Number of a site's words that are transposed together: a cache line.
const STRIP: usize = 8;

impl Transposer {
    /// Prepares rows of `sites` symbols of `bits` bits.
    pub(crate) fn new(rows: usize, sites: usize, bits: u32) -> Self {
        Self {
            rows,
            sites,
            bits,
            words: vec![0; rows * words_for(sites, bits)],
            waiting: Vec::with_capacity(Self::waiting_words(rows, sites, bits)),
            word_index: 0,
        }
    }

    /// Largest number of pending words.
    fn waiting_words(rows: usize, sites: usize, bits: u32) -> usize {
        sites.min(per_word(bits)) * words_for(rows, bits)
    }

    /// Largest memory in bytes besides the rows.
    pub(crate) fn bytes_beside_rows(rows: usize, sites: usize, bits: u32) -> u64 {
        // A site is widened in steps, of which the last but one has half the bits.
        let widened = words_for(rows, bits);
        8 * (Self::waiting_words(rows, sites, bits) + widened) as u64
    }

    /// Adds a site with symbols of `bits` bits, at most as many as those of the rows.
    pub(crate) fn push(&mut self, site: &[u64], bits: u32) {
        widen(site, bits, self.bits, self.rows, &mut self.waiting);
        if self.waiting.len() == per_word(self.bits) * self.words_per_site() {
            self.settle();
        }
    }

    /// Returns the rows, with the unknown symbol behind all others; `origin` is theirs.
    ///
    /// # Panics
    ///
    /// If the number of sites is wrong.
    pub(crate) fn finish(mut self, origin: [u8; 32]) -> Rows {
        if !self.waiting.is_empty() {
            self.settle();
        }
        assert_eq!(self.word_index, words_for(self.sites, self.bits));
        number_unknown(&mut self.words, self.bits);
        Rows::new(origin, self.sites, self.bits, self.words)
    }

    fn words_per_site(&self) -> usize {
        words_for(self.rows, self.bits)
    }

    /// Transposes the pending sites into the rows.
    fn settle(&mut self) {
        let per_row = words_for(self.sites, self.bits);
        let strip_rows = STRIP * per_word(self.bits);
        let mut words = std::mem::take(&mut self.words);
        for (strip, rows) in words.chunks_mut(strip_rows * per_row).enumerate() {
            let start = strip * STRIP;
            let end = self.words_per_site().min(start + STRIP);
            self.transpose_strip(start..end, rows, per_row);
        }
        self.words = words;
        self.waiting.clear();
        self.word_index += 1;
    }

    /// Fills a word of each of `rows` from these words of every site.
    fn transpose_strip(&self, columns: Range<usize>, rows: &mut [u64], per_row: usize) {
        let side = per_word(self.bits);
        let mut squares = [[0; 64]; STRIP];
        for (number, site) in self.waiting.chunks(self.words_per_site()).enumerate() {
            for (square, &word) in squares.iter_mut().zip(&site[columns.clone()]) {
                square[number] = word;
            }
        }
        for (square, rows) in squares.iter_mut().zip(rows.chunks_mut(side * per_row)) {
            transpose(&mut square[..side], self.bits);
            for (row, &word) in rows.chunks_mut(per_row).zip(square.iter()) {
                row[self.word_index] = word;
            }
        }
    }
}
