//! Numbered lines of bounded length, from decompressed text.
//!
//! Only this module sees a byte order mark at the start and carriage returns at line ends; it removes them.

use std::io::{BufRead, Cursor, Read};

use super::compression::{Compression, DecodedInput, read_error};
use super::error::ReadError;

/// The longest line that is read, including its end. The bound keeps a small compressed file from filling memory with
/// one endless line.
pub const MAX_LINE_BYTES: usize = 64 << 20;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reader of a text by lines.
pub(super) struct Lines<'a> {
    text: Box<dyn BufRead + 'a>,
    compression: Compression,
    file: String,
    /// The number of the last line read, from 1.
    number: u64,
    line: Vec<u8>,
    has_mark: bool,
    /// The number of lines skipped at the beginning.
    skipped: u64,
}

/// Line without its end.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) number: u64,
    pub(super) bytes: &'a [u8],
}

impl Line<'_> {
    pub(super) fn is_blank(&self) -> bool {
        is_blank(self.bytes)
    }
}

pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}

impl<'a> Lines<'a> {
    pub(super) fn new(opened: DecodedInput<'a>, file: &str) -> Self {
        Lines {
            text: opened.text,
            compression: opened.compression,
            file: file.to_owned(),
            number: 0,
            line: Vec::new(),
            has_mark: false,
            skipped: 0,
        }
    }

    /// Returns the compression of the file.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns true if the text began with a byte order mark; valid once a line was read.
    pub(super) fn has_mark(&self) -> bool {
        self.has_mark
    }

    /// Returns the name of the file for messages.
    pub(super) fn file(&self) -> String {
        self.file.clone()
    }

    /// Reads the next line; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        self.line.clear();
        let read = read_line(&mut self.text, &mut self.line)
            .map_err(|error| read_error(error, &self.file, self.compression))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.len() > MAX_LINE_BYTES {
            return Err(ReadError::LineTooLong {
                file: self.file(),
                line: self.number,
                limit: MAX_LINE_BYTES,
            });
        }
        if self.line.contains(&0) {
            return Err(ReadError::ZeroByte {
                file: self.file(),
                line: self.number,
            });
        }
        self.has_mark |= self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK);
        let bytes = without_marks(&self.line, self.number == 1);
        Ok(Some(Line {
            number: self.number,
            bytes,
        }))
    }

    /// Skips the first `count` lines.
    pub(super) fn skip(&mut self, count: u32) -> Result<(), ReadError> {
        for _ in 0..count {
            if self.next()?.is_none() {
                break;
            }
        }
        self.skipped = self.number;
        Ok(())
    }

    /// Returns the number of lines skipped at the beginning.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Reads the first `size` bytes of the text, or more if they have fewer than `lines` non-blank lines (limited by
    /// the end of the text and the longest line allowed). Also returns true if that is the whole text. The bytes will
    /// be read again. Call it only before the first line is read.
    pub(super) fn sample(
        &mut self,
        size: usize,
        lines: usize,
    ) -> Result<(Vec<u8>, bool), ReadError> {
        let limit = 2 * MAX_LINE_BYTES;
        let mut sample = Vec::new();
        let mut wanted = size;
        let mut whole;
        loop {
            let missing = (wanted - sample.len()) as u64;
            let read = (self.text.by_ref().take(missing))
                .read_to_end(&mut sample)
                .map_err(|error| read_error(error, &self.file, self.compression))?;
            let complete = sample.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
            let seen = sample_lines(&sample[..complete], self.skipped)
                .filter(|line| !line.is_blank())
                .take(lines)
                .count();
            whole = (read as u64) < missing;
            if whole || seen == lines || wanted >= limit {
                break;
            }
            wanted = (2 * wanted).min(limit);
        }
        let rest = std::mem::replace(&mut self.text, Box::new(std::io::empty()));
        self.text = Box::new(Cursor::new(sample.clone()).chain(rest));
        Ok((sample, whole))
    }
}

/// Splits a sample, which follows the `skipped` lines, into lines; the last may be cut off.
pub(super) fn sample_lines(sample: &[u8], skipped: u64) -> impl Iterator<Item = Line<'_>> {
    sample
        .split_inclusive(|&byte| byte == b'\n')
        .zip(skipped + 1..)
        .map(|(line, number)| Line {
            number,
            bytes: without_marks(line, number == 1),
        })
}

/// Appends a line with its end to `line`, stopping one byte beyond the limit.
fn read_line(text: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    text.take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', line)
}

fn without_marks(line: &[u8], is_first: bool) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) if is_first => rest,
        _ => line,
    }
}
