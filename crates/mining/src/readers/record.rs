//! Records: lines of CSV split into cells, or the rows of a table that was stored as one.
//!
//! A quoted cell may span a few lines. A closing quote must be followed by a separator or the line's end, so that a
//! stray quote is found instead of swallowing the lines after it.

use super::error::{Position, ReadError};
use super::lines::{Line, Lines, MAX_LINE_BYTES};
use super::options::{Encoding, Separator};

/// The most lines of a record.
const MAX_RECORD_LINES: usize = 100;

/// The most cells of a record: a small compressed file may have a line consisting of separators only.
pub(super) const MAX_CELLS: usize = 1 << 22;

/// The cells of one record, unquoted; reused without allocating.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    text: String,
    /// The end of each cell in `text`, and whether it was quoted.
    ends: Vec<(usize, bool)>,
}

/// The result of splitting a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Split {
    Whole,
    /// A quoted cell is not closed.
    Open,
    /// There is text between a closing quote and the end of its cell.
    AfterQuote,
    /// There are more than [`MAX_CELLS`].
    TooMany,
}

impl Cells {
    /// Sets the cells to those of a record without its line end.
    pub(super) fn split(&mut self, record: &str, separator: u8) -> Split {
        self.clear();
        let mut rest = record;
        loop {
            let quoted = rest.starts_with('"');
            if quoted {
                rest = &rest[1..];
                loop {
                    let Some((inside, behind)) = rest.split_once('"') else {
                        return Split::Open;
                    };
                    self.text.push_str(inside);
                    rest = behind;
                    match behind.strip_prefix('"') {
                        Some(behind) => {
                            self.text.push('"');
                            rest = behind;
                        }
                        None => break,
                    }
                }
            } else {
                let end = rest.bytes().position(|byte| byte == separator);
                let (cell, behind) = rest.split_at(end.unwrap_or(rest.len()));
                self.text.push_str(cell);
                rest = behind;
            }
            if self.len() == MAX_CELLS {
                return Split::TooMany;
            }
            self.ends.push((self.text.len(), quoted));
            match rest.as_bytes().first() {
                None => return Split::Whole,
                Some(&byte) if byte == separator => rest = &rest[1..],
                Some(_) => return Split::AfterQuote,
            }
        }
    }

    /// Makes this a record without cells.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds a cell, which `write` appends to the text before it.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut String)) {
        write(&mut self.text);
        self.ends.push((self.text.len(), false));
    }

    /// The number of cells.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of their text.
    #[cfg(feature = "arrow")]
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// A cell as written. `place` is below [`len`](Self::len).
    pub(super) fn raw(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.text[start..self.ends[place].0]
    }

    /// Whether a cell was quoted.
    pub(super) fn is_quoted(&self, place: usize) -> bool {
        self.ends[place].1
    }

    /// A cell, trimmed.
    pub(super) fn cell(&self, place: usize) -> &str {
        self.raw(place).trim()
    }

    /// The cells, trimmed.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|place| self.cell(place))
    }
}

/// Where records come from.
pub(super) enum Source<'l, 'a> {
    /// Lines of text.
    Text {
        lines: &'l mut Lines<'a>,
        separator: u8,
        encoding: Encoding,
        /// The lines of the current record.
        text: String,
    },
    /// Rows of a table; its columns' names come first.
    Rows(&'l mut dyn Rows),
}

/// Rows of a table that was stored as one.
pub(super) trait Rows {
    /// The table's name for messages.
    fn name(&self) -> String;

    /// The names of the columns.
    fn names(&self) -> &Cells;

    /// Reads the next row into `cells`; returns its number, from 1.
    fn next(&mut self, cells: &mut Cells) -> Result<Option<u64>, ReadError>;
}

/// Reads records.
pub(super) struct Records<'l, 'a> {
    source: Source<'l, 'a>,
    /// Whether the names of a table's columns were read.
    begun: bool,
    pub(super) cells: Cells,
}

impl<'l, 'a> Records<'l, 'a> {
    pub(super) fn new(lines: &'l mut Lines<'a>, separator: Separator, encoding: Encoding) -> Self {
        Self::of(Source::Text {
            lines,
            separator: separator.byte(),
            encoding,
            text: String::new(),
        })
    }

    pub(super) fn of_rows(rows: &'l mut dyn Rows) -> Self {
        Self::of(Source::Rows(rows))
    }

    fn of(source: Source<'l, 'a>) -> Self {
        Self {
            source,
            begun: false,
            cells: Cells::default(),
        }
    }

    /// The name of the file or table for messages.
    pub(super) fn file(&self) -> String {
        match &self.source {
            Source::Text { lines, .. } => lines.file(),
            Source::Rows(rows) => rows.name(),
        }
    }

    /// Whether columns have names without an option that says so.
    pub(super) fn have_names(&self) -> bool {
        matches!(self.source, Source::Rows(_))
    }

    /// Reads the next record that is not a blank line into `cells`; returns the place of its beginning.
    pub(super) fn next(&mut self) -> Result<Option<Position>, ReadError> {
        loop {
            let record = self.next_or_blank()?;
            match &self.source {
                Source::Text {
                    separator, text, ..
                } if record.is_some() && is_blank(text, *separator) => {}
                _ => return Ok(record),
            }
        }
    }

    /// The same, but a blank line is returned as one empty cell.
    pub(super) fn next_or_blank(&mut self) -> Result<Option<Position>, ReadError> {
        match &mut self.source {
            Source::Text {
                lines,
                separator,
                encoding,
                text,
            } => {
                let number = next_of_text(lines, *separator, *encoding, text, &mut self.cells)?;
                Ok(number.map(Position::Line))
            }
            Source::Rows(rows) if !std::mem::replace(&mut self.begun, true) => {
                self.cells.clone_from(rows.names());
                Ok(Some(Position::Schema))
            }
            Source::Rows(rows) => Ok(rows.next(&mut self.cells)?.map(Position::Row)),
        }
    }
}

/// Reads the next record of a text, and returns the number of its first line.
fn next_of_text(
    lines: &mut Lines<'_>,
    separator: u8,
    encoding: Encoding,
    text: &mut String,
    cells: &mut Cells,
) -> Result<Option<u64>, ReadError> {
    let file = lines.file();
    let Some(line) = lines.next()? else {
        return Ok(None);
    };
    let number = line.number;
    text.clear();
    decode(&file, line, encoding, text)?;
    for _ in 0..MAX_RECORD_LINES {
        match cells.split(text, separator) {
            Split::Whole => return Ok(Some(number)),
            Split::AfterQuote => return Err(ReadError::AfterQuote { file, line: number }),
            Split::TooMany => return Err(ReadError::TooManyCells { file, line: number }),
            Split::Open => {}
        }
        let Some(line) = lines.next()? else {
            break;
        };
        text.push('\n');
        decode(&file, line, encoding, text)?;
        if text.len() > MAX_LINE_BYTES {
            break;
        }
    }
    Err(ReadError::UnclosedQuote { file, line: number })
}

/// Whether a line consists of spaces that are not separators.
pub(super) fn is_blank(line: &str, separator: u8) -> bool {
    let blank = |byte: u8| byte == b' ' || byte == b'\t' && separator != b'\t';
    line.bytes().all(blank)
}

/// Appends the text of a line.
pub(super) fn decode(
    file: &str,
    line: Line<'_>,
    encoding: Encoding,
    text: &mut String,
) -> Result<(), ReadError> {
    let (file, number) = (|| file.to_owned(), line.number);
    match encoding {
        Encoding::Utf8 => {
            let line = std::str::from_utf8(line.bytes);
            text.push_str(line.map_err(|_| ReadError::InvalidUtf8 {
                file: file(),
                line: number,
            })?);
        }
        // In ISO 8859-1 these are control characters, in Windows-1252 letters and quotes.
        Encoding::Latin1 if line.bytes.iter().any(|byte| (0x80..0xa0).contains(byte)) => {
            return Err(ReadError::NotLatin1 {
                file: file(),
                line: number,
            });
        }
        Encoding::Latin1 => text.extend(line.bytes.iter().map(|&byte| char::from(byte))),
    }
    if text.contains('\r') {
        return Err(ReadError::CarriageReturn {
            file: file(),
            line: number,
        });
    }
    Ok(())
}
