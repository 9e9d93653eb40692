//! Placement of a dataset's memory on NUMA nodes.
//!
//! Nodes are numbered from 0 in the order of a [`Placement`], which maps them to the kernel's numbers. The unit of
//! placement is a *stripe* of blocks with all its columns: the blocks whose supports are summed, which one task counts.
//! Stripes are dealt round-robin, so a task finds its stripe on one node, and nodes differ by at most one stripe. A
//! stripe's home follows from the dataset's id and the stripe's number alone. It stays when the dataset grows, and is
//! not stored on disk.

use crate::error::ResidencyError;
use oboro_arena::{Arena, Backing, CpuAssignment, MemoryPolicy, page_size};
use oboro_format::{DatasetId, SegmentDescription};
use oboro_ring::Blocks;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

/// NUMA nodes on which a store keeps ciphertext in memory, and the threads that load it. The default is no nodes, with
/// memory wherever the kernel allocates it, and one unpinned thread per processor.
#[derive(Debug, Clone)]
pub struct Placement {
    nodes: Vec<u32>,
    threads: Arc<[CpuAssignment]>,
}

impl Default for Placement {
    fn default() -> Self {
        Self::on(Vec::new())
    }
}

impl Placement {
    /// Deals the stripes of each dataset round-robin to the nodes with these kernel numbers, which may repeat. With
    /// fewer than two nodes nothing is placed.
    pub fn on(nodes: Vec<u32>) -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let anywhere = CpuAssignment {
            node: 0,
            cpus: Vec::new(),
        };
        Self {
            nodes,
            threads: vec![anywhere; processors].into(),
        }
    }

    /// Sets the threads that check and unpack: at most one per assignment, pinned to its CPUs.
    ///
    /// # Panics
    ///
    /// Panics if `threads` is empty.
    pub fn loaded_by(self, threads: Vec<CpuAssignment>) -> Self {
        assert!(!threads.is_empty(), "something has to be loaded");
        Self {
            threads: threads.into(),
            ..self
        }
    }

    /// Returns the assignments of the threads that check and unpack.
    pub fn threads(&self) -> &Arc<[CpuAssignment]> {
        &self.threads
    }

    /// Checks that this process may use the memory of the nodes.
    ///
    /// # Errors
    /// A node whose memory it may not use.
    pub fn check(&self) -> Result<(), ResidencyError> {
        if self.nodes.len() < 2 {
            return Ok(());
        }
        for &node in BTreeSet::from_iter(&self.nodes) {
            let backing = Backing {
                policy: MemoryPolicy::Prefer(node),
                ..Backing::default()
            };
            Arena::reserve(1, backing).map_err(|source| ResidencyError::Placement { source })?;
        }
        Ok(())
    }

    /// Returns the backings of the arenas that all datasets share: one per node, or one where nothing is placed.
    pub(crate) fn backings(&self) -> Vec<Backing> {
        match &self.nodes[..] {
            [] | [_] => vec![Backing::default()],
            nodes => nodes.iter().map(|&node| backing_on(Some(node))).collect(),
        }
    }

    /// Returns the homes of a dataset's stripes.
    pub(crate) fn homes(&self, dataset: DatasetId) -> Homes {
        let nodes = match self.nodes.len() {
            0 | 1 => Vec::new(),
            _ => self.nodes.clone(),
        };
        Homes {
            first_node: scattered(dataset) % nodes.len().max(1) as u64,
            nodes,
        }
    }
}

/// Placement of a dataset's memory, in small pages of the arenas with its panels and masks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementReport {
    /// `true` if there are several nodes to choose from.
    pub is_placed: bool,
    /// Nodes that have pages or should have some, by the kernel's number.
    pub nodes: BTreeMap<u32, NodePages>,
    /// Number of pages on another node than intended; 0 where nothing is placed.
    pub misplaced: u64,
    /// Number of panels and masks in memory.
    pub resident_panels: usize,
    /// Number of panels and masks, in memory or not.
    pub panels: usize,
}

/// Pages of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodePages {
    /// Number of pages on the node.
    pub resident: u64,
    /// Number of resident pages that should be on the node; 0 where nothing is placed.
    pub intended: u64,
}

impl PlacementReport {
    /// Returns the number of pages in memory.
    pub fn pages(&self) -> u64 {
        self.nodes.values().map(|node| node.resident).sum()
    }

    /// Returns the fraction of [`pages`](Self::pages) that is misplaced, from 0 to 1.
    pub fn misplaced_share(&self) -> f64 {
        self.misplaced as f64 / self.pages().max(1) as f64
    }
}

/// Placement as applied to one dataset.
#[derive(Debug, Clone)]
pub(crate) struct Homes {
    /// Kernel numbers of the nodes; empty where nothing is placed.
    nodes: Vec<u32>,
    /// First node of the round-robin: small datasets must not all begin on node 0.
    first_node: u64,
}

/// Adjacent blocks of a segment with one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) home: Option<usize>,
    /// Blocks, counted from the segment's first.
    pub(crate) blocks: Range<usize>,
}

impl Stretch {
    /// Returns the index of its arena among those of the segment.
    pub(crate) fn arena(&self) -> usize {
        self.home.unwrap_or(0)
    }
}

impl Homes {
    /// Returns the node of a stripe.
    pub(crate) fn home(&self, stripe: u64) -> Option<usize> {
        match self.nodes.len() as u64 {
            0 => None,
            nodes => Some(((stripe % nodes + self.first_node) % nodes) as usize),
        }
    }

    /// Returns the number of arenas of a segment: one per node, or one where nothing is placed.
    pub(crate) fn arena_count(&self) -> usize {
        self.nodes.len().max(1)
    }

    /// Returns the kernel's number of an arena's node; `None` if the arena may lie anywhere.
    fn node_of(&self, arena: usize) -> Option<u32> {
        self.nodes.get(arena).copied()
    }

    /// Returns the backing of an arena.
    pub(crate) fn backing(&self, arena: usize) -> Backing {
        backing_on(self.node_of(arena))
    }

    /// Returns the maximum number of stretches in a panel of a segment.
    pub(crate) fn most_stretches(&self, segment: &SegmentDescription) -> usize {
        if self.nodes.is_empty() {
            return 1;
        }
        let stripe_blocks = segment.parameters.shard_blocks();
        let Blocks { start, end } = segment.range();
        (end.div_ceil(stripe_blocks) - start / stripe_blocks) as usize
    }

    /// Returns an empty report.
    pub(crate) fn report(&self) -> PlacementReport {
        PlacementReport {
            is_placed: !self.nodes.is_empty(),
            nodes: BTreeMap::new(),
            misplaced: 0,
            resident_panels: 0,
            panels: 0,
        }
    }

    /// Adds the pages of an arena to a report, given the bytes on each node.
    pub(crate) fn add_to(
        &self,
        report: &mut PlacementReport,
        arena: usize,
        resident: &BTreeMap<u32, usize>,
    ) {
        let home = self.node_of(arena);
        let mut all = 0;
        for (&node, bytes) in resident {
            let pages = (bytes / page_size()) as u64;
            all += pages;
            report.nodes.entry(node).or_default().resident += pages;
            if home.is_some_and(|home| home != node) {
                report.misplaced += pages;
            }
        }
        if let Some(home) = home {
            report.nodes.entry(home).or_default().intended += all;
        }
    }

    /// Returns the blocks of a segment by home, in order.
    pub(crate) fn stretches(&self, segment: &SegmentDescription) -> impl Iterator<Item = Stretch> {
        let stripe_blocks = segment.parameters.shard_blocks();
        let all = segment.range();
        let home = move |block: u64| self.home(block / stripe_blocks);
        let mut next = all.start;
        iter::from_fn(move || {
            let start = next;
            let here = (start < all.end).then(|| home(start))?;
            while next < all.end && home(next) == here {
                next = all.end.min((next / stripe_blocks + 1) * stripe_blocks);
            }
            Some(Stretch {
                home: here,
                blocks: Blocks::from(start..next).indices_in(all),
            })
        })
    }
}

/// Returns the backing by memory of this node, or of any.
fn backing_on(node: Option<u32>) -> Backing {
    Backing {
        policy: node.map_or(MemoryPolicy::Inherit, MemoryPolicy::Prefer),
        ..Backing::default()
    }
}

/// Returns a pseudorandom number for a dataset.
fn scattered(dataset: DatasetId) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&dataset.0);
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests;
