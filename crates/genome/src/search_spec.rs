//! A search in public numbers, and the linear forms that answer it.

use crate::SymbolSet;
use thiserror::Error;

/// Largest number of symbols of a query.
pub const MAX_LENGTH: u32 = 4096;
/// Largest number of rows that a query is compared with.
pub const MAX_ROWS: u64 = 1 << 25;
/// Largest number of distinct symbols, an unknown one included.
pub const MAX_SYMBOLS: u8 = 11;
/// Largest number of mismatches that a query may allow.
pub const MAX_WITHIN: u8 = 2;

/// Kind of comparison of rows with a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Rows that differ from the query in at most `within` symbols.
    Match {
        /// Allowed mismatches.
        within: u8,
    },
    /// Length of the query's longest prefix that some row begins with.
    Longest,
}

/// Public parameters of a search, known to both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SearchSpec {
    length: u32,
    symbols: u8,
    rows: u64,
    kind: Kind,
}

/// Error: the search is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum SearchSpecError {
    #[error("a query of {0} symbols cannot be asked; it has 1 to {MAX_LENGTH}")]
    Length(u64),
    #[error("rows of {0} different symbols cannot be searched; there are 2 to {MAX_SYMBOLS}")]
    Symbols(u64),
    #[error("{0} rows cannot be searched; a collection has 1 to {MAX_ROWS}")]
    Rows(u64),
    #[error("{0} mismatches cannot be allowed; use 0 to {MAX_WITHIN}")]
    Within(u64),
    #[error(
        "every row matches a query of {length} symbols within {within} mismatches; ask for fewer mismatches or a longer query"
    )]
    Trivial { length: u32, within: u8 },
}

impl SearchSpec {
    /// Checks a search in `rows` rows of `length` symbols each, out of `symbols` distinct ones. The query uses those
    /// from 0 on. If rows may have an [unknown](crate::UNKNOWN) symbol, it is the last.
    ///
    /// # Errors
    /// A number is beyond the limits of this module, or the answer is already known.
    pub fn new(length: u32, symbols: u8, rows: u64, kind: Kind) -> Result<Self, SearchSpecError> {
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(SearchSpecError::Length(length.into()));
        }
        if !(2..=MAX_SYMBOLS).contains(&symbols) {
            return Err(SearchSpecError::Symbols(symbols.into()));
        }
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(SearchSpecError::Rows(rows));
        }
        if let Kind::Match { within } = kind {
            if within > MAX_WITHIN {
                return Err(SearchSpecError::Within(within.into()));
            }
            if u32::from(within) >= length {
                return Err(SearchSpecError::Trivial { length, within });
            }
        }
        Ok(Self {
            length,
            symbols,
            rows,
            kind,
        })
    }

    /// Number of symbols of the query.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Number of distinct symbols in rows.
    pub fn symbols(&self) -> u8 {
        self.symbols
    }

    /// Number of rows that the query is compared with, padding included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Kind of comparison.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of terms in the encoding of a query.
    pub fn terms(&self) -> usize {
        let (length, symbols) = (self.length as usize, usize::from(self.symbols));
        match self.kind {
            Kind::Match { .. } => 1 + length * (symbols - 1),
            Kind::Longest => length * symbols,
        }
    }

    /// Largest number of terms that one test adds up.
    pub(crate) fn terms_of_a_test(&self) -> usize {
        match self.kind {
            Kind::Match { .. } => 1 + self.length as usize,
            Kind::Longest => 2 * self.length as usize,
        }
    }

    /// Numbers of zero tests, grouped by meaning. [`Kind::Match`] has one group. [`Kind::Longest`] has one for each
    /// prefix length, from 1, with as many tests as distinct prefixes are possible.
    pub fn groups(&self) -> Vec<u64> {
        match self.kind {
            Kind::Match { within } => vec![self.rows * (u64::from(within) + 1)],
            Kind::Longest => {
                let different = |length| u64::from(self.symbols).saturating_pow(length);
                (1..=self.length)
                    .map(|length| self.rows.min(different(length)))
                    .collect()
            }
        }
    }

    /// Encodes a query as the terms of its mismatch counts. Let `m_jc` be 1 if symbol `c` matches at `j`.
    /// [`Kind::Match`]: `Σ_j (1 − m_j0)`, then `m_j0 − m_jc` for each `j` and `c > 0`. [`Kind::Longest`]: each
    /// `1 − m_j0` before the others of `j`.
    ///
    /// Panics if the query has another length or invalid symbols.
    pub fn encode(&self, query: &[SymbolSet]) -> Vec<i32> {
        assert_eq!(query.len(), self.length as usize);
        let is = |set: SymbolSet, c: u8| i32::from(set.contains(c));
        let mut terms = Vec::with_capacity(self.terms());
        if let Kind::Match { .. } = self.kind {
            terms.push(0);
        }
        for &set in query {
            assert!(set.largest().is_none_or(|symbol| symbol < self.symbols));
            let lacking = 1 - is(set, 0);
            match self.kind {
                Kind::Match { .. } => terms[0] += lacking,
                Kind::Longest => terms.push(lacking),
            }
            terms.extend((1..self.symbols).map(|c| is(set, 0) - is(set, c)));
        }
        terms
    }

    /// Writes the coefficients, `factor` or 0, of all terms in a test's linear form. The form is `factor` times the
    /// number of the query's first `length` symbols that a row lacks. For [`Kind::Match`] `length` is that of the
    /// query. Runs in time independent of the row and the factor.
    ///
    /// Panics on an invalid symbol or length.
    pub fn form(&self, row: &[u8], length: usize, factor: i32, form: &mut [i32]) {
        assert_eq!(row.len(), self.length as usize);
        assert_eq!(form.len(), self.terms());
        let is_match = matches!(self.kind, Kind::Match { .. });
        assert!(length == row.len() || !is_match && length < row.len());
        let (constant, of_places) = form.split_at_mut(usize::from(is_match));
        constant.fill(factor);
        let each = of_places.len() / row.len();
        let places = row.iter().zip(of_places.chunks_exact_mut(each));
        for (place, (&symbol, terms)) in places.enumerate() {
            let symbol = match symbol {
                crate::UNKNOWN => self.symbols - 1,
                symbol => symbol,
            };
            assert!(
                symbol < self.symbols,
                "rows have the symbols that the search names"
            );
            let factor = i32::from(place < length) * factor;
            let (lacking, others) = terms.split_at_mut(usize::from(!is_match));
            lacking.fill(factor);
            for (c, term) in (1..).zip(others) {
                *term = i32::from(symbol == c) * factor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNKNOWN;
    use proptest::prelude::*;

    fn mismatches(query: &[SymbolSet], row: &[u8]) -> i32 {
        let differ = |(set, &x): (&SymbolSet, &u8)| !set.contains(x);
        query.iter().zip(row).filter(|&it| differ(it)).count() as i32
    }

    proptest! {
        #[test]
        fn the_terms_of_a_row_add_up_to_its_mismatches(
            symbols in 2u8..=11,
            positions in prop::collection::vec((any::<Option<(u8, u8)>>(), any::<u8>()), 1..40),
            unknown in any::<bool>(),
        ) {
            // The last symbol may be the unknown one, which a query cannot contain.
            let asked = symbols - u8::from(unknown && symbols > 2);
            // One symbol or two, or any.
            let set = |(q, other): (u8, u8)| SymbolSet::of(q % asked).with(other % asked);
            let query: Vec<_> = positions.iter().map(|(q, _)| q.map_or(SymbolSet::ANY, set)).collect();
            let row: Vec<_> = positions.iter().map(|(_, x)| match x % symbols {
                x if x >= asked => UNKNOWN,
                x => x,
            }).collect();
            let length = query.len() as u32;
            let whole = SearchSpec::new(length, symbols, 9, Kind::Match { within: 0 }).unwrap();
            let longest = SearchSpec::new(length, symbols, 9, Kind::Longest).unwrap();
            let sum = |spec: &SearchSpec, beginning: usize| {
                let terms = spec.encode(&query);
                assert_eq!(terms.len(), spec.terms());
                let mut form = vec![9; terms.len()];
                spec.form(&row, beginning, -3, &mut form);
                let used = form.iter().filter(|&&factor| factor != 0);
                assert!(used.count() <= spec.terms_of_a_test());
                terms.iter().zip(form).map(|(term, factor)| term * factor).sum::<i32>()
            };
            prop_assert_eq!(sum(&whole, row.len()), -3 * mismatches(&query, &row));
            for beginning in 1..=row.len() {
                prop_assert_eq!(
                    sum(&longest, beginning),
                    -3 * mismatches(&query[..beginning], &row[..beginning])
                );
            }
        }
    }

    #[test]
    fn groups_are_as_large_as_what_can_differ() {
        let within = SearchSpec::new(9, 2, 100, Kind::Match { within: 2 }).unwrap();
        assert_eq!(within.groups(), [300]);
        let longest = SearchSpec::new(9, 2, 100, Kind::Longest).unwrap();
        assert_eq!(longest.groups(), [2, 4, 8, 16, 32, 64, 100, 100, 100]);
        let many = SearchSpec::new(4096, 11, MAX_ROWS, Kind::Longest).unwrap();
        assert_eq!(many.groups()[4095], MAX_ROWS);
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let exact = Kind::Match { within: 0 };
        let refused = [
            SearchSpec::new(0, 2, 1, exact),
            SearchSpec::new(MAX_LENGTH + 1, 2, 1, exact),
            SearchSpec::new(1, 1, 1, exact),
            SearchSpec::new(1, MAX_SYMBOLS + 1, 1, exact),
            SearchSpec::new(1, 2, 0, exact),
            SearchSpec::new(1, 2, MAX_ROWS + 1, exact),
            SearchSpec::new(9, 2, 1, Kind::Match { within: 3 }),
            SearchSpec::new(2, 2, 1, Kind::Match { within: 2 }),
        ];
        for spec in refused {
            assert!(!spec.unwrap_err().to_string().is_empty());
        }
    }
}
