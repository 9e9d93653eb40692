//! The nodes that a bench counts on: those of the machine, or *logical* ones, several of them in one memory.

use crate::output::Failure;
use oboro_arena::{CpuAssignment, Distances, MemoryPolicy, Topology};
use std::num::NonZero;

/// The number of nodes on a machine with only one.
const USUAL_NODES: usize = 4;
/// The distance between logical nodes; a node's distance to itself is 10.
const FAR: u32 = 20;

/// The nodes, by the kernel's numbers of those that they run on.
pub struct Nodes {
    pub numbers: Vec<u32>,
    pub distances: Distances,
    /// Whether some of them are simulated.
    pub logical: bool,
}

impl Nodes {
    /// Those of the machine.
    pub fn real(topology: &Topology) -> Self {
        Self {
            numbers: topology.nodes().iter().map(|node| node.number).collect(),
            distances: topology.distances().clone(),
            logical: false,
        }
    }

    /// As many as wanted; as many as the machine has if it has several.
    pub fn of(topology: &Topology, wanted: Option<usize>) -> Result<Self, Failure> {
        let real = Self::real(topology);
        let usual = match real.numbers.len() {
            1 => USUAL_NODES,
            several => several,
        };
        let count = wanted.unwrap_or(usual);
        if count == real.numbers.len() {
            return Ok(real);
        }
        let distance = |a, b| if a == b { 10 } else { FAR };
        let row = |a| (0..count).map(|b| distance(a, b)).collect();
        Ok(Self {
            numbers: real.numbers.into_iter().cycle().take(count).collect(),
            distances: Distances::new((0..count).map(row).collect())?,
            logical: true,
        })
    }

    /// Threads dealt to the nodes, each of which has one.
    pub fn workers(&self, topology: &Topology, threads: NonZero<usize>) -> Vec<CpuAssignment> {
        let least = NonZero::new(self.numbers.len()).unwrap_or(NonZero::<usize>::MIN);
        let mut workers = topology.workers(threads.max(least));
        if self.logical {
            for (number, worker) in workers.iter_mut().enumerate() {
                worker.node = number % self.numbers.len();
            }
        }
        workers
    }

    /// The policy of memory for a node, by the kernel's number. With one node a policy is unnecessary, and may not be
    /// permitted.
    pub fn memory_of(&self, number: u32) -> MemoryPolicy {
        if self.is_bound() {
            MemoryPolicy::Prefer(number)
        } else {
            MemoryPolicy::Inherit
        }
    }

    /// The policy of memory for none of them.
    pub fn interleaved_memory(&self) -> MemoryPolicy {
        if self.is_bound() {
            MemoryPolicy::Interleave(self.numbers.clone())
        } else {
            MemoryPolicy::Inherit
        }
    }

    fn is_bound(&self) -> bool {
        self.numbers.iter().any(|other| *other != self.numbers[0])
    }
}
