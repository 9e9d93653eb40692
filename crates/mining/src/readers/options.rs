//! The options that settle how a file is read, and the report of how it was.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::bins::Bin;
use super::compression::Compression;
use super::names::{self, NameRules};
use super::record::{Cells, Split};
use super::taxonomy::AppliedTaxonomy;
use crate::transactions::{Transactions, TransactionsBuilder};
use oboro_format::wording::UNICODE;

/// The form of a file of transactions.
///
/// For all formats: a byte order mark and carriage returns at line ends are removed, a line has at most
/// [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES), a repeated item counts once in its transaction. For all but FIMI: cells
/// may be quoted, blank lines are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Detected from the content; ambiguous files are refused.
    #[default]
    Auto,
    /// One transaction per line: item numbers below 2^32, separated by spaces and tabs, as in the FIMI repository. An
    /// item's name is its number in decimal; items are numbered by value. A blank line is an empty transaction, as in
    /// the FIMI repository's own reader, so that fractions of all transactions do not change; but blank lines at the
    /// end of the file are ignored, since editors add them.
    Fimi,
    /// One transaction per line: item names. Empty cells are padding; a line of empty cells only is an empty
    /// transaction.
    CsvBasket,
    /// One item of one transaction per row. Other columns are ignored. Rows of a transaction need not be adjacent;
    /// transactions keep the order of their first rows. A row without an item only says that the transaction exists.
    CsvLong,
    /// One transaction per row, one item per column: 1, true, t, yes or y if the transaction has the item, 0, false, f,
    /// no or n if not. Items keep the header's order.
    #[serde(rename = "csv-onehot")]
    CsvOneHot,
    /// The same with counts: a transaction has an item if its count is above 0.
    CsvCounts,
}

impl Format {
    /// Whether it has a column for each item.
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::CsvOneHot | Self::CsvCounts)
    }

    /// All formats by their names on a command line.
    pub const NAMES: [(&'static str, Format); 6] = [
        ("auto", Format::Auto),
        ("fimi", Format::Fimi),
        ("csv-basket", Format::CsvBasket),
        ("csv-long", Format::CsvLong),
        ("csv-onehot", Format::CsvOneHot),
        ("csv-counts", Format::CsvCounts),
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Format::NAMES.iter().find(|(_, format)| format == self);
        f.write_str(named.map_or("auto", |(name, _)| name))
    }
}

/// A text that is none of the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not {what}; give {choices}")]
pub struct UnknownOption {
    given: String,
    what: &'static str,
    choices: &'static str,
}

impl UnknownOption {
    pub(super) fn new(given: impl Into<String>, what: &'static str, choices: &'static str) -> Self {
        let given = given.into();
        Self {
            given,
            what,
            choices,
        }
    }
}

impl FromStr for Format {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Format::NAMES.iter().find(|(name, _)| *name == text);
        named.map(|&(_, format)| format).ok_or(UnknownOption {
            given: text.to_owned(),
            what: "a format",
            choices: "auto, fimi, csv-basket, csv-long, csv-onehot or csv-counts",
        })
    }
}

/// What holds the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Container {
    /// Lines of text.
    #[default]
    Text,
    /// A Parquet file.
    Parquet,
    /// A file or stream of Arrow IPC, also called Feather.
    Arrow,
    /// A table in memory.
    Memory,
}

impl Container {
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
            Self::Memory => "a table",
        })
    }
}

/// The separator of cells: an ASCII character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "char", try_from = "char")]
pub struct Separator(u8);

impl Separator {
    /// The supported ones, and their names.
    const NAMES: [(&'static str, u8); 5] = [
        ("comma", b','),
        ("semicolon", b';'),
        ("tab", b'\t'),
        ("pipe", b'|'),
        ("space", b' '),
    ];
    pub(super) const COMMA: Self = Self(b',');
    /// Those that are detected.
    pub(super) const TOLD: [Self; 4] = [Self(b','), Self(b';'), Self(b'\t'), Self(b'|')];

    pub(super) fn byte(self) -> u8 {
        self.0
    }
}

impl From<Separator> for char {
    fn from(separator: Separator) -> Self {
        separator.0.into()
    }
}

impl TryFrom<char> for Separator {
    type Error = UnknownOption;

    fn try_from(character: char) -> Result<Self, Self::Error> {
        let possible = character == '\t'
            || (character == ' ' || character.is_ascii_punctuation()) && character != '"';
        match u8::try_from(character) {
            Ok(byte) if possible => Ok(Self(byte)),
            _ => Err(UnknownOption {
                given: character.into(),
                what: "a separator",
                choices: "comma, semicolon, tab, pipe, space or another punctuation mark of ASCII",
            }),
        }
    }
}

impl FromStr for Separator {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(&(_, byte)) = Self::NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(Self(byte));
        }
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => character.try_into(),
            _ => Err(UnknownOption {
                given: text.to_owned(),
                ..Self::try_from('"').unwrap_err()
            }),
        }
    }
}

impl fmt::Display for Separator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, byte)| *byte == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", char::from(self.0)),
        }
    }
}

/// Defines an enumeration of named values.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $what:literal, $choices:literal,
     $($(#[$one_doc:meta])* $one:ident = $text:literal),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$one_doc])* #[serde(rename = $text)] $one),+
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$one => $text),+ })
            }
        }

        impl FromStr for $name {
            type Err = UnknownOption;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$one),)+
                    _ => Err(UnknownOption { given: text.to_owned(), what: $what, choices: $choices }),
                }
            }
        }
    };
}

choice!(
    /// The text encoding.
    Encoding, "an encoding that is read", "utf-8 or latin-1, or convert the file with iconv",
    /// UTF-8, with a byte order mark or without.
    Utf8 = "utf-8",
    /// ISO 8859-1.
    Latin1 = "latin-1"
);

choice!(
    /// The meaning of spaces around names.
    Spaces, "a treatment of spaces", "trim or keep",
    /// Not part of the name.
    Trim = "trim",
    /// Part of the name.
    Keep = "keep"
);

choice!(
    /// The meaning of a cell that is blank, NA, NaN, None, null or similar.
    Missing, "a meaning of cells without a value", "absent or item",
    /// The item is absent.
    Absent = "absent",
    /// An item of that name; blank cells have none.
    Item = "item"
);

choice!(
    /// The Unicode form of names.
    Unicode, "a Unicode form", "nfc, nfkc or as-is",
    /// Canonical composition (NFC). Names with invisible characters are refused.
    Nfc = "nfc",
    /// Compatibility composition (NFKC), without invisible characters.
    Nfkc = "nfkc",
    /// As in the file.
    AsIs = "as-is"
);

/// The separator of the items in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ItemSeparator {
    /// None: a cell holds one item.
    None,
    /// A character.
    Mark(Separator),
}

impl fmt::Display for ItemSeparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Mark(mark) => mark.fmt(f),
        }
    }
}

impl FromStr for ItemSeparator {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            mark => mark.parse().map(Self::Mark),
        }
    }
}

impl From<ItemSeparator> for String {
    fn from(separator: ItemSeparator) -> Self {
        separator.to_string()
    }
}

impl TryFrom<String> for ItemSeparator {
    type Error = UnknownOption;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Options for reading a file. What is not given is detected from the content, or refused as ambiguous.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// The format.
    pub format: Format,
    /// The separator of cells.
    pub separator: Option<Separator>,
    /// Whether the first line names the columns; otherwise their names are 1, 2 and so on.
    pub header: Option<bool>,
    /// The text encoding; UTF-8 by default.
    pub encoding: Option<Encoding>,
    /// The columns that together identify the transaction. In a table with a row per transaction, they are not items.
    pub transaction_columns: Vec<String>,
    /// The column with the item's name.
    pub item_column: Option<String>,
    /// Columns to leave out.
    pub drop_columns: Vec<String>,
    /// The meaning of spaces around names; if it makes no difference they are trimmed.
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
    /// The column with a unique id of each transaction. It is not an item.
    pub row_ids: Option<String>,
    /// Columns whose numbers become items by ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<Bin>,
    /// The file that says what items belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taxonomy: Option<PathBuf>,
    /// Whether a file of the same dataset was read before.
    #[serde(skip)]
    pub is_further: bool,
    /// The memory that reading and [encrypting](crate::Shuffled::within) may take together, in bytes: transactions that take more than half
    /// of it lie in a file without a name. Names and row ids stay in memory.
    #[serde(skip)]
    pub memory: Option<u64>,
}

impl ReadOptions {
    /// Options with only a format.
    pub fn of(format: Format) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    /// These options, completed by those of an earlier file.
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
            // Totals or a title of one file say nothing of the next.
            skip_first: self.skip_first,
            skip_last: self.skip_last,
            row_ids: self.row_ids.or_else(|| before.row_ids.clone()),
            bins: list(self.bins, &before.bins),
            taxonomy: self.taxonomy.or_else(|| before.taxonomy.clone()),
            is_further: self.is_further,
            memory: self.memory,
        }
    }

    /// The Unicode form of names.
    pub(super) fn unicode(&self) -> Unicode {
        self.unicode.unwrap_or(Unicode::Nfc)
    }

    /// The rules for names of items.
    pub(super) fn name_rules(&self) -> NameRules {
        NameRules {
            missing: self.missing,
            unicode: self.unicode,
        }
    }

    /// No transactions yet.
    pub(super) fn builder(&self) -> TransactionsBuilder {
        TransactionsBuilder::within(self.memory.map(|it| it / 2))
    }

    /// The columns whose cells are no items: those to be left out, those of numbers, and that of row ids unless it
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

    /// Whether an option is given that only CSV has.
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

/// Parses a list as `--drop-columns` takes it: separated by commas, quoted if necessary. Spaces around a name are left out
/// unless it is quoted.
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
        Split::Open | Split::AfterQuote | Split::TooMany => Err(UnknownOption {
            given: list.to_owned(),
            what: "a list of columns",
            choices: "their names, separated by commas, with double quotes around one that has a comma",
        }),
    }
}

/// How a file was read. Contains names of items and columns: for the owner only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HowRead {
    /// The options given and those detected: the same for the next file of the dataset.
    #[serde(flatten)]
    pub options: ReadOptions,
    /// The options given.
    pub given: ReadOptions,
    /// What holds its rows.
    #[serde(default, skip_serializing_if = "Container::is_text")]
    pub container: Container,
    /// Whether items are whole numbers there, and their names the digits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
    /// The taxonomy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taxonomy_applied: Option<AppliedTaxonomy>,
    /// How many names in other Unicode forms or with other spaces were merged with the name of the same item.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merged: usize,
    /// How many items differ from another one only in their compatibility form (NFKC) or in invisible characters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub alike: usize,
    /// Its compression.
    pub compression: Compression,
    /// Whether it began with a byte order mark.
    pub byte_order_mark: bool,
    /// The number of columns used; 0 in baskets, which have none.
    pub columns_used: usize,
    /// The columns that were not used.
    pub columns_dropped: Vec<String>,
    /// The number of transactions.
    pub transactions: usize,
    /// How many of them are empty.
    pub empty_transactions: usize,
    /// The number of items.
    pub items: usize,
    /// The item in the fewest transactions, the first of several.
    pub sparsest: ItemSupport,
    /// The item in the most transactions, the first of several.
    pub densest: ItemSupport,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// An item and the number of transactions that contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemSupport {
    /// Its name.
    pub item: String,
    /// The number of transactions.
    pub transactions: u64,
}

impl HowRead {
    /// Without row ids: their column is left out, unless it identifies the transaction.
    #[must_use]
    pub fn without_row_ids(mut self) -> Self {
        let named = self.options.transaction_columns.clone();
        for options in [&mut self.options, &mut self.given] {
            let Some(column) = options.row_ids.take() else {
                continue;
            };
            let columns = if named.contains(&column) {
                &mut options.transaction_columns
            } else {
                &mut options.drop_columns
            };
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        self
    }

    /// The report of a reading. `transactions` have at least one item.
    pub(super) fn new(
        (options, given): (ReadOptions, ReadOptions),
        (compression, byte_order_mark): (Compression, bool),
        (columns_used, columns_dropped): (usize, Vec<String>),
        transactions: &Transactions,
    ) -> Self {
        let supports = transactions.item_supports();
        let (sparsest, densest) = extremes(transactions.names(), &supports);
        let alike = names::alike(transactions.names(), options.unicode());
        Self {
            options,
            given,
            container: Container::Text,
            numbers: false,
            taxonomy_applied: None,
            merged: 0,
            alike,
            compression,
            byte_order_mark,
            columns_used,
            columns_dropped,
            transactions: transactions.len(),
            empty_transactions: transactions.iter().filter(|it| it.is_empty()).count(),
            items: transactions.item_count(),
            sparsest,
            densest,
        }
    }

    /// The same with the counts of what a dataset has after an erasure.
    #[must_use]
    pub(crate) fn recounted(self, transactions: u64, names: &[String], supports: &[u64]) -> Self {
        let (sparsest, densest) = extremes(names, supports);
        let transactions = usize::try_from(transactions).unwrap_or(usize::MAX);
        Self {
            transactions,
            empty_transactions: self.empty_transactions.min(transactions),
            sparsest,
            densest,
            ..self
        }
    }
}

/// The items in the fewest and in the most transactions, the first ones of several.
fn extremes(names: &[String], supports: &[u64]) -> (ItemSupport, ItemSupport) {
    let item = |place: usize| ItemSupport {
        item: names[place].clone(),
        transactions: supports[place],
    };
    let places = || 0..supports.len();
    (
        item(places().min_by_key(|&it| supports[it]).unwrap_or(0)),
        item(places().rev().max_by_key(|&it| supports[it]).unwrap_or(0)),
    )
}

/// The first few names for a message, quoted.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|it| format!("{it:?}"))
        .collect();
    match names.len() {
        0..=SHOWN => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), more - SHOWN),
    }
}

/// Two lines of readable text, and one each for a taxonomy and for names that are or look alike.
impl fmt::Display for HowRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        match self.container {
            Container::Text => write!(f, "{}", options.format)?,
            container => write!(f, "{container} ({})", options.format)?,
        }
        if let (Some(separator), Some(header), Some(encoding)) =
            (options.separator, options.header, options.encoding)
        {
            let header = if header { "with" } else { "without" };
            let mark = if self.byte_order_mark {
                " with a byte order mark"
            } else {
                ""
            };
            write!(
                f,
                ", separator {separator}, {header} a header, {encoding}{mark}"
            )?;
        }
        if let Some(item) = &options.item_column {
            let transaction = few(&options.transaction_columns);
            write!(f, ", transactions by {transaction}, items by {item:?}")?;
        }
        if self.columns_used > 0 {
            write!(f, ", {} columns used", self.columns_used)?;
        }
        if let Some(column) = &options.row_ids {
            write!(f, ", row ids from {column:?}")?;
        }
        for bin in &options.bins {
            write!(f, ", ranges {bin}")?;
        }
        if let Some(ItemSeparator::Mark(mark)) = options.item_separator {
            write!(f, ", items of a cell separated by {mark}")?;
        }
        if let Some(unicode) = options.unicode {
            write!(f, ", names in the form {unicode}")?;
        }
        for (skipped, rows) in [
            (options.skip_first, "lines above the data"),
            (options.skip_last, "rows below the data"),
        ] {
            if let Some(skipped @ 1..) = skipped {
                write!(f, ", {skipped} {rows} left out")?;
            }
        }
        if !self.columns_dropped.is_empty() {
            let dropped = &self.columns_dropped;
            write!(f, ", {} not used: {}", dropped.len(), few(dropped))?;
        }
        let Self {
            sparsest, densest, ..
        } = self;
        write!(
            f,
            "\n  {} transactions, {} of them empty; {} items, from {:?} in {} transactions to {:?} in {}",
            self.transactions,
            self.empty_transactions,
            self.items,
            sparsest.item,
            sparsest.transactions,
            densest.item,
            densest.transactions
        )?;
        if self.merged > 0 {
            write!(
                f,
                "\n  {} names in other Unicode forms or with other spaces are of the same items as others",
                self.merged
            )?;
        }
        if self.alike > 0 {
            write!(
                f,
                "\n  {} items differ from others only in a way that `{}` removes",
                self.alike,
                UNICODE.to("nfkc")
            )?;
        }
        if let (Some(path), Some(applied)) = (&options.taxonomy, &self.taxonomy_applied) {
            write!(
                f,
                "\n  {} of {} items belong to others by {:?}, which added {}",
                applied.items,
                self.items - applied.added,
                path.display(),
                applied.added
            )?;
        }
        Ok(())
    }
}
