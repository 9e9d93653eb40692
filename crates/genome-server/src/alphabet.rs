//! Symbols, one byte each: alleles by their number in a VCF file, or bases.

use oboro_genome::{SymbolSet, UNKNOWN};
use std::fmt;

/// Largest number of an allele.
pub const MAX_ALLELE: u8 = 9;

/// Meaning of a collection's symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// Allele numbers; 0 is the reference's.
    Alleles {
        /// Largest number that occurs or was declared, 1 to [`MAX_ALLELE`].
        largest: u8,
    },
    /// A, C, G, T as 0 to 3, and [`UNKNOWN`].
    Bases,
}

impl Alphabet {
    /// Returns true if a collection with this alphabet may hold the symbol.
    pub fn holds(self, symbol: u8) -> bool {
        match self {
            Self::Alleles { largest } => symbol <= largest,
            Self::Bases => symbol <= 3 || symbol == UNKNOWN,
        }
    }

    /// Number of different symbols that fit into `bits` bits each, an unknown one included.
    pub(crate) fn symbols(self, bits: u32) -> u8 {
        match self {
            Self::Alleles { largest } => largest + 1,
            Self::Bases if bits > 2 => 5,
            Self::Bases => 4,
        }
    }

    /// Number that encodes the alphabet in files: 0 for bases, otherwise the largest allele.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Alleles { largest } => u32::from(largest),
            Self::Bases => 0,
        }
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match u8::try_from(number) {
            Ok(0) => Some(Self::Bases),
            Ok(largest @ 1..=MAX_ALLELE) => Some(Self::Alleles { largest }),
            _ => None,
        }
    }
}

impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alleles { largest } => write!(f, "alleles 0 to {largest}"),
            Self::Bases => f.write_str("bases"),
        }
    }
}

/// Returns the symbol of a letter of FASTA, by the table that reads queries: a base, or [`UNKNOWN`]. A gap (`-`, `.`)
/// and IUPAC letters that leave the base open are unknown. `None` for anything else.
pub(crate) fn base(letter: u8) -> Option<u8> {
    match letter {
        b'-' | b'.' => Some(UNKNOWN),
        letter => {
            let bases = SymbolSet::of_base_letter(letter.into())?;
            Some(bases.only().unwrap_or(UNKNOWN))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_bases_or_unknown_or_refused() {
        let symbols: Vec<_> = "AcGtUuNn-.RYswkmbdhv".bytes().map(base).collect();
        let known = [0, 1, 2, 3, 3, 3].map(Some);
        assert_eq!(symbols[..6], known);
        assert!(symbols[6..].iter().all(|&symbol| symbol == Some(UNKNOWN)));
        for letter in "EFIJLOPQXZ* 0>;\n\u{7f}".bytes() {
            assert_eq!(base(letter), None, "{letter}");
        }
    }

    #[test]
    fn numbers_in_files_stand_for_one_alphabet_each() {
        for number in 0..=u32::from(MAX_ALLELE) {
            assert_eq!(Alphabet::from_number(number).unwrap().number(), number);
        }
        for number in [10, 255, 256, u32::MAX] {
            assert_eq!(Alphabet::from_number(number), None);
        }
        assert!(Alphabet::Bases.holds(UNKNOWN) && !Alphabet::Bases.holds(4));
        let alleles = Alphabet::Alleles { largest: 2 };
        assert!(alleles.holds(2) && !alleles.holds(3) && !alleles.holds(UNKNOWN));
    }
}
