//! Values of the options that settle how a file is read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Form of a file of transactions.
///
/// All formats: a byte order mark and carriage returns at line ends are removed, a line has at most
/// [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES), a repeated item counts once in its transaction. All but FIMI: cells may
/// be quoted, blank lines are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Detected from the content; ambiguous files are rejected.
    #[default]
    Auto,
    /// One transaction per line: item numbers below 2^32, separated by spaces and tabs, as in the FIMI repository. An
    /// item's name is its number in decimal; items are numbered by value. A blank line is an empty transaction, as in
    /// the FIMI repository's own reader, and counts in fractions of all transactions. Blank lines at the end of the
    /// file are ignored, since editors add them.
    Fimi,
    /// One transaction per line: item names. Empty cells are padding; a line of empty cells only is an empty
    /// transaction.
    CsvBasket,
    /// One item of one transaction per row. Other columns are ignored. Rows of a transaction need not be adjacent;
    /// transactions keep the order of their first rows. A row without an item only adds the transaction.
    CsvLong,
    /// One transaction per row, one item per column: 1, true, t, yes or y if the transaction has the item, 0, false, f,
    /// no or n if not. Items keep the header's order.
    #[serde(rename = "csv-onehot")]
    CsvOneHot,
    /// One transaction per row, one count per column: the transaction has the items with a count above 0.
    CsvCounts,
}

impl Format {
    /// Returns true if the form has a column for each item.
    pub fn is_table(self) -> bool {
        matches!(self, Self::CsvOneHot | Self::CsvCounts)
    }

    /// The names of all formats on a command line.
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

/// Text that is none of the allowed values.
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

/// Container of the rows.
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
    pub(super) fn is_text(&self) -> bool {
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

/// Separator of cells: an ASCII character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "char", try_from = "char")]
pub struct Separator(u8);

impl Separator {
    /// The supported separators by name.
    const NAMES: [(&'static str, u8); 5] = [
        ("comma", b','),
        ("semicolon", b';'),
        ("tab", b'\t'),
        ("pipe", b'|'),
        ("space", b' '),
    ];
    pub(super) const COMMA: Self = Self(b',');
    /// The separators that are detected.
    pub(super) const CANDIDATES: [Self; 4] = [Self(b','), Self(b';'), Self(b'\t'), Self(b'|')];

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
    /// Text encoding.
    Encoding, "an encoding that is read", "utf-8 or latin-1, or convert the file with iconv",
    /// UTF-8, with a byte order mark or without.
    Utf8 = "utf-8",
    /// ISO 8859-1.
    Latin1 = "latin-1"
);

choice!(
    /// Meaning of spaces around names.
    Spaces, "a treatment of spaces", "trim or keep",
    /// Not part of the name.
    Trim = "trim",
    /// Part of the name.
    Keep = "keep"
);

choice!(
    /// Meaning of a cell that is blank, NA, NaN, None, null or similar.
    Missing, "a meaning of cells without a value", "absent or item",
    /// The item is absent.
    Absent = "absent",
    /// An item of that name; blank cells have none.
    Item = "item"
);

choice!(
    /// Unicode form of names.
    Unicode, "a Unicode form", "nfc, nfkc or as-is",
    /// Canonical composition (NFC). Names with invisible characters are rejected.
    Nfc = "nfc",
    /// Compatibility composition (NFKC), without invisible characters.
    Nfkc = "nfkc",
    /// As in the file.
    AsIs = "as-is"
);

/// Separator of the items in one cell.
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
