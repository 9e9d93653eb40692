//! Detects compression by the first bytes, and decompresses.
//!
//! Concatenated gzip members or zstd frames are one file, as for the command-line tools. Decoder errors are
//! distinguished from disk errors.

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use serde::{Deserialize, Serialize};

use super::error::ReadError;

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Uncompressed.
    Plain,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::Plain => "plain",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        })
    }
}

/// Decompressed text of a file and its compression.
pub(super) struct DecodedInput<'a> {
    pub(super) text: Box<dyn BufRead + 'a>,
    pub(super) compression: Compression,
}

const BUFFER: usize = 1 << 16;

/// First bytes of tables, which are not supported in compressed files.
const TABLES: [&[u8]; 3] = [b"PAR1", b"ARROW1", &[0xff; 4]];

/// Magic numbers of unsupported formats that users may try.
const UNSUPPORTED: [(&[u8], &str); 6] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip (or spreadsheet)"),
    (b"FEA1", "Feather of version 1"),
    // Supported in builds with the feature "arrow", by another reader.
    (b"PAR1", "Parquet"),
    (b"ARROW1", "Arrow"),
];

/// The number of first bytes that identify a kind of file.
pub(super) const MAGIC_BYTES: usize = 8;

pub(super) fn open<'a>(
    mut input: impl Read + 'a,
    file: &str,
) -> Result<DecodedInput<'a>, ReadError> {
    let io_error = |error| ReadError::Io {
        file: file.to_owned(),
        error,
    };
    let mut start = Vec::new();
    input
        .by_ref()
        .take(MAGIC_BYTES as u64)
        .read_to_end(&mut start)
        .map_err(io_error)?;
    if let Some((_, kind)) = UNSUPPORTED
        .iter()
        .find(|(magic, _)| start.starts_with(magic))
    {
        let file = file.to_owned();
        return Err(ReadError::UnsupportedCompression { file, kind });
    }
    let compression = recognise(&start);
    let whole = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(input));
    let mut text: Box<dyn BufRead + 'a> = match compression {
        Compression::Plain => Box::new(whole),
        Compression::Gzip => Box::new(BufReader::with_capacity(
            BUFFER,
            flate2::bufread::MultiGzDecoder::new(whole),
        )),
        Compression::Zstd => Box::new(BufReader::with_capacity(
            BUFFER,
            zstd::Decoder::with_buffer(whole).map_err(io_error)?,
        )),
    };
    if compression != Compression::Plain {
        let inside = text.fill_buf();
        let inside = inside.map_err(|error| read_error(error, file, compression))?;
        if TABLES.iter().any(|it| inside.starts_with(it)) {
            let (file, kind) = (file.to_owned(), "compressed Parquet or Arrow");
            return Err(ReadError::UnsupportedCompression { file, kind });
        }
    }
    Ok(DecodedInput { text, compression })
}

fn recognise(start: &[u8]) -> Compression {
    match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        // Skippable frame, with which parallel compressors begin.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        _ => Compression::Plain,
    }
}

/// Converts an error of reading the decompressed text.
pub(super) fn read_error(error: io::Error, file: &str, compression: Compression) -> ReadError {
    let file = file.to_owned();
    // Decoders create their own errors, which have no OS error code.
    if compression == Compression::Plain || error.raw_os_error().is_some() {
        return ReadError::Io { file, error };
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Truncated {
            file,
            compression: compression.to_string(),
        },
        _ => ReadError::Corrupt {
            file,
            compression: compression.to_string(),
            reason: error.to_string(),
        },
    }
}
