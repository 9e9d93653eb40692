//! Where a store is: in directories of this machine, or in object storage with one as its cache.

use crate::directories::Directories;
use crate::objects::Objects;
use crate::tier::Tier;
use std::path::PathBuf;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In one directory, or striped over several.
    Directories(Directories),
    /// In object storage.
    Objects {
        /// `s3://BUCKET/PREFIX`, with settings in the environment (`AWS_*`), or `file:///DIRECTORY`.
        url: String,
        /// The directory for uploads under way, and for a copy of what was needed.
        cache: PathBuf,
        /// Bytes that copies may take there.
        cache_bytes: u64,
    },
}

impl<D: Into<Directories>> From<D> for Location {
    fn from(directories: D) -> Self {
        Self::Directories(directories.into())
    }
}

impl Location {
    /// The directories on this machine.
    pub(crate) fn directories(&self) -> Directories {
        match self {
            Self::Directories(directories) => directories.clone(),
            Self::Objects { cache, .. } => cache.into(),
        }
    }

    /// Where its catalogue is, and what else belongs to the server as a whole: the home, or the cache.
    pub fn home(&self) -> PathBuf {
        self.directories().home().into()
    }

    /// Bytes of buffers that a store there reads into if it has a budget.
    pub fn read_buffers(&self) -> u64 {
        match self {
            Self::Directories(directories) => Tier::buffers(directories.count()),
            Self::Objects { .. } => Tier::buffers(1) + Objects::BUFFERS,
        }
    }
}
