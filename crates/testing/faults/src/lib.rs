//! A test disk that records every operation, loses what was not synced, and fails on demand.
//!
//! A [`Disk`] is a directory. Linking this crate interposes its own `open`, `write`, `fsync`, `rename` and so on for
//! the whole test program, so that the operations of Rust's standard library and of the SQLite inside the program are
//! both observed. [`replay`] then visits the states that a power cut after each operation may leave.
//!
//! A program with this crate never syncs the real disk, whose power is not cut.
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

/// An empty directory for tests that write thousands of times: in memory if Linux offers that.
pub fn scratch() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

/// How thorough tests are: `OBORO_FAULTS` in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Unset: every step, with a fixed sample of failures.
    Sample,
    /// `all`: many more variants at every step.
    All,
    /// A number: this step only, with even more variants.
    Only(usize),
}

impl Extent {
    /// Reads the environment variable.
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

    /// The steps of `steps` to test, every `stride`-th of them in a sample.
    pub fn steps(self, steps: usize, stride: usize) -> Vec<usize> {
        match self {
            Self::Sample => (0..steps).step_by(stride).collect(),
            Self::All => (0..steps).collect(),
            Self::Only(step) => vec![step],
        }
    }
}
