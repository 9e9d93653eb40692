//! First line of a file, if it names the columns.

use std::collections::BTreeSet;

use super::error::{Excerpt, Position, ReadError, Remedy};
use super::record::Cells;
use oboro_format::wording::{FORMAT, HEADER, Setting};

/// Names of columns.
pub(super) struct Header {
    pub(super) line: Position,
    /// The names as written in the file.
    pub(super) raw: Vec<String>,
    /// The names as used: trimmed, and numbered as in pandas if empty.
    pub(super) names: Vec<String>,
}

impl Header {
    /// Reads the names in a first record, or numbers columns from 1 if it is no header.
    pub(super) fn new(cells: &Cells, is_header: bool, line: Position) -> Self {
        let places = 0..cells.len();
        let raw: Vec<String> = if is_header {
            places.map(|place| cells.raw(place).to_owned()).collect()
        } else {
            places.map(|place| (place + 1).to_string()).collect()
        };
        let name = |(place, raw): (usize, &String)| match raw.trim() {
            "" => format!("Unnamed: {place}"),
            name => name.to_owned(),
        };
        let names = raw.iter().enumerate().map(name).collect();
        Self { line, raw, names }
    }

    pub(super) fn find(
        &self,
        file: &str,
        setting: Setting,
        wanted: &str,
    ) -> Result<usize, ReadError> {
        let mut found = (0..self.names.len()).filter(|&it| self.names[it] == wanted.trim());
        let (first, second) = (found.next(), found.next());
        match (first, second) {
            (Some(place), None) => Ok(place),
            _ => Err(ReadError::NoColumn {
                file: file.to_owned(),
                line: self.line,
                column: Excerpt::new(wanted),
                setting,
                several: first.is_some(),
                header: Excerpt::new(self.names.join(", ")),
            }),
        }
    }

    pub(super) fn all(
        &self,
        file: &str,
        setting: Setting,
        wanted: &[String],
    ) -> Result<BTreeSet<usize>, ReadError> {
        wanted
            .iter()
            .map(|name| self.find(file, setting, name))
            .collect()
    }

    /// Returns the number of columns used, and the names of the others.
    pub(super) fn used(&self, is_used: impl Fn(usize) -> bool) -> (usize, Vec<String>) {
        let (used, others): (Vec<usize>, Vec<usize>) =
            (0..self.names.len()).partition(|&it| is_used(it));
        (
            used.len(),
            others
                .into_iter()
                .map(|it| self.names[it].clone())
                .collect(),
        )
    }
}

/// Suggests the options that state if the first line of baskets is a header.
pub(super) fn header_remedies() -> Vec<Remedy> {
    vec![
        Remedy::new(
            [FORMAT.to("csv-basket"), HEADER.to(true)],
            "if it is a header of baskets",
        ),
        Remedy::new(
            [FORMAT.to("csv-basket"), HEADER.to(false)],
            "if it is a transaction",
        ),
    ]
}
