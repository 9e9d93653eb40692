//! A collection that is being loaded.

use crate::error::GenomeError;
use crate::kind::Kind;
use oboro_format::files::{Lock, io_error, partial_path, remove_if_there, rename_durably};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Collection that is being loaded: its partial file, and the lock of the directory. Dropped before it is published, it
/// leaves nothing.
pub(crate) struct PartialCollection {
    kind: Kind,
    path: PathBuf,
    partial: PathBuf,
    _lock: Lock,
}

impl PartialCollection {
    /// The collection that is to lie at `path`, in a directory that is locked.
    pub(crate) fn new(kind: Kind, path: PathBuf, lock: Lock) -> Self {
        Self {
            kind,
            partial: partial_path(&path),
            path,
            _lock: lock,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn partial(&self) -> &Path {
        &self.partial
    }

    /// The directory of the collections.
    pub(crate) fn directory(&self) -> &Path {
        oboro_format::files::parent(&self.path)
    }

    /// Creates the partial file, which only its owner may read.
    pub(crate) fn create(&self) -> Result<File, GenomeError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.partial)
            .map_err(|error| io_error("create", &self.partial)(error).into())
    }

    /// Makes the partial file durable and gives it its name.
    pub(crate) fn publish(&self, file: &File) -> Result<(), GenomeError> {
        file.sync_all().map_err(io_error("sync", &self.partial))?;
        Ok(rename_durably(&self.partial, &self.path)?)
    }
}

impl Drop for PartialCollection {
    fn drop(&mut self) {
        // If this fails, the next load sweeps.
        let _ = remove_if_there(&self.partial);
    }
}
