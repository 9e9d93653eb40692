//! Memory for programs that own their machine.
//!
//! An [`Arena`] is reserved address space that becomes memory as panels need it: on huge pages,
//! on one NUMA node and touched ahead of use where that is asked for.

mod arena;

pub use arena::{Arena, ArenaError, Backing, MemoryPolicy, Pages, Panel};
