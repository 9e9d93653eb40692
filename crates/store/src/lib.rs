//! Storage of the server's datasets: the catalogue, and ciphertext on disk or in object storage.
//!
//! An [`Access`] to a [`Store`] accepts uploads and publishes them; queries take a snapshot of one version, whose panels
//! `oboro_residency` keeps in memory. Nothing here is secret and nothing here can decrypt; `oboro_format` defines the
//! layout of bytes.

mod cache_marker;
mod catalogue;
mod error;
mod layout;
mod location;
mod object;
mod pace;
mod shared;
mod store;
mod store_id;
#[cfg(test)]
mod testing;

pub use error::{CatalogueError, ObjectStorageError, QuotaKind, StoreError, UploadError};
pub use layout::home_of;
pub use location::Location;
pub use object::RequestCounts;
pub use pace::Pace;
pub use shared::SharedStore;
pub use store::{
    Access, BackupSize, CacheState, DeletedInfo, Grant, Listing, Policy, PublishedVersion, Quota,
    Recovery, RecoveryReceiver, ResolvedName, Scrub, ScrubbedPart, SegmentProgress,
    SegmentReceiver, Store, StoreState, UploadInfo, UploadStatus, Usage, VisibleNamespace, backup,
    backup_with, namespaces_in,
};
