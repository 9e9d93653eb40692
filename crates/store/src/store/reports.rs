//! What callers are told of their datasets and uploads.

use crate::error::StoreError;
use crate::residency::Residency;
use crate::source::object::Requested;
use oboro_format::{DatasetId, DatasetInfo, Digest, Manifest};

/// Where an upload stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadStatus {
    /// The dataset being uploaded.
    pub dataset: DatasetId,
    /// One entry for each segment that the manifest names.
    pub segments: Vec<SegmentProgress>,
    /// This very version is published; nothing is left to do.
    pub published: bool,
}

/// Where the upload of one segment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentProgress {
    /// The segment's index in the manifest.
    pub index: u32,
    /// The length of its file.
    pub bytes_total: u64,
    /// How many of these bytes have arrived: where to continue.
    pub bytes_received: u64,
    /// All bytes have arrived and agree with the manifest.
    pub complete: bool,
}

/// What has been published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The dataset.
    pub dataset: DatasetId,
    /// The version of the dataset.
    pub version: u64,
    /// Its root hash, for the owner to compare.
    pub root: Digest,
    /// The roots of the versions before it, if this call rewrote what they have: nothing of them may be kept.
    pub rewrote: Vec<Digest>,
}

impl Published {
    pub(super) fn of(manifest: &Manifest, rewrote: Vec<Digest>) -> Self {
        Self {
            dataset: manifest.dataset,
            version: manifest.version,
            root: manifest.root(),
            rewrote,
        }
    }
}

/// What there is of a store in memory and in its cache, and what was read since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreState {
    /// Panels in memory.
    pub residency: Residency,
    /// The cache of object storage, if data are there.
    pub cache: Option<CacheState>,
}

/// The cache of what was fetched from object storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheState {
    /// Bytes on disk.
    pub bytes: u64,
    /// The most that there may be.
    pub limit: u64,
    /// Requests to object storage.
    pub requested: Requested,
}

/// What a store holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// The published datasets, by name.
    pub datasets: Vec<DatasetInfo>,
    /// Those of which the catalogue knows no more than this.
    pub damaged: Vec<StoreError>,
}

/// A deleted dataset that can be brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedInfo {
    /// The name it was stored under.
    pub name: String,
    /// Its id.
    pub dataset: DatasetId,
    /// The bytes of its segment files.
    pub stored_bytes: u64,
    /// When it was deleted, and when it goes for ever: seconds since the beginning of 1970.
    pub deleted: i64,
    /// When it goes for ever.
    pub until: i64,
}

/// An unfinished upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadInfo {
    /// The name it is to be stored under.
    pub name: String,
    /// Its id.
    pub dataset: DatasetId,
    /// Bytes of its segments that are here, and of all.
    pub received_bytes: u64,
    /// Bytes of all its segments.
    pub total_bytes: u64,
    /// When it is cancelled if nobody goes on with it: seconds since the beginning of 1970.
    pub until: i64,
}

/// What a namespace holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Published datasets.
    pub datasets: u64,
    /// Unfinished uploads.
    pub uploads: u64,
    /// Deleted datasets that can be brought back.
    pub deleted: u64,
    /// Bytes of all of these.
    pub bytes: u64,
}
