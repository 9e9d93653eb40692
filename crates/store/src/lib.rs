//! The encrypted column store: how ciphertext lies on disk, and how it comes back.
//!
//! A dataset is a list of *segments* of up to 64 blocks; in a segment each
//! (limb, column) is one contiguous *panel*, the unit of checksum, I/O and caching.
//! The owner builds a [`Bundle`]; the server keeps a [`Store`], from which queries take
//! a [`Snapshot`]. A [`Manifest`] describes one version of a dataset and names every
//! byte of it through digests; its [`Manifest::root`] is what the owner remembers.
//!
//! Nothing here is secret and nothing here can decrypt. Bytes are specified in
//! `docs/formats.md`.

mod bundle;
mod catalogue;
pub mod codec;
mod error;
pub mod files;
mod id;
mod location;
mod manifest;
mod objects;
mod pace;
mod panel;
mod placement;
mod reader;
mod segment;
mod shared;
mod snapshot;
mod store;
#[cfg(test)]
mod testing;
mod tier;

pub use bundle::{Bundle, BundleWriter, MAX_SEALED_BYTES};
pub use error::{ErrorKind, Fault, StoreError};
pub use id::{DatasetId, Digest};
pub use location::Location;
pub use manifest::{MAX_COLUMNS, MAX_MANIFEST_BYTES, MAX_SEGMENTS, Manifest, SegmentEntry};
pub use pace::Pace;
pub use panel::Panel;
pub use placement::{NodePages, Placement, PlacementReport};
pub use segment::{
    BLOCKS_PER_SEGMENT, CELL_SEAL_BYTES, MAX_ROW_ID_BYTES, PanelReader, Segment,
    SegmentDescription, SegmentHeader, SegmentWriter, forget_cached, segment_bytes,
};
pub use shared::SharedStore;
pub use snapshot::Snapshot;
pub use store::{
    BackedUp, Damage, DatasetInfo, Listing, MAX_NAME_CHARS, Published, Scrub, Scrubbed,
    ScrubbedPart, SegmentProgress, SegmentReceiver, Store, UploadStatus, backup,
};
pub use tier::{Arrival, Listener, Part, Reads, Stream, Unit};
