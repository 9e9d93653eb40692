//! Everything that can go wrong in the store, said once, with the remedy.
//!
//! A message names what it is about (dataset, segment, panel, path), the cause and what
//! to do. [`StoreError::kind`] sorts errors for callers that translate them, a server
//! for one.

use crate::{DatasetId, Digest};
use oboro_arena::ArenaError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What is wrong with bytes that should have been an Oboro format. Displayed, it goes on
/// where a subject was named: "is missing".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Fault {
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

impl Fault {
    /// What to do about it, a sentence.
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

/// An error of the store. The message is one or two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum StoreError {
    /// A file, or bytes that came from elsewhere, cannot be used.
    #[error("{subject}{} {fault}. {}", in_parentheses(path), fault.remedy())]
    Damaged {
        subject: String,
        /// Where it lies, if that is a file.
        path: Option<PathBuf>,
        fault: Fault,
    },
    #[error(
        "disk full while writing {}: what was being written (the upload or the bundle) was refused, published datasets \
         are unaffected. Free some space and try again; an upload goes on where it stopped.",
        path.display()
    )]
    DiskFull { path: PathBuf },
    #[error("could not {action} {}: {source}. Check the path, its permissions and the disk.", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("ciphertext does not fit into memory: {source}")]
    Memory {
        #[from]
        source: ArenaError,
    },
    #[error(
        "an itemset of this question needs {needed} bytes of ciphertext in memory at a time, but this server has \
         {capacity} for that. Ask about shorter ones (a smaller --max-len), or ask its operator to raise --memory by \
         at least {}.",
        needed.saturating_sub(*capacity) / 15 * 16 + 16
    )]
    Budget { needed: u64, capacity: u64 },
    #[error(
        "cannot start the threads that read ciphertext: {source}. Check the limits of this process."
    )]
    Reader { source: io::Error },
    #[error(
        "the store cannot be opened with its datasets placed on NUMA nodes: {source} Or ask for no \
         placement, and they lie wherever the kernel puts them."
    )]
    Placement { source: ArenaError },
    #[error(
        "the catalogue of the store failed: {}. Check the disk that holds the store, its free \
         space and its permissions.",
        source.to_string().escape_debug()
    )]
    Catalogue { source: rusqlite::Error },
    #[error(
        "the catalogue of the store is damaged: {}. Check the disk and restore catalogue.sqlite from a \
         backup; the segment files beside it are as they were.",
        problem.escape_debug()
    )]
    CatalogueDamaged { problem: String },
    #[error(
        "the catalogue {} has schema version {found}, this Oboro knows {known}. Use the Oboro that \
         wrote it or a newer one.",
        path.display()
    )]
    CatalogueNewer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "the catalogue {} is that of a store in several directories, over which its segments are striped; \
         this Oboro has stores in one. Copy the store with `oboro backup` of the Oboro that wrote it: the \
         copy is in one.",
        path.display()
    )]
    CatalogueStriped { path: PathBuf },
    #[error("{} is an SQLite database of another program. Choose another directory for the store.", path.display())]
    CatalogueForeign { path: PathBuf },
    #[error(
        "the store {} has datasets but its catalogue is gone. Restore catalogue.sqlite from a backup, \
         or move the directory away to begin with an empty store.",
        path.display()
    )]
    CatalogueMissing { path: PathBuf },
    #[error(
        "{} is not the directory of a store: it has no catalogue.sqlite. Give the directory that `oboro serve \
         --data` has, or a backup of it.",
        path.display()
    )]
    NoStore { path: PathBuf },
    #[error(
        "the object {object} cannot be reached: {cause}. Nothing is lost; try again later. If it stays so, the \
         operator of this server should check the network, AWS_ENDPOINT_URL, AWS_REGION and the credentials."
    )]
    Unavailable { object: String, cause: String },
    #[error(
        "cannot use {url} as the place of a store: {reason}. Give s3://BUCKET/PREFIX, with the settings in \
         AWS_* variables, or file:///DIRECTORY."
    )]
    ObjectsUrl { url: String, reason: String },
    #[error(
        "another server writes to {url}: this one has lost it and publishes and deletes nothing any more. Let only one \
         server write there, and start that one again."
    )]
    OtherServer { url: String },
    #[error(
        "{url} has segments but no catalogue.sqlite. Restore that object from a version or a copy of it, or choose \
         another prefix to begin with an empty store."
    )]
    CatalogueObjectMissing { url: String },
    #[error(
        "{} is a cache of the store {url}, not a store. Serve and scrub that one (`oboro serve --data {url} --cache \
         DIR`), or choose another directory.",
        path.display()
    )]
    IsCache { path: PathBuf, url: String },
    #[error(
        "{} is a store of its own, not a cache of {url}. Choose another directory for --cache.",
        path.display()
    )]
    IsNoCache { path: PathBuf, url: String },
    #[error("{} is in use by another process. Stop it first, or choose another {what}.", path.display())]
    Locked { path: PathBuf, what: &'static str },
    #[error("{} exists already. Choose another name, or move it away first.", path.display())]
    Exists { path: PathBuf },
    #[error(
        "{} is as it should be now, but could not be made to survive a power cut: {cause} Do not encrypt the same \
         data into it again.",
        path.display()
    )]
    Unconfirmed {
        path: PathBuf,
        cause: Box<StoreError>,
    },
    #[error("the bundle {} has changed since it was opened. Open it again.", path.display())]
    BundleChanged { path: PathBuf },
    #[error(
        "the bundle's new manifest does not fit what was written: {reason}. This is a mistake in the \
         calling program."
    )]
    BundleMismatch { reason: String },

    #[error(
        "{given:?} is not a dataset name: use 1 to 100 of the characters A-Z a-z 0-9 . _ - and no dot \
         in front."
    )]
    Name { given: String },
    #[error("{text:?} is not a {what}: that is {digits} hexadecimal digits.")]
    NotHex {
        text: String,
        what: &'static str,
        digits: usize,
    },
    #[error("there is no dataset named {name:?} here. List the datasets to see those that are.")]
    NoDataset { name: String },
    #[error(
        "dataset {name:?} is at version {version} with root {root} here, but the owner asks about root {wanted}. \
         Upload the newer version, or use the bundle that was uploaded."
    )]
    OtherVersion {
        name: String,
        version: u64,
        root: Digest,
        wanted: Digest,
    },
    #[error("the manifest was refused: it {fault}. {}", fault.remedy())]
    ManifestRefused { fault: Fault },
    #[error(
        "no upload of dataset {dataset} is under way. Begin the upload again; it goes on where it stopped."
    )]
    NoUpload { dataset: DatasetId },
    #[error(
        "the name {name:?} is taken by dataset {taken_by}. Choose another name, or delete that dataset first (an unfinished upload is given up by `oboro upload --cancel`)."
    )]
    NameTaken { name: String, taken_by: DatasetId },
    #[error("dataset {dataset} is stored here under the name {name:?}. Use that name.")]
    StoredAs { dataset: DatasetId, name: String },
    #[error(
        "dataset {dataset} was deleted here, and ids are never used again. Encrypt the data again for a \
         new id."
    )]
    Deleted { dataset: DatasetId },
    #[error("version {new} of dataset {dataset} does not extend version {old}: {reason}. {remedy}")]
    NotAnExtension {
        dataset: DatasetId,
        old: u64,
        new: u64,
        reason: &'static str,
        remedy: &'static str,
    },
    #[error(
        "another version of dataset {dataset} is being uploaded as {name:?}. Finish that upload, or \
         cancel it, and begin again."
    )]
    OtherUpload { dataset: DatasetId, name: String },
    #[error("the upload of dataset {dataset} was cancelled. Begin again if that was not intended.")]
    UploadCancelled { dataset: DatasetId },
    #[error(
        "dataset {dataset} has no segment {index} to upload: {reason}. Ask for the upload's status and \
         follow it."
    )]
    NoSuchSegment {
        dataset: DatasetId,
        index: u32,
        reason: &'static str,
    },
    #[error(
        "segment {index} of dataset {dataset} is being received on another connection. Try again when \
         that one has ended."
    )]
    SegmentBusy { dataset: DatasetId, index: u32 },
    #[error(
        "segment {index} of dataset {dataset} is at byte {received}, not {offset}. Go on from byte \
         {received}."
    )]
    Offset {
        dataset: DatasetId,
        index: u32,
        received: u64,
        offset: u64,
    },
    #[error(
        "segment {index} of dataset {dataset} was announced with {announced} bytes and more arrived. \
         Send exactly the segment that the manifest names."
    )]
    TooLong {
        dataset: DatasetId,
        index: u32,
        announced: u64,
    },
    #[error(
        "segment {index} of dataset {dataset} is not complete: {received} of {announced} bytes have arrived. \
         Send the rest."
    )]
    Incomplete {
        dataset: DatasetId,
        index: u32,
        received: u64,
        announced: u64,
    },
    #[error(
        "segment {index} of dataset {dataset} arrived damaged and was discarded: {damaged} {fault}. \
         Send the segment again from its first byte; if it is refused again, check the bundle with `oboro inspect DIR --verify`."
    )]
    SegmentRefused {
        dataset: DatasetId,
        index: u32,
        damaged: String,
        fault: Fault,
    },
    #[error(
        "dataset {dataset} cannot be published: segment {index} is not complete. Send the missing \
         segments first."
    )]
    NotComplete { dataset: DatasetId, index: u32 },

    #[error(
        "there is no panel (limb {limb}, column {column}) in segment {segment} of dataset {dataset}. \
         This is a mistake in the calling program."
    )]
    NoPanel {
        dataset: DatasetId,
        segment: usize,
        limb: usize,
        column: usize,
    },
    #[error(
        "there is no column {column} in segment {segment} of dataset {dataset}. This is a mistake in \
         the calling program."
    )]
    NoCells {
        dataset: DatasetId,
        segment: usize,
        column: usize,
    },
    #[error("{what}. This is a mistake in the calling program.")]
    Misuse { what: String },
}

/// What a caller can do about an error, coarsely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The thing asked for is not there.
    NotFound,
    /// The name or id is taken by something else.
    AlreadyExists,
    /// The request or its bytes are wrong and will stay wrong.
    InvalidArgument,
    /// The request does not fit the present state; do something else first.
    FailedPrecondition,
    /// Someone else is at it; try again later.
    Busy,
    /// Stored bytes are damaged or gone.
    DataLoss,
    /// No space left on the disk.
    DiskFull,
    /// No memory left.
    MemoryFull,
    /// What keeps the bytes cannot be reached; try again later.
    Unavailable,
    /// The machine failed (I/O, catalogue) or the calling program did.
    Internal,
}

impl StoreError {
    /// The coarse kind of this error.
    pub fn kind(&self) -> ErrorKind {
        use StoreError::*;
        match self {
            NoDataset { .. } | NoUpload { .. } | NoStore { .. } => ErrorKind::NotFound,
            NameTaken { .. } | StoredAs { .. } | Deleted { .. } | Exists { .. } => {
                ErrorKind::AlreadyExists
            }
            Name { .. }
            | ManifestRefused { .. }
            | NotHex { .. }
            | ObjectsUrl { .. }
            | Placement { .. }
            | TooLong { .. }
            | NoPanel { .. }
            | NoCells { .. } => ErrorKind::InvalidArgument,
            NotAnExtension { .. }
            | OtherVersion { .. }
            | OtherUpload { .. }
            | UploadCancelled { .. }
            | Incomplete { .. }
            | NotComplete { .. }
            | BundleChanged { .. }
            | OtherServer { .. } => ErrorKind::FailedPrecondition,
            Unavailable { .. } => ErrorKind::Unavailable,
            // The upload moved on meanwhile: asking for its status again helps.
            SegmentBusy { .. } | Locked { .. } | Offset { .. } | NoSuchSegment { .. } => {
                ErrorKind::Busy
            }
            Damaged { .. } | SegmentRefused { .. } | CatalogueDamaged { .. } => ErrorKind::DataLoss,
            DiskFull { .. } => ErrorKind::DiskFull,
            Memory { .. } | Budget { .. } => ErrorKind::MemoryFull,
            Io { .. }
            | Reader { .. }
            | Catalogue { .. }
            | CatalogueNewer { .. }
            | CatalogueStriped { .. }
            | CatalogueForeign { .. }
            | CatalogueMissing { .. }
            | CatalogueObjectMissing { .. }
            | IsCache { .. }
            | IsNoCache { .. }
            | Unconfirmed { .. }
            | BundleMismatch { .. }
            | Misuse { .. } => ErrorKind::Internal,
        }
    }
}

impl StoreError {
    /// The message for somebody whose machine this is not: without the paths of files here, and without the
    /// place of objects.
    pub fn without_paths(&self) -> String {
        match self {
            Self::Damaged { subject, fault, .. } => {
                format!("{subject} {fault}. {}", fault.remedy())
            }
            Self::DiskFull { .. } => {
                "disk full: what was being written was refused, published datasets are unaffected. Ask the operator \
                 for more space and try again; an upload goes on where it stopped."
                    .to_owned()
            }
            Self::Io { action, source, .. } => format!(
                "could not {action} a file of the store: {source}. Ask the operator, whose log names the file."
            ),
            Self::Unavailable { .. } => {
                "the server's object storage cannot be reached. Nothing is lost; try again later. If it stays so, ask \
                 the operator, whose log names the object and the cause."
                    .to_owned()
            }
            Self::OtherServer { .. } => {
                "another server writes to the object storage of this one, which publishes and deletes nothing any \
                 more. Ask the operator to let only one server write there."
                    .to_owned()
            }
            _ => self.to_string(),
        }
    }
}

fn in_parentheses(path: &Option<PathBuf>) -> String {
    let shown = path.as_ref().map(|path| format!(" ({})", path.display()));
    shown.unwrap_or_default()
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => StoreError::DiskFull {
                path: "catalogue.sqlite".into(),
            },
            // Statements are ours, and wrong only about tables that are not what they were.
            Some(
                rusqlite::ErrorCode::DatabaseCorrupt
                | rusqlite::ErrorCode::NotADatabase
                | rusqlite::ErrorCode::Unknown,
            ) => StoreError::CatalogueDamaged {
                problem: source.to_string(),
            },
            _ => StoreError::Catalogue { source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operator_hears_of_paths() {
        let damaged = StoreError::Damaged {
            subject: "segment 3 of dataset 11".into(),
            path: Some("/srv/store/3.seg".into()),
            fault: Fault::Missing,
        };
        let remedy = Fault::Missing.remedy();
        assert_eq!(
            damaged.to_string(),
            format!("segment 3 of dataset 11 (/srv/store/3.seg) is missing. {remedy}")
        );
        assert_eq!(
            damaged.without_paths(),
            format!("segment 3 of dataset 11 is missing. {remedy}")
        );
        let path = || PathBuf::from("/srv/store/3.seg");
        let source = io::ErrorKind::PermissionDenied.into();
        let unreadable = StoreError::Io {
            action: "open",
            path: path(),
            source,
        };
        let url = || "file:///srv/store".to_owned();
        let unavailable = StoreError::Unavailable {
            object: url(),
            cause: "no route".into(),
        };
        for error in [
            unreadable,
            StoreError::DiskFull { path: path() },
            unavailable,
            StoreError::OtherServer { url: url() },
        ] {
            assert!(error.to_string().contains("/srv/store"));
            assert!(!error.without_paths().contains("/srv/store"), "{error}");
        }
    }

    /// SQLite names tables and columns as they stand in the file.
    #[test]
    fn a_damaged_catalogue_sends_nothing_to_the_terminal() {
        let problem = "malformed schema (\u{1b}[2J)\nTree 8".to_owned();
        let text = StoreError::CatalogueDamaged { problem }.to_string();
        assert!(
            text.contains("Tree 8") && !text.contains(char::is_control),
            "{text:?}"
        );
        let source = rusqlite::Error::InvalidColumnName("\u{7}".to_owned());
        let text = StoreError::Catalogue { source }.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
