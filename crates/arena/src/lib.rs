//! The machine and its memory: NUMA nodes with their cores and caches, pinning of threads, and arenas, which place
//! panels on chosen nodes.
//!
//! All other code names a node by its index in [`Topology::nodes`]. Nodes there have no gaps, and each has a core that
//! this process may use; the kernel's numbers appear only in [`Node::number`] and [`MemoryPolicy`]. The crate is
//! independent of the process's allocator.

mod allowed;
mod arena;
mod assignment;
mod distances;
mod list;
mod sysfs;
mod topology;

pub use allowed::Allowed;
pub use arena::{Arena, ArenaBlock, ArenaError, Backing, MemoryPolicy, Pages, page_size};
pub use assignment::CpuAssignment;
pub use distances::Distances;
pub use topology::{Cache, CacheKind, Core, Node, Topology, TopologyError};
