//! Counting of itemsets on ciphertext.
//!
//! A [`Plan`] names the moments for a question (itemsets of one length). A [`Backend`] runs a [`Job`], a plan over
//! shards of a dataset, on whatever threads advance it, and hands out [`Moments`] as they are computed. [`Cpu`] is one;
//! `docs/backends.md` says how to add another. The [`queue`] decides what threads do next. The crate sees no secret: it
//! does not depend on the one that holds them.

mod backend;
mod plan;
pub mod queue;
mod source;

pub use backend::cpu::{Count, Cpu, Outcome, Tiles, Traffic, Workspace};
pub use backend::{
    Backend, Batch, EngineError, Job, Moments, Reserve, RunningJob, Sink, Step, Wake,
};
pub use plan::{Plan, shards};
pub use source::{MemoryNeeds, Source};
