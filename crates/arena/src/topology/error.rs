//! Errors of reading a topology, with the remedy.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Error about the machine. The message is two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum TopologyError {
    #[error("cannot read {}: {source}. Let this process read it.", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} holds {text:?}, which is no {expected}. Use a copy of /sys that a Linux kernel made.", path.display())]
    Malformed {
        path: PathBuf,
        text: String,
        expected: &'static str,
    },
    #[error(
        "none of the processors that this process may use is online. Allow it others (taskset, cpuset)."
    )]
    NoProcessor,
    #[error(
        "distances are given for {nodes} nodes, but those from node {row} are {len}. Give one from each node to each."
    )]
    NotSquare {
        nodes: usize,
        row: usize,
        len: usize,
    },
}
