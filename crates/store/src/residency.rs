//! What of a store's ciphertext is in memory.
//!
//! Every panel, of columns and masks, takes the same way in: a [`Stream`] names what it needs, the [ledger] decides what
//! may come in and what has to go, the [reader]'s threads read, check, unpack and expand, and the [tier] holds what has
//! arrived. Without a budget nothing ever has to go.

mod ledger;
mod reader;
mod tier;
mod turns;

pub use ledger::{PanelKey, Reads, WorkUnit};
pub use tier::{Arrival, Listener, Stream};
pub(crate) use tier::{OpenSegment, Tier};
