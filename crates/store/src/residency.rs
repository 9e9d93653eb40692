//! Residency: which of a store's ciphertext is in memory.
//!
//! Every panel, of columns and masks, is loaded the same way: a [`Stream`] names what it needs, the [ledger] decides
//! what is admitted and what is evicted, the [reader]'s threads read, check, unpack and expand, and the [tier] holds
//! what has arrived. Without a budget nothing is ever evicted.

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
