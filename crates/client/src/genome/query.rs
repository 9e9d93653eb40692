//! Search patterns.

use oboro_genome::SymbolSet;
use thiserror::Error;
use zeroize::Zeroizing;

/// Letter that matches any symbol.
const WILDCARD: char = '?';

/// Symbols that match at each position. Wiped when dropped; has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    symbols: Zeroizing<Vec<SymbolSet>>,
}

/// Error: the letters do not form a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum PatternError {
    #[error("the query is empty; give at least one symbol")]
    Empty,
    #[error(
        "{letter:?} at place {place} of the query is no allele number; use digits, and ? for any allele"
    )]
    Allele { letter: char, place: usize },
    #[error(
        "{letter:?} at place {place} of the query is no base; use A, C, G, T (or U), the IUPAC letters for several bases (R, Y, S, W, K, M, B, D, H, V), and ? or N for any"
    )]
    Base { letter: char, place: usize },
    #[error(
        "allele {allele} at place {place} of the query is not in the panel, which has alleles 0 to {largest}"
    )]
    NoSuchAllele {
        allele: u8,
        place: usize,
        largest: u8,
    },
}

impl Pattern {
    /// Parses alleles by number, as in a VCF file: `0` for the reference, `?` for any.
    ///
    /// # Errors
    /// The text is empty or has other letters. Positions count from 1.
    pub fn of_alleles(letters: &str) -> Result<Self, PatternError> {
        Self::parse(letters, |letter, place| match letter.to_digit(10) {
            Some(digit) => Ok(SymbolSet::of(digit as u8)),
            None => Err(PatternError::Allele { letter, place }),
        })
    }

    /// Parses bases by [the letters of IUPAC](SymbolSet::of_base_letter), in either case; `?` or `N` for any.
    ///
    /// # Errors
    /// The text is empty or has other letters. Positions count from 1.
    pub fn of_bases(letters: &str) -> Result<Self, PatternError> {
        Self::parse(letters, |letter, place| {
            SymbolSet::of_base_letter(letter).ok_or(PatternError::Base { letter, place })
        })
    }

    fn parse(
        letters: &str,
        symbol: impl Fn(char, usize) -> Result<SymbolSet, PatternError>,
    ) -> Result<Self, PatternError> {
        let one = |(place, letter)| match letter {
            WILDCARD => Ok(SymbolSet::ANY),
            letter => symbol(letter, place),
        };
        // Allocated once: growing would leave copies in freed memory.
        let mut symbols = Zeroizing::new(Vec::with_capacity(letters.len()));
        for symbol in (1..).zip(letters.chars()).map(one) {
            symbols.push(symbol?);
        }
        if symbols.is_empty() {
            Err(PatternError::Empty)
        } else {
            Ok(Self { symbols })
        }
    }

    /// Checks that all symbols are below `symbols`.
    ///
    /// # Errors
    /// The first position that fails.
    pub fn check(&self, symbols: u8) -> Result<(), PatternError> {
        for (place, symbol) in (1..).zip(self.symbols.iter()) {
            if let Some(allele) = symbol.largest().filter(|&symbol| symbol >= symbols) {
                return Err(PatternError::NoSuchAllele {
                    allele,
                    place,
                    largest: symbols - 1,
                });
            }
        }
        Ok(())
    }

    /// Symbols that match, by position.
    pub fn symbols(&self) -> &[SymbolSet] {
        &self.symbols
    }

    /// Number of symbols, wildcards included.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.symbols.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_symbols() {
        let alleles = Pattern::of_alleles("01?9").unwrap();
        let [zero, one, two, three, nine] = [0, 1, 2, 3, 9].map(SymbolSet::of);
        assert_eq!(alleles.symbols(), [zero, one, SymbolSet::ANY, nine]);
        let bases = Pattern::of_bases("AcgTun?y").unwrap();
        let any = SymbolSet::ANY;
        assert_eq!(
            bases.symbols(),
            [zero, one, two, three, three, any, any, one.with(3)]
        );
        assert!(alleles.check(10).is_ok());
    }

    #[test]
    fn other_letters_are_named_with_their_place() {
        let message = |pattern: Result<Pattern, PatternError>| match pattern {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it is no pattern"),
        };
        assert!(message(Pattern::of_alleles("01x")).contains("'x' at place 3"));
        assert!(message(Pattern::of_bases("ACGX")).contains("'X' at place 4"));
        assert!(message(Pattern::of_bases("AC-T")).contains("'-' at place 3"));
        assert!(message(Pattern::of_bases("")).contains("empty"));
        let missing = Pattern::of_alleles("012").unwrap().check(2).unwrap_err();
        assert!(
            missing.to_string().contains("allele 2 at place 3"),
            "{missing}"
        );
    }
}
