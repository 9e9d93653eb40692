//! Records of CSV: lines split into cells.
//!
//! A quoted cell may span a few lines. A closing quote must be followed by a separator or the line's end, so that a
//! stray quote is found instead of swallowing the lines after it.

use super::error::ReadError;
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
        self.text.clear();
        self.ends.clear();
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

    /// The number of cells.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
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

/// Reads records.
pub(super) struct Records<'l, 'a> {
    pub(super) lines: &'l mut Lines<'a>,
    separator: u8,
    encoding: Encoding,
    text: String,
    pub(super) cells: Cells,
}

impl<'l, 'a> Records<'l, 'a> {
    pub(super) fn new(lines: &'l mut Lines<'a>, separator: Separator, encoding: Encoding) -> Self {
        Self {
            lines,
            separator: separator.byte(),
            encoding,
            text: String::new(),
            cells: Cells::default(),
        }
    }

    /// Reads the next record that is not blank into `cells`; returns the number of its first line.
    pub(super) fn next(&mut self) -> Result<Option<u64>, ReadError> {
        loop {
            match self.next_or_blank()? {
                Some(_) if is_blank(&self.text, self.separator) => {}
                record => return Ok(record),
            }
        }
    }

    /// The same, but a blank record is returned as one empty cell.
    pub(super) fn next_or_blank(&mut self) -> Result<Option<u64>, ReadError> {
        let file = self.lines.file();
        let Some(line) = self.lines.next()? else {
            return Ok(None);
        };
        let number = line.number;
        self.text.clear();
        decode(&file, line, self.encoding, &mut self.text)?;
        for _ in 0..MAX_RECORD_LINES {
            match self.cells.split(&self.text, self.separator) {
                Split::Whole => return Ok(Some(number)),
                Split::AfterQuote => return Err(ReadError::AfterQuote { file, line: number }),
                Split::TooMany => return Err(ReadError::TooManyCells { file, line: number }),
                Split::Open => {}
            }
            let Some(line) = self.lines.next()? else {
                break;
            };
            self.text.push('\n');
            decode(&file, line, self.encoding, &mut self.text)?;
            if self.text.len() > MAX_LINE_BYTES {
                break;
            }
        }
        Err(ReadError::UnclosedQuote { file, line: number })
    }
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
