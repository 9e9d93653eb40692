//! Errors of files and bytes. Each message names its subject (dataset, segment, panel, path), the cause and the remedy.
//! [`FormatError::kind`] sorts errors for callers that translate them.

use crate::id::DatasetId;
use crate::limits::MAX_RECOVERY_BYTES;
use oboro_ring::{Column, Limb};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Defect of bytes that should be in an Oboro format. Its message continues a sentence after the subject: "is missing".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Corruption {
    #[error("is not what it should be: it does not begin with {magic:?}")]
    Magic { magic: &'static str },
    #[error(
        "was written by a newer Oboro (format version {found}; this one reads version {known})"
    )]
    Newer { found: u32, known: u32 },
    #[error(
        "was written by an older Oboro (format version {found}; this one reads version {known} only)"
    )]
    Older { found: u32, known: u32 },
    #[error(
        "has the wrong length ({found} bytes instead of {expected}): it was truncated or extended"
    )]
    Length { expected: u64, found: u64 },
    #[error("does not match its digest: it was altered or damaged after it was written")]
    Altered,
    #[error("has foreign parameters: {0}")]
    Foreign(String),
    #[error("is malformed: {0}")]
    Invalid(String),
    #[error("is missing")]
    Missing,
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("is not the one that the manifest names: it comes from another dataset or version")]
    Unexpected,
}

impl Corruption {
    /// Returns the remedy, as a sentence.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Magic { .. } => "Check that the path is right.",
            Self::Newer { .. } => "Install that Oboro or a newer one to read it.",
            Self::Older { .. } => "Encrypt the data again.",
            Self::Foreign(_) => "This Oboro cannot use it; encrypt the data again.",
            Self::Unreadable(_) => {
                "Check the disk, and restore it from a copy; without one, encrypt the data again, and delete the \
                 damaged dataset from the server before uploading it anew."
            }
            _ => {
                "Restore it from a copy; without one, encrypt the data again, and delete the damaged dataset \
                 from the server before uploading it anew."
            }
        }
    }
}

/// Error of a file or of bytes. The message is one or two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum FormatError {
    /// Unusable file, or unusable bytes from another source.
    #[error("{subject}{} {corruption}. {}", in_parentheses(path), corruption.remedy())]
    Damaged {
        subject: String,
        /// Path, if the bytes are a file's.
        path: Option<PathBuf>,
        corruption: Corruption,
    },
    #[error(
        "{subject} was removed while it was read: its dataset was deleted or rewritten meanwhile. Ask again, about the \
         version that is there now."
    )]
    Removed { subject: String },
    #[error(
        "disk full while writing {}: what was being written (the upload or the bundle) was refused, published datasets \
         are unaffected. Free some space and try again; an upload resumes where it stopped.",
        path.display()
    )]
    DiskFull { path: PathBuf },
    #[error(
        "the disk is read-only: {} was not written; what was there before is unaffected. Look into the system's log for why \
         the disk takes no writes, repair it or mount it writable, and try again. A server answers questions about what is \
         published meanwhile, and need not be started anew.",
        path.display()
    )]
    DiskReadOnly { path: PathBuf },
    #[error(
        "too many open files: {} was not opened. Nothing is wrong with it; try again when fewer calls are in progress, or \
         raise the limit (ulimit -n).",
        path.display()
    )]
    TooManyFiles { path: PathBuf },
    #[error("could not {action} {}: {source}. Check the path, its permissions and the disk.", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} is a symbolic link to something that is not there. Bring back what it leads to (is a disk not mounted?), or \
         remove the link if nothing is to be there.",
        path.display()
    )]
    DanglingLink { path: PathBuf },
    #[error("{} is in use by another process. Stop it first, or choose another {what}.", path.display())]
    Locked { path: PathBuf, what: String },
    #[error("{} exists already. Choose another name, or move it away first.", path.display())]
    Exists { path: PathBuf },
    #[error(
        "{} is as it should be now, but could not be made to survive a power cut: {cause} Do not encrypt the same \
         data into it again.",
        path.display()
    )]
    Unconfirmed {
        path: PathBuf,
        cause: Box<FormatError>,
    },
    #[error("the bundle {} has changed since it was opened. Open it again.", path.display())]
    BundleChanged { path: PathBuf },
    #[error(
        "the bundle's new manifest does not fit what was written: {reason}. This is a mistake in the \
         calling program."
    )]
    BundleMismatch { reason: String },
    #[error(
        "{} was recovered without its ciphertext, and this needs segment {index} of it. Run it on a copy of the directory \
         that has its segments; without one, encrypt the data again.",
        path.display()
    )]
    Recovered { path: PathBuf, index: u32 },
    #[error("version {new} of dataset {dataset} cannot follow version {old}: {reason}. {remedy}")]
    NotAnExtension {
        dataset: DatasetId,
        old: u64,
        new: u64,
        reason: &'static str,
        remedy: &'static str,
    },
    #[error(
        "there is no panel (limb {limb}, column {column}) in segment {segment} of dataset {dataset}. \
         This is a mistake in the calling program."
    )]
    NoPanel {
        dataset: DatasetId,
        segment: usize,
        limb: Limb,
        column: Column,
    },
    #[error(
        "there is no column {column} in segment {segment} of dataset {dataset}. This is a mistake in \
         the calling program."
    )]
    NoCells {
        dataset: DatasetId,
        segment: usize,
        column: Column,
    },
    #[error(
        "what is to be kept for a recovery takes {bytes} bytes, and {MAX_RECOVERY_BYTES} is the most. Keep copies of the \
         dataset's directory yourself instead."
    )]
    LargeRecovery { bytes: u64 },
    #[error("{what}. This is a mistake in the calling program.")]
    Misuse { what: String },
    #[error(
        "this version of the dataset has {segments} segments, not one with number {index}. If a server asked for it, \
         that server is wrong: tell its operator."
    )]
    NoSegment { index: u32, segments: usize },
}

/// Coarse kind of an error, by the response it requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Something that does not exist.
    NotFound,
    /// Name or id that is taken.
    AlreadyExists,
    /// Request, or bytes in it, that will never be valid.
    InvalidArgument,
    /// Request that does not fit the present state; another step must come first.
    FailedPrecondition,
    /// Resource in use by another process or call; try again later.
    Busy,
    /// Damaged or missing stored bytes.
    DataLoss,
    /// No space left on the disk.
    DiskFull,
    /// No memory left.
    MemoryFull,
    /// Storage that cannot be reached or written at present; try again later.
    Unavailable,
    /// Action that the caller is not permitted.
    Forbidden,
    /// Exhausted quota of the caller.
    Quota,
    /// Failure of the machine or of the calling program.
    Internal,
}

impl FormatError {
    /// Returns the coarse kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Exists { .. } => ErrorKind::AlreadyExists,
            Self::Recovered { .. } => ErrorKind::NotFound,
            Self::LargeRecovery { .. }
            | Self::NoPanel { .. }
            | Self::NoCells { .. }
            | Self::NoSegment { .. } => ErrorKind::InvalidArgument,
            Self::NotAnExtension { .. } | Self::BundleChanged { .. } | Self::Removed { .. } => {
                ErrorKind::FailedPrecondition
            }
            Self::Locked { .. } => ErrorKind::Busy,
            Self::Damaged { .. } => ErrorKind::DataLoss,
            Self::DiskFull { .. } => ErrorKind::DiskFull,
            Self::DiskReadOnly { .. } | Self::TooManyFiles { .. } | Self::DanglingLink { .. } => {
                ErrorKind::Unavailable
            }
            Self::Io { .. }
            | Self::Unconfirmed { .. }
            | Self::BundleMismatch { .. }
            | Self::Misuse { .. } => ErrorKind::Internal,
        }
    }

    /// Returns the message without local paths, for a peer on another machine.
    pub fn without_paths(&self) -> String {
        match self {
            Self::Damaged { subject, corruption, .. } => {
                format!("{subject} {corruption}. {}", corruption.remedy())
            }
            Self::DiskFull { .. } => {
                "disk full: what was being written was refused, published datasets are unaffected. Ask the operator \
                 for more space and try again; an upload resumes where it stopped."
                    .to_owned()
            }
            Self::DiskReadOnly { .. } => {
                "the server's disk is read-only: nothing was written. What is published is unaffected, and questions \
                 about it are answered. Ask the operator to repair the disk, and try again."
                    .to_owned()
            }
            Self::TooManyFiles { .. } => {
                "too many open files on the server: nothing is wrong with the data. Try again later; if it stays so, ask \
                 the operator to raise the limit (ulimit -n)."
                    .to_owned()
            }
            Self::DanglingLink { .. } => {
                "a file of the server is a link to something that is not there. Ask the operator, whose log names the file."
                    .to_owned()
            }
            Self::Io { action, source, .. } => format!(
                "could not {action} a file of the store: {source}. Ask the operator, whose log names the file."
            ),
            _ => self.to_string(),
        }
    }
}

fn in_parentheses(path: &Option<PathBuf>) -> String {
    let shown = path.as_ref().map(|path| format!(" ({})", path.display()));
    shown.unwrap_or_default()
}
