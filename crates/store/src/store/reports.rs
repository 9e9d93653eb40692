//! Reports on datasets and uploads for callers.

use crate::error::StoreError;
use crate::object::RequestCounts;
use oboro_format::{DatasetId, DatasetInfo, Digest, Manifest};
use oboro_residency::Residency;

/// Progress of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadStatus {
    /// Dataset being uploaded.
    pub dataset: DatasetId,
    /// One entry for each segment that the manifest names.
    pub segments: Vec<SegmentProgress>,
    /// `true` if this version is published; nothing is left to do.
    pub published: bool,
}

/// Progress of one segment's upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentProgress {
    /// Index of the segment in the manifest.
    pub index: u32,
    /// Length of its file in bytes.
    pub bytes_total: u64,
    /// Number of bytes received: the offset at which to continue.
    pub bytes_received: u64,
    /// `true` if all bytes have arrived and match the manifest.
    pub complete: bool,
}

/// Published version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedVersion {
    /// Dataset.
    pub dataset: DatasetId,
    /// Version of the dataset.
    pub version: u64,
    /// Root hash, for comparison by the owner.
    pub root: Digest,
    /// Roots of the earlier versions that this call rewrote; nothing of them may be kept.
    pub rewrote: Vec<Digest>,
}

impl PublishedVersion {
    pub(super) fn of(manifest: &Manifest, rewrote: Vec<Digest>) -> Self {
        Self {
            dataset: manifest.dataset,
            version: manifest.version,
            root: manifest.root(),
            rewrote,
        }
    }
}

/// State of a store in memory and in its cache, and its reads since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreState {
    /// Panels in memory.
    pub residency: Residency,
    /// Cache of object storage, if the data are there.
    pub cache: Option<CacheState>,
}

/// State of the cache of object storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheState {
    /// Bytes on disk.
    pub bytes: u64,
    /// Maximum bytes on disk.
    pub limit: u64,
    /// Requests to object storage.
    pub requested: RequestCounts,
}

/// Contents of a store.
#[derive(Debug, Default)]
pub struct Listing {
    /// Published datasets, by name.
    pub datasets: Vec<DatasetInfo>,
    /// Errors of the datasets with unreadable metadata.
    pub damaged: Vec<StoreError>,
}

/// Deleted but restorable dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedInfo {
    /// Name that it was stored under.
    pub name: String,
    /// Id of the dataset.
    pub dataset: DatasetId,
    /// Bytes of its segment files.
    pub stored_bytes: u64,
    /// Time of its deletion, in seconds since 1970.
    pub deleted: i64,
    /// Time at which it will be purged, in seconds since 1970.
    pub until: i64,
}

/// Unfinished upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadInfo {
    /// Name that it is to be stored under.
    pub name: String,
    /// Id of the dataset.
    pub dataset: DatasetId,
    /// Bytes of its segments that have arrived.
    pub received_bytes: u64,
    /// Bytes of all its segments.
    pub total_bytes: u64,
    /// Time at which it is cancelled unless it is resumed, in seconds since 1970.
    pub until: i64,
}

/// Contents of a namespace, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of published datasets.
    pub datasets: u64,
    /// Number of unfinished uploads.
    pub uploads: u64,
    /// Number of deleted but restorable datasets.
    pub deleted: u64,
    /// Bytes of all of these.
    pub bytes: u64,
}
