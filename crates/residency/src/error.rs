//! Reasons why ciphertext cannot be held in memory.

use oboro_arena::ArenaError;
use oboro_format::wording::{COMPACT, MAX_LEN, MEMORY};
use oboro_format::{Corruption, ErrorKind, FormatError};
use std::error::Error;
use std::io;
use thiserror::Error;

/// Reasons why ciphertext cannot be held in memory. Messages are one or two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ResidencyError {
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Storage out of reach, in the words of the [source](crate::Source).
    #[error(transparent)]
    Storage(Box<dyn Error + Send + Sync>),
    #[error("ciphertext does not fit into memory: {source}")]
    Memory {
        #[from]
        source: ArenaError,
    },
    #[error(
        "an itemset of this question needs {needed} bytes of ciphertext in memory at a time, but this server has \
         {capacity} for that. Ask about shorter ones (a smaller {MAX_LEN}), or ask its operator to raise {MEMORY} by {}.",
        raise(needed.saturating_sub(*capacity))
    )]
    Budget { needed: u64, capacity: u64 },
    #[error(
        "the headers of this dataset's segments take {needed} bytes of memory, and this server has {limit} for those of all \
         questions. Make fewer segments of it (`{COMPACT}`) and upload it, or ask its operator to raise {MEMORY} by {}.",
        16 * (needed - limit)
    )]
    Headers { needed: u64, limit: u64 },
    #[error(
        "the {limit} bytes that this server has for headers of segments are in use by other questions. Try again when they \
         have ended, or ask its operator to raise {MEMORY}."
    )]
    HeadersInUse { limit: u64 },
    #[error(
        "cannot start the threads that read ciphertext: {source}. Check the limits of this process."
    )]
    Reader { source: io::Error },
    #[error("the store cannot be opened with its datasets placed on NUMA nodes: {source}")]
    Placement { source: ArenaError },
}

/// Returns the memory to add for so many more bytes of a stream. A server keeps an eighth for sums, a Ray worker half
/// for results, and a sixteenth of the rest is not available to streams.
fn raise(bytes: u64) -> u64 {
    bytes / 15 * 32 + 32
}

impl ResidencyError {
    /// Returns the coarse kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Format(error) => error.kind(),
            Self::Storage(_) => ErrorKind::Unavailable,
            Self::Memory { .. }
            | Self::Budget { .. }
            | Self::Headers { .. }
            | Self::HeadersInUse { .. } => ErrorKind::MemoryFull,
            Self::Reader { .. } => ErrorKind::Internal,
            Self::Placement { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Returns the corruption, if the error is about damaged bytes.
    pub(crate) fn corruption(&self) -> Option<&Corruption> {
        match self {
            Self::Format(FormatError::Damaged { corruption, .. }) => Some(corruption),
            _ => None,
        }
    }
}
