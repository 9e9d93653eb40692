//! Counts itemsets on ciphertext.
//!
//! A [`Plan`] turns a question (itemsets of one length) into tiles of moments; a [`Count`] evaluates
//! tiles over ranges of blocks, a task at a step, on whatever threads advance it, and hands out
//! [`Moments`] as they are done.
//! Nothing here can see a secret: this crate does not depend on the one that holds them.

mod arrivals;
mod count;
mod evaluate;
mod plan;
mod program;
mod runs;
mod source;
mod traffic;

pub use count::{Count, EngineError, Moments, Outcome, Step, shards};
pub use evaluate::Workspace;
pub use plan::{Factor, Plan};
pub use source::{Segment, Source};
pub use traffic::Traffic;
