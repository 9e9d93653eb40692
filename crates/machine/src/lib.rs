//! What Oboro runs on: NUMA nodes with their cores, caches and memory, the distances between them, and
//! threads kept on cores.
//!
//! All other code names a node by its place in [`Topology::nodes`]. Nodes there have no gaps, and each has
//! a core that this process may use; the kernel's numbers appear only in [`Node::number`].

mod allowed;
mod distances;
mod error;
mod list;
mod seat;
mod sysfs;
mod topology;

pub use allowed::Allowed;
pub use distances::Distances;
pub use error::TopologyError;
pub use seat::Seat;
pub use topology::{Cache, CacheKind, Core, Node, Topology};
