//! Classes of errors as people meet them, whatever crate they come from: the command's exit codes and the Python
//! package's exceptions follow from them.

use crate::ErrorKind;

/// What an error is about, and so who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Data, names or arguments that cannot be used.
    Input,
    /// A key file that cannot be read or written, or the wrong key.
    Keys,
    /// A server that cannot be reached, or a connection that broke. Nothing is lost.
    Connection,
    /// Programs or files of versions that do not go together.
    Version,
    /// A server that refused, failed, or could not start.
    Server,
    /// Damaged files.
    Damaged,
    /// A server that answered falsely, or did before. None of its answers were used.
    FalseAnswer,
    /// A disk that is full or failing, or a file in use.
    Storage,
    /// A call that was stopped. Nothing is lost.
    Interrupted,
    /// None of these.
    Other,
}

impl ErrorClass {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Keys => "keys",
            Self::Connection => "connection",
            Self::Version => "version",
            Self::Server => "server",
            Self::Damaged => "damaged",
            Self::FalseAnswer => "false_answer",
            Self::Storage => "storage",
            Self::Interrupted => "interrupted",
            Self::Other => "other",
        }
    }
}

/// Of errors about files here.
impl From<ErrorKind> for ErrorClass {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::DataLoss => Self::Damaged,
            ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::InvalidArgument => {
                Self::Input
            }
            ErrorKind::FailedPrecondition
            | ErrorKind::Busy
            | ErrorKind::DiskFull
            | ErrorKind::MemoryFull
            | ErrorKind::Unavailable
            | ErrorKind::Forbidden
            | ErrorKind::Quota
            | ErrorKind::Internal => Self::Storage,
        }
    }
}
