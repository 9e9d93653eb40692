//! Where a namespace keeps what it publishes: in its directory, or in object storage with the directory as its cache.

use crate::catalogue::{Catalogue, Change};
use crate::error::StoreError;
use oboro_format::{DatasetId, Manifest};
use oboro_residency::StoredSegment;
use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

/// Dataset and the bytes of a note of what its owner rewrote.
pub(super) type StoredNote = (DatasetId, Vec<u8>);

/// Permanent storage of a namespace. Its files in the directory are written first; a call here then publishes them.
pub(super) trait Backend: Send + Sync {
    /// Returns true if the directory's files are the data, and not copies.
    fn keeps_files(&self) -> bool;

    /// Opens the segment that `manifest` names as its `index`-th, with its file at `path`.
    ///
    /// # Errors
    /// Damage, storage out of reach.
    fn open_segment(
        &self,
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<StoredSegment, StoreError>;

    /// Stores a complete segment from a file that has not got its name yet.
    ///
    /// # Errors
    /// Another server that writes there, storage out of reach.
    fn put_segment(&self, dataset: DatasetId, number: u32, file: &Path) -> Result<(), StoreError>;

    /// Records that the file of a stored segment has got its name.
    fn name_segment(&self, dataset: DatasetId, number: u32, path: &Path);

    /// Removes a stored segment whose upload was cancelled meanwhile, as far as possible now.
    fn take_back_segment(&self, dataset: DatasetId, number: u32);

    /// Removes the stored segments of a dataset except those of these numbers, as far as possible now. Files in the
    /// directory stay.
    fn remove_segments(&self, dataset: DatasetId, published: &BTreeSet<u32>);

    /// Returns the first of these segments of a dataset that is not stored as in `manifest`.
    ///
    /// # Errors
    /// Storage out of reach.
    fn missing(&self, manifest: &Manifest, segments: &[u32]) -> Result<Option<u32>, StoreError>;

    /// Returns the place of a stored segment, for operators, given its file.
    fn place(&self, path: PathBuf, dataset: DatasetId, number: u32) -> PathBuf;

    /// Publishes the catalogue as of after a change that is then made in the directory.
    ///
    /// # Errors
    /// Another server that writes there, storage out of reach.
    fn put_catalogue(&self, catalogue: &Catalogue, change: Change<'_>) -> Result<(), StoreError>;

    /// Stores a note of what an owner rewrote, from a file that has not got its name yet.
    ///
    /// # Errors
    /// Another server that writes there, storage out of reach.
    fn put_note(&self, dataset: DatasetId, file: &Path) -> Result<(), StoreError>;

    /// Returns all notes that are stored beyond the directory; `None` if none can be.
    ///
    /// # Errors
    /// Storage out of reach.
    fn notes(&self) -> Result<Option<Vec<StoredNote>>, StoreError>;

    /// Stores a recovery copy, replacing an older one, from a file that may be moved.
    ///
    /// # Errors
    /// A disk that fails, another server that writes there, storage out of reach.
    fn put_recovery(&self, dataset: DatasetId, file: &Path, bytes: u64) -> Result<(), StoreError>;

    /// Returns a dataset's recovery copy, if it exists.
    ///
    /// # Errors
    /// A disk that fails, storage out of reach.
    fn recovery(&self, dataset: DatasetId) -> Result<Option<StoredCopy>, StoreError>;

    /// Removes a dataset's recovery copy, if it exists.
    ///
    /// # Errors
    /// A disk that fails, another server that writes there, storage out of reach.
    fn remove_recovery(&self, dataset: DatasetId) -> Result<(), StoreError>;

    /// Returns the bytes of all recovery copies, without that of one dataset.
    ///
    /// # Errors
    /// A disk that fails.
    fn recovery_bytes(&self, without: Option<DatasetId>) -> Result<u64, StoreError>;

    /// Removes what deleted datasets and rewritten segments left, after the directory was swept.
    ///
    /// # Errors
    /// A catalogue that fails, storage out of reach.
    fn sweep(&self, catalogue: &Catalogue) -> Result<(), StoreError>;

    /// Returns the number of stored segments that the catalogue did not name when it was opened.
    fn unnamed(&self) -> usize;
}

/// Bytes that can be read twice.
pub(super) trait Content: Read + Seek + Send {}

impl<T: Read + Seek + Send> Content for T {}

/// Recovery copy as stored.
pub(super) struct StoredCopy {
    /// Its file, if it is one.
    pub(super) path: Option<PathBuf>,
    pub(super) bytes: u64,
    pub(super) content: Box<dyn Content>,
}

#[cfg(test)]
mod tests;
