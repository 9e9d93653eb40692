//! Memory for programs that own their machine.
//!
//! An [`Arena`] is reserved address space that becomes memory as panels need it: on huge pages,
//! on chosen NUMA nodes and touched ahead of use where that is asked for. [`FcMalloc`] makes fcmalloc, the
//! allocator in `fcmalloc/`, the global one of a Rust program. [`flush`] empties caches, to measure memory
//! itself.

mod arena;
mod ffi;
mod flush;
mod global;

pub use arena::{Arena, ArenaError, Backing, MemoryPolicy, Pages, Panel, page_size};
pub use ffi::Stats;
pub use flush::{FLUSHES, flush};
pub use global::{FcMalloc, ReserveError, reserve, stats, trim};
