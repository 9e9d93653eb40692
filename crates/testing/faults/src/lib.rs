//! A disk for tests that remembers every operation, loses what was not synced, and fails when told.
//!
//! A [`Disk`] is a directory. Linking this crate puts its own `open`, `write`, `fsync`, `rename` and the
//! like before those of the C library for the whole test program, so that the operations of Rust's
//! standard library and of the SQLite inside the program are both seen. [`replay`] then visits the
//! states that a power cut after each operation may leave behind.
//!
//! In a program with this crate nothing is ever synced to the real disk, whose power nobody cuts.
#![cfg(target_os = "linux")]

mod calls;
mod cut;
mod disk;
mod tree;

pub use cut::{Cut, Loss, Record, replay};
pub use disk::{Disk, Failure, Wear};
pub use libc::{EIO, ENOSPC};
pub use tree::Image;

use tempfile::TempDir;

/// An empty directory for what a test writes thousands of times: in memory where Linux offers that.
pub fn scratch() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

/// How much is tested: `OBORO_FAULTS` in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Unset: every step, a fixed sample of what may go wrong there.
    Sample,
    /// `all`: many more ways at every step.
    All,
    /// A number: this step only, in even more ways.
    Only(usize),
}

impl Extent {
    /// What the environment asks for.
    ///
    /// # Panics
    /// If `OBORO_FAULTS` is neither `all` nor a number.
    pub fn wanted() -> Self {
        match std::env::var("OBORO_FAULTS").ok().as_deref() {
            None | Some("") => Self::Sample,
            Some("all") => Self::All,
            Some(step) => Self::Only(step.parse().expect("OBORO_FAULTS is `all` or a number")),
        }
    }

    /// Those of `steps` that are to be tested, every `stride`-th of them in a sample.
    pub fn steps(self, steps: usize, stride: usize) -> Vec<usize> {
        match self {
            Self::Sample => (0..steps).step_by(stride).collect(),
            Self::All => (0..steps).collect(),
            Self::Only(step) => vec![step],
        }
    }
}
