//! Residency: the part of the server's ciphertext that is in memory.
//!
//! All panels, of columns and masks, are loaded alike. A [`Stream`] names the panels it needs, and the `ledger` decides
//! on admission and eviction. The `reader`'s threads read, check, unpack and expand, and the `tier` holds the result.
//! Without a budget nothing is evicted.
//!
//! A [`Tier`] opens a version of a dataset as a [`Snapshot`]. It knows segments by their [`Source`] only: a local file
//! ([`oboro_format::Segment`]), or whatever storage its caller implements the trait for.

mod error;
mod fair_semaphore;
mod headers;
mod ledger;
mod panel;
mod placement;
mod reader;
mod round_robin;
mod snapshot;
mod source;
#[cfg(test)]
mod testing;
mod tier;

pub use error::ResidencyError;
pub use fair_semaphore::{AcquireError, FairSemaphore, Permit, ShareLimit};
pub use headers::{HeaderCharge, Headers};
pub use ledger::{PanelKey, Reads, Residency, WorkUnit};
pub use panel::Panel;
pub use placement::{NodePages, Placement, PlacementReport};
pub use snapshot::Snapshot;
pub use source::{Source, StoredSegment, Then};
pub use tier::{Arrival, Listener, Stream, Tier};
