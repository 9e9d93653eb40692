//! FIMI text: one transaction per line, item numbers separated by spaces and tabs.
//! [`Format::Fimi`](super::Format::Fimi) defines the meaning of blank lines. SPMF writes names of items above them:
//! `@CONVERTED_FROM_TEXT`, then `@ITEM=3=milk` for each.

use std::collections::HashMap;

use super::error::{Excerpt, ItemProblem, Position, ReadError};
use super::foreign::sequences;
use super::lines::{Line, Lines};
use super::names::{Doubt, normal, renamed};
use super::options::ReadOptions;
use crate::transactions::Transactions;

pub(super) fn read(
    lines: &mut Lines<'_>,
    options: &ReadOptions,
) -> Result<(Transactions, usize), ReadError> {
    let file = lines.file();
    let mut names: HashMap<u32, String> = HashMap::new();
    let mut builder = options.builder();
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut basket = Vec::new();
    // Blank lines count as transactions only if another line follows.
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
        if line.bytes.starts_with(b"@") && builder.is_empty() {
            if let Some((item, name)) = named_item(&file, line, options)? {
                names.insert(item, name);
            }
            continue;
        }
        for token in tokens(line.bytes) {
            let item = parse_item(token).map_err(|problem| {
                if is_of_sequence(line.bytes) {
                    sequences(&file)
                } else {
                    token_error(&file, line, token, problem)
                }
            })?;
            let number = match numbers.get(&item) {
                Some(&number) => number,
                None => {
                    if !names.is_empty() && !names.contains_key(&item) {
                        return Err(token_error(&file, line, token, ItemProblem::WithoutName));
                    }
                    let number = builder.item(&item.to_string()).map_err(items_error)?;
                    numbers.insert(item, number);
                    number
                }
            };
            basket.push(number);
        }
        builder.push(basket.drain(..)).map_err(items_error)?;
    }
    let (transactions, merged) = if names.is_empty() {
        (builder.finish(), 0)
    } else {
        let name = |number: &str| number.parse().ok().and_then(|it| names.get(&it)).cloned();
        renamed(builder.finish(), |it| name(it).unwrap_or_default()).map_err(|error| {
            let line = Position::Schema;
            ReadError::Items { file, line, error }
        })?
    };
    Ok((transactions.sorted_by_name(), merged))
}

/// Returns true if a line begins a file of numbers whose items have names.
pub(super) fn has_names(line: &[u8]) -> bool {
    line.starts_with(b"@CONVERTED_FROM_TEXT") || line.starts_with(b"@ITEM=")
}

/// Parses the number and the name of an item in a line above the transactions; `None` if the line names no item.
fn named_item(
    file: &str,
    line: Line<'_>,
    options: &ReadOptions,
) -> Result<Option<(u32, String)>, ReadError> {
    let refused = |token: &[u8], problem| token_error(file, line, token, problem);
    let Some(named) = line.bytes.strip_prefix(b"@ITEM=") else {
        let is_known = line.bytes.starts_with(b"@CONVERTED_FROM_TEXT");
        let refusal = || refused(line.bytes, ItemProblem::NotANumber);
        return is_known.then_some(None).ok_or_else(refusal);
    };
    let is_separator = |it: &u8| *it == b'=';
    let split = named.iter().position(is_separator).unwrap_or(named.len());
    let number = parse_item(&named[..split]).map_err(|problem| match &named[..split] {
        b"-1" => sequences(file),
        token => refused(token, problem),
    })?;
    let name = std::str::from_utf8(&named[named.len().min(split + 1)..])
        .map_err(|_| refused(named, ItemProblem::NotANumber))?;
    let rules = options.name_rules();
    let doubtful = |Doubt { what, remedies }| ReadError::Doubtful {
        file: file.to_owned(),
        line: Some(Position::Line(line.number)),
        what,
        remedies,
    };
    match name.trim() {
        "" => Err(refused(named, ItemProblem::WithoutName)),
        name if rules.check_item(name).map_err(doubtful)? => {
            Ok(Some((number, normal(name, options.unicode()).into_owned())))
        }
        name => Err(refused(name.as_bytes(), ItemProblem::WithoutName)),
    }
}

/// Returns true if a line is an SPMF sequence, which ends with -2.
fn is_of_sequence(line: &[u8]) -> bool {
    tokens(line).last() == Some(b"-2")
}

/// Splits a line at spaces and tabs.
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
