//! What can go wrong with an arena, with the remedy.

use std::io;
use thiserror::Error;

/// An error of an arena. The message is two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ArenaError {
    #[error(
        "an arena of {reserved} bytes has no {asked} bytes in one piece: {taken} are taken. Drop panels that are no \
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
        "memory cannot be placed on NUMA node {node}: {source}. Choose one of the nodes in \
         /sys/devices/system/node, or none."
    )]
    Node { node: u32, source: io::Error },
}
