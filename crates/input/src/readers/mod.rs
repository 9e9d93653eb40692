//! Readers of transactions from files and tables: FIMI and four forms of CSV, plain or compressed; Parquet, Arrow and
//! frames in memory in the same forms.
//!
//! Readers stream the file and keep only the transactions. Malformed input causes no panic, and nothing is guessed:
//! ambiguous input is an error with the line, the cause and the options that settle it. `docs/input.md` has the
//! rules.

#[cfg(feature = "arrow")]
mod arrow;
mod bins;
mod column_names;
mod compression;
mod csv;
mod detect;
mod error;
mod fimi;
mod footer;
mod foreign;
mod header;
mod how_read;
mod lines;
mod names;
mod one_hot;
mod options;
#[cfg_attr(not(feature = "arrow"), allow(dead_code))]
mod record;
mod taxonomy;
mod values;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

#[cfg(feature = "arrow")]
pub use arrow::read_batches;
pub use bins::Bin;
pub use column_names::are_of_long_form;
pub use compression::Compression;
pub use error::{ItemProblem, Position, ReadError, Remedy};
pub use how_read::{HowRead, ItemSupport};
pub use lines::MAX_LINE_BYTES;
pub use names::NameRules;
pub use options::{ReadOptions, columns_in};
pub use taxonomy::AppliedTaxonomy;
pub use values::{
    Container, Encoding, Format, ItemSeparator, Missing, Separator, Spaces, Unicode, UnknownOption,
};

use crate::transactions::Transactions;
use how_read::finished;
use lines::Lines;
use oboro_format::wording::{FORMAT, HEADER, ITEM_COLUMN, TRANSACTION_COLUMN};
use record::Records;

/// Returns the name of a file in messages.
fn name_of(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// The path that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// Reads the transactions in the file at `path`, or in standard input if that is `-`, and reports how it was read.
/// The first bytes determine compression (gzip, zstd) and tables (Parquet, Arrow), whatever the file's name.
///
/// # Errors
/// The file cannot be read, is damaged, contradicts the options, or is ambiguous.
pub fn read_path(path: &Path, options: &ReadOptions) -> Result<(Transactions, HowRead), ReadError> {
    let file = name_of(path);
    if path.as_os_str() == STANDARD_INPUT {
        return read(std::io::stdin().lock(), &file, options);
    }
    let opened = File::open(path).and_then(|opened| {
        let is_file = opened.metadata()?.is_file();
        Ok((opened, is_file))
    });
    match opened {
        #[cfg(feature = "arrow")]
        Ok((mut input, true)) => {
            use std::io::Seek;
            let io_error = |error| ReadError::Io {
                file: file.clone(),
                error,
            };
            let mut start = Vec::new();
            let mut head = input.by_ref().take(arrow::Magic::BYTES as u64);
            head.read_to_end(&mut start).map_err(io_error)?;
            input.rewind().map_err(io_error)?;
            match arrow::Magic::of(&start) {
                Some(magic) => arrow::read_file(magic, input, &file, options),
                None => read(input, &file, options),
            }
        }
        Ok((input, _)) => read(input, &file, options),
        Err(error) => Err(ReadError::Io { file, error }),
    }
}

/// Reads a further file of a dataset; `before` is the report of the first. Options given for the first file, or
/// detected in it, must apply here too, unless the options give another form.
///
/// # Errors
/// As [`read_path`]; a file that differs in form from the first.
pub fn read_next(
    path: &Path,
    options: ReadOptions,
    before: Option<&HowRead>,
) -> Result<(Transactions, HowRead), ReadError> {
    next_after(&name_of(path), options, before, |options| {
        read_path(path, options)
    })
}

/// Reads further data of a dataset, named `file`, with `read`.
///
/// # Errors
/// As [`read_next`].
pub fn next_after(
    file: &str,
    options: ReadOptions,
    before: Option<&HowRead>,
    read: impl FnOnce(&ReadOptions) -> Result<(Transactions, HowRead), ReadError>,
) -> Result<(Transactions, HowRead), ReadError> {
    let has_form = |it: &&HowRead| [Format::Auto, it.options.format].contains(&options.format);
    let Some(form) = before.filter(has_form) else {
        let (transactions, how) = read(&options)?;
        check_taxonomy(file, &how, before)?;
        return Ok((transactions, how));
    };
    let is_header_said = options.header.is_some();
    let before = form;
    let given = ReadOptions {
        is_further: true,
        ..options.or(&before.given)
    };
    let read = read(&given).and_then(|(transactions, how)| {
        check_taxonomy(file, &how, Some(before))?;
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
            file: file.to_owned(),
            line: None,
            what: "it looks as if it has another form than the first file".to_owned(),
            remedies: vec![Remedy::new(settings, "if that is right")],
        })
    });
    read.map_err(|error| match error {
        error @ (ReadError::Io { .. } | ReadError::OtherTaxonomy { .. }) => error,
        // An option for the first file does not imply that this file's only line is a header. In long form, its
        // columns do.
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
            format: before.options.format.to_string(),
        },
    })
}

/// Rejects a file whose taxonomy differs from that of the dataset's first file.
fn check_taxonomy(file: &str, how: &HowRead, before: Option<&HowRead>) -> Result<(), ReadError> {
    let digest = |how: &HowRead| how.taxonomy_applied.as_ref().map(|it| it.digest.clone());
    if before.is_none_or(|before| digest(before) == digest(how)) {
        return Ok(());
    }
    let file = file.to_owned();
    Err(ReadError::OtherTaxonomy { file })
}

/// Reads transactions from `input`, named `file` in error messages. The input need not be buffered.
///
/// # Errors
/// As [`read_path`].
pub fn read(
    mut input: impl Read,
    file: &str,
    options: &ReadOptions,
) -> Result<(Transactions, HowRead), ReadError> {
    let mut start = Vec::new();
    let head = input
        .by_ref()
        .take(compression::MAGIC_BYTES as u64)
        .read_to_end(&mut start);
    if let Err(error) = head {
        let file = file.to_owned();
        return Err(ReadError::Io { file, error });
    }
    #[cfg(feature = "arrow")]
    if let Some(magic) = arrow::Magic::of(&start) {
        return arrow::read_input(magic, Cursor::new(start).chain(input), file, options);
    }
    let opened = compression::open(Cursor::new(start).chain(input), file)?;
    let mut lines = Lines::new(opened, file);
    lines.skip(options.skip_first.unwrap_or(0))?;
    let settled = detect::settle(&mut lines, options)?;
    let table = match settled.options.format {
        Format::Fimi => {
            let (transactions, merged) = fimi::read(&mut lines, options)?;
            let singles = transactions.len() > 1 && transactions.iter().all(|it| it.len() < 2);
            if settled.detected_format && singles && transactions.item_count() > 0 {
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
            csv::Table {
                transactions,
                merged,
                ..csv::Table::default()
            }
        }
        _ => {
            let separator = settled.options.separator.unwrap_or(Separator::COMMA);
            let encoding = settled.options.encoding.unwrap_or(Encoding::Utf8);
            csv::read(Records::new(&mut lines, separator, encoding), &settled)?
        }
    };
    let packed = (lines.compression(), lines.has_mark());
    let options = (settled.options, options.clone());
    finished(file, table, options, packed)
}

#[cfg(test)]
mod tests;
