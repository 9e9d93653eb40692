//! Counts itemsets on ciphertext.
//!
//! A [`Plan`] turns a question (itemsets of one length) into tiles of moments; [`count`] evaluates
//! tiles over ranges of blocks on several threads and hands out [`Moments`] as they are done.
//! Nothing here can see a secret: this crate does not depend on the one that holds them.

mod count;
mod evaluate;
mod plan;
mod source;

pub use count::{EngineError, Moments, Outcome, count};
pub use plan::{Factor, Plan};
pub use source::{Segment, Source};
