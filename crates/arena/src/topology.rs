//! Nodes, cores and caches, read from `/sys/devices/system`.

mod error;

pub use error::TopologyError;

use crate::sysfs::Folder;
use crate::{Allowed, CpuAssignment, Distances};
use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;
use std::str::FromStr;

/// Part of a machine that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<Node>,
    distances: Distances,
    caches: Vec<Cache>,
}

/// Cores and the memory near them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Kernel's number of the node to place memory on: its own, or that of the nearest node with usable memory.
    pub number: u32,
    /// Cores, at least one.
    pub cores: Vec<Core>,
    /// All memory of the node `number`; 0 if unknown.
    pub memory_bytes: u64,
}

/// One core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Hardware threads that this process may use, by the kernel's numbers; at least one.
    pub cpus: Vec<u32>,
}

/// A cache of some hardware threads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cache {
    /// Level; 1 for the cache next to the core.
    pub level: u32,
    /// Kind of contents.
    pub kind: CacheKind,
    /// Hardware threads that share it and that this process may use.
    pub cpus: Vec<u32>,
    /// Size in bytes.
    pub bytes: u64,
    /// Size of a line in bytes.
    pub line_bytes: u32,
}

/// Contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum CacheKind {
    Data,
    Instruction,
    Unified,
}

impl FromStr for CacheKind {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "Data" => Ok(Self::Data),
            "Instruction" => Ok(Self::Instruction),
            "Unified" => Ok(Self::Unified),
            _ => Err(()),
        }
    }
}

impl Topology {
    /// Reads the topology of this machine. If the kernel does not report it, returns one node where each allowed
    /// processor is a core.
    pub fn of_this_machine() -> Self {
        let allowed = Allowed::of_this_process();
        Self::read(Path::new("/sys"), &allowed).unwrap_or_else(|_| Self::flat(&allowed))
    }

    /// Reads the topology of the machine whose `/sys`, or a copy of it, is at `root`. Without nodes there, all
    /// processors are one node.
    ///
    /// # Errors
    ///
    /// A file cannot be read or parsed, or no allowed processor is online.
    pub fn read(root: &Path, allowed: &Allowed) -> Result<Self, TopologyError> {
        let system = Folder::new(root).inner("devices/system");
        let processors = Processors::read(system.inner("cpu"), allowed)?;
        let known = KnownNode::read_all(&system.inner("node"), &processors.usable)?;
        let all = Distances::new(known.iter().map(|node| node.distances.clone()).collect())?;

        let mut nodes = Vec::new();
        let mut kept = Vec::new();
        for (index, node) in known.iter().enumerate() {
            let cores = processors.cores(&node.cpus)?;
            if cores.is_empty() {
                continue;
            }
            let mut by_distance = all.nearest_first(index).iter().map(|&near| &known[near]);
            let memory = by_distance
                .find(|near| near.memory_bytes > 0 && allowed.memory_on(near.number))
                .unwrap_or(node);
            nodes.push(Node {
                number: memory.number,
                cores,
                memory_bytes: memory.memory_bytes,
            });
            kept.push(index);
        }
        if nodes.is_empty() {
            return Err(TopologyError::NoProcessor);
        }
        let row = |&from: &usize| kept.iter().map(|&to| all.between(from, to)).collect();
        Ok(Self {
            nodes,
            distances: Distances::new(kept.iter().map(row).collect())?,
            caches: processors.caches()?,
        })
    }

    fn flat(allowed: &Allowed) -> Self {
        let core = |&cpu: &u32| Core { cpus: vec![cpu] };
        Self {
            nodes: vec![Node {
                number: 0,
                cores: allowed.cpus.iter().map(core).collect(),
                memory_bytes: 0,
            }],
            distances: Distances::one_node(),
            caches: Vec::new(),
        }
    }

    /// The nodes with a core that this process may use, at least one.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The distances between the nodes.
    pub fn distances(&self) -> &Distances {
        &self.distances
    }

    /// The caches of all cores, lowest level first. Excludes those that the kernel does not describe completely.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// CPU assignments for `threads` threads, dealt over the nodes round-robin, one core each. When all cores are
    /// taken, the next round starts. With one thread for each node, the assignments are in node order.
    pub fn workers(&self, threads: NonZero<usize>) -> Vec<CpuAssignment> {
        let most = self.nodes.iter().map(|node| node.cores.len()).max();
        let round = |turn: usize| {
            let dealt = self.nodes.iter().enumerate();
            dealt.filter_map(move |(node, known)| {
                let cpus = known.cores.get(turn)?.cpus.clone();
                Some(CpuAssignment { node, cpus })
            })
        };
        let assignments: Vec<CpuAssignment> = (0..most.unwrap_or(0)).flat_map(round).collect();
        assignments
            .into_iter()
            .cycle()
            .take(threads.get())
            .collect()
    }

    /// Widens the assignment to all cores of its node. With one node it does not pin the thread, which then follows
    /// changes of the process's allowed processors.
    pub fn whole_node(&self, assignment: CpuAssignment) -> CpuAssignment {
        let cores = match self.nodes.len() {
            1 => &[],
            _ => &self.nodes[assignment.node].cores[..],
        };
        CpuAssignment {
            cpus: cores.iter().flat_map(|core| &core.cpus).copied().collect(),
            ..assignment
        }
    }
}

/// Node as the kernel describes it.
struct KnownNode {
    number: u32,
    /// Usable processors.
    cpus: BTreeSet<u32>,
    memory_bytes: u64,
    /// Distance to each node that the kernel knows, in ascending order of their numbers.
    distances: Vec<u32>,
}

impl KnownNode {
    /// Reads all nodes, in ascending order of their numbers; one with all processors if the kernel has none.
    fn read_all(folder: &Folder, usable: &BTreeSet<u32>) -> Result<Vec<Self>, TopologyError> {
        let numbers = folder.numbered("node")?;
        if numbers.is_empty() {
            return Ok(vec![Self {
                number: 0,
                cpus: usable.clone(),
                memory_bytes: 0,
                distances: vec![10],
            }]);
        }
        let node = |number| Self::read(number, &folder.inner(&format!("node{number}")), usable);
        numbers.into_iter().map(node).collect()
    }

    fn read(number: u32, folder: &Folder, usable: &BTreeSet<u32>) -> Result<Self, TopologyError> {
        let cpus = folder.list("cpulist")?.unwrap_or_default();
        Ok(Self {
            number,
            cpus: &cpus & usable,
            memory_bytes: folder.memory_bytes()?.unwrap_or(0),
            distances: folder.row("distance")?.unwrap_or_default(),
        })
    }
}

/// Directory that describes processors.
struct Processors {
    folder: Folder,
    /// Allowed processors that are online.
    usable: BTreeSet<u32>,
}

impl Processors {
    fn read(folder: Folder, allowed: &Allowed) -> Result<Self, TopologyError> {
        let usable = match folder.list("online")? {
            Some(online) => &online & &allowed.cpus,
            None => allowed.cpus.clone(),
        };
        Ok(Self { folder, usable })
    }

    /// Groups these processors by core.
    fn cores(&self, cpus: &BTreeSet<u32>) -> Result<Vec<Core>, TopologyError> {
        let mut left = cpus.clone();
        let mut cores = Vec::new();
        while let Some(cpu) = left.pop_first() {
            let siblings = self.siblings(cpu)?;
            let others = &siblings & &left;
            left = &left - &siblings;
            cores.push(Core {
                cpus: std::iter::once(cpu).chain(others).collect(),
            });
        }
        Ok(cores)
    }

    /// Reads the hardware threads of a processor's core, from the file's name since Linux 5.3 or the older one.
    fn siblings(&self, cpu: u32) -> Result<BTreeSet<u32>, TopologyError> {
        let topology = self.folder.inner(&format!("cpu{cpu}/topology"));
        let siblings = match topology.list("core_cpus_list")? {
            None => topology.list("thread_siblings_list")?,
            some => some,
        };
        Ok(siblings.unwrap_or_default())
    }

    /// Reads the caches of usable processors, each once.
    fn caches(&self) -> Result<Vec<Cache>, TopologyError> {
        let mut caches = BTreeSet::new();
        for cpu in &self.usable {
            let folder = self.folder.inner(&format!("cpu{cpu}/cache"));
            for index in folder.numbered("index")? {
                caches.extend(self.cache(&folder.inner(&format!("index{index}")))?);
            }
        }
        Ok(caches.into_iter().collect())
    }

    /// Reads a cache; `None` if the kernel describes it incompletely.
    fn cache(&self, folder: &Folder) -> Result<Option<Cache>, TopologyError> {
        let level = folder.number("level")?;
        let kind = folder.word("type")?;
        let cpus = folder.list("shared_cpu_list")?;
        let bytes = folder.bytes("size")?;
        let line = folder.number("coherency_line_size")?;
        Ok((|| {
            Some(Cache {
                level: level?,
                kind: kind?,
                cpus: (&cpus? & &self.usable).into_iter().collect(),
                bytes: bytes?,
                line_bytes: line?,
            })
        })())
    }
}

#[cfg(test)]
mod tests;
