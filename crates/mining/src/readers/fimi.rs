//! FIMI text: one transaction per line, item numbers separated by spaces and tabs.
//! [`Format::Fimi`](super::Format::Fimi) defines the meaning of blank lines.

use std::collections::HashMap;

use super::error::{Excerpt, ItemProblem, Position, ReadError};
use super::lines::{Line, Lines};
use super::options::ReadOptions;
use crate::transactions::Transactions;

pub(super) fn read(
    lines: &mut Lines<'_>,
    options: &ReadOptions,
) -> Result<Transactions, ReadError> {
    let file = lines.file();
    let mut builder = options.builder();
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut basket = Vec::new();
    // Blank lines become transactions once another line follows.
    let mut blank_lines = 0u64;
    while let Some(line) = lines.next()? {
        if line.is_blank() {
            blank_lines += 1;
            continue;
        }
        let items_error = |error| ReadError::Items {
            file: file.clone(),
            line: Position::Line(line.number),
            error,
        };
        for _ in 0..std::mem::take(&mut blank_lines) {
            builder.push([]).map_err(items_error)?;
        }
        for token in tokens(line.bytes) {
            let item =
                parse_item(token).map_err(|problem| token_error(&file, line, token, problem))?;
            let number = match numbers.get(&item) {
                Some(&number) => number,
                None => {
                    let number = builder.item(&item.to_string()).map_err(items_error)?;
                    numbers.insert(item, number);
                    number
                }
            };
            basket.push(number);
        }
        builder.push(basket.drain(..)).map_err(items_error)?;
    }
    Ok(builder.finish().sorted_by_name())
}

/// The tokens of a line between spaces and tabs.
pub(super) fn tokens(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|token| !token.is_empty())
}

fn parse_item(token: &[u8]) -> Result<u32, ItemProblem> {
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if token.strip_prefix(b"-").is_some_and(is_number) {
        return Err(ItemProblem::Negative);
    }
    if !is_number(token) {
        return Err(ItemProblem::NotANumber);
    }
    if token.len() > 1 && token[0] == b'0' {
        return Err(ItemProblem::LeadingZero);
    }
    token
        .iter()
        .try_fold(0u32, |value, digit| {
            value.checked_mul(10)?.checked_add(u32::from(digit - b'0'))
        })
        .ok_or(ItemProblem::TooLarge)
}

fn token_error(file: &str, line: Line<'_>, token: &[u8], problem: ItemProblem) -> ReadError {
    let file = file.to_owned();
    if std::str::from_utf8(line.bytes).is_err() {
        return ReadError::InvalidUtf8 {
            file,
            line: line.number,
        };
    }
    ReadError::InvalidItem {
        file,
        line: line.number,
        token: Excerpt::new(token),
        problem,
    }
}
