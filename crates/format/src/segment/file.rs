//! The file of a segment. Everything read of a segment goes through here.

use super::open_files::{OpenFiles, Opening};
use super::read_error::ReadError;
use crate::error::Corruption;
use crate::id::Digest;
use oboro_system::{FileId, file_id, open_direct, read_exact_at};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The position of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartExtent {
    /// Its first byte in the segment's file, a multiple of 4096.
    pub offset: u64,
    /// Its bytes with padding, a multiple of 4096.
    pub len: usize,
}

/// The file of a segment. It is open while it is read, and between reads as long as descriptors suffice; when it is opened
/// again, it has to be the same file, or one with the same header.
pub struct SegmentFile {
    path: PathBuf,
    length: u64,
    /// Which file it is, if the system says.
    file: Option<FileId>,
    /// The length and the digest of its header, once that is known.
    header: OnceLock<(u64, Digest)>,
    /// Whether it may go while it is read, so that this is no damage.
    may_go: AtomicBool,
    files: Arc<OpenFiles>,
    /// Its number there.
    number: u64,
}

impl SegmentFile {
    /// Opens the file at a path.
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

    /// Its length when it was opened.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its path, as it was when opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes the length and the digest of its header: another file with that header may take its place.
    pub(super) fn begins_with(&self, bytes: u64, header: Digest) {
        // It is noted once, when the segment is opened.
        let _ = self.header.set((bytes, header));
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// A file that cannot be read, or is gone.
    pub fn read_exact_at(&self, out: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let file = self.file()?;
        Ok(read_exact_at(&file, out, offset)?)
    }

    /// Drops a part from the system's cache.
    pub fn forget_cached(&self, place: PartExtent) {
        // As the system may decline, too.
        if let Ok(file) = self.file() {
            forget_cached(&file, place.offset, place.len as u64);
        }
    }

    /// The file itself, for one read: as long as it is kept it has a descriptor.
    ///
    /// # Errors
    /// A file that is gone, or another one by now; one that cannot be opened.
    pub fn file(&self) -> Result<Arc<File>, ReadError> {
        let key = (self.number, Opening::Cached);
        self.files.take(key, || self.open_again())
    }

    /// The same file for reading past the system's cache: streamed data are read once, and would evict what others need.
    /// Offsets, lengths and buffers must be multiples of 4096.
    ///
    /// # Errors
    /// As [`file`](Self::file), or a file system that does not support it.
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

    /// The same file opened for writing. It is not kept open.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn writable(&self) -> Result<File, ReadError> {
        self.open_by(File::options().read(true).write(true))
    }

    /// The file may be removed, or replaced, while it is read: reads then fail with [`ReadError::Removed`], which is no
    /// damage.
    pub fn let_go(&self) {
        self.may_go.store(true, Ordering::Relaxed);
    }

    /// Whether it [may be removed](Self::let_go).
    pub fn may_go(&self) -> bool {
        self.may_go.load(Ordering::Relaxed)
    }

    /// Keeps the file open before it is removed, so that those who read it can go on. Where descriptors do not suffice
    /// for that, their reads fail with [`ReadError::Removed`].
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
        // Somebody may have put a copy in its place.
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

/// Asks the system to drop bytes of a file from its cache, so that the next reader asks the disk. Systems may decline, and
/// one that does reads the same bytes sooner.
pub use oboro_system::forget_cached;
