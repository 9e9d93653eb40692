//! Ciphertext placed on memory nodes by the policies that the paper compares. The product places by transactions only,
//! so the lab copies panels into arenas of its own.

use super::nodes::Nodes;
use crate::output::Failure;
use oboro_arena::{Arena, Backing, page_size};
use oboro_engine::Source;
use oboro_residency::{Panel, ResidencyError, Snapshot};
use oboro_ring::{Blocks, Column, Factor, Limb, Parameters};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Which panels share a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// All columns of a group of blocks; groups are dealt to the nodes in turn.
    Transaction,
    /// All groups of a column; columns are dealt to the nodes in turn.
    Item,
    /// None: a hash chooses the node of each group of each column.
    Random,
    /// None: pages alternate between the nodes, and groups have no home.
    Interleave,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 4] = [
        Self::Transaction,
        Self::Item,
        Self::Random,
        Self::Interleave,
    ];

    /// The node of a group of a column. The mask counts as the column after the last.
    pub fn home(self, nodes: usize, group: usize, column: usize) -> Option<usize> {
        match self {
            Self::Transaction => Some(group % nodes),
            Self::Item => Some(column % nodes),
            Self::Random => Some(scattered(group, column) % nodes),
            Self::Interleave => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Transaction => "transaction",
            Self::Item => "item",
            Self::Random => "random",
            Self::Interleave => "interleave",
        })
    }
}

/// A pseudo-random number: the finalizer of SplitMix64.
pub fn scattered(group: usize, column: usize) -> usize {
    let mut number = ((group as u64) << 32 | column as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (number ^ number >> 31) as usize
}

/// A dataset in memory, with one panel for each group of each column on its node.
pub struct Placed {
    parameters: Parameters,
    columns: u32,
    policy: Policy,
    nodes: usize,
    blocks: u64,
    /// For each group and limb: the columns, then the mask.
    panels: Vec<Arc<Panel>>,
    /// With the kernel's number of the intended node, if there is one.
    arenas: Vec<(Arena, Option<u32>)>,
}

impl Placed {
    /// Copies a dataset to the memory of the nodes.
    pub fn copy(snapshot: &Snapshot, nodes: &Nodes, policy: Policy) -> Result<Self, Failure> {
        let manifest = snapshot.manifest();
        let mut placed = Self {
            parameters: manifest.parameters.clone(),
            columns: manifest.columns,
            policy,
            nodes: nodes.numbers.len(),
            blocks: snapshot.block_count(),
            panels: Vec::new(),
            arenas: Vec::new(),
        };
        let backings = match policy {
            Policy::Interleave => vec![(nodes.interleaved_memory(), None)],
            _ => {
                let own = |&number| (nodes.memory_of(number), Some(number));
                nodes.numbers.iter().map(own).collect()
            }
        };
        let bytes = placed.bytes();
        for (policy, number) in backings {
            let backing = Backing {
                policy,
                ..Backing::default()
            };
            placed
                .arenas
                .push((Arena::reserve(bytes, backing)?, number));
        }
        for group in 0..placed.segments().len() {
            for limb in 0..placed.parameters.limb_count() {
                for column in 0..=placed.columns as usize {
                    let panel = placed.copied(snapshot, group, limb, column)?;
                    placed.panels.push(Arc::new(panel));
                }
            }
        }
        Ok(placed)
    }

    /// The bytes of all panels: the most address space that an arena needs.
    fn bytes(&self) -> usize {
        let degree = self.parameters.degree();
        let of_group = |group: &Blocks| Panel::footprint(group.len() as usize * degree);
        let groups: usize = self.segments().iter().map(of_group).sum();
        groups * self.parameters.limb_count() * (self.columns as usize + 1)
    }

    fn copied(
        &self,
        snapshot: &Snapshot,
        group: usize,
        limb: usize,
        column: usize,
    ) -> Result<Panel, ResidencyError> {
        let (degree, blocks) = (self.parameters.degree(), self.segments()[group]);
        let (arena, _) = &self.arenas[self.policy.home(self.nodes, group, column).unwrap_or(0)];
        let len = blocks.len() as usize * degree;
        Panel::build(arena, len, column, |out| {
            let mut out = out.chunks_exact_mut(degree);
            for (number, segment) in snapshot.manifest().segments.iter().enumerate() {
                let here = blocks.intersection(segment.range());
                if here.is_empty() {
                    continue;
                }
                let factor = if column < self.columns as usize {
                    Factor::Column(Column(column as u32))
                } else {
                    Factor::Mask
                };
                let panel = snapshot.panel(number, Limb(limb), factor)?;
                for (block, out) in here.indices_in(segment.range()).zip(&mut out) {
                    out.copy_from_slice(panel.blocks(block..block + 1, degree));
                }
            }
            Ok(())
        })
    }

    /// The bytes in memory on each node, by the kernel's number, if the kernel reports it.
    pub fn resident(&self) -> Result<BTreeMap<u32, usize>, Failure> {
        let mut resident = BTreeMap::new();
        for (arena, _) in &self.arenas {
            for (node, bytes) in arena.resident_by_node()? {
                *resident.entry(node).or_default() += bytes;
            }
        }
        Ok(resident)
    }

    /// The fraction of the resident pages that are on a node other than intended, if the kernel reports it.
    pub fn misplaced_share(&self) -> Result<f64, Failure> {
        let (mut all, mut misplaced) = (0, 0);
        for (arena, own) in &self.arenas {
            for (node, bytes) in arena.resident_by_node()? {
                all += bytes / page_size();
                misplaced += match own {
                    Some(own) if *own != node => bytes / page_size(),
                    _ => 0,
                };
            }
        }
        Ok(misplaced as f64 / all.max(1) as f64)
    }
}

impl Source for Placed {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn columns(&self) -> u32 {
        self.columns
    }

    /// One segment per group.
    fn segments(&self) -> Vec<Blocks> {
        let all = Blocks::from(0..self.blocks);
        all.runs(self.parameters.shard_blocks()).collect()
    }

    fn panel(
        &self,
        segment: usize,
        limb: Limb,
        factor: Factor,
    ) -> Result<Arc<Panel>, ResidencyError> {
        let row = segment * self.parameters.limb_count() + limb.0;
        let at = row * (self.columns as usize + 1) + self.column(factor);
        Ok(Arc::clone(&self.panels[at]))
    }

    fn home(&self, block: u64, factor: Factor) -> Option<usize> {
        let group = (block / self.parameters.shard_blocks()) as usize;
        self.policy.home(self.nodes, group, self.column(factor))
    }
}

impl Placed {
    fn column(&self, factor: Factor) -> usize {
        match factor {
            Factor::Mask => self.columns as usize,
            Factor::Column(column) => column.index(),
        }
    }
}
