//! Symbols that a position of a query accepts, and the letters for them.

use zeroize::DefaultIsZeroes;

/// Symbols that match at one position of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolSet(u16);

impl SymbolSet {
    /// Wildcard: every symbol, an unknown one included.
    pub const ANY: Self = Self(u16::MAX);

    /// Returns the set of one symbol, below [`MAX_SYMBOLS`](crate::MAX_SYMBOLS).
    pub const fn of(symbol: u8) -> Self {
        Self(1 << symbol)
    }

    /// Returns the bases that an IUPAC letter stands for, in either case: U is T, R is A or G, and so on; N is a
    /// wildcard. A to T are 0 to 3. `None` for other characters.
    ///
    /// Files are read by this table, too; a letter for several bases is then an unknown base.
    pub fn of_base_letter(letter: char) -> Option<Self> {
        const A: u16 = 1;
        const C: u16 = 2;
        const G: u16 = 4;
        const T: u16 = 8;
        Some(Self(match letter.to_ascii_uppercase() {
            'A' => A,
            'C' => C,
            'G' => G,
            'T' | 'U' => T,
            'R' => A | G,
            'Y' => C | T,
            'S' => C | G,
            'W' => A | T,
            'K' => G | T,
            'M' => A | C,
            'B' => C | G | T,
            'D' => A | G | T,
            'H' => A | C | T,
            'V' => A | C | G,
            'N' => return Some(Self::ANY),
            _ => return None,
        }))
    }

    /// Returns the set with one more symbol.
    #[must_use]
    pub const fn with(self, symbol: u8) -> Self {
        Self(self.0 | 1 << symbol)
    }

    /// Returns true if a symbol is in the set. Only a wildcard contains an [unknown](crate::UNKNOWN) one.
    pub fn contains(self, symbol: u8) -> bool {
        self == Self::ANY || self.0.checked_shr(symbol.into()).unwrap_or(0) & 1 == 1
    }

    /// The largest symbol; `None` for a wildcard.
    pub fn largest(self) -> Option<u8> {
        (self != Self::ANY).then(|| self.0.checked_ilog2().unwrap_or(0) as u8)
    }

    /// The symbol of a set of one.
    pub fn only(self) -> Option<u8> {
        self.largest().filter(|&symbol| self == Self::of(symbol))
    }
}

impl Default for SymbolSet {
    /// The empty set, which nothing matches.
    fn default() -> Self {
        Self(0)
    }
}

impl DefaultIsZeroes for SymbolSet {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNKNOWN;

    #[test]
    fn letters_stand_for_the_bases_of_iupac() {
        let bases = |letter| {
            let set = SymbolSet::of_base_letter(letter)?;
            Some(
                (0..4)
                    .filter(|&base| set.contains(base))
                    .collect::<Vec<u8>>(),
            )
        };
        let table = [
            ("Aa", vec![0]),
            ("Cc", vec![1]),
            ("Gg", vec![2]),
            ("TtUu", vec![3]),
            ("Rr", vec![0, 2]),
            ("Yy", vec![1, 3]),
            ("Ss", vec![1, 2]),
            ("Ww", vec![0, 3]),
            ("Kk", vec![2, 3]),
            ("Mm", vec![0, 1]),
            ("Bb", vec![1, 2, 3]),
            ("Dd", vec![0, 2, 3]),
            ("Hh", vec![0, 1, 3]),
            ("Vv", vec![0, 1, 2]),
            ("Nn", vec![0, 1, 2, 3]),
        ];
        let mut all = String::new();
        for (letters, expected) in table {
            for letter in letters.chars() {
                assert_eq!(bases(letter).as_ref(), Some(&expected), "{letter}");
            }
            all += letters;
        }
        for other in ('\0'..='\u{ff}').filter(|&other| !all.contains(other)) {
            assert_eq!(bases(other), None, "{other:?}");
        }
    }

    #[test]
    fn only_a_wildcard_has_an_unknown_symbol() {
        for symbol in [4, 11, UNKNOWN] {
            assert!(SymbolSet::ANY.contains(symbol));
            assert!(!SymbolSet::of_base_letter('V').unwrap().contains(symbol));
        }
        let two = SymbolSet::of_base_letter('R').unwrap();
        assert_eq!((two.largest(), two.only()), (Some(2), None));
        assert_eq!(SymbolSet::of(9).only(), Some(9));
        assert_eq!(
            (SymbolSet::ANY.largest(), SymbolSet::ANY.only()),
            (None, None)
        );
    }
}
