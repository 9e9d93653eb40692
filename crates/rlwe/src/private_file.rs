//! Files that only their owner may read or write: keys and passphrases.

use oboro_system::{NotPrivate, check_private};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Error: a file with a secret cannot be opened, or is accessible to others.
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

/// Opens a file that belongs to this process's effective user and that no other user can read or write. Devices, such
/// as a terminal, are not checked. Windows checks nothing: its files have no mode.
///
/// # Errors
/// The file does not exist, or others can read, write or replace it.
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
