//! Counts itemsets on ciphertext.
//!
//! A [`Plan`] says which moments a question (itemsets of one length) needs. A [`Backend`] runs a [`Job`], a
//! plan over shards of a dataset, on whatever threads advance it, and hands out [`Moments`] as they are done.
//! [`Cpu`] is one; `docs/backends.md` says how to add another. The [`queue`] decides what threads do next.
//! Nothing here can see a secret: this crate does not depend on the one that holds them.

mod backend;
mod plan;
pub mod queue;
mod source;

pub use backend::cpu::{Count, Cpu, Outcome, Tiles, Traffic, Workspace};
pub use backend::{
    Backend, Batch, EngineError, Job, Moments, Reserve, RunningJob, Sink, Step, Wake,
};
pub use plan::{Plan, shards};
pub use source::{Source, Wanted};
