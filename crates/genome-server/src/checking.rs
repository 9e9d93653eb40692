//! Checks and copies of whole collections and the counts of searches.
//!
//! A collection that is removed or replaced meanwhile is no damage: it is left out, or checked and copied as it was.

use crate::budget::Budgets;
use crate::collections::{Collections, DIRECTORY};
use crate::error::GenomeError;
use crate::frame::Frame;
use crate::kind::Kind;
use crate::panel::HaplotypePanel;
use crate::reference::Entries;
use oboro_format::files::{ensure_directories, io_error, sync_directory};
use oboro_format::{Damage, FormatError, Scrubbed, forget_cached};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes per copied piece.
const PIECE: usize = 1 << 20;

/// Collection whose parts are being checked.
enum Checking {
    Panel(Box<HaplotypePanel>, usize),
    Reference(Entries),
}

impl Checking {
    /// Opens a collection and checks its header and its index.
    fn open(path: &Path, kind: Kind, name: &str) -> Result<Self, GenomeError> {
        // From here on the cache holds only data read from the disk since.
        if let Ok(file) = File::open(path) {
            let bytes = file.metadata().map_or(0, |metadata| metadata.len());
            forget_cached(&file, 0, bytes);
        }
        Ok(match kind {
            Kind::Panel => Self::Panel(Box::new(HaplotypePanel::open(path, name)?), 0),
            Kind::Reference => Self::Reference(Entries::open(path, name)?),
        })
    }

    fn frame(&self) -> &Frame {
        match self {
            Self::Panel(panel, _) => panel.frame(),
            Self::Reference(entries) => entries.frame(),
        }
    }

    /// Checks the next part and returns its number of bytes; `None` after the last.
    fn next(&mut self) -> Option<Result<u64, GenomeError>> {
        match self {
            Self::Panel(panel, next) => {
                *next += 1;
                panel.check_chunk(*next - 1)
            }
            Self::Reference(entries) => entries.check_next(),
        }
    }
}

/// Checked part.
#[derive(Debug)]
pub struct CheckedPart {
    /// Number of bytes read for it.
    pub read: u64,
    /// Damage found.
    pub damage: Option<Damage>,
}

/// Check in progress of all collections of a data directory and of its counts of searches. Changes nothing.
pub struct CollectionScrub {
    collections: Collections,
    /// Counts, until they are checked.
    budgets: Option<Budgets>,
    waiting: VecDeque<(Kind, String)>,
    checking: Option<(Kind, String, Checking)>,
    total_bytes: u64,
    scrubbed: Scrubbed,
}

impl CollectionScrub {
    /// Starts to check everything below `data`, the data directory of a server.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn of_directory(data: &Path) -> Result<Self, GenomeError> {
        let collections = Collections::open(data);
        let waiting: VecDeque<_> = collections.files()?.into();
        let mut total_bytes = 0;
        for (kind, name) in &waiting {
            let metadata = fs::metadata(collections.path(*kind, name)?);
            total_bytes += metadata.map_or(0, |metadata| metadata.len());
        }
        Ok(Self {
            collections,
            budgets: Some(Budgets::open(data)),
            waiting,
            checking: None,
            total_bytes,
            scrubbed: Scrubbed::default(),
        })
    }

    /// Number of bytes to read.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Totals of the check so far.
    pub fn scrubbed(&self) -> Scrubbed {
        self.scrubbed
    }

    /// Checks the next part: header and index of a collection, sites of a panel, a sequence of a reference. `None`
    /// after the last.
    ///
    /// # Errors
    /// Errors other than damage: a file may not be opened, or too many are open.
    pub fn next_part(&mut self) -> Result<Option<CheckedPart>, GenomeError> {
        if let Some(budgets) = self.budgets.take() {
            match budgets.check() {
                Ok(None) => {}
                Ok(Some(read)) => {
                    self.scrubbed.parts += 1;
                    let damage = None;
                    return Ok(Some(CheckedPart { read, damage }));
                }
                Err(
                    error @ (GenomeError::DamagedBudgets(_)
                    | GenomeError::Files(FormatError::DanglingLink { .. })),
                ) => {
                    self.scrubbed.parts += 1;
                    let path = budgets.path();
                    return Ok(Some(self.damaged(None, &path, &error)));
                }
                Err(other) => return Err(other),
            }
        }
        if let Some((kind, name, mut checking)) = self.checking.take()
            && let Some(checked) = checking.next()
        {
            self.scrubbed.parts += 1;
            let path = self.collections.path(kind, &name)?;
            let part = self.part(&name, &path, checked)?;
            self.checking = Some((kind, name, checking));
            return Ok(Some(part));
        }
        while let Some((kind, name)) = self.waiting.pop_front() {
            let path = self.collections.path(kind, &name)?;
            let read = match Checking::open(&path, kind, &name) {
                // Removed since.
                Err(GenomeError::NoCollection { .. }) => continue,
                Err(error) => Err(error),
                Ok(checking) => {
                    let read = checking.frame().bytes_besides_blobs();
                    self.scrubbed.collections += 1;
                    self.checking = Some((kind, name.clone(), checking));
                    Ok(read)
                }
            };
            return Ok(Some(self.part(&name, &path, read)?));
        }
        Ok(None)
    }

    /// Makes the part of a collection from the result of its check: the number of bytes read, or the damage.
    fn part(
        &mut self,
        name: &str,
        path: &Path,
        checked: Result<u64, GenomeError>,
    ) -> Result<CheckedPart, GenomeError> {
        match checked {
            Ok(read) => {
                self.scrubbed.bytes += read;
                let damage = None;
                Ok(CheckedPart { read, damage })
            }
            Err(
                error @ (GenomeError::Damaged { .. }
                | GenomeError::Files(FormatError::DanglingLink { .. })),
            ) => Ok(self.damaged(Some(name), path, &error)),
            Err(other) => Err(other),
        }
    }

    fn damaged(&mut self, name: Option<&str>, path: &Path, error: &GenomeError) -> CheckedPart {
        self.scrubbed.damaged += 1;
        CheckedPart {
            read: 0,
            damage: Some(Damage {
                name: name.map(str::to_owned),
                path: Some(path.into()),
                ..Damage::of(error)
            }),
        }
    }
}

/// Totals of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopiedCollections {
    /// Number of panels and references.
    pub collections: u64,
    /// Number of their bytes.
    pub bytes: u64,
}

/// Number of bytes of all collections of a data directory.
///
/// # Errors
/// A directory cannot be read.
pub fn collection_bytes(data: &Path) -> Result<u64, GenomeError> {
    Ok(CollectionScrub::of_directory(data)?.total_bytes())
}

/// Copies the collections below the data directory `from` to `to`, a backup in the making, and checks the copies.
/// Copies the counts of searches, too, marked as of now. `progress` receives the number of bytes copied.
///
/// # Errors
/// A collection or the counts are damaged, or a disk fails.
pub fn copy_collections(
    from: &Path,
    to: &Path,
    progress: &dyn Fn(u64),
) -> Result<CopiedCollections, GenomeError> {
    let directory = to.join(DIRECTORY);
    // An interrupted attempt may have left anything.
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error("remove", &directory)(error).into());
        }
        _ => ensure_directories(&directory)?,
    }
    let (source, target) = (Collections::open(from), Collections::open(to));
    let mut copied = CopiedCollections::default();
    for (kind, name) in source.files()? {
        let path = source.path(kind, &name)?;
        let opened = match Checking::open(&path, kind, &name) {
            // Removed since.
            Err(GenomeError::NoCollection { .. }) => continue,
            opened => opened?,
        };
        let copy = target.path(kind, &name)?;
        copy_file(opened.frame().file(), &path, &copy, |bytes| {
            progress(copied.bytes + bytes);
        })?;
        copied.collections += 1;
        copied.bytes += opened.frame().bytes();
        let mut copy = Checking::open(&copy, kind, &name)?;
        while let Some(checked) = copy.next() {
            checked?;
        }
    }
    sync_directory(&directory)?;
    Budgets::open(from).copy_to(&Budgets::open(to))?;
    Ok(copied)
}

/// Copies the bytes of an open file, which has or had the name `path`, to a new one, durably; never by sharing blocks.
fn copy_file(
    mut from: &File,
    path: &Path,
    to: &Path,
    progress: impl Fn(u64),
) -> Result<(), GenomeError> {
    let create = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to);
    let mut copy = create.map_err(io_error("create", to))?;
    let mut piece = vec![0; PIECE];
    let mut done = 0;
    io::Seek::rewind(&mut from).map_err(io_error("read", path))?;
    loop {
        let read = from.read(&mut piece).map_err(io_error("read", path))?;
        if read == 0 {
            break;
        }
        let write = copy.write_all(&piece[..read]);
        write.map_err(io_error("write", to))?;
        done += read as u64;
        progress(done);
    }
    Ok(copy.sync_all().map_err(io_error("sync", to))?)
}

#[cfg(test)]
mod tests;
