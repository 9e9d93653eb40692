//! Reading transactions from files: FIMI and three forms of CSV, plain or
//! compressed.
//!
//! A reader streams; what it keeps is the transactions. Nothing in a file makes
//! it panic or guess: input that is not plainly one thing is an error with the
//! line, the cause and a remedy.

mod compression;
mod csv;
mod detect;
mod error;
mod fimi;
mod lines;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

pub use compression::Compression;
pub use error::{ItemProblem, ReadError};
pub use lines::MAX_LINE_BYTES;

use crate::transactions::Transactions;
use lines::Lines;

/// The form of a file of transactions.
///
/// Common to all: the text is UTF-8, a byte order mark and carriage returns at
/// line ends are dropped, a line has at most [`MAX_LINE_BYTES`]. A repeated item
/// counts once in its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Decided by the first lines that are not blank, in this order:
    ///
    /// 1. the first holds only digits, signs and points, separated by spaces and
    ///    tabs: [`Fimi`](Format::Fimi);
    /// 2. there is no comma in the first 64 KiB, but a space, tab or semicolon:
    ///    undecidable, an error that asks for the format;
    /// 3. the first names a transaction column and an item column:
    ///    [`CsvLong`](Format::CsvLong);
    /// 4. the second has as many cells as the first, all of them
    ///    [one-hot cells](Format::CsvOneHot) and not all empty, and the cells of
    ///    the first differ: [`CsvOneHot`](Format::CsvOneHot). Baskets of items
    ///    called 0 and 1 look the same: give the format for them;
    /// 5. otherwise [`CsvBasket`](Format::CsvBasket).
    #[default]
    Auto,
    /// One transaction a line: item numbers below 2^32, separated by spaces and
    /// tabs, as in the FIMI repository. An item's name is its number in decimal;
    /// items are numbered by value. A blank line is an empty transaction, as it
    /// is to the FIMI repository's own reader, so that a fraction of all
    /// transactions stays what it was; but blank lines that end the file are
    /// taken for an editor's doing and ignored.
    Fimi,
    /// One transaction a line: item names, separated by commas and quoted where
    /// need be. No header. Spaces around a name and empty cells are dropped; a
    /// line of empty cells only is an empty transaction; blank lines are skipped.
    CsvBasket,
    /// One item of one transaction a row, under a header. The transaction column
    /// is the first one called transaction, tid, transaction id, order, order id,
    /// basket, invoice, invoice no, receipt or the like, the item column the
    /// first one called item, product, article, sku or the like, in upper or
    /// lower case, with spaces, hyphens, points or underscores. Other columns are
    /// ignored. Rows of a transaction need not be together; transactions keep the
    /// order in which they first occur. A row without an item says only that the
    /// transaction exists; blank lines are skipped.
    CsvLong,
    /// A header of item names, then one transaction a row: `1`, `true`, `True` or
    /// `TRUE` where the item is in it, `0`, `false`, `False`, `FALSE` or nothing
    /// where it is not. A row of zeros is an empty transaction; blank lines are
    /// skipped, unless there is only one item. Items keep the header's order.
    CsvOneHot,
}

impl Format {
    /// All formats by their names on a command line.
    pub const NAMES: [(&'static str, Format); 5] = [
        ("auto", Format::Auto),
        ("fimi", Format::Fimi),
        ("csv-basket", Format::CsvBasket),
        ("csv-long", Format::CsvLong),
        ("csv-onehot", Format::CsvOneHot),
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Format::NAMES.iter().find(|(_, format)| format == self);
        f.write_str(named.map_or("auto", |(name, _)| name))
    }
}

/// A text that names no [`Format`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a format; give auto, fimi, csv-basket, csv-long or csv-onehot")]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Format::NAMES.iter().find(|(name, _)| *name == text);
        named
            .map(|&(_, format)| format)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// Reads the transactions in the file at `path`. Compression (gzip, zstd) is
/// told by the first bytes, whatever the file is called.
///
/// # Errors
/// The file cannot be read, is damaged, or is not of the `format`.
pub fn read_path(path: &Path, format: Format) -> Result<Transactions, ReadError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(input) => read(input, &file, format),
        Err(error) => Err(ReadError::Io { file, error }),
    }
}

/// Reads transactions from `input`, which error messages call `file`. The input
/// need not be buffered.
///
/// # Errors
/// As [`read_path`].
pub fn read(input: impl Read, file: &str, format: Format) -> Result<Transactions, ReadError> {
    let opened = compression::open(input, file)?;
    let mut lines = Lines::new(opened, file);
    let format = match format {
        Format::Auto => detect::detect(&mut lines)?,
        given => given,
    };
    let transactions = match format {
        Format::Auto | Format::Fimi => fimi::read(&mut lines),
        Format::CsvBasket => csv::read_basket(&mut lines),
        Format::CsvLong => csv::read_long(&mut lines),
        Format::CsvOneHot => csv::read_one_hot(&mut lines),
    }?;
    let file = file.to_owned();
    if transactions.is_empty() {
        return Err(ReadError::NoTransactions { file });
    }
    if transactions.item_count() == 0 {
        return Err(ReadError::NoItems { file });
    }
    Ok(transactions)
}

#[cfg(test)]
mod tests;
