//! Checks on files that grant access: other users must not be able to change them.

use oboro_format::FormatError;
use oboro_format::files::io_error;
use rustix::process::geteuid;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Errors of a file that other users may change.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum FileTrustError {
    #[error(
        "{} can be written by others than its owner, who could let themselves in; take that right away (chmod go-w)",
        path.display()
    )]
    Writable { path: PathBuf },
    #[error(
        "{path} belongs to another user (uid {owner}, and this process runs as {user}), who could let himself in; give it to this process's user or to root (chown {user} {path})",
        path = path.display()
    )]
    Owner {
        path: PathBuf,
        owner: u32,
        user: u32,
    },
}

/// Refuses a file that its group or others may write.
pub(crate) fn check_writers(path: &Path, metadata: &Metadata) -> Result<(), FileTrustError> {
    if metadata.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(FileTrustError::Writable { path: path.into() })
}

/// Refuses a file owned by a user other than root and that of this process.
pub(crate) fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), FileTrustError> {
    let (owner, user) = (metadata.uid(), geteuid().as_raw());
    if owner == user || owner == 0 {
        return Ok(());
    }
    let path = path.into();
    Err(FileTrustError::Owner { path, owner, user })
}

/// Reads a file; returns `None` unless it is a regular file, for opening a pipe would block.
pub(crate) fn read_plain(
    path: &Path,
    action: &'static str,
) -> Result<Option<Vec<u8>>, FormatError> {
    let failed = |error| io_error(action, path)(error);
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(None);
    }
    fs::read(path).map(Some).map_err(failed)
}
