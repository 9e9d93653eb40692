//! Lines of a file, unpacked, with bounds on the length of a line.

use crate::error::{GenomeError, InputError, excerpt};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

const BUFFER: usize = 1 << 16;

/// Largest number of bytes of a line.
const MAX_LINE_BYTES: usize = 256 << 20;

/// End of every file that bgzip has written: an empty block.
pub(super) const BGZF_END: [u8; 28] = [
    0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0, 0x1b, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    0, 0,
];

/// Format of a file of genomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Vcf,
    Fasta,
}

/// Lines of an open file, with the number of the current one.
pub(super) struct Lines {
    text: Box<dyn BufRead>,
    file: String,
    is_packed: bool,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, GenomeError> {
        let name = path.display().to_string();
        let input_error = |cause| GenomeError::Input {
            file: name.clone(),
            line: None,
            cause,
        };
        let unreadable = |error: io::Error| input_error(InputError::Unreadable(error.to_string()));
        let mut file = BufReader::with_capacity(BUFFER, File::open(path).map_err(unreadable)?);
        let start = file.fill_buf().map_err(unreadable)?;
        let is_packed = start.starts_with(&[0x1f, 0x8b]);
        if is_bgzf(start) && !ends_with_empty_block(path).map_err(unreadable)? {
            return Err(input_error(InputError::NoEndBlock));
        }
        let text: Box<dyn BufRead> = if is_packed {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        Ok(Self {
            text,
            file: name,
            is_packed,
            line: Vec::new(),
            number: 0,
        })
    }

    /// Detects the format from the first bytes.
    pub(super) fn format(&mut self) -> Result<Format, GenomeError> {
        let start = self.peek()?;
        let cause = match start {
            [] => InputError::Empty,
            [b'>', ..] => return Ok(Format::Fasta),
            [b'#', ..] => return Ok(Format::Vcf),
            _ if start.starts_with(b"BCF") => InputError::Bcf,
            _ => InputError::NotGenomes(excerpt(&start[..start.len().min(16)])),
        };
        Err(self.error(cause))
    }

    /// Returns the next bytes without taking them; none at the end.
    pub(super) fn peek(&mut self) -> Result<&[u8], GenomeError> {
        // Not the buffer itself, which could not be returned beside the error.
        match self.text.fill_buf().map(|_| ()) {
            Ok(()) => self
                .text
                .fill_buf()
                .map_err(|_| unreachable!("it is filled")),
            Err(error) => Err(self.read_error(error)),
        }
    }

    /// Takes the next line, without its end; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, GenomeError> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.text)
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', &mut self.line);
        match read {
            Err(error) => return Err(self.read_error(error)),
            Ok(0) => return Ok(None),
            Ok(_) if self.line.len() > MAX_LINE_BYTES => {
                return Err(self.error_here(InputError::LongLine(MAX_LINE_BYTES >> 20)));
            }
            Ok(_) => {}
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Makes an error about the file.
    pub(super) fn error(&self, cause: InputError) -> GenomeError {
        GenomeError::Input {
            file: self.file.clone(),
            line: None,
            cause,
        }
    }

    /// Makes an error about the line that was taken last.
    pub(super) fn error_here(&self, cause: InputError) -> GenomeError {
        GenomeError::Input {
            file: self.file.clone(),
            line: Some(self.number),
            cause,
        }
    }

    fn read_error(&self, error: io::Error) -> GenomeError {
        // Decoders make their own errors, which carry no code of the system.
        self.error(match error.kind() {
            _ if !self.is_packed || error.raw_os_error().is_some() => {
                InputError::Unreadable(error.to_string())
            }
            io::ErrorKind::UnexpectedEof => InputError::Truncated,
            _ => InputError::Corrupt(error.to_string()),
        })
    }
}

/// Returns true if a file begins with a block of bgzip: gzip with an extra field "BC" in front.
fn is_bgzf(start: &[u8]) -> bool {
    start.get(..4) == Some(&BGZF_END[..4]) && start.get(12..14) == Some(b"BC")
}

fn ends_with_empty_block(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut end = [0; BGZF_END.len()];
    file.seek(SeekFrom::End(-(BGZF_END.len() as i64)))?;
    file.read_exact(&mut end)?;
    Ok(end == BGZF_END)
}
