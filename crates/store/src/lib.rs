//! Storage of the server's datasets: the catalogue, ciphertext on disk or in object storage, and its residency in
//! memory.
//!
//! An [`Access`] to a [`Store`] accepts uploads and publishes them; queries take a [`Snapshot`] of one version. Nothing
//! here is secret and nothing here can decrypt; `oboro_format` defines the layout of bytes.

mod cache_marker;
mod catalogue;
mod error;
mod layout;
mod location;
mod pace;
mod panel;
mod placement;
mod residency;
mod shared;
mod snapshot;
mod source;
mod store;
mod store_id;
#[cfg(test)]
mod testing;

pub use error::{
    CatalogueError, ObjectStorageError, QuotaKind, ResidencyError, StoreError, UploadError,
};
pub use layout::{DEFAULT_NAMESPACE, home_of};
pub use location::Location;
pub use pace::Pace;
pub use panel::Panel;
pub use placement::{NodePages, Placement, PlacementReport};
pub use residency::{Arrival, Listener, PanelKey, Reads, Residency, Stream, WorkUnit};
pub use shared::SharedStore;
pub use snapshot::Snapshot;
pub use source::{Requested, StoredSegment};
pub use store::{
    Access, BackedUp, CacheState, DeletedInfo, Grant, Listing, Policy, Published, Quota, Recovery,
    RecoveryReceiver, Resolved, Scrub, ScrubbedPart, SegmentProgress, SegmentReceiver, Store,
    StoreState, UploadInfo, UploadStatus, Usage, Visible, backup, backup_with, namespaces_in,
};
