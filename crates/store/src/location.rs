//! Where a store is: in a directory of this machine, or in object storage with a local directory as its cache; and the
//! layout of that directory.

use crate::error::StoreError;
use crate::residency::Tier;
use crate::source::object::{Named, Objects};
use crate::store::{check_is_cache, check_is_no_cache};
use oboro_format::{DatasetId, FormatError};
use std::fs;
use std::path::{Path, PathBuf};

/// The file of the catalogue.
pub(crate) const CATALOGUE: &str = "catalogue.sqlite";
/// The directory of the datasets.
pub(crate) const SEGMENTS: &str = "segments";

/// The directory of the namespaces other than the default one, each with the layout of a store.
pub(crate) const NAMESPACES: &str = "namespaces";
/// The namespace of callers without a token. Its directory is the store's own.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The directory of a namespace in a store.
pub fn home_of(store: &Path, namespace: &str) -> PathBuf {
    match namespace {
        DEFAULT_NAMESPACE => store.into(),
        other => store.join(NAMESPACES).join(other),
    }
}

/// What the names of a namespace's objects begin with.
pub(crate) fn prefix_of(namespace: &str) -> String {
    match namespace {
        DEFAULT_NAMESPACE => String::new(),
        other => format!("{NAMESPACES}/{other}/"),
    }
}

/// The directory of a dataset in a namespace.
pub(crate) fn dataset_path(home: &Path, id: DatasetId) -> PathBuf {
    home.join(SEGMENTS).join(id.to_string())
}

/// The file of a segment in a namespace.
pub(crate) fn segment_path(home: &Path, id: DatasetId, number: u32) -> PathBuf {
    dataset_path(home, id).join(segment_name(number))
}

/// The file of a segment in its dataset's directory.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:08}.seg")
}

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
