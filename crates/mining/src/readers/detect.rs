//! Telling the format by the first lines. The rules are those documented at
//! [`Format::Auto`](super::Format::Auto); where they do not decide, the user must.

use std::collections::HashSet;

use super::Format;
use super::csv::{Record, is_long_header, one_hot};
use super::error::ReadError;
use super::fimi::tokens;
use super::lines::{Line, Lines, sample_lines};

/// How much is looked at in search of a comma.
const SAMPLE_BYTES: usize = 1 << 16;

pub(super) fn detect(lines: &mut Lines<'_>) -> Result<Format, ReadError> {
    let file = lines.file();
    let sample = lines.sample(SAMPLE_BYTES, 2)?;
    let mut first_lines = sample_lines(&sample);
    // A file of nothing is no transactions in any format.
    let Some(first) = first_lines.next() else {
        return Ok(Format::Fimi);
    };
    if looks_like_numbers(first) {
        return Ok(Format::Fimi);
    }
    let head = &sample[..sample.len().min(SAMPLE_BYTES)];
    let separates = |byte: &u8| matches!(byte, b' ' | b'\t' | b';');
    if !sample.contains(&b',') && head.iter().any(separates) {
        return Err(ReadError::UndecidableFormat { file });
    }
    // Errors are left to the reader, which knows the line.
    let cells = |bytes| {
        let mut record = Record::default();
        let parsed = record.parse(&file, Line { number: 0, bytes });
        parsed.is_ok().then_some(record)
    };
    let Some(first) = cells(first) else {
        return Ok(Format::CsvBasket);
    };
    let header: Vec<&str> = first.iter().collect();
    if is_long_header(&header) {
        return Ok(Format::CsvLong);
    }
    let Some(second) = first_lines.next().and_then(cells) else {
        return Ok(Format::CsvBasket);
    };
    let distinct: HashSet<&&str> = header.iter().collect();
    let is_one_hot = second.len() == header.len()
        && second.iter().all(|cell| one_hot(cell).is_some())
        && second.iter().any(|cell| !cell.is_empty())
        && distinct.len() == header.len();
    Ok(if is_one_hot {
        Format::CsvOneHot
    } else {
        Format::CsvBasket
    })
}

fn looks_like_numbers(line: &[u8]) -> bool {
    let numeric = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.');
    let has_digit = |token: &[u8]| token.iter().any(u8::is_ascii_digit);
    tokens(line).all(|token| token.iter().all(numeric) && has_digit(token))
}
