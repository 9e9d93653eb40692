//! Rows that are not transactions: totals and notes below the data, units or types below the header.

use super::error::{Position, ReadError, Remedy};
use super::record::Cells;
use oboro_format::wording::{SKIP_FIRST, SKIP_LAST};

/// First words of a row of totals, in lower case.
const TOTALS: [&str; 25] = [
    "total",
    "totals",
    "grand total",
    "overall total",
    "subtotal",
    "sub-total",
    "sum",
    "sums",
    "average",
    "mean",
    "summe",
    "gesamt",
    "gesamtsumme",
    "gesamtergebnis",
    "insgesamt",
    "total general",
    "total général",
    "somme",
    "totale",
    "totaal",
    "suma",
    "итого",
    "合計",
    "总计",
    "總計",
];

/// Kind of a last row that is not a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Footer {
    Totals,
    Note,
}

impl Footer {
    /// Classifies the last row of a file by its first cell with text.
    pub(super) fn of(cells: &Cells) -> Option<Self> {
        const LONGEST: usize = 64;
        let first = (0..cells.len())
            .map(|it| cells.cell(it))
            .find(|it| !it.is_empty())?;
        // Ids and codes are recognised by their first character.
        if first.as_bytes()[0].is_ascii_digit() && !first.contains(' ') {
            return None;
        }
        if first.len() > LONGEST {
            return is_source(first).then_some(Self::Note);
        }
        let lower = first.to_lowercase();
        let word = lower.split([':', '=', '(', '*']).next().unwrap_or_default();
        if TOTALS.contains(&word.trim()) {
            return Some(Self::Totals);
        }
        let ends = ["end of file", "end of report", "end of data", "eof", "\\."];
        let is_note = is_row_count(&lower) || is_source(first) || ends.contains(&lower.as_str());
        is_note.then_some(Self::Note)
    }

    /// Rejects the row at `line` of a file.
    pub(super) fn doubt(self, file: &str, line: Option<Position>) -> ReadError {
        let what = match self {
            Self::Totals => "the row seems to have totals, and not a transaction",
            Self::Note => "the row seems to be a note, and not a transaction",
        };
        ReadError::Doubtful {
            file: file.to_owned(),
            line,
            what: what.to_owned(),
            remedies: vec![
                Remedy::new(SKIP_LAST.to(1), "to leave the last row out"),
                Remedy::new(SKIP_LAST.to(0), "if it is a transaction"),
            ],
        }
    }
}

/// Returns true for row counts of databases: `(5 rows)`, `5 rows in set (0.00 sec)`, `5 rows selected.`.
fn is_row_count(lower: &str) -> bool {
    let text = lower.strip_prefix('(').unwrap_or(lower);
    let text = text.trim_start_matches(|c: char| c.is_ascii_digit() || " ,.".contains(c));
    let text = text.trim_end_matches(['.', ')', ' ']);
    let counted = ["row", "rows", "record", "records"];
    text.len() < lower.len()
        && (counted.contains(&text)
            || ["row ", "rows ", "record ", "records "].iter().any(|it| {
                let rest = text.strip_prefix(it).unwrap_or_default();
                ["in set", "selected", "affected", "shown", "returned"]
                    .iter()
                    .any(|it| rest.starts_with(it))
            }))
        || lower.starts_with("row count:")
        || lower.starts_with("rows:")
}

fn is_source(text: &str) -> bool {
    let begins = |word: &str| {
        let head = text.get(..word.len());
        head.is_some_and(|it| it.eq_ignore_ascii_case(word))
    };
    [
        "source:",
        "sources:",
        "note:",
        "notes:",
        "remark:",
        "legend:",
        "generated on ",
        "exported on ",
    ]
    .iter()
    .any(|it| begins(it))
}

/// Returns true if a row has the sums of the whole numbers above it, of at least three rows and two columns, and one
/// sum above 1.
pub(super) fn are_sums(sums: &[u64], row: &[Option<u64>], rows: u64) -> bool {
    let equal = || sums.iter().zip(row).all(|(sum, cell)| *cell == Some(*sum));
    rows > 2 && sums.len() > 1 && sums.iter().any(|&it| it > 1) && equal()
}

/// Returns true if a row below the header has only units in brackets or names of types.
pub(super) fn has_units(cells: &Cells) -> bool {
    const TYPES: [&str; 27] = [
        "int",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint32",
        "uint64",
        "integer",
        "bigint",
        "smallint",
        "float",
        "float32",
        "float64",
        "double",
        "numeric",
        "str",
        "string",
        "text",
        "varchar",
        "object",
        "bool",
        "boolean",
        "date",
        "datetime",
        "timestamp",
        "category",
    ];
    let is_unit = |cell: &str| {
        let bracketed = cell.starts_with('[') && cell.ends_with(']')
            || cell.starts_with('(') && cell.ends_with(')');
        let kind = cell.split('(').next().unwrap_or_default();
        bracketed || TYPES.iter().any(|it| it.eq_ignore_ascii_case(kind.trim()))
    };
    let mut cells = cells.iter().filter(|it| !it.is_empty()).peekable();
    cells.peek().is_some() && cells.all(is_unit)
}

/// Rejects lines above the data.
pub(super) fn above(file: &str, line: u64, what: &str, skip: u64) -> ReadError {
    ReadError::Doubtful {
        file: file.to_owned(),
        line: Some(Position::Line(line)),
        what: what.to_owned(),
        remedies: vec![
            Remedy::new(
                SKIP_FIRST.to(skip as usize),
                "to leave out what is above the data",
            ),
            Remedy::new(SKIP_FIRST.to(0), "if it belongs to them"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_notes_are_detected_by_their_first_cell() {
        let of = |line: &str| {
            let mut cells = Cells::default();
            cells.split(line, b',');
            Footer::of(&cells)
        };
        for totals in [
            "Total,3,4",
            ",Grand Total,",
            "TOTAL:,5",
            "Summe,1",
            "Total (n=5),",
            "合計,2",
        ] {
            assert_eq!(of(totals), Some(Footer::Totals), "{totals}");
        }
        for note in [
            "(3 rows)",
            "3 rows in set (0.01 sec)",
            "5 rows selected.",
            "(12 rows affected)",
            "\\.",
            "Source: WHO",
            "(1 row)",
            "EOF",
            "Rows: 7",
        ] {
            assert_eq!(of(note), Some(Footer::Note), "{note}");
        }
        for data in [
            "Total cereal,milk",
            "3,4",
            "17 rows of beads,milk",
            "",
            ",",
            "sumac",
            "notebook",
            "rowan",
        ] {
            assert_eq!(of(data), None, "{data}");
        }
    }

    #[test]
    fn rows_of_units_and_types_have_nothing_else() {
        let of = |line: &str| {
            let mut cells = Cells::default();
            cells.split(line, b',');
            has_units(&cells)
        };
        assert!(of("[1],(code),") && of("int64,VARCHAR(20)") && of("str,str"));
        assert!(!of("1,[code]") && !of(",") && !of("7,text"));
    }
}
