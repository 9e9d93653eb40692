//! fcmalloc as the global allocator of a Rust program.
//!
//! The crate compiles fcmalloc under prefixed names, so that C code in the same program keeps its own
//! malloc. Options come from the environment; fcmalloc's README.md lists them.
//!
//! ```no_run
//! use fcmalloc::FcMalloc;
//!
//! #[global_allocator]
//! static ALLOCATOR: FcMalloc = FcMalloc;
//! ```

mod allocator;
mod ffi;

pub use allocator::{FcMalloc, ReserveError, reserve, stats, trim};
pub use ffi::Stats;
