//! FASTA: sequences for a reference, rows for a panel.
//!
//! A panel is written column by column and FASTA comes row by row. The rows therefore pass through an unnamed temporary
//! file beside the panel's.

use super::lines::Lines;
use crate::alphabet::base;
use crate::error::{GenomeError, InputError, excerpt};
use crate::loading::PartialCollection;
use crate::packing::{pack, per_word, symbol, to_bytes, to_words, words_for};
use crate::panel::PanelWriter;
use crate::sites::{Sites, is_name};
use crate::{Alphabet, MAX_BASES, MAX_HAPLOTYPES, MAX_SITES, Reference};
use oboro_format::files::io_error;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Sequence of a file.
struct Record {
    name: String,
    bases: Vec<u8>,
}

/// Reads the next sequence, of one to `limit` bases; `None` behind the last.
fn next_record(
    lines: &mut Lines,
    limit: u32,
    beyond: InputError,
) -> Result<Option<Record>, GenomeError> {
    let Some(line) = lines.next()? else {
        return Ok(None);
    };
    let Some(definition) = line.strip_prefix(b">") else {
        return Err(lines.error_here(InputError::NoName));
    };
    let word = definition.split(u8::is_ascii_whitespace).next();
    let name = match word.map(str::from_utf8) {
        Some(Ok(name)) if is_name(name) => name.to_owned(),
        _ => {
            let cause = InputError::SequenceName(excerpt(definition));
            return Err(lines.error_here(cause));
        }
    };
    let mut bases = Vec::new();
    while !matches!(lines.peek()?, [] | [b'>', ..]) {
        let Some(line) = lines.next()? else { break };
        if let Err(cause) = append(line.trim_ascii_end(), &mut bases) {
            return Err(lines.error_here(cause));
        }
        if bases.len() > limit as usize {
            return Err(lines.error_here(beyond));
        }
    }
    if bases.is_empty() {
        Err(lines.error_here(InputError::NoBases(excerpt(&name))))
    } else {
        Ok(Some(Record { name, bases }))
    }
}

fn append(line: &[u8], bases: &mut Vec<u8>) -> Result<(), InputError> {
    for (index, &letter) in line.iter().enumerate() {
        bases.push(base(letter).ok_or_else(|| InputError::Letter {
            letter: excerpt([letter]),
            column: index + 1,
        })?);
    }
    Ok(())
}

pub(super) fn read_reference(lines: &mut Lines) -> Result<Reference, GenomeError> {
    let mut reference = Reference::default();
    let mut names = HashSet::new();
    loop {
        let left = MAX_BASES - reference.bases().len() as u32;
        let Some(record) = next_record(lines, left, InputError::TooManyBases)? else {
            return Ok(reference);
        };
        if !names.insert(record.name.clone()) {
            return Err(lines.error(InputError::SequenceAgain(excerpt(&record.name))));
        }
        reference.push(record.name, record.bases);
    }
}

pub(super) fn read_panel(lines: &mut Lines, loading: PartialCollection) -> Result<(), GenomeError> {
    let mut rows: Option<Rows> = None;
    while let Some(Record { name, bases }) =
        next_record(lines, MAX_SITES, InputError::TooManySites)?
    {
        let rows = match &mut rows {
            Some(rows) => rows,
            none => none.insert(Rows::create(loading.directory(), bases.len())?),
        };
        if bases.len() != rows.columns {
            return Err(lines.error_here(InputError::Unaligned {
                name: excerpt(&name),
                found: bases.len(),
                expected: rows.columns,
            }));
        }
        if rows.count == MAX_HAPLOTYPES as usize {
            return Err(lines.error_here(InputError::TooManyHaplotypes));
        }
        rows.push(&bases)?;
    }
    match rows {
        Some(rows) => rows.write(loading),
        None => Err(lines.error(InputError::Empty)),
    }
}

/// Bits of a base in the rows: unknown ones may appear at any time.
const BITS: u32 = 4;

/// Number of symbols transposed at a time.
const BLOCK: usize = 1 << 26;

/// Rows of an alignment, in a file that is removed with this value.
struct Rows {
    file: BufWriter<File>,
    columns: usize,
    count: usize,
}

impl Rows {
    fn create(directory: &Path, columns: usize) -> Result<Self, GenomeError> {
        let file = tempfile::tempfile_in(directory)
            .map_err(io_error("create a temporary file in", directory))?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            columns,
            count: 0,
        })
    }

    fn push(&mut self, bases: &[u8]) -> Result<(), GenomeError> {
        let mut words = Vec::new();
        pack(bases, BITS, &mut words);
        self.count += 1;
        Ok(self
            .file
            .write_all(&to_bytes(&words))
            .map_err(io_error("write", Path::new(TEMPORARY)))?)
    }

    fn write(mut self, loading: PartialCollection) -> Result<(), GenomeError> {
        let flushed = self.file.flush();
        flushed.map_err(io_error("write", Path::new(TEMPORARY)))?;
        let mut panel = PanelWriter::create(loading, self.count)?;
        let width = words_for(self.columns, BITS);
        let block = (BLOCK / self.count / per_word(BITS)).clamp(1, width);
        let mut bytes = vec![0; 8 * block];
        for first in (0..width).step_by(block) {
            let bytes = &mut bytes[..8 * block.min(width - first)];
            let start = first * per_word(BITS);
            let columns = (self.columns - start).min(bytes.len() * 8 / BITS as usize);
            let mut symbols = vec![0; columns * self.count];
            for row in 0..self.count {
                let read =
                    (self.file.get_ref()).read_exact_at(bytes, 8 * (row * width + first) as u64);
                read.map_err(io_error("read", Path::new(TEMPORARY)))?;
                let words = to_words(bytes);
                for column in 0..columns {
                    symbols[column * self.count + row] = symbol(&words, BITS, column);
                }
            }
            symbols
                .chunks(self.count)
                .try_for_each(|column| panel.push(column))?;
        }
        panel.finish(Alphabet::Bases, &Sites::Columns(self.columns))
    }
}

const TEMPORARY: &str = "a temporary file";
