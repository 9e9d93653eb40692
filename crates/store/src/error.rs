//! Errors of the store, by part, each with a remedy. [`StoreError::kind`] classifies them for callers that translate
//! them, such as a server.

use oboro_format::wording::{
    ACCESS_GRANT, ACCESS_REVOKE, CACHE, DATA, DATASETS_DELETED, DATASETS_UPLOADS, DELETE_NOW,
    INSPECT_VERIFY, SERVE, TOKEN_NEW, UNDELETE, UPLOAD_CANCEL, UPLOAD_KEEP_RECORD,
};
use oboro_format::{Corruption, DatasetId, Digest, ErrorKind, FormatError, MAX_CALLER_CHARS, Role};
use oboro_residency::ResidencyError;
use std::path::PathBuf;
use thiserror::Error;

/// Limit on what one owner may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// Datasets published, being uploaded, or deleted and not yet purged.
    Datasets,
    /// Unfinished uploads.
    Uploads,
    /// Bytes of datasets, including deleted but restorable ones.
    Bytes,
    /// Bytes of manifests.
    ManifestBytes,
    /// Grants to other callers.
    Grants,
}

impl QuotaKind {
    /// Returns the plural noun of the counted things.
    fn noun(self) -> &'static str {
        match self {
            Self::Datasets => "datasets",
            Self::Uploads => "unfinished uploads",
            Self::Bytes => "bytes",
            Self::ManifestBytes => "bytes of manifests",
            Self::Grants => "grants",
        }
    }

    /// Returns a sentence, without its full stop, on how to free capacity.
    fn remedy(self) -> String {
        match self {
            Self::Datasets | Self::Bytes => format!(
                "Delete what is not needed (`{DELETE_NOW}` makes room at once), or ask its operator for more"
            ),
            Self::Uploads => format!(
                "Finish or cancel others (`{DATASETS_UPLOADS}` lists them, `{UPLOAD_CANCEL}` cancels), or ask its operator for more"
            ),
            Self::ManifestBytes => format!(
                "Delete datasets that are not needed (`{DELETE_NOW}` makes room at once), or compact those of many segments"
            ),
            Self::Grants => format!("Take back grants that are not needed (`{ACCESS_REVOKE}`)"),
        }
    }
}

/// Errors of the store. Messages are one or two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum StoreError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error(transparent)]
    Object(#[from] ObjectStorageError),
    #[error(transparent)]
    Residency(ResidencyError),
    #[error(
        "{} is not the directory of a store: it has no catalogue.sqlite. Give the directory that `{SERVE} {DATA}` \
         has, or a backup of it.",
        path.display()
    )]
    NoStore { path: PathBuf },
    #[error(
        "{} is an owner's encrypted dataset, not a store. Choose another directory for the store, and upload the \
         dataset there.",
        path.display()
    )]
    IsBundle { path: PathBuf },
    #[error(
        "{given:?} is not a dataset name: use 1 to 100 of the characters A-Z a-z 0-9 . _ - and no dot \
         in front."
    )]
    Name { given: String },
    #[error("there is no dataset named {name:?} here. List the datasets to see those that are.")]
    NoDataset { name: String },
    #[error(
        "this takes the role {role} (to {}), which you lack here. Ask the owner of the data for it (`{ACCESS_GRANT}`), or the \
         server's operator for a token that has it.",
        doing(*role)
    )]
    Forbidden { role: Role },
    #[error(
        "this version replaces segments of the published one, which takes the role delete beside append, and you lack it here. \
         Ask the owner of the data for it (`{ACCESS_GRANT}`), or the server's operator for a token that has it; or append \
         without absorbing (no-absorb) to a copy of the directory as it was last uploaded."
    )]
    ReplacesSegments,
    #[error(
        "the role operate cannot be granted. Have the server's operator make a token with it (`{TOKEN_NEW}`)."
    )]
    NotGrantable,
    #[error(
        "only its owner may bring a dataset back under another name. Ask for the name that it had."
    )]
    NotOwner,
    #[error(
        "this is no name of a caller: use 1 to {MAX_CALLER_CHARS} of A-Z a-z 0-9 . _ - and begin with a letter or digit, or \
         give * for all callers."
    )]
    Caller,
    #[error("owners have all roles on what is theirs. Name the token of another caller.")]
    GrantToOwner,
    #[error(
        "this server keeps at most {most} {} of one owner, and this would be more. {}.",
        quota.noun(), quota.remedy()
    )]
    Quota { quota: QuotaKind, most: u64 },
    #[error(
        "no dataset named {name:?} was deleted here and can be brought back. `{DATASETS_DELETED}` lists those that can."
    )]
    NoDeleted { name: String },
    #[error(
        "several deleted datasets were named {name:?}. Give the id of the one that you mean: {}.",
        ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    SeveralDeleted { name: String, ids: Vec<DatasetId> },
    #[error(
        "{} is damaged: it {corruption}. It says what owners granted to others. Restore it from a backup; or remove it, \
         and have owners grant anew.",
        path.display()
    )]
    DamagedGrants {
        path: PathBuf,
        corruption: Corruption,
    },
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
    #[error(
        "dataset {name:?} was restored here from a copy that is older than a change by its owner, an erasure for one, and \
         is not served. Have its owner upload the present version."
    )]
    Outdated { name: String },
    #[error(
        "no record is kept here of the published version of dataset {name:?}. Its owner has it kept with `{UPLOAD_KEEP_RECORD}`, \
         which takes the dataset's directory."
    )]
    NoRecovery { name: String },
    #[error(
        "{} is damaged, so that it is not known which versions of dataset {dataset} its owner replaced; it is not served. \
         Restore that file from a newer backup of the store; or, if nothing here was restored from an older one, remove \
         it. Then start the server again.",
        path.display()
    )]
    DamagedNote { dataset: DatasetId, path: PathBuf },
}

/// Errors of the catalogue.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum CatalogueError {
    #[error(
        "the catalogue of the store failed: {}. Check the disk that holds the store, its free \
         space and its permissions.",
        source.to_string().escape_debug()
    )]
    Failed { source: rusqlite::Error },
    #[error(
        "the catalogue of the store is damaged: {}. Check the disk and restore catalogue.sqlite from a \
         backup; the segment files beside it are as they were.",
        problem.escape_debug()
    )]
    Damaged { problem: String },
    #[error(
        "the catalogue {} has schema version {found}, of an earlier release; this one reads {known} only. Choose another \
         directory for the store, and have owners encrypt their data again and upload them.",
        path.display()
    )]
    Older {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "the catalogue {} has schema version {found}, this Oboro knows {known}. Use the Oboro that \
         wrote it or a newer one.",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("{} is an SQLite database of another program. Choose another directory for the store.", path.display())]
    Foreign { path: PathBuf },
    #[error(
        "{}/catalogue.sqlite is missing, the catalogue of what is stored there. Restore it from a backup, or move the \
         directory away to begin with an empty store.",
        path.display()
    )]
    Missing { path: PathBuf },
    #[error(
        "the catalogue belongs to {found}, and is in the place of that of {expected}. Nothing was changed. Put each catalogue \
         back to where it belongs, or restore catalogue.sqlite from a backup of this store."
    )]
    Swapped { expected: String, found: String },
    #[error(
        "the catalogue was moved, removed or replaced while the server has it open. Move it back, or stop the server and \
         restore catalogue.sqlite from a backup."
    )]
    Moved,
}

/// Reasons why an upload cannot continue.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum UploadError {
    #[error("the manifest was refused: it {corruption}. {}", corruption.remedy())]
    ManifestRefused { corruption: Corruption },
    #[error(
        "no upload of dataset {dataset} is in progress. Begin the upload again; it resumes where it stopped."
    )]
    NoUpload { dataset: DatasetId },
    #[error(
        "the name {name:?} is taken by dataset {taken_by}. Choose another name, or delete that dataset first (an unfinished upload is given up by `{UPLOAD_CANCEL}`)."
    )]
    NameTaken { name: String, taken_by: DatasetId },
    #[error("dataset {dataset} is stored here under the name {name:?}. Use that name.")]
    StoredAs { dataset: DatasetId, name: String },
    #[error(
        "dataset {dataset} was deleted here, and ids are never used again. Encrypt the data again for a \
         new id."
    )]
    Purged { dataset: DatasetId },
    #[error(
        "dataset {dataset} was deleted here as {name:?}. Bring it back with `{UNDELETE}`, or encrypt the data again for \
         a new id."
    )]
    Deleted { dataset: DatasetId, name: String },
    #[error(
        "dataset {dataset} is, or was, the owner's under another name. Ask the owner which, or encrypt the data again for \
         a new id."
    )]
    IdUsed { dataset: DatasetId },
    #[error("the name {name:?} is that of another dataset. Choose another one.")]
    NameUsed { name: String },
    #[error(
        "another version of dataset {dataset} is being uploaded as {name:?}. Finish that upload, or \
         cancel it, and begin again."
    )]
    OtherUpload { dataset: DatasetId, name: String },
    #[error(
        "the version of dataset {dataset} with root {root} is neither being uploaded nor published: another version took \
         its place. Begin the upload again."
    )]
    OtherVersion { dataset: DatasetId, root: Digest },
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
        "segment {index} of dataset {dataset} arrived damaged and was discarded: {damaged} {corruption}. \
         Send the segment again from its first byte; if it is refused again, check the bundle with `{INSPECT_VERIFY}`."
    )]
    SegmentRefused {
        dataset: DatasetId,
        index: u32,
        damaged: String,
        corruption: Corruption,
    },
    #[error(
        "dataset {dataset} cannot be published: segment {index} is not complete. Send the missing \
         segments first."
    )]
    NotComplete { dataset: DatasetId, index: u32 },
    #[error("the recovery copy of dataset {dataset} was refused: it {corruption}. Send it again.")]
    RecoveryRefused {
        dataset: DatasetId,
        corruption: Corruption,
    },
    #[error(
        "the recovery copy of dataset {dataset} was announced with {announced} bytes, and {received} came. Send it again."
    )]
    RecoveryLength {
        dataset: DatasetId,
        announced: u64,
        received: u64,
    },
    #[error(
        "the recovery copy is not of version {version} of dataset {dataset}, which is published here. Upload the present \
         version first."
    )]
    OtherRecovery { dataset: DatasetId, version: u64 },
    #[error(
        "a recovery copy of dataset {dataset} is being received on another connection. Try again when that one has ended."
    )]
    RecoveryBusy { dataset: DatasetId },
}

/// Errors of object storage, or of the directory that is its cache.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ObjectStorageError {
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
        "another server writes to {url}: this one has lost it and publishes, deletes and grants nothing any more. Let only \
         one server write there, and start that one again."
    )]
    OtherServer { url: String },
    #[error(
        "the storage at {url} cannot keep two servers from undoing each other's changes: {ignored}. Use storage that honours \
         If-Match and If-None-Match on writes, and leave AWS_CONDITIONAL_PUT at its default."
    )]
    NoConditions { url: String, ignored: &'static str },
    #[error(
        "{url} has segments but no catalogue.sqlite. Restore that object from a version or a copy of it, or choose \
         another prefix to begin with an empty store."
    )]
    CatalogueObjectMissing { url: String },
    #[error(
        "{} is a cache of the store {url}, not a store. Serve and scrub that one (`{SERVE} {} {}`), or choose \
         another directory.",
        path.display(),
        DATA.to(url.as_str()),
        CACHE.to("DIR")
    )]
    IsCache { path: PathBuf, url: String },
    #[error(
        "{} is a store of its own, not a cache of {url}. Choose another directory for the cache.",
        path.display()
    )]
    IsNoCache { path: PathBuf, url: String },
}

/// Returns a verb phrase for what a role permits.
fn doing(role: Role) -> &'static str {
    match role {
        Role::Read => "see what is there",
        Role::Count => "count",
        Role::Fetch => "fetch columns",
        Role::Append => "upload",
        Role::Delete => "delete",
        Role::Administer => "administer",
        Role::Operate => "operate the server",
    }
}

impl StoreError {
    /// Returns the coarse kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Format(error) => error.kind(),
            Self::Catalogue(
                CatalogueError::Damaged { .. }
                | CatalogueError::Missing { .. }
                | CatalogueError::Swapped { .. }
                | CatalogueError::Moved,
            )
            | Self::DamagedNote { .. }
            | Self::DamagedGrants { .. } => ErrorKind::DataLoss,
            Self::Catalogue(CatalogueError::Older { .. }) => ErrorKind::FailedPrecondition,
            Self::Catalogue(_) => ErrorKind::Internal,
            Self::Upload(error) => error.kind(),
            Self::Object(error) => error.kind(),
            Self::Residency(error) => error.kind(),
            Self::NoDataset { .. }
            | Self::NoStore { .. }
            | Self::NoDeleted { .. }
            | Self::NoRecovery { .. } => ErrorKind::NotFound,
            Self::Forbidden { .. } | Self::ReplacesSegments | Self::NotOwner => {
                ErrorKind::Forbidden
            }
            Self::Quota { .. } => ErrorKind::Quota,
            Self::NotGrantable
            | Self::GrantToOwner
            | Self::Caller
            | Self::SeveralDeleted { .. } => ErrorKind::InvalidArgument,
            Self::IsBundle { .. } => ErrorKind::InvalidArgument,
            Self::Name { .. } => ErrorKind::InvalidArgument,
            Self::OtherVersion { .. } | Self::Outdated { .. } => ErrorKind::FailedPrecondition,
        }
    }

    /// Returns the message for a user on another machine, without local paths and object locations.
    pub fn without_paths(&self) -> String {
        match self {
            Self::Format(error) => error.without_paths(),
            Self::DamagedNote { dataset, .. } => format!(
                "the server's note of what was rewritten of dataset {dataset} is damaged, and the dataset is not served. \
                 Ask the operator to restore the note."
            ),
            Self::Object(ObjectStorageError::Unavailable { .. }) => {
                "the server's object storage cannot be reached. Nothing is lost; try again later. If it stays so, ask \
                 the operator, whose log names the object and the cause."
                    .to_owned()
            }
            Self::Object(ObjectStorageError::OtherServer { .. }) => {
                "another server writes to the object storage of this one, which publishes, deletes and grants nothing \
                 any more. Ask the operator to let only one server write there."
                    .to_owned()
            }
            _ => self.to_string(),
        }
    }
}

impl UploadError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoUpload { .. } => ErrorKind::NotFound,
            Self::NameTaken { .. }
            | Self::StoredAs { .. }
            | Self::Purged { .. }
            | Self::Deleted { .. }
            | Self::IdUsed { .. }
            | Self::NameUsed { .. } => ErrorKind::AlreadyExists,
            Self::ManifestRefused { .. }
            | Self::TooLong { .. }
            | Self::RecoveryRefused { .. }
            | Self::RecoveryLength { .. } => ErrorKind::InvalidArgument,
            Self::OtherUpload { .. }
            | Self::OtherVersion { .. }
            | Self::UploadCancelled { .. }
            | Self::Incomplete { .. }
            | Self::OtherRecovery { .. }
            | Self::NotComplete { .. } => ErrorKind::FailedPrecondition,
            // The upload has advanced: a retry with its current status may succeed.
            Self::SegmentBusy { .. }
            | Self::RecoveryBusy { .. }
            | Self::Offset { .. }
            | Self::NoSuchSegment { .. } => ErrorKind::Busy,
            Self::SegmentRefused { .. } => ErrorKind::DataLoss,
        }
    }
}

impl ObjectStorageError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::ObjectsUrl { .. } => ErrorKind::InvalidArgument,
            Self::OtherServer { .. } | Self::NoConditions { .. } => ErrorKind::FailedPrecondition,
            Self::CatalogueObjectMissing { .. } | Self::IsCache { .. } | Self::IsNoCache { .. } => {
                ErrorKind::Internal
            }
        }
    }
}

impl From<ResidencyError> for StoreError {
    fn from(error: ResidencyError) -> Self {
        match error {
            ResidencyError::Format(error) => error.into(),
            ResidencyError::Storage(error) => match error.downcast::<ObjectStorageError>() {
                Ok(error) => (*error).into(),
                Err(error) => Self::Residency(ResidencyError::Storage(error)),
            },
            other => Self::Residency(other),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => FormatError::DiskFull {
                path: "catalogue.sqlite".into(),
            }
            .into(),
            // The statements are fixed, so they fail only on altered tables.
            Some(
                rusqlite::ErrorCode::DatabaseCorrupt
                | rusqlite::ErrorCode::NotADatabase
                | rusqlite::ErrorCode::Unknown,
            ) => CatalogueError::Damaged {
                problem: source.to_string(),
            }
            .into(),
            _ => CatalogueError::Failed { source }.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn only_the_operator_hears_of_paths() {
        let damaged = FormatError::Damaged {
            subject: "segment 3 of dataset 11".into(),
            path: Some("/srv/store/3.seg".into()),
            corruption: Corruption::Missing,
        };
        let remedy = Corruption::Missing.remedy();
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
        let unreadable = FormatError::Io {
            action: "open",
            path: path(),
            source,
        };
        let url = || "file:///srv/store".to_owned();
        let unavailable = ObjectStorageError::Unavailable {
            object: url(),
            cause: "no route".into(),
        };
        let errors: [StoreError; 4] = [
            unreadable.into(),
            FormatError::DiskFull { path: path() }.into(),
            unavailable.into(),
            ObjectStorageError::OtherServer { url: url() }.into(),
        ];
        for error in errors {
            assert!(error.to_string().contains("/srv/store"));
            assert!(!error.without_paths().contains("/srv/store"), "{error}");
        }
    }

    /// SQLite quotes table and column names from the file.
    #[test]
    fn a_damaged_catalogue_sends_nothing_to_the_terminal() {
        let problem = "malformed schema (\u{1b}[2J)\nTree 8".to_owned();
        let text = CatalogueError::Damaged { problem }.to_string();
        assert!(
            text.contains("Tree 8") && !text.contains(char::is_control),
            "{text:?}"
        );
        let source = rusqlite::Error::InvalidColumnName("\u{7}".to_owned());
        let text = CatalogueError::Failed { source }.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
