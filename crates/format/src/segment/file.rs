//! The file of a segment. Everything read of a segment goes through here.

use crate::error::{Corruption, FormatError};
use crate::files::io_error;
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The position of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartExtent {
    /// Its first byte in the segment's file, a multiple of 4096.
    pub offset: u64,
    /// Its bytes with padding, a multiple of 4096.
    pub len: usize,
}

/// The open file of a segment. It can still be read after its name is gone.
pub struct SegmentFile {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
}

impl SegmentFile {
    /// Opens the file at a path.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(ReadError::of_opening)?;
        Ok(Self {
            path: path.into(),
            length: file.metadata()?.len(),
            file: Arc::new(file),
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

    /// Fills `out` with the bytes from `offset` on.
    pub fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    /// Drops a part from the system's cache.
    pub fn forget_cached(&self, place: PartExtent) {
        forget_cached(&self.file, place.offset, place.len as u64);
    }

    /// The file itself.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The same file opened once more, for reading past the system's cache, if the file system supports it: streamed
    /// data are read once, and would evict what others need. Offsets, lengths and buffers must be multiples of 4096.
    pub fn past_the_cache(&self) -> Option<Arc<File>> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = OFlags::DIRECT.bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(path);
        opened.ok().map(Arc::new)
    }
}

/// Asks the system to drop a file from its cache, so that the next reader asks the disk. Systems may decline, and one
/// that does reads the same bytes sooner.
pub fn forget_cached(file: &File, start: u64, bytes: u64) {
    let _ = fadvise(file, start, NonZero::new(bytes), Advice::DontNeed);
}

/// A read that failed.
pub enum ReadError {
    /// Because of the disk.
    Io(io::Error),
    /// Because of its content.
    Corruption(Corruption),
    /// The file cannot be opened, because of the permissions or limits of this process.
    Refused(io::Error),
}

impl From<Corruption> for ReadError {
    fn from(corruption: Corruption) -> Self {
        Self::Corruption(corruption)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl ReadError {
    fn of_opening(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Corruption::Missing.into(),
            _ if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Self::Io(error),
            _ => Self::Refused(error),
        }
    }

    /// The error about a subject in the file at `path`.
    pub fn about(self, path: &Path, subject: impl FnOnce() -> String) -> FormatError {
        let corruption = match self {
            Self::Corruption(corruption) => corruption,
            // The length was checked when the file was opened.
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Corruption::Invalid("it was truncated while in use".into())
            }
            Self::Io(error) => Corruption::Unreadable(error.to_string()),
            Self::Refused(error) => return io_error("open", path)(error),
        };
        FormatError::Damaged {
            subject: subject(),
            path: Some(path.into()),
            corruption,
        }
    }
}
