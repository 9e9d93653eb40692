//! Errors of reading a file of transactions. Each message gives the position, the cause and a remedy; text from the
//! file is quoted, escaped and truncated.

use std::fmt;
use std::io;

use crate::transactions::TransactionsError;
use oboro_format::ErrorClass;
use oboro_format::wording::{
    Choice, Choices, DROP_COLUMNS, ENCODING, FORMAT, HEADER, SEPARATOR, Setting, TAXONOMY,
    TRANSACTION_COLUMN,
};

/// Position in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line of text, from 1.
    Line(u64),
    /// A row of a table, from 1.
    Row(u64),
    /// The names and types of a table's columns.
    Schema,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
            Self::Schema => f.write_str("schema"),
        }
    }
}

/// Error of reading transactions. Lines and columns count from 1.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot read {file}: {error}; check that the file exists and that you may read it")]
    Io {
        /// The file.
        file: String,
        /// The operating system's error.
        #[source]
        error: io::Error,
    },
    /// Unsupported compression.
    #[error("{file} is {kind} data; unpack it first, or give plain text, gzip or zstd")]
    UnsupportedCompression {
        /// The file.
        file: String,
        /// The apparent format.
        kind: &'static str,
    },
    /// The compressed data ends too early.
    #[error("{file} is cut off: its {compression} data ends too early; fetch or write it again")]
    Truncated {
        /// The file.
        file: String,
        /// The compression.
        compression: String,
    },
    /// The compressed data is damaged.
    #[error("{file} is damaged: {reason} in its {compression} data; fetch or write it again")]
    Corrupt {
        /// The file.
        file: String,
        /// The compression.
        compression: String,
        /// The decoder's message.
        reason: String,
    },
    /// A line beyond [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES).
    #[error(
        "{file}, line {line}: the line is longer than {} MiB; check that the file holds one transaction or row a line",
        limit >> 20
    )]
    LineTooLong {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The largest number of bytes.
        limit: usize,
    },
    /// Binary data, or text in a wider encoding.
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
        "{file}, line {line}: the text is not UTF-8; give `{}` if it is Latin-1 (ISO 8859-1), or convert the file, for instance with `iconv -t UTF-8`",
        ENCODING.to("latin-1")
    )]
    InvalidUtf8 {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Not Latin-1.
    #[error(
        "{file}, line {line}: the text has characters that Latin-1 does not have; convert the file, for instance with `iconv -f WINDOWS-1252 -t UTF-8`"
    )]
    NotLatin1 {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// UTF-8 byte order mark although Latin-1 was given.
    #[error("{file} begins with the byte order mark of UTF-8; give `{}`, or none", ENCODING.to("utf-8"))]
    Utf8Mark {
        /// The file.
        file: String,
    },
    /// UTF-16.
    #[error("{file} is UTF-16; convert it, for instance with `iconv -f UTF-16 -t UTF-8`")]
    Utf16 {
        /// The file.
        file: String,
    },
    /// UTF-32.
    #[error("{file} is UTF-32; convert it, for instance with `iconv -f UTF-32 -t UTF-8`")]
    Utf32 {
        /// The file.
        file: String,
    },
    /// Invalid item number in FIMI text.
    #[error("{file}, line {line}: {token} is {problem}")]
    InvalidItem {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The token, quoted.
        token: Excerpt,
        /// The problem with it.
        problem: ItemProblem,
    },
    /// Several possible readings, or none without further options.
    #[error("{file}{}: {what}{}", place(*.line), sentence(.remedies))]
    Doubtful {
        /// The file.
        file: String,
        /// The line, if the doubt is about one.
        line: Option<Position>,
        /// The ambiguity.
        what: String,
        /// The options that settle it; if empty, `what` includes the remedy.
        remedies: Vec<Remedy>,
    },
    /// A file that differs in form from the first of its dataset.
    #[error(
        "{error} (the dataset's first file was read as {format}; for another form give `{FORMAT}`)"
    )]
    Remembered {
        /// The error.
        #[source]
        error: Box<ReadError>,
        /// The form of the first file.
        format: String,
    },
    /// Text file of another program.
    #[error("{file} is {kind}, which is not read; {remedy}")]
    Foreign {
        /// The file.
        file: String,
        /// The kind of file.
        kind: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// Quoted cell that is not closed.
    #[error("{file}, line {line}: a quoted cell is not closed; close the quote")]
    UnclosedQuote {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Carriage return within a line.
    #[error(
        "{file}, line {line}: there is a carriage return within the line; end lines with a line feed, for instance with `tr '\\r' '\\n'`"
    )]
    CarriageReturn {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Text after a closing quote.
    #[error(
        "{file}, line {line}: a quote ends within a cell; double the quotes within quoted cells, and close each quote"
    )]
    AfterQuote {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Column named by an option that does not exist.
    #[error(
        "{file}, {line}: {} columns are called {column}, named by `{setting}`; the columns are {header}",
        if *.several { "several" } else { "no" }
    )]
    NoColumn {
        /// The file.
        file: String,
        /// The line of the header.
        line: Position,
        /// The name given, quoted.
        column: Excerpt,
        /// The option that named it.
        setting: Setting,
        /// `true` if several columns have the name, `false` if none has.
        several: bool,
        /// All column names.
        header: Excerpt,
    },
    /// Two rows of one transaction in a table with one row per transaction.
    #[error(
        "{file}, {line}: the transaction {transaction} has two rows; give `{DROP_COLUMNS}` instead of `{TRANSACTION_COLUMN}` if each row is a transaction"
    )]
    RepeatedTransaction {
        /// The file.
        file: String,
        /// The line.
        line: Position,
        /// The transaction, quoted.
        transaction: Excerpt,
    },
    /// A row without its transaction.
    #[error("{file}, {line}: the row names no transaction; fill in the transaction column")]
    MissingTransaction {
        /// The file.
        file: String,
        /// The line.
        line: Position,
    },
    /// Name in a taxonomy with an invisible character.
    #[error(
        "{file}, {line}: {name} has {character} in it, which does not show; take it out of the file"
    )]
    Invisible {
        /// The file.
        file: String,
        /// The line.
        line: Position,
        /// The name, quoted.
        name: Excerpt,
        /// The character's number and kind.
        character: String,
    },
    /// Header repeated below it.
    #[error(
        "{file}, {line}: this is the header again; take it out, and check that one file was not put behind another"
    )]
    RepeatedHeader {
        /// The file.
        file: String,
        /// The line.
        line: Position,
    },
    /// Row of a table with more text or cells than allowed.
    #[error(
        "{file} has a row with more than {} MiB of text or {cell_limit} cells; check that it holds one transaction or item a row",
        text_limit >> 20
    )]
    RowTooLong {
        /// The file.
        file: String,
        /// The largest number of bytes of text.
        text_limit: usize,
        /// The largest number of cells.
        cell_limit: usize,
    },
    /// Record with more cells than allowed.
    #[error(
        "{file}, line {line}: the line has more than {limit} cells; check that the file holds one transaction or row a line"
    )]
    TooManyCells {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// The largest number of cells.
        limit: usize,
    },
    /// Row with more or fewer cells than the header.
    #[error(
        "{file}, {line}: the row has {found} cells, but the header has {expected}; quote names that contain the separator, and give every row as many cells as the header"
    )]
    CellCount {
        /// The file.
        file: String,
        /// The line.
        line: Position,
        /// The row's number of cells.
        found: usize,
        /// The header's number of cells.
        expected: usize,
    },
    /// Items that cannot be numbered.
    #[error("{file}, {line}: {error}")]
    Items {
        /// The file.
        file: String,
        /// The line.
        line: Position,
        /// The error.
        #[source]
        error: TransactionsError,
    },
    /// More transactions than can be numbered.
    #[error("{file}, {line}: there are more than 2^32 transactions; split the file")]
    TooManyTransactions {
        /// The file.
        file: String,
        /// The line.
        line: Position,
    },
    /// Line of a taxonomy without an item.
    #[error(
        "{file}, {line}: the line begins without an item; write an item, and behind it what it belongs to"
    )]
    TaxonomyLine {
        /// The file.
        file: String,
        /// The line.
        line: Position,
    },
    /// Taxonomy that is not UTF-8, whatever the encoding of the data.
    #[error(
        "{file}, line {line}: the text is not UTF-8, as a taxonomy must be; convert the file, for instance with `iconv -f LATIN1 -t UTF-8`"
    )]
    TaxonomyEncoding {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// Taxonomy whose separator is unclear.
    #[error(
        "{file} has several characters that may separate names; write it with commas, and names that have one in double quotes"
    )]
    UnclearTaxonomy {
        /// The file.
        file: String,
    },
    /// Taxonomy in which no item has a parent.
    #[error(
        "{file} names nothing that an item belongs to; write an item on each line, and behind it what it belongs to, separated by commas"
    )]
    EmptyTaxonomy {
        /// The file.
        file: String,
    },
    /// Taxonomy with a cycle.
    #[error("{file} goes in a circle: {way}; take one of these lines out")]
    Cycle {
        /// The file.
        file: String,
        /// The cycle.
        way: Excerpt,
    },
    /// Taxonomy in which an item has more ancestors than allowed.
    #[error(
        "{file}: the item {item} belongs to more than {limit} others; check that each line has an item and what it belongs to"
    )]
    TooManyAncestors {
        /// The file.
        file: String,
        /// The item.
        item: Excerpt,
        /// The largest number of ancestors.
        limit: usize,
    },
    /// Taxonomy without an item of the data.
    #[error(
        "{file} says of no item of the data what it belongs to; write items as the data do, where one is {item} and not {named}, or leave out `{TAXONOMY}`"
    )]
    UselessTaxonomy {
        /// The file of the taxonomy.
        file: String,
        /// An item of it.
        named: Excerpt,
        /// An item of the data.
        item: Excerpt,
    },
    /// Further file of a dataset, read with another taxonomy than the first.
    #[error(
        "{file} is read with another taxonomy than the dataset's first file, so that supports of what items belong to would not add up; give the same with `{TAXONOMY}`, or encrypt all files anew"
    )]
    OtherTaxonomy {
        /// The file.
        file: String,
    },
    /// Text option for a typed table.
    #[error(
        "{file} is no text, but a table with names and types of its columns; leave out `{option}`"
    )]
    NotText {
        /// The file or table.
        file: String,
        /// The option.
        option: Choice,
    },
    /// Column of a table that is neither text nor numbers nor booleans.
    #[error("{file}: the column {column} is of type {kind}, which holds no items; give `{}` if it is not needed, or write it as text", dropping(.column))]
    ColumnType {
        /// The file or table.
        file: String,
        /// The column.
        column: String,
        /// The type.
        kind: String,
    },
    /// Table that its decoder rejects.
    #[error(
        "cannot read {file} as {container}: {reason}; write it again, packed with zstd or not at all, or check that it is whole"
    )]
    Table {
        /// The file or table.
        file: String,
        /// The apparent format.
        container: String,
        /// The decoder's message.
        reason: String,
    },
    /// Only blank lines, or a header.
    #[error("{file} has no transactions; check that it is the right file and is not empty")]
    NoTransactions {
        /// The file.
        file: String,
    },
    /// Only empty transactions.
    #[error("{file} has no items: all its transactions are empty; check that it is the right file")]
    NoItems {
        /// The file.
        file: String,
    },
}

impl ReadError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Items { error, .. } => error.class(),
            Self::Remembered { error, .. } => error.class(),
            _ => ErrorClass::Input,
        }
    }

    /// Returns true if the only error is that the file has no transactions.
    pub fn is_of_no_transactions(&self) -> bool {
        match self {
            Self::NoTransactions { .. } => true,
            Self::Remembered { error, .. } => error.is_of_no_transactions(),
            _ => false,
        }
    }
}

/// Options that settle a doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The options.
    pub settings: Choices,
    /// The condition under which they are right; may be empty.
    pub when: String,
}

impl Remedy {
    pub(super) fn new(settings: impl Into<Choices>, when: impl Into<String>) -> Self {
        let (settings, when) = (settings.into(), when.into());
        Self { settings, when }
    }
}

fn dropping(column: &str) -> Choice {
    DROP_COLUMNS.to(&[column][..])
}

fn place(line: Option<Position>) -> String {
    line.map_or_else(String::new, |line| format!(", {line}"))
}

fn sentence(remedies: &[Remedy]) -> String {
    let one = |it: &Remedy| match it.when.as_str() {
        "" => format!("`{}`", it.settings),
        when => format!("`{}` {when}", it.settings),
    };
    let all: Vec<String> = remedies.iter().map(one).collect();
    match all.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; give {only}"),
        Some((last, first)) => format!("; give {}, or {last}", first.join(", ")),
    }
}

/// Problem with a token of FIMI text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemProblem {
    /// A negative number.
    Negative,
    /// A number of 2^32 or more.
    TooLarge,
    /// A number with zeros before it.
    LeadingZero,
    /// Not an integer.
    NotANumber,
    /// An item without a name in the list above the transactions.
    WithoutName,
}

impl fmt::Display for ItemProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = FORMAT.to("csv-basket");
        let spaced = Choices::from([names.clone(), SEPARATOR.to("space")]);
        let headless = Choices::from([names.clone(), SEPARATOR.to("space"), HEADER.to(false)]);
        match self {
            ItemProblem::Negative => write!(
                f,
                "a negative number; items are numbered from 0, so number them anew or if they are names, give `{spaced}`"
            ),
            ItemProblem::TooLarge => write!(
                f,
                "larger than 4294967295, the largest item number; number the items anew or if they are names, give `{spaced}`"
            ),
            ItemProblem::LeadingZero => write!(
                f,
                "a number with zeros before it, which FIMI cannot tell from one without; give `{headless}` if it is a name"
            ),
            ItemProblem::WithoutName => write!(
                f,
                "an item without a name, although lines above the transactions name items; name it there as in @ITEM=3=milk, or take those lines out"
            ),
            ItemProblem::NotANumber => write!(
                f,
                "not an item number; write whole numbers separated by spaces, or give `{names}` for names separated by commas, `{spaced}` for names separated by spaces"
            ),
        }
    }
}

/// Text from the file in a message: quoted, escaped and, if long, truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    const MAX_CHARS: usize = 60;

    pub(super) fn new(text: impl AsRef<[u8]>) -> Self {
        // At most four bytes per character; the rest need not be decoded.
        let bytes = text.as_ref();
        let head = &bytes[..bytes.len().min(4 * Self::MAX_CHARS + 4)];
        let text = String::from_utf8_lossy(head);
        let cut = text.char_indices().nth(Self::MAX_CHARS);
        let shown = match cut {
            Some((end, _)) => format!("{:?}…", &text[..end]),
            None => format!("{text:?}"),
        };
        Excerpt(shown.into())
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
