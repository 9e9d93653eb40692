//! Where a store is: in a directory of this machine, or in object storage with a local directory as its cache.

use crate::cache_marker::{check_is_cache, check_is_no_cache};
use crate::error::StoreError;
use crate::residency::Tier;
use crate::source::object::{Named, Objects};
use oboro_format::FormatError;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In a directory.
    Directory(PathBuf),
    /// In object storage.
    Objects {
        /// `s3://BUCKET/PREFIX`, with settings in the environment (`AWS_*`), or `file:///DIRECTORY`.
        url: String,
        /// The directory for uploads in progress, and the cache of what was needed.
        cache: PathBuf,
        /// The most bytes of the cache.
        cache_bytes: u64,
    },
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Location {
    fn from(directory: &P) -> Self {
        Self::Directory(directory.as_ref().into())
    }
}

impl Location {
    /// The directory with the catalogue and what else belongs to the server as a whole: the store's, or the cache.
    pub fn home(&self) -> &Path {
        match self {
            Self::Directory(directory) => directory,
            Self::Objects { cache, .. } => cache,
        }
    }

    /// Whether a store can be there, as far as that shows without writing or sending anything.
    ///
    /// # Errors
    /// A path through something that is no directory, a cache given as a store or the other way round, a URL that cannot be
    /// used, invalid settings (`AWS_*`).
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

    /// Bytes of read buffers for a store there.
    pub fn read_buffers(&self) -> u64 {
        match self {
            Self::Directory(_) => Tier::BUFFERS,
            Self::Objects { .. } => Tier::BUFFERS + Objects::BUFFERS,
        }
    }
}

/// Refuses a path that is no directory and cannot become one.
fn check_directory(path: &Path) -> Result<(), StoreError> {
    // Of what does not exist yet, the directory that it would be made in counts.
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
