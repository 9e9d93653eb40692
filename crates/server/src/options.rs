//! Options of a server.

use crate::limits::Limits;
use oboro_arena::{CpuAssignment, Topology};
use oboro_edge::{AuditOptions, Certificates, Tokens};
use oboro_store::{Location, Policy};
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;

/// Options of a server.
#[derive(Clone)]
pub struct Options {
    /// Location of the datasets.
    pub data: Location,
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Certificate chain, private key and the authorities of client certificates.
    pub tls: Option<Arc<Certificates>>,
    /// Tokens, of which callers must present one.
    pub tokens: Option<Arc<Tokens>>,
    /// Number of compute threads, shared by all queries.
    pub threads: NonZero<usize>,
    /// Limits on calls.
    pub limits: Limits,
    /// Retention policy of the store.
    pub policy: Policy,
    /// Bytes of moments cached for later queries.
    pub moment_cache: u64,
    /// Memory budget of the process in bytes: datasets beyond it are read from disk when needed. Without it, everything
    /// used stays in memory.
    pub memory: Option<u64>,
    /// Limits on genome searches.
    pub genome: GenomeOptions,
    /// Pinning of the compute threads.
    pub pin: Option<Pin>,
    /// Listener for metrics, with or without those by namespace.
    pub monitor: Option<MonitorOptions>,
    /// Location and retention of the audit log.
    pub audit: Option<AuditOptions>,
}

/// Where operators look.
#[derive(Debug, Clone, Copy)]
pub struct MonitorOptions {
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// `true` to include metrics by namespace.
    pub by_namespace: bool,
}

/// CPUs that a thread may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// One core of one node: for a server that has its cores to itself.
    Core,
    /// Any core of one node; anywhere if the machine has a single node.
    Node,
}

impl Pin {
    /// Returns the default: cores if the machine has several nodes and each core a thread. With one node pinning gains
    /// nothing; with fewer threads, servers side by side would all choose the same cores and leave the rest idle.
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

/// Operator's limits on genome searches.
#[derive(Debug, Clone)]
pub struct GenomeOptions {
    /// `true` if callers may learn the number of matching rows rather than only its being nonzero.
    pub counts: bool,
    /// Budget of searches for each client and collection; every window counts as one.
    pub budget: Option<u64>,
    /// Maximum number of bases of a searched reference.
    pub reference_limit: u64,
    /// Bytes of prepared windows kept for later searches. Searches in flight may take as much again; one that needs
    /// more gets both budgets exclusively.
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
