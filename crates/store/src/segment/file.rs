//! The files of a segment: one in each directory that it is striped over, all with the same layout.
//!
//! The first, in the home of the store, has the header. Each part lies in one of the files, at the
//! offset that it would have were there only one, and is a hole in the others. All that is read of a
//! segment is read through here.

use crate::error::{Fault, StoreError};
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

/// Where a part lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartPlace {
    /// Which of the segment's files has it, that is the one in this directory of the store.
    pub(crate) directory: usize,
    /// Its first byte there, a multiple of 4096.
    pub(crate) offset: u64,
    /// Its bytes with padding, a multiple of 4096.
    pub(crate) len: usize,
}

/// The directory, of so many, that has the `part`-th part of the `segment`-th segment. Neighbours in a
/// segment lie on different devices, and so do panels of one (limb, column) in neighbouring segments.
pub(crate) fn directory_of(part: usize, segment: u32, directories: usize) -> usize {
    (part + segment as usize) % directories
}

/// The open files of a segment, the home's first. It can still be read after their names are gone.
pub(crate) struct SegmentFile {
    stripes: Vec<Stripe>,
    length: u64,
}

struct Stripe {
    path: PathBuf,
    file: Arc<File>,
}

impl SegmentFile {
    /// Opens the files at these paths, at least one, which must be equally long.
    pub(crate) fn open(paths: Vec<PathBuf>) -> Result<Self, Unopened> {
        let mut stripes: Vec<Stripe> = Vec::with_capacity(paths.len());
        let mut length = None;
        for path in paths {
            let opened = File::open(&path).map_err(ReadError::of_opening);
            let found = opened.and_then(|file| Ok((file.metadata()?.len(), Arc::new(file))));
            match found {
                Ok((found, file)) if found == *length.get_or_insert(found) => {
                    stripes.push(Stripe { path, file });
                }
                Ok((found, _)) => {
                    let expected = length.unwrap_or(found);
                    let why = Fault::Length { expected, found }.into();
                    return Err(Unopened { path, why });
                }
                Err(why) => return Err(Unopened { path, why }),
            }
        }
        Ok(Self {
            stripes,
            length: length.unwrap_or(0),
        })
    }

    /// The number of its files.
    pub(crate) fn directories(&self) -> usize {
        self.stripes.len()
    }

    /// The length of each of its files.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The path of the file in a directory, as it was when opened.
    pub(crate) fn path(&self, directory: usize) -> &Path {
        &self.stripes[directory].path
    }

    /// Fills `out` with what the file in a directory has from `offset` on.
    pub(crate) fn read_exact_at(
        &self,
        directory: usize,
        out: &mut [u8],
        offset: u64,
    ) -> io::Result<()> {
        self.stripes[directory].file.read_exact_at(out, offset)
    }

    /// Drops what the system's cache has of a part.
    pub(crate) fn forget_cached(&self, place: PartPlace) {
        let file = &self.stripes[place.directory].file;
        forget_cached(file, place.offset, place.len as u64);
    }

    /// The file in a directory.
    pub(crate) fn file(&self, directory: usize) -> &Arc<File> {
        &self.stripes[directory].file
    }

    /// The same files opened once more, for reading past the system's cache, where the file system can:
    /// what streams is read once, and would drive out what others need. Offsets, lengths and buffers must
    /// be multiples of 4096.
    pub(crate) fn past_the_cache(&self) -> Vec<Option<Arc<File>>> {
        let again = |stripe: &Stripe| {
            let path = format!("/proc/self/fd/{}", stripe.file.as_raw_fd());
            let flags = OFlags::DIRECT.bits() as i32;
            let opened = File::options().read(true).custom_flags(flags).open(path);
            opened.ok().map(Arc::new)
        };
        self.stripes.iter().map(again).collect()
    }
}

/// Asks the system to drop what its cache has of a file, so that the next reader asks the disk. Systems
/// may decline, and one that does reads the same bytes sooner.
pub fn forget_cached(file: &File, start: u64, bytes: u64) {
    let _ = fadvise(file, start, NonZero::new(bytes), Advice::DontNeed);
}

/// A segment that cannot be opened: which of its files is at fault, and why.
pub(crate) struct Unopened {
    pub(crate) path: PathBuf,
    pub(crate) why: ReadError,
}

impl Unopened {
    /// The error about a subject.
    pub(crate) fn about(self, subject: impl FnOnce() -> String) -> StoreError {
        match self.why {
            ReadError::Refused(error) => io_error("open", &self.path)(error),
            why => why.about(&self.path, subject),
        }
    }
}

/// A read that failed.
pub(crate) enum ReadError {
    /// Because of the disk.
    Io(io::Error),
    /// Because of what was there.
    Fault(Fault),
    /// Because of what this process may do, or has left.
    Refused(io::Error),
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
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
            io::ErrorKind::NotFound => Fault::Missing.into(),
            _ if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Self::Io(error),
            _ => Self::Refused(error),
        }
    }

    /// The error about a subject in the file at `path`.
    pub(crate) fn about(self, path: &Path, subject: impl FnOnce() -> String) -> StoreError {
        let fault = match self {
            Self::Fault(fault) => fault,
            // The length was checked when the file was opened.
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Fault::Invalid("it was truncated while in use".into())
            }
            Self::Io(error) | Self::Refused(error) => Fault::Unreadable(error.to_string()),
        };
        StoreError::Damaged {
            subject: subject(),
            path: Some(path.into()),
            fault,
        }
    }
}
