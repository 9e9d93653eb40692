//! File of a segment. All reads of a segment go through this module.

use super::open_files::{OpenFiles, Opening};
use super::read_error::ReadError;
use crate::error::Corruption;
use crate::id::Digest;
use oboro_system::{FileId, file_id, open_direct, read_exact_at};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Extent of a part in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartExtent {
    /// Offset of its first byte in the segment's file, a multiple of 4096.
    pub offset: u64,
    /// Length in bytes with padding, a multiple of 4096.
    pub len: usize,
}

/// File of a segment. It is open during reads, and between them as long as descriptors suffice. When reopened it must
/// be the same file, or one with the same header.
pub struct SegmentFile {
    path: PathBuf,
    length: u64,
    /// Identity of the file, if the system has one.
    file: Option<FileId>,
    /// Length and digest of the header, once known.
    header: OnceLock<(u64, Digest)>,
    /// `true` if removal during reads is permitted, and not damage.
    may_go: AtomicBool,
    files: Arc<OpenFiles>,
    /// Number of the file in `files`.
    number: u64,
}

impl SegmentFile {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::open_among(OpenFiles::of_process(), path)
    }

    pub(super) fn open_among(files: &Arc<OpenFiles>, path: &Path) -> Result<Self, ReadError> {
        let file = files.open(|| File::open(path).map_err(ReadError::of_opening))?;
        let found = file.metadata()?;
        let number = files.number();
        files.add((number, Opening::Cached), Arc::new(file));
        Ok(Self {
            path: path.into(),
            length: found.len(),
            file: file_id(&found),
            header: OnceLock::new(),
            may_go: AtomicBool::new(false),
            files: Arc::clone(files),
            number,
        })
    }

    /// Returns the length in bytes at the time of opening.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the path at the time of opening.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records the length and digest of the header: another file with that header may replace this one.
    pub(super) fn begins_with(&self, bytes: u64, header: Digest) {
        // Set once, when the segment is opened.
        let _ = self.header.set((bytes, header));
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// A file that cannot be read or was removed.
    pub fn read_exact_at(&self, out: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let file = self.file()?;
        Ok(read_exact_at(&file, out, offset)?)
    }

    /// Drops a part from the page cache.
    pub fn forget_cached(&self, place: PartExtent) {
        // Best effort: the system may decline as well.
        if let Ok(file) = self.file() {
            forget_cached(&file, place.offset, place.len as u64);
        }
    }

    /// Returns the open file for one read. Holding it keeps a descriptor in use.
    ///
    /// # Errors
    /// A file that was removed, was replaced, or cannot be opened.
    pub fn file(&self) -> Result<Arc<File>, ReadError> {
        let key = (self.number, Opening::Cached);
        self.files.take(key, || self.open_again())
    }

    /// Returns the file, opened for direct I/O: streamed data are read once and would evict other pages from the cache.
    /// Offsets, lengths and buffers must be multiples of 4096.
    ///
    /// # Errors
    /// As [`file`](Self::file), or a file system without direct I/O.
    pub fn past_the_cache(&self) -> Result<Arc<File>, ReadError> {
        let open = || {
            let cached = self.files.find((self.number, Opening::Cached));
            let cached = match cached {
                Some(file) => file,
                None => Arc::new(self.open_again()?),
            };
            open_direct(&cached).map_err(ReadError::Refused)
        };
        self.files.take((self.number, Opening::Direct), open)
    }

    /// Opens the file for writing, outside the cache of open files.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn writable(&self) -> Result<File, ReadError> {
        self.open_by(File::options().read(true).write(true))
    }

    /// Permits removal or replacement of the file during reads, which then fail with [`ReadError::Removed`]: that is
    /// not damage.
    pub fn let_go(&self) {
        self.may_go.store(true, Ordering::Relaxed);
    }

    /// Returns true if the file [may be removed](Self::let_go).
    pub fn may_go(&self) -> bool {
        self.may_go.load(Ordering::Relaxed)
    }

    /// Keeps the file open across its removal, for current readers. Without enough descriptors, their reads fail with
    /// [`ReadError::Removed`].
    pub fn outlive_its_name(&self) {
        self.let_go();
        let key = (self.number, Opening::Cached);
        self.files.hold(key, || self.open_again());
    }

    fn open_again(&self) -> Result<File, ReadError> {
        self.open_by(File::options().read(true))
    }

    fn open_by(&self, options: &OpenOptions) -> Result<File, ReadError> {
        let opened = options
            .open(&self.path)
            .map_err(ReadError::of_opening)
            .and_then(|file| self.check_is_the_same(&file).map(|()| file));
        opened.map_err(|error| match error {
            ReadError::Corruption(_) if self.may_go() => ReadError::Removed,
            error => error,
        })
    }

    fn check_is_the_same(&self, file: &File) -> Result<(), ReadError> {
        let found = file.metadata()?;
        if self.file.is_some() && file_id(&found) == self.file {
            return Ok(());
        }
        // Accept a copy in its place.
        let is_copy = self.header.get().is_some_and(|&(bytes, digest)| {
            let mut header = vec![0; bytes as usize];
            let read = read_exact_at(file, &mut header, 0);
            found.len() == self.length && read.is_ok() && Digest::of(&header) == digest
        });
        if is_copy {
            Ok(())
        } else {
            Err(Corruption::Unexpected.into())
        }
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        self.files.forget(self.number);
    }
}

/// Advises the system to drop bytes of a file from its cache. The system may decline; then the next read is served from
/// the cache.
pub use oboro_system::forget_cached;
