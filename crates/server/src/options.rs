//! Options of a server.

use crate::audit::AuditOptions;
use crate::limits::Limits;
use crate::tls::Certificates;
use crate::tokens::Tokens;
use oboro_arena::{CpuAssignment, Topology};
use oboro_store::{Location, Policy};
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;

/// How to serve.
#[derive(Clone)]
pub struct Options {
    /// Where datasets are stored.
    pub data: Location,
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Certificate chain and private key, and the authorities of client certificates.
    pub tls: Option<Arc<Certificates>>,
    /// The tokens of which callers must present one.
    pub tokens: Option<Arc<Tokens>>,
    /// Threads that compute, for all queries together.
    pub threads: NonZero<usize>,
    /// What callers may ask.
    pub limits: Limits,
    /// What is kept, and for how long.
    pub policy: Policy,
    /// Bytes of moments kept for later queries.
    pub moment_cache: u64,
    /// Bytes that the process may hold in memory: datasets that exceed the budget are read from disk when needed.
    /// Without it, everything that was used stays in memory.
    pub memory: Option<u64>,
    /// What may be asked about genomes.
    pub genome: GenomeOptions,
    /// How the threads that compute are pinned.
    pub pin: Option<Pin>,
    /// Where operators look at metrics, and whether these tell of each namespace.
    pub monitor: Option<MonitorOptions>,
    /// Where it is written who did what to which dataset.
    pub audit: Option<AuditOptions>,
}

/// Where operators look.
#[derive(Debug, Clone, Copy)]
pub struct MonitorOptions {
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Whether there are metrics by namespace.
    pub by_namespace: bool,
}

/// Where a thread may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// On one core of one node: for a server that has its cores to itself.
    Core,
    /// On any core of one node; anywhere if there is only one node.
    Node,
}

impl Pin {
    /// Cores if there are several nodes and a thread for each core. With one node pinning gains nothing; with fewer
    /// threads, servers side by side would all choose the same cores and leave the rest idle.
    pub(crate) fn usual(topology: &Topology, threads: NonZero<usize>) -> Self {
        let nodes = topology.nodes();
        let cores: usize = nodes.iter().map(|node| node.cores.len()).sum();
        if nodes.len() > 1 && threads.get() >= cores {
            Self::Core
        } else {
            Self::Node
        }
    }

    pub(crate) fn assignments(
        self,
        topology: &Topology,
        threads: NonZero<usize>,
    ) -> Vec<CpuAssignment> {
        let assignments = topology.workers(threads);
        match self {
            Self::Core => assignments,
            Self::Node => assignments
                .into_iter()
                .map(|assignment| topology.whole_node(assignment))
                .collect(),
        }
    }
}

/// The operator's limits on genome searches.
#[derive(Debug, Clone)]
pub struct GenomeOptions {
    /// Whether callers may learn how many rows match, rather than whether there is one.
    pub counts: bool,
    /// Searches of each client in each collection; every window counts.
    pub budget: Option<u64>,
    /// The most bases of a reference that is searched.
    pub reference_limit: u64,
    /// Bytes of prepared windows kept for later searches. Searches in flight may take as much again; one that needs
    /// more gets both budgets for itself.
    pub cache: u64,
}

impl Default for GenomeOptions {
    fn default() -> Self {
        Self {
            counts: false,
            budget: None,
            reference_limit: 1_000_000,
            cache: 256 << 20,
        }
    }
}
