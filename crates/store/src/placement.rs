//! Which NUMA node has what of a dataset in memory.
//!
//! Nodes are counted from 0 in the order of a [`Placement`], which knows the kernel's numbers for
//! them. What is placed is a *group*: the blocks whose supports are summed, which one task counts. A
//! group's home follows from the dataset's id, the group's number and the column alone, so it stays
//! where it is when the dataset grows, and nothing about it is on disk.

use crate::error::StoreError;
use crate::id::DatasetId;
use crate::segment::SegmentDescription;
use oboro_arena::{Arena, Backing, MemoryPolicy, page_size};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter;
use std::ops::Range;
use std::slice;
use std::str::FromStr;

/// What of a dataset is together on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// All columns of a group; groups are dealt to the nodes in turn. Whoever counts a group finds
    /// all of it on one node, and nodes differ by at most one group, whatever is appended.
    #[default]
    Transaction,
    /// All groups of a column; columns are dealt to the nodes in turn.
    Item,
    /// Nothing: each group of each column is on a node that a hash chooses.
    Random,
    /// Nothing: pages alternate between the nodes, and no group has a home.
    Interleave,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Transaction,
        Self::Item,
        Self::Random,
        Self::Interleave,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::Item => "item",
            Self::Random => "random",
            Self::Interleave => "interleave",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let named = Self::ALL.into_iter().find(|policy| policy.name() == text);
        named.ok_or_else(|| StoreError::NoPolicy {
            text: text.chars().take(80).collect(),
        })
    }
}

/// Where a store keeps ciphertext in memory: on these nodes, by these policies. By default there are
/// no nodes: memory comes from wherever the kernel takes it.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    nodes: Vec<u32>,
    policy: Policy,
    datasets: BTreeMap<String, Policy>,
}

impl Placement {
    /// Places datasets on the nodes that the kernel gives these numbers, by one policy unless
    /// [`with`](Self::with) says otherwise. A number may come more than once. With fewer than two
    /// there is nothing to choose, and nothing is placed.
    pub fn on(nodes: Vec<u32>, policy: Policy) -> Self {
        Self {
            nodes,
            policy,
            datasets: BTreeMap::new(),
        }
    }

    /// Places the dataset of this name by a policy of its own.
    pub fn with(mut self, dataset: &str, policy: Policy) -> Self {
        self.datasets.insert(dataset.into(), policy);
        self
    }

    /// Refuses nodes that this process may not have memory on.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.nodes.len() < 2 {
            return Ok(());
        }
        for &node in BTreeSet::from_iter(&self.nodes) {
            let backing = Backing {
                policy: MemoryPolicy::Prefer(node),
                ..Backing::default()
            };
            Arena::reserve(1, backing).map_err(|source| StoreError::Placement { source })?;
        }
        Ok(())
    }

    /// What arenas that all datasets share lie on: one of each node, or one where nothing is placed.
    pub(crate) fn backings(&self) -> Vec<Backing> {
        match &self.nodes[..] {
            [] | [_] => vec![Backing::default()],
            nodes => nodes
                .iter()
                .map(|node| backing_on(slice::from_ref(node)))
                .collect(),
        }
    }

    /// Where everything of a dataset belongs.
    pub(crate) fn homes(&self, name: &str, dataset: DatasetId) -> Homes {
        let policy = self.datasets.get(name).copied().unwrap_or(self.policy);
        Homes {
            policy: (self.nodes.len() > 1).then_some(policy),
            nodes: self.nodes.clone(),
            dataset,
            first_node: scattered(dataset, 0, 0) % self.nodes.len().max(1) as u64,
        }
    }
}

/// Where the memory of a dataset is, in small pages: of the arenas that its panels and masks are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementReport {
    /// `None` where nothing is placed.
    pub policy: Option<Policy>,
    /// Every node that has pages or should, by the kernel's number.
    pub nodes: BTreeMap<u32, NodePages>,
    /// Pages on another node than they should be on, of interleaved ones on none of the nodes that
    /// they alternate between. Where nothing is placed, none.
    pub misplaced: u64,
    /// Panels and masks that are in memory.
    pub resident_panels: usize,
    /// Panels and masks, in memory or not.
    pub panels: usize,
}

/// The pages of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodePages {
    /// Those that it has.
    pub resident: u64,
    /// Those that it should have, of all that are in memory: interleaved ones in equal shares, none
    /// where nothing is placed.
    pub intended: u64,
}

impl PlacementReport {
    /// The pages in memory.
    pub fn pages(&self) -> u64 {
        self.nodes.values().map(|node| node.resident).sum()
    }

    /// The share of [`pages`](Self::pages) that is misplaced, from 0 to 1.
    pub fn misplaced_share(&self) -> f64 {
        self.misplaced as f64 / self.pages().max(1) as f64
    }
}

/// A placement as it applies to one dataset.
#[derive(Debug, Clone)]
pub(crate) struct Homes {
    /// `None` where nothing is placed.
    policy: Option<Policy>,
    nodes: Vec<u32>,
    dataset: DatasetId,
    /// Where transactions are dealt from: small datasets must not all begin on node 0.
    first_node: u64,
}

/// Neighbouring blocks of a segment that have one home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) home: Option<usize>,
    /// Counted from the segment's first.
    pub(crate) blocks: Range<usize>,
}

impl Stretch {
    /// The place of its arena among those of the segment.
    pub(crate) fn arena(&self) -> usize {
        self.home.unwrap_or(0)
    }
}

impl Homes {
    /// The node of a group of a column. The mask counts as the column after the last.
    pub(crate) fn home(&self, group: u64, column: usize) -> Option<usize> {
        let nodes = self.nodes.len() as u64;
        let number = match self.policy? {
            Policy::Transaction => group % nodes + self.first_node,
            Policy::Item => column as u64,
            Policy::Random => scattered(self.dataset, group, column),
            Policy::Interleave => return None,
        };
        Some((number % nodes) as usize)
    }

    /// How many arenas a segment has: one for each home, or one where there are none.
    pub(crate) fn arena_count(&self) -> usize {
        match self.policy {
            None | Some(Policy::Interleave) => 1,
            Some(_) => self.nodes.len(),
        }
    }

    /// The kernel's numbers of the nodes that an arena belongs on; none if it may lie anywhere.
    fn nodes_of(&self, arena: usize) -> &[u32] {
        match self.policy {
            None => &[],
            Some(Policy::Interleave) => &self.nodes,
            Some(_) => &self.nodes[arena..=arena],
        }
    }

    /// What an arena lies on.
    pub(crate) fn backing(&self, arena: usize) -> Backing {
        backing_on(self.nodes_of(arena))
    }

    /// In so many stretches a column of a segment lies at most.
    pub(crate) fn most_stretches(&self, segment: &SegmentDescription) -> usize {
        match self.policy {
            None | Some(Policy::Item | Policy::Interleave) => 1,
            Some(Policy::Transaction | Policy::Random) => {
                let group_blocks = segment.parameters.shard_blocks();
                let end = segment.first_block + segment.seeds.len() as u64;
                (end.div_ceil(group_blocks) - segment.first_block / group_blocks) as usize
            }
        }
    }

    /// A report without any panel.
    pub(crate) fn report(&self) -> PlacementReport {
        PlacementReport {
            policy: self.policy,
            nodes: BTreeMap::new(),
            misplaced: 0,
            resident_panels: 0,
            panels: 0,
        }
    }

    /// Adds the pages of an arena, of which each node has so many bytes.
    pub(crate) fn add_to(
        &self,
        report: &mut PlacementReport,
        arena: usize,
        resident: &BTreeMap<u32, usize>,
    ) {
        let nodes = BTreeSet::from_iter(self.nodes_of(arena));
        let mut all = 0;
        for (&node, bytes) in resident {
            let pages = (bytes / page_size()) as u64;
            all += pages;
            report.nodes.entry(node).or_default().resident += pages;
            if !nodes.is_empty() && !nodes.contains(&node) {
                report.misplaced += pages;
            }
        }
        // Equal shares, the first ones larger by what is left over.
        let shares = nodes.len() as u64;
        for (&node, later) in nodes.into_iter().zip((0..shares).rev()) {
            report.nodes.entry(node).or_default().intended += (all + later) / shares;
        }
    }

    /// The blocks of a column of a segment by home, in order.
    pub(crate) fn stretches(
        &self,
        segment: &SegmentDescription,
        column: usize,
    ) -> impl Iterator<Item = Stretch> {
        let group_blocks = segment.parameters.shard_blocks();
        let first = segment.first_block;
        let end = first + segment.seeds.len() as u64;
        let home = move |block: u64| self.home(block / group_blocks, column);
        let mut next = first;
        iter::from_fn(move || {
            let start = next;
            let here = (start < end).then(|| home(start))?;
            while next < end && home(next) == here {
                next = end.min((next / group_blocks + 1) * group_blocks);
            }
            Some(Stretch {
                home: here,
                blocks: (start - first) as usize..(next - first) as usize,
            })
        })
    }
}

/// Memory of these nodes; of any if there are none.
fn backing_on(nodes: &[u32]) -> Backing {
    let policy = match nodes {
        [] => MemoryPolicy::Inherit,
        &[node] => MemoryPolicy::Prefer(node),
        nodes => MemoryPolicy::Interleave(nodes.into()),
    };
    Backing {
        policy,
        ..Backing::default()
    }
}

/// A number that looks drawn at random.
fn scattered(dataset: DatasetId, group: u64, column: usize) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&dataset.0)
        .update(&group.to_le_bytes())
        .update(&(column as u64).to_le_bytes());
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests;
