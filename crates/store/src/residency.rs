//! Residency: the part of a store's ciphertext that is in memory.
//!
//! All panels, of columns and masks, are loaded alike. A [`Stream`] names the panels it needs, and the [ledger] decides
//! on admission and eviction. The [reader]'s threads read, check, unpack and expand, and the [tier] holds the result.
//! Without a budget nothing is evicted.

mod fair_queue;
mod headers;
mod ledger;
mod permits;
mod reader;
mod tier;

pub(crate) use headers::{HeaderCharge, open_bytes};
pub use ledger::{PanelKey, Reads, Residency, WorkUnit};
pub use tier::{Arrival, Listener, Stream};
pub(crate) use tier::{OpenSegment, Tier};
