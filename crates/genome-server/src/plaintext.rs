//! Searches of plaintext for public patterns, as the reference for encrypted ones.

use crate::rows::Rows;
use oboro_genome::SymbolSet;
use std::collections::BTreeSet;

impl Rows {
    /// Number of rows that differ from a pattern in at most `within` symbols.
    pub fn count_matches(&self, pattern: &[SymbolSet], within: usize) -> usize {
        self.matching(pattern, within).count()
    }

    /// As [`count_matches`](Self::count_matches), with equal rows counted once.
    pub fn count_distinct_matches(&self, pattern: &[SymbolSet], within: usize) -> usize {
        let distinct: BTreeSet<_> = self.matching(pattern, within).collect();
        distinct.len()
    }

    fn matching(&self, pattern: &[SymbolSet], within: usize) -> impl Iterator<Item = Vec<u8>> {
        self.unpacked()
            .filter(move |row| mismatches(pattern, row).count() <= within)
    }

    /// Length of the longest prefix of a pattern that some row has.
    pub fn longest_match(&self, pattern: &[SymbolSet]) -> usize {
        let first = |row: Vec<u8>| mismatches(pattern, &row).next().unwrap_or(pattern.len());
        self.unpacked().map(first).max().unwrap_or(0)
    }

    fn unpacked(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..self.len()).map(|number| {
            let mut symbols = vec![0; self.length()];
            self.read(number, &mut symbols);
            symbols
        })
    }
}

/// Positions at which a row differs from a pattern.
fn mismatches(pattern: &[SymbolSet], row: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = pattern.iter().zip(row).enumerate();
    pairs.filter_map(|(place, (symbols, other))| (!symbols.contains(*other)).then_some(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SymbolSet = SymbolSet::ANY;

    fn of(symbol: u8) -> SymbolSet {
        SymbolSet::of(symbol)
    }

    /// Makes rows of four bits per symbol, of one word each.
    fn rows(rows: &[&[u8]]) -> Rows {
        let word = |row: &&[u8]| row.iter().rfold(0, |word, &it| word << 4 | u64::from(it));
        Rows::new([0; 32], rows[0].len(), 4, rows.iter().map(word).collect())
    }

    #[test]
    fn rows_match_within_mismatches_and_equal_ones_may_count_once() {
        let rows = rows(&[&[1, 2, 3], &[1, 2, 3], &[1, 0, 3], &[0, 0, 0]]);
        let pattern = [of(1), of(2), ANY];
        for (within, all, once) in [(0, 2, 1), (1, 3, 2), (2, 4, 3)] {
            assert_eq!(rows.count_matches(&pattern, within), all);
            assert_eq!(rows.count_distinct_matches(&pattern, within), once);
        }
    }

    #[test]
    fn the_longest_match_ends_before_the_first_mismatch() {
        let rows = rows(&[&[1, 2, 3], &[0, 2, 3]]);
        for (pattern, longest) in [
            ([of(1), of(2).with(9), of(3)], 3),
            ([of(1), ANY, of(0)], 2),
            ([of(5), of(2), of(3)], 0),
        ] {
            assert_eq!(rows.longest_match(&pattern), longest);
        }
    }
}
