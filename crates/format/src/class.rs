//! Error classes shared by all crates. The command's exit codes and the Python package's exceptions derive from them.

use crate::ErrorKind;

/// Subject of an error, which determines who can fix it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Unusable data, names or arguments.
    Input,
    /// Key file that cannot be read or written, or a wrong key.
    Keys,
    /// Unreachable server, or a broken connection. Nothing is lost.
    Connection,
    /// Incompatible versions of programs or files.
    Version,
    /// Server that refused, failed, or could not start.
    Server,
    /// Damaged files.
    Damaged,
    /// Server that answered falsely, now or before. None of its answers were used.
    FalseAnswer,
    /// Full or failing disk, or a file in use.
    Storage,
    /// Cancelled call. Nothing is lost.
    Interrupted,
    /// Any other error.
    Other,
}

impl ErrorClass {
    /// Returns the name of the class for programs.
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

/// Classifies errors of local files.
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
