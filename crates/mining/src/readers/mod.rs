//! Reading transactions from files: FIMI and four forms of CSV, plain or
//! compressed.
//!
//! Readers stream the file and keep only the transactions. Malformed input causes no panic, and nothing is guessed:
//! ambiguous input is an error with the line, the cause and the options that settle it. `docs/input.md` has the rules.

mod column_names;
mod compression;
mod csv;
mod detect;
mod error;
mod fimi;
mod lines;
mod options;
mod record;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use compression::Compression;
pub use error::{ItemProblem, ReadError, Remedy};
pub use lines::MAX_LINE_BYTES;
pub use options::{
    Encoding, Format, HowRead, ItemSupport, Missing, ReadOptions, Separator, Spaces, UnknownOption,
    columns_in,
};

use crate::transactions::Transactions;
use lines::Lines;
use oboro_format::wording::{FORMAT, HEADER, ITEM_COLUMN, TRANSACTION_COLUMN};

/// Reads the transactions in the file at `path`, and reports how it was read. Compression (gzip, zstd) is detected by
/// the first bytes, whatever the file's name.
///
/// # Errors
/// The file cannot be read, is damaged, contradicts the options, or is ambiguous.
pub fn read_path(path: &Path, options: &ReadOptions) -> Result<(Transactions, HowRead), ReadError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(input) => read(input, &file, options),
        Err(error) => Err(ReadError::Io { file, error }),
    }
}

/// Reads a further file of a dataset whose first file was read as `before` says. Options given for the first file, and
/// those detected in it, must apply here too, unless the options give another form.
///
/// # Errors
/// As [`read_path`]; a file that differs in form from the first.
pub fn read_next(
    path: &Path,
    options: ReadOptions,
    before: Option<&HowRead>,
) -> Result<(Transactions, HowRead), ReadError> {
    let has_form = |it: &&HowRead| [Format::Auto, it.options.format].contains(&options.format);
    let Some(before) = before.filter(has_form) else {
        return read_path(path, &options);
    };
    let is_header_said = options.header.is_some();
    let given = options.or(&before.given);
    let read = read_path(path, &given).and_then(|(transactions, how)| {
        let (here, there) = (&how.options, &before.options);
        let columns = |it: &ReadOptions| (it.transaction_columns.clone(), it.item_column.clone());
        let are_given = given.item_column.is_some() || !given.transaction_columns.is_empty();
        if here.format == there.format && (are_given || columns(here) == columns(there)) {
            return Ok((transactions, how));
        }
        let mut settings = vec![FORMAT.to(here.format.to_string())];
        if !here.transaction_columns.is_empty() {
            settings.push(TRANSACTION_COLUMN.to_each(&here.transaction_columns));
        }
        if let Some(column) = &here.item_column {
            settings.push(ITEM_COLUMN.to(column.as_str()));
        }
        Err(ReadError::Doubtful {
            file: path.display().to_string(),
            line: None,
            what: "it looks as if it has another form than the first file".to_owned(),
            remedies: vec![Remedy::new(settings, "if that is right")],
        })
    });
    read.map_err(|error| match error {
        error @ ReadError::Io { .. } => error,
        // What was said of the first file does not say that this one's only line is a header. In long form its columns do.
        ReadError::NoTransactions { file }
            if given.header == Some(true)
                && !is_header_said
                && before.options.format != Format::CsvLong =>
        {
            ReadError::Doubtful {
                file,
                line: None,
                what: "if it has a line, that may be a header or a transaction".to_owned(),
                remedies: vec![
                    Remedy::new(vec![HEADER.to(true)], "if it names the columns"),
                    Remedy::new(vec![HEADER.to(false)], "if it is a transaction"),
                ],
            }
        }
        error => ReadError::Remembered {
            error: Box::new(error),
            format: before.options.format,
        },
    })
}

/// Reads transactions from `input`, named `file` in error messages. The input need not be buffered.
///
/// # Errors
/// As [`read_path`].
pub fn read(
    input: impl Read,
    file: &str,
    options: &ReadOptions,
) -> Result<(Transactions, HowRead), ReadError> {
    let opened = compression::open(input, file)?;
    let mut lines = Lines::new(opened, file);
    let settled = detect::settle(&mut lines, options)?;
    let (transactions, columns) = match settled.options.format {
        Format::Fimi => {
            let transactions = fimi::read(&mut lines)?;
            let singles = transactions.len() > 1 && transactions.iter().all(|it| it.len() < 2);
            if settled.told_format && singles && transactions.item_count() > 0 {
                return Err(ReadError::Doubtful {
                    file: file.to_owned(),
                    line: None,
                    what: "read as fimi, it has no transaction of two items".to_owned(),
                    remedies: vec![Remedy::new(
                        FORMAT.to("fimi"),
                        "if each line is a transaction nevertheless",
                    )],
                });
            }
            (transactions, (0, Vec::new()))
        }
        _ => {
            let table = csv::read(&mut lines, &settled)?;
            (table.transactions, table.columns)
        }
    };
    let file = file.to_owned();
    if transactions.is_empty() {
        return Err(ReadError::NoTransactions { file });
    }
    if transactions.item_count() == 0 {
        return Err(ReadError::NoItems { file });
    }
    let packed = (lines.compression(), lines.has_mark());
    let how = HowRead::new(
        (settled.options, options.clone()),
        packed,
        columns,
        &transactions,
    );
    Ok((transactions, how))
}

#[cfg(test)]
mod tests;
