//! Options that settle how a file is read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::bins::Bin;
use super::names::NameRules;
use super::record::{Cells, Split};
use super::values::{
    Encoding, Format, ItemSeparator, Missing, Separator, Spaces, Unicode, UnknownOption,
};
use crate::transactions::TransactionsBuilder;

/// Options for reading a file. An absent one is detected from the content, and ambiguous content is rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// The format.
    pub format: Format,
    /// The separator of cells.
    pub separator: Option<Separator>,
    /// `true` if the first line names the columns; otherwise their names are 1, 2 and so on.
    pub header: Option<bool>,
    /// The text encoding; UTF-8 by default.
    pub encoding: Option<Encoding>,
    /// The columns that together identify the transaction. In a table with a row per transaction, they are not items.
    pub transaction_columns: Vec<String>,
    /// The column with the item's name.
    pub item_column: Option<String>,
    /// Columns to leave out.
    pub drop_columns: Vec<String>,
    /// The meaning of spaces around names; if irrelevant, they are trimmed.
    pub spaces: Option<Spaces>,
    /// The meaning of cells without a value.
    pub missing: Option<Missing>,
    /// The Unicode form of names; NFC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unicode: Option<Unicode>,
    /// The separator of the items in one cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_separator: Option<ItemSeparator>,
    /// The number of lines above the data. Concerns one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_first: Option<u32>,
    /// The number of rows below the data, such as totals. Concerns one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_last: Option<u32>,
    /// The column with a unique id of each transaction. It is no item.
    pub row_ids: Option<String>,
    /// Columns whose numbers become items by ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<Bin>,
    /// The file of the taxonomy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taxonomy: Option<PathBuf>,
    /// `true` if a file of the same dataset was read before.
    #[serde(skip)]
    pub is_further: bool,
    /// The memory for reading and encrypting together, in bytes. Transactions that take
    /// more than half of it are in an unnamed temporary file. Names and row ids stay in memory.
    #[serde(skip)]
    pub memory: Option<u64>,
}

impl ReadOptions {
    /// Creates options with only a format.
    pub fn of(format: Format) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    /// Completes these options by those of an earlier file.
    #[must_use]
    pub fn or(self, before: &Self) -> Self {
        fn list<T: Clone>(given: Vec<T>, before: &[T]) -> Vec<T> {
            if given.is_empty() {
                before.to_vec()
            } else {
                given
            }
        }
        Self {
            format: match self.format {
                Format::Auto => before.format,
                format => format,
            },
            separator: self.separator.or(before.separator),
            header: self.header.or(before.header),
            encoding: self.encoding.or(before.encoding),
            transaction_columns: list(self.transaction_columns, &before.transaction_columns),
            item_column: self.item_column.or_else(|| before.item_column.clone()),
            drop_columns: list(self.drop_columns, &before.drop_columns),
            spaces: self.spaces.or(before.spaces),
            missing: self.missing.or(before.missing),
            unicode: self.unicode.or(before.unicode),
            item_separator: self.item_separator.or(before.item_separator),
            // Totals or a title of one file do not imply such lines in the next.
            skip_first: self.skip_first,
            skip_last: self.skip_last,
            row_ids: self.row_ids.or_else(|| before.row_ids.clone()),
            bins: list(self.bins, &before.bins),
            taxonomy: self.taxonomy.or_else(|| before.taxonomy.clone()),
            is_further: self.is_further,
            memory: self.memory,
        }
    }

    /// Returns the Unicode form of names.
    pub(super) fn unicode(&self) -> Unicode {
        self.unicode.unwrap_or(Unicode::Nfc)
    }

    /// Returns the rules for names of items.
    pub(super) fn name_rules(&self) -> NameRules {
        NameRules {
            missing: self.missing,
            unicode: self.unicode,
        }
    }

    /// Creates an empty builder with half of the memory.
    pub(super) fn builder(&self) -> TransactionsBuilder {
        TransactionsBuilder::within(self.memory.map(|it| it / 2))
    }

    /// Returns the columns whose cells are no items: dropped ones, those of numbers, and that of row ids unless it
    /// identifies transactions.
    pub(super) fn non_item_columns(&self) -> Vec<String> {
        let ids = self.row_ids.iter();
        let ids = ids
            .filter(|&it| !self.transaction_columns.contains(it))
            .cloned();
        let binned = self.bins.iter().map(|it| it.column().to_owned());
        self.drop_columns
            .iter()
            .cloned()
            .chain(ids)
            .chain(binned)
            .collect()
    }

    /// Returns true if an option is set that only CSV has.
    pub(super) fn are_of_csv(&self) -> bool {
        let without = Self {
            format: Format::Auto,
            encoding: None,
            skip_first: None,
            taxonomy: None,
            is_further: false,
            memory: None,
            ..self.clone()
        };
        without != Self::default()
    }
}

/// Parses a list as `--drop-columns` takes it: separated by commas, quoted if necessary. Spaces around a name are
/// trimmed unless it is quoted.
///
/// # Errors
/// A quote that is not closed, or that ends within a name.
pub fn columns_in(list: &str) -> Result<Vec<String>, UnknownOption> {
    let mut cells = Cells::default();
    match cells.split(list, b',') {
        Split::Whole => Ok((0..cells.len())
            .map(|place| {
                if cells.is_quoted(place) {
                    cells.raw(place).to_owned()
                } else {
                    cells.cell(place).to_owned()
                }
            })
            .collect()),
        Split::Open | Split::AfterQuote | Split::TooMany => Err(UnknownOption::new(
            list,
            "a list of columns",
            "their names, separated by commas, with double quotes around one that has a comma",
        )),
    }
}
