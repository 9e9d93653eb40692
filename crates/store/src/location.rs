//! Where a store is: in a directory of this machine, or in object storage with a local directory as its cache.

use crate::cache_marker::{check_is_cache, check_is_no_cache};
use crate::error::StoreError;
use crate::object::{Named, Objects};
use oboro_format::FormatError;
use oboro_residency::Tier;
use std::fs;
use std::path::{Path, PathBuf};

/// Location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// Local directory.
    Directory(PathBuf),
    /// Object storage.
    Objects {
        /// URL: `s3://BUCKET/PREFIX`, with settings in the environment (`AWS_*`), or `file:///DIRECTORY`.
        url: String,
        /// Directory for uploads in progress and for the cache.
        cache: PathBuf,
        /// Maximum bytes of the cache.
        cache_bytes: u64,
    },
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Location {
    fn from(directory: &P) -> Self {
        Self::Directory(directory.as_ref().into())
    }
}

impl Location {
    /// Returns the directory with the catalogue and the server's other files: the store's directory, or the cache.
    pub fn home(&self) -> &Path {
        match self {
            Self::Directory(directory) => directory,
            Self::Objects { cache, .. } => cache,
        }
    }

    /// Checks that a store can be there, without writing or sending anything.
    ///
    /// # Errors
    /// A path that is not a directory, a cache given as a store or vice versa, an invalid URL, invalid settings
    /// (`AWS_*`).
    pub fn check(&self) -> Result<(), StoreError> {
        check_directory(self.home())?;
        match self {
            Self::Directory(directory) => check_is_no_cache(directory),
            Self::Objects { url, cache, .. } => {
                check_is_cache(cache, url.trim_end_matches('/'))?;
                if let Named::Directory(directory) = Named::by(url)? {
                    check_directory(directory)?;
                }
                Ok(())
            }
        }
    }

    /// Returns the bytes of read buffers for a store there.
    pub fn read_buffers(&self) -> u64 {
        match self {
            Self::Directory(_) => Tier::BUFFERS,
            Self::Objects { .. } => Tier::BUFFERS + Objects::BUFFERS,
        }
    }
}

/// Refuses a path that is not a directory and cannot become one.
fn check_directory(path: &Path) -> Result<(), StoreError> {
    // For a missing path, the closest existing ancestor counts.
    let existing = path.ancestors().find(|it| it.exists());
    match existing.map(fs::read_dir) {
        Some(Err(source)) => Err(FormatError::Io {
            action: "use the directory",
            path: path.into(),
            source,
        }
        .into()),
        _ => Ok(()),
    }
}
