//! Everything that can be wrong with a file of transactions. Each message says
//! where, what and how to mend it; text from the file is quoted, escaped and cut.

use std::fmt;
use std::io;

use super::compression::Compression;
use super::lines::MAX_LINE_BYTES;
use crate::transactions::TransactionsError;

/// Why transactions could not be read. Lines and columns count from 1.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot read {file}: {error}; check that the file exists and that you may read it")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// Compressed in a way that is not supported.
    #[error("{file} is {kind} data; unpack it first, or give plain text, gzip or zstd")]
    UnsupportedCompression {
        /// The file.
        file: String,
        /// What it seems to be.
        kind: &'static str,
    },
    /// The compressed data ends too early.
    #[error("{file} is cut off: its {compression} data ends too early; fetch or write it again")]
    Truncated {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
    },
    /// The compressed data is damaged.
    #[error("{file} is damaged: {reason} in its {compression} data; fetch or write it again")]
    Corrupt {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
        /// What the decoder says.
        reason: String,
    },
    /// A line beyond [`MAX_LINE_BYTES`].
    #[error(
        "{file}, line {line}: the line is longer than {} MiB; check that the file holds one transaction or row a line",
        MAX_LINE_BYTES >> 20
    )]
    LineTooLong {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// No text, or text of another width.
    #[error(
        "{file}, line {line}: there is a zero byte, so this is no text; give a file of transactions, and convert UTF-16, for instance with `iconv -f UTF-16 -t UTF-8`"
    )]
    ZeroByte {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Not UTF-8.
    #[error(
        "{file}, line {line}: the text is not UTF-8; convert the file, for instance with `iconv -t UTF-8`"
    )]
    InvalidUtf8 {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Something else than an item number in FIMI text.
    #[error("{file}, line {line}: {token} is {problem}")]
    InvalidItem {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What stands there, quoted.
        token: Excerpt,
        /// What is wrong with it.
        problem: ItemProblem,
    },
    /// No format fits.
    #[error(
        "{file}: cannot tell the format: no line of numbers, and no commas; give the format, and separate items by commas (spaces in FIMI)"
    )]
    UndecidableFormat {
        /// The file.
        file: String,
    },
    /// A quote that is not closed on its line.
    #[error(
        "{file}, line {line}: a quoted cell is not closed on its line; close the quote, and remove line breaks within cells"
    )]
    UnclosedQuote {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A carriage return within a line.
    #[error(
        "{file}, line {line}: there is a carriage return within the line; end lines with a line feed, for instance with `tr '\\r' '\\n'`"
    )]
    CarriageReturn {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A header without a transaction or an item column.
    #[error(
        "{file}, line {line}: the header {header} names no {missing} column; call one column `transaction` and one `item`, or give another format"
    )]
    LongHeader {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The header, quoted.
        header: Excerpt,
        /// The column that was not found: transaction or item.
        missing: &'static str,
    },
    /// A row without its transaction.
    #[error("{file}, line {line}: the row names no transaction; fill in the transaction column")]
    MissingTransaction {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A row with more or fewer cells than the header.
    #[error(
        "{file}, line {line}: the row has {found} cells, but the header has {expected}; quote names that contain commas, and give every row as many cells as the header"
    )]
    CellCount {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The row's number of cells.
        found: usize,
        /// The header's number of cells.
        expected: usize,
    },
    /// An item without a name in a one-hot header.
    #[error(
        "{file}, line {line}: column {column} of the header has no name; name each item, and drop an index column (pandas: `to_csv(…, index=False)`)"
    )]
    UnnamedColumn {
        /// The file.
        file: String,
        /// The line of the header.
        line: u64,
        /// The column.
        column: usize,
    },
    /// A one-hot cell that is neither set nor clear.
    #[error(
        "{file}, line {line}, column {column} (item {item}): {cell} is neither set nor clear; write 1 or true, 0 or false, or nothing"
    )]
    OneHotCell {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The column.
        column: usize,
        /// The item of the column, quoted.
        item: Excerpt,
        /// What stands there, quoted.
        cell: Excerpt,
    },
    /// The items cannot be numbered.
    #[error("{file}, line {line}: {error}")]
    Items {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What is wrong.
        #[source]
        error: TransactionsError,
    },
    /// More transactions than can be numbered.
    #[error("{file}, line {line}: there are more than 2^32 transactions; split the file")]
    TooManyTransactions {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Nothing but blank lines, or a header.
    #[error("{file} has no transactions; check that it is the right file and is not empty")]
    NoTransactions {
        /// The file.
        file: String,
    },
    /// Transactions, but all of them empty.
    #[error("{file} has no items: all its transactions are empty; check that it is the right file")]
    NoItems {
        /// The file.
        file: String,
    },
}

/// What is wrong with a token of FIMI text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemProblem {
    /// A negative number.
    Negative,
    /// A number of 2^32 or more.
    TooLarge,
    /// No whole number.
    NotANumber,
}

impl fmt::Display for ItemProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ItemProblem::Negative => {
                "a negative number; items are numbered from 0, so number them anew or give them names and the format csv-basket"
            }
            ItemProblem::TooLarge => {
                "larger than 4294967295, the largest item number; number the items anew or give them names and the format csv-basket"
            }
            ItemProblem::NotANumber => {
                "not an item number; write whole numbers separated by spaces, or give the format (csv-basket for names separated by commas)"
            }
        })
    }
}

/// A piece of the file in a message: quoted, escaped, and cut where it is long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    const MAX_CHARS: usize = 60;

    pub(super) fn new(text: impl AsRef<[u8]>) -> Self {
        // Four bytes a character at most; more need not be decoded.
        let bytes = text.as_ref();
        let head = &bytes[..bytes.len().min(4 * Self::MAX_CHARS + 4)];
        let text = String::from_utf8_lossy(head);
        let cut = text.char_indices().nth(Self::MAX_CHARS);
        Excerpt(match cut {
            Some((end, _)) => format!("{:?}…", &text[..end]),
            None => format!("{text:?}"),
        })
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
