//! Reads of a segment's file that failed.

use crate::error::{Corruption, FormatError};
use crate::files::io_error;
use oboro_system::is_device_error;
use std::io;
use std::path::Path;

/// A read that failed.
#[derive(Debug)]
pub enum ReadError {
    /// Because of the disk.
    Io(io::Error),
    /// Because of its content.
    Corruption(Corruption),
    /// The file cannot be opened, because of the permissions or limits of this process.
    Refused(io::Error),
    /// The file was removed or replaced while it was in use, as its owner may.
    Removed,
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
    pub(super) fn of_opening(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Corruption::Missing.into(),
            _ if is_device_error(&error) => Self::Io(error),
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
            Self::Removed => return FormatError::Removed { subject: subject() },
        };
        FormatError::Damaged {
            subject: subject(),
            path: Some(path.into()),
            corruption,
        }
    }
}
