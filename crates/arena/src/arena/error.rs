//! Errors of arenas, with the remedy.

use std::io;
use thiserror::Error;

/// Error of an arena. The message is two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ArenaError {
    #[error(
        "an arena of {reserved} bytes has no {asked} bytes in one piece: {taken} are taken. Drop blocks that are no \
         longer needed, or reserve a larger arena."
    )]
    Full {
        reserved: usize,
        asked: usize,
        taken: usize,
    },
    #[error("the kernel refused to {action} {bytes} bytes of memory: {source}. {remedy}")]
    Refused {
        action: &'static str,
        bytes: usize,
        source: io::Error,
        remedy: &'static str,
    },
    #[error(
        "memory cannot be placed on NUMA node {}: {source}. Choose among the nodes that are both in \
         /sys/devices/system/node/has_memory and in Mems_allowed_list of /proc/self/status, or none; in a container, \
         allow the call mbind.",
        alternatives(nodes)
    )]
    Node { nodes: Vec<u32>, source: io::Error },
}

fn alternatives(nodes: &[u32]) -> String {
    let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
    nodes.join(" or ")
}
