//! Files that only their owner may read or write: keys and passphrases.

use oboro_system::{NotPrivate, check_private};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file with a secret that cannot be opened, or is accessible to others.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum PrivateFileError {
    #[error("{0}")]
    Open(#[from] io::Error),
    #[error("{path} can be read by others (mode {mode:o}); make it yours alone: chmod 600 {path}", path = path.display())]
    Permissions { path: PathBuf, mode: u32 },
    #[error(
        "{path} belongs to another user (uid {owner}, and this process runs as {user}), who can read and replace it; make it yours (chown {user} {path}), or use a copy of your own",
        path = path.display()
    )]
    Owner {
        path: PathBuf,
        owner: u32,
        user: u32,
    },
}

/// Opens a file that belongs to this process's effective user and that nobody else can read or write. Devices, such as
/// a terminal, are not checked; nothing is on Windows, where a file has no mode.
///
/// # Errors
/// No such file, or one that others can read, write or replace.
pub fn open_private(path: &Path) -> Result<File, PrivateFileError> {
    let file = File::open(path)?;
    let path = path.to_owned();
    match check_private(&file.metadata()?) {
        Ok(()) => Ok(file),
        Err(NotPrivate::Owner { owner, user }) => {
            Err(PrivateFileError::Owner { path, owner, user })
        }
        Err(NotPrivate::Mode(mode)) => Err(PrivateFileError::Permissions { path, mode }),
    }
}
