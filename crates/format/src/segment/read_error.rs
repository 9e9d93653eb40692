//! Errors of reading a segment's file.

use crate::error::{Corruption, FormatError};
use crate::files::io_error;
use oboro_system::is_device_error;
use std::io;
use std::path::Path;

/// Failed read of a segment's file.
#[derive(Debug)]
pub enum ReadError {
    /// Failed I/O.
    Io(io::Error),
    /// Invalid content.
    Corruption(Corruption),
    /// File that permissions or limits of this process do not allow to open.
    Refused(io::Error),
    /// File that its owner removed or replaced while it was in use, as is permitted.
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

    /// Converts the error to one that names `subject` and the file at `path`.
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
