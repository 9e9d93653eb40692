//! Records: lines of CSV split into cells, or the rows of a typed table.
//!
//! A quoted cell may span a few lines. A closing quote must be followed by a separator or the line's end; otherwise a
//! stray quote would swallow the lines after it.

use std::collections::VecDeque;

use super::error::{Position, ReadError};
use super::lines::{Line, Lines, MAX_LINE_BYTES};
use super::values::{Encoding, Separator};

/// The largest number of lines of a record.
const MAX_RECORD_LINES: usize = 100;

/// The largest number of cells of a record: a small compressed file may have a line of separators only.
pub(super) const MAX_CELLS: usize = 1 << 22;

/// Cells of one record, unquoted; reused without allocating.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    text: String,
    /// The end of each cell in `text`, and `true` if it was quoted.
    ends: Vec<(usize, bool)>,
}

/// Result of splitting a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Split {
    Whole,
    /// An unclosed quoted cell.
    Open,
    /// Text between a closing quote and the end of its cell.
    AfterQuote,
    /// More than [`MAX_CELLS`].
    TooMany,
}

impl Cells {
    /// Splits a record without its line end into the cells. Spaces outside the quotes of a cell are skipped.
    pub(super) fn split(&mut self, record: &str, separator: u8) -> Split {
        self.clear();
        let mut rest = record;
        loop {
            let opened = if separator == b' ' {
                rest
            } else {
                rest.trim_start_matches(' ')
            };
            let quoted = opened.starts_with('"');
            if quoted {
                rest = opened;
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
                if separator != b' ' {
                    rest = rest.trim_start_matches(' ');
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

    /// Removes all cells.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds a cell; `write` appends its text.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut String)) {
        write(&mut self.text);
        self.ends.push((self.text.len(), false));
    }

    /// Returns the number of cells.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of bytes of their text.
    #[cfg(feature = "arrow")]
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns a cell as written. `place` is below [`len`](Self::len).
    pub(super) fn raw(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.text[start..self.ends[place].0]
    }

    /// Returns true if a cell was quoted.
    pub(super) fn is_quoted(&self, place: usize) -> bool {
        self.ends[place].1
    }

    /// Returns a cell, trimmed.
    pub(super) fn cell(&self, place: usize) -> &str {
        self.raw(place).trim()
    }

    /// Iterates over the cells, trimmed.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|place| self.cell(place))
    }
}

/// Source of records.
pub(super) enum Source<'l, 'a> {
    /// Lines of text.
    Text {
        lines: &'l mut Lines<'a>,
        separator: u8,
        encoding: Encoding,
        /// The lines of the current record.
        text: String,
    },
    /// Rows of a table, after the names of its columns.
    Rows(&'l mut dyn Rows),
}

/// Rows of a typed table.
pub(super) trait Rows {
    /// Returns the table's name for messages.
    fn name(&self) -> String;

    /// Returns the names of the columns.
    fn names(&self) -> &Cells;

    /// Reads the next row into `cells`; returns its number, from 1.
    fn next(&mut self, cells: &mut Cells) -> Result<Option<u64>, ReadError>;
}

/// Reader of records.
pub(super) struct Records<'l, 'a> {
    source: Source<'l, 'a>,
    /// `true` once the names of a table's columns were read.
    begun: bool,
    /// The number of records to skip at the end.
    skip_last: usize,
    /// Records read ahead, which may be among those to skip.
    ahead: VecDeque<(Position, Cells)>,
    blank: BlankLines,
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
            skip_last: 0,
            ahead: VecDeque::new(),
            blank: BlankLines::default(),
            cells: Cells::default(),
        }
    }

    /// Skips `skip_last` records at the end.
    pub(super) fn without_last(self, skip_last: u32) -> Self {
        Self {
            skip_last: skip_last as usize,
            ..self
        }
    }

    /// Returns true for blank lines after the first record read, and true for blank lines before the last. Both are
    /// false if other records have blank lines between them.
    pub(super) fn set_apart(&self) -> (bool, bool) {
        let blank = &self.blank;
        if blank.records < 4 || blank.all > blank.behind_first + blank.before_last {
            return (false, false);
        }
        (blank.behind_first > 0, blank.before_last > 0)
    }

    /// Returns the name of the file or table for messages.
    pub(super) fn file(&self) -> String {
        match &self.source {
            Source::Text { lines, .. } => lines.file(),
            Source::Rows(rows) => rows.name(),
        }
    }

    /// Returns true if columns have names without an option.
    pub(super) fn have_names(&self) -> bool {
        matches!(self.source, Source::Rows(_))
    }

    /// Reads the next record that is not a blank line into `cells`; returns its position.
    pub(super) fn next(&mut self) -> Result<Option<Position>, ReadError> {
        self.next_kept(true)
    }

    /// As [`next`](Self::next), but returns a blank line as one empty cell.
    pub(super) fn next_or_blank(&mut self) -> Result<Option<Position>, ReadError> {
        self.next_kept(false)
    }

    /// Reads the next record that is not skipped at the end.
    fn next_kept(&mut self, skip_blank: bool) -> Result<Option<Position>, ReadError> {
        if self.skip_last == 0 {
            return self.read(skip_blank);
        }
        while self.ahead.len() <= self.skip_last {
            let Some(place) = self.read(skip_blank)? else {
                return Ok(None);
            };
            self.ahead
                .push_back((place, std::mem::take(&mut self.cells)));
        }
        let next = self.ahead.pop_front();
        Ok(next.map(|(place, cells)| {
            self.cells = cells;
            place
        }))
    }

    /// Reads a record into the cells, skipping blank lines if `skip_blank`. At the end the cells stay unchanged.
    fn read(&mut self, skip_blank: bool) -> Result<Option<Position>, ReadError> {
        match &mut self.source {
            Source::Text {
                lines,
                separator,
                encoding,
                text,
            } => {
                let mut blank = 0;
                let how = (*separator, *encoding);
                let number = loop {
                    match begin_of_text(lines, how.1, text)? {
                        Some(_) if skip_blank && is_blank(text, how.0) => blank += 1,
                        number => break number,
                    }
                };
                let Some(number) = number else {
                    return Ok(None);
                };
                rest_of_text(lines, how, number, text, &mut self.cells)?;
                self.blank.count(blank);
                Ok(Some(Position::Line(number)))
            }
            Source::Rows(rows) if !std::mem::replace(&mut self.begun, true) => {
                self.cells.clone_from(rows.names());
                Ok(Some(Position::Schema))
            }
            Source::Rows(rows) => Ok(rows.next(&mut self.cells)?.map(Position::Row)),
        }
    }
}

/// Counts of blank lines between the records read.
#[derive(Default)]
struct BlankLines {
    records: u64,
    behind_first: u64,
    before_last: u64,
    all: u64,
}

impl BlankLines {
    /// Counts a record with `blank` blank lines before it.
    fn count(&mut self, blank: u64) {
        self.records += 1;
        match self.records {
            1 => return,
            2 => self.behind_first = blank,
            _ => {}
        }
        self.before_last = blank;
        self.all += blank;
    }
}

/// Reads the first line of a record; returns its number.
fn begin_of_text(
    lines: &mut Lines<'_>,
    encoding: Encoding,
    text: &mut String,
) -> Result<Option<u64>, ReadError> {
    let file = lines.file();
    let Some(line) = lines.next()? else {
        return Ok(None);
    };
    let number = line.number;
    text.clear();
    decode(&file, line, encoding, text)?;
    Ok(Some(number))
}

/// Splits the record whose first line is in `text`, reading its other lines.
fn rest_of_text(
    lines: &mut Lines<'_>,
    (separator, encoding): (u8, Encoding),
    number: u64,
    text: &mut String,
    cells: &mut Cells,
) -> Result<(), ReadError> {
    for _ in 0..MAX_RECORD_LINES {
        let split = cells.split(text, separator);
        if split == Split::Whole {
            return Ok(());
        }
        let file = lines.file();
        match split {
            Split::AfterQuote => return Err(ReadError::AfterQuote { file, line: number }),
            Split::TooMany => {
                return Err(ReadError::TooManyCells {
                    file,
                    line: number,
                    limit: MAX_CELLS,
                });
            }
            Split::Whole | Split::Open => {}
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
    Err(ReadError::UnclosedQuote {
        file: lines.file(),
        line: number,
    })
}

/// Returns true if a line consists of spaces that are not separators.
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
