//! Reading transactions from files: FIMI and four forms of CSV, plain or
//! compressed.
//!
//! A reader streams; what it keeps is the transactions. Nothing in a file makes
//! it panic or guess: input that is not plainly one thing is an error with the
//! line, the cause and the options that settle it. `docs/input.md` has the rules.

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

/// Reads the transactions in the file at `path`, and says how. Compression (gzip, zstd) is
/// told by the first bytes, whatever the file is called.
///
/// # Errors
/// The file cannot be read, is damaged, is not as the options say, or could be read in several ways.
pub fn read_path(path: &Path, options: &ReadOptions) -> Result<(Transactions, HowRead), ReadError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(input) => read(input, &file, options),
        Err(error) => Err(ReadError::Io { file, error }),
    }
}

/// The same for a file that belongs to a dataset, whose first was read as `before` says: in that
/// form, unless the options give another.
///
/// # Errors
/// As [`read_path`]; a file of another form than the first.
pub fn read_next(
    path: &Path,
    options: ReadOptions,
    before: Option<&HowRead>,
) -> Result<(Transactions, HowRead), ReadError> {
    let Some(before) = before.filter(|_| options.format == Format::Auto) else {
        return read_path(path, &options);
    };
    read_path(path, &options.or(&before.options)).map_err(|error| match error {
        error @ ReadError::Io { .. } => error,
        error => ReadError::Remembered {
            error: Box::new(error),
            format: before.options.format,
        },
    })
}

/// Reads transactions from `input`, which error messages call `file`. The input
/// need not be buffered.
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
        Format::Fimi => (fimi::read(&mut lines)?, (0, Vec::new())),
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
    let how = HowRead::new(settled.options, packed, columns, &transactions);
    Ok((transactions, how))
}

#[cfg(test)]
mod tests;
