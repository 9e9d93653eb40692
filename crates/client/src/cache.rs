//! Cache of sealed cells from earlier runs, in the bundle's directory.
//!
//! A file is one answer as received, after a header with its columns and segments (docs/formats.md, "Kept cells"). The
//! cells are still sealed: a file that does not open is removed and fetched again. A file is renamed into place only
//! after the whole answer was verified.

use crate::verify::cells::{CellRequest, Part};
use oboro_format::codec::{Reader, Writer};
use oboro_format::files::{io_error, names, remove_if_there};
use oboro_format::{Bundle, Corruption, DatasetId, FormatError, Manifest};
use oboro_ring::Column;
use oboro_system::{private_dir_builder, read_exact_at};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;

const MAGIC: &str = "OBOROCEL";
const VERSION: u32 = 1;
/// Bytes of the header before the column numbers.
const FIXED: usize = 8 + 4 + 16 + 4 + 4 + 4;
/// Name of the cache directory in that of a bundle.
const CELLS: &str = "cells";
const SUFFIX: &str = ".cells";
/// Prefix of the names of incomplete files.
const PARTIAL: &str = "partial-";
/// Age from which an incomplete file counts as abandoned by its process.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes the cached sealed cells of all versions of a bundle.
///
/// # Errors
/// A disk that fails.
pub fn forget_kept(bundle: &Bundle) -> Result<(), FormatError> {
    let path = bundle.directory().join(CELLS);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Cache directory of one bundle.
pub(crate) struct Cache {
    directory: PathBuf,
    /// Limit for all files together, in bytes; 0 disables the cache.
    limit: u64,
}

/// Cached answer.
pub(crate) struct CacheEntry {
    path: PathBuf,
    /// Columns and segments of the answer.
    pub(crate) has: CellRequest,
}

impl Cache {
    /// Creates the cache of the bundle in this directory, limited to `limit` bytes.
    pub(crate) fn new(bundle: &Path, limit: u64) -> Self {
        Self {
            directory: bundle.join(CELLS),
            limit,
        }
    }

    /// Returns the cached answers for this dataset, sorted by their first segment.
    pub(crate) fn held(&self, manifest: &Manifest) -> Vec<CacheEntry> {
        if self.limit == 0 {
            return Vec::new();
        }
        let mut held: Vec<CacheEntry> = self
            .files()
            .into_iter()
            .filter_map(|path| {
                let has = read_header(&path, manifest).ok()?;
                Some(CacheEntry { path, has })
            })
            .collect();
        held.sort_by(|a, b| {
            let order = |held: &CacheEntry| (held.has.first_segment, held.path.clone());
            order(a).cmp(&order(b))
        });
        held
    }

    /// Removes stale files: those of killed processes and those of other datasets.
    fn sweep(&self, dataset: DatasetId) {
        for name in names(&self.directory).unwrap_or_default() {
            let path = self.directory.join(&name);
            let written = fs::metadata(&path).and_then(|found| found.modified());
            let age = written.ok().and_then(|written| written.elapsed().ok());
            let is_abandoned = name.starts_with(PARTIAL) && age.is_some_and(|age| age > ABANDONED);
            let is_foreign = name.ends_with(SUFFIX) && dataset_of(&path).ok() != Some(dataset);
            if is_abandoned || is_foreign {
                let _ = remove_if_there(&path);
            }
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let names = names(&self.directory).unwrap_or_default();
        let names = names.into_iter().filter(|name| name.ends_with(SUFFIX));
        names.map(|name| self.directory.join(name)).collect()
    }

    /// Starts to cache an answer; `None` if it would exceed the limit, towards which answers in flight count.
    pub(crate) fn begin(
        &self,
        manifest: &Manifest,
        wanted: &CellRequest,
        others: &[CacheWriter],
    ) -> Option<CacheWriter> {
        let header = encode_header(manifest.dataset, wanted);
        self.sweep(manifest.dataset);
        let here: u64 = self.files().iter().map(|path| length(path)).sum();
        let here = (others.iter()).fold(here, |sum, it| sum.saturating_add(it.bytes));
        let bytes = header.len() as u64 + wanted.bytes(manifest);
        if here.saturating_add(bytes) > self.limit {
            return None;
        }
        let begin = || -> io::Result<NamedTempFile> {
            private_dir_builder()
                .recursive(true)
                .create(&self.directory)?;
            let mut file = tempfile::Builder::new()
                .prefix(PARTIAL)
                .tempfile_in(&self.directory)?;
            file.write_all(&header)?;
            Ok(file)
        };
        let file = begin().ok();
        Some(CacheWriter { file, bytes })
    }
}

impl CacheEntry {
    /// Reads the parts, each with its sealed bytes, in file order.
    ///
    /// # Errors
    /// A file that is shorter than its header implies, or cannot be read.
    pub(crate) fn read(
        &self,
        manifest: &Manifest,
        wanted: impl Fn(Part) -> bool,
        mut take: impl FnMut(Part, Vec<u8>),
    ) -> io::Result<()> {
        let file = open_file(&self.path)?;
        let mut offset = (FIXED + 4 * self.has.columns.len()) as u64;
        for (part, bytes) in self.has.parts(manifest) {
            if wanted(part) {
                let mut sealed = vec![0; bytes];
                read_exact_at(&file, &mut sealed, offset)?;
                take(part, sealed);
            }
            offset += bytes as u64;
        }
        Ok(())
    }

    /// Removes a file whose content proved wrong. Best effort: if it stays, the next run detects it again.
    pub(crate) fn remove(&self) {
        let _ = remove_if_there(&self.path);
    }
}

/// Answer being written to a file. After a failed write it is not cached.
pub(crate) struct CacheWriter {
    file: Option<NamedTempFile>,
    /// Size of the complete file in bytes.
    bytes: u64,
}

impl CacheWriter {
    /// Appends bytes of the answer.
    pub(crate) fn write(&mut self, data: &[u8]) {
        self.file = self
            .file
            .take()
            .and_then(|mut file| file.write_all(data).is_ok().then_some(file));
    }

    /// Renames the file into place. Must be called only after the answer was verified.
    pub(crate) fn keep(mut self) {
        let Some(file) = self.file.take() else {
            return;
        };
        let name = file.path().file_name().and_then(|name| name.to_str());
        let name = name
            .and_then(|name| name.strip_prefix(PARTIAL))
            .unwrap_or("kept");
        let name = file.path().with_file_name(format!("{name}{SUFFIX}"));
        // Sync first: a final name must never refer to an incomplete file. On failure nothing is lost.
        if file.as_file().sync_all().is_ok() {
            let _ = file.persist(name);
        }
    }
}

impl Drop for CacheWriter {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let directory = file.path().parent().map(Path::to_path_buf);
            drop(file);
            // Succeeds only if the directory is empty.
            let _ = directory.map(fs::remove_dir);
        }
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

fn encode_header(dataset: DatasetId, wanted: &CellRequest) -> Vec<u8> {
    let mut header = Writer::with_preamble(MAGIC, VERSION);
    header
        .put(&dataset.0)
        .u32(wanted.first_segment)
        .u32(wanted.end_segment)
        .u32(wanted.columns.len() as u32);
    for &column in &wanted.columns {
        header.u32(column.0);
    }
    header.into_bytes()
}

/// Opens a regular file only: opening a pipe would block.
fn open_file(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::other("it is no file"))
    }
}

/// Reads the dataset id in the header of the file at `path`.
fn dataset_of(path: &Path) -> io::Result<DatasetId> {
    let mut start = [0; 8 + 4 + 16];
    open_file(path)?.read_exact(&mut start)?;
    let dataset = start
        .last_chunk()
        .expect("the last field has sixteen bytes");
    Ok(DatasetId(*dataset))
}

/// Reads the header of the file at `path`, if it is valid and the file has the length that follows from it.
fn read_header(path: &Path, manifest: &Manifest) -> io::Result<CellRequest> {
    let file = open_file(path)?;
    // Bounds the read: a header with more columns than fit is refused.
    let most = FIXED as u64 + 4 * u64::from(manifest.sealed_columns());
    let mut header = Vec::new();
    file.take(most).read_to_end(&mut header)?;
    let refused = |corruption: Corruption| io::Error::other(corruption.to_string());
    let (wanted, expected) = decode_header(&header, manifest).map_err(refused)?;
    let found = length(path);
    if found == expected {
        Ok(wanted)
    } else {
        Err(refused(Corruption::Length { expected, found }))
    }
}

/// Decodes the header of a cache file: its columns, its segments, and the required length of the file.
///
/// # Errors
/// Another dataset's id, or numbers out of range for its manifest.
pub fn decode_kept(
    header: &[u8],
    manifest: &Manifest,
) -> Result<(Vec<Column>, Range<u32>, u64), Corruption> {
    let (wanted, length) = decode_header(header, manifest)?;
    let segments = wanted.first_segment..wanted.end_segment;
    Ok((wanted.columns, segments, length))
}

fn decode_header(header: &[u8], manifest: &Manifest) -> Result<(CellRequest, u64), Corruption> {
    let mut reader = Reader::new(header);
    reader.preamble(MAGIC, VERSION)?;
    if reader.array()? != manifest.dataset.0 {
        return Err(Corruption::Unexpected);
    }
    let (first_segment, end_segment) = (reader.u32()?, reader.u32()?);
    let count = reader.u32()?;
    let invalid = |what: &str| Err(Corruption::Invalid(what.into()));
    if first_segment >= end_segment || end_segment as usize > manifest.segments.len() {
        return invalid("it has segments that the dataset does not have");
    }
    if count > manifest.sealed_columns() {
        return invalid("it has more columns than the dataset");
    }
    let column = |_| reader.u32().map(Column);
    let columns: Vec<Column> = (0..count).map(column).collect::<Result<_, _>>()?;
    if !columns.is_sorted_by(|a, b| a < b)
        || columns
            .last()
            .is_some_and(|it| it.0 >= manifest.sealed_columns())
    {
        return invalid("it has columns that the dataset does not have");
    }
    let wanted = CellRequest {
        columns,
        first_segment,
        end_segment,
    };
    let length = (FIXED + 4 * count as usize) as u64 + wanted.bytes(manifest);
    Ok((wanted, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/formats.md, "Kept cells".
    #[test]
    fn the_format_is_the_golden_one() {
        let dataset = DatasetId([0x11; 16]);
        let wanted = CellRequest {
            columns: vec![Column(3), Column(0x0102)],
            first_segment: 1,
            end_segment: 5,
        };
        let golden = [
            &b"OBOROCEL\x01\0\0\0"[..],
            &[0x11; 16],
            b"\x01\0\0\0\x05\0\0\0\x02\0\0\0",
            b"\x03\0\0\0\x02\x01\0\0",
        ]
        .concat();
        assert_eq!(encode_header(dataset, &wanted), golden);
        assert_eq!(golden.len(), FIXED + 2 * 4);
    }
}
