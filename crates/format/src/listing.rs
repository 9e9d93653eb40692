//! Server reports about datasets.

use crate::id::{DatasetId, Digest};
use oboro_ring::{Column, Limb, Parameters};
use std::fmt;
use std::path::PathBuf;

/// Published dataset in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetInfo {
    /// Name of the dataset.
    pub name: String,
    /// Id of the dataset.
    pub dataset: DatasetId,
    /// Published version.
    pub version: u64,
    /// Root hash of that version.
    pub root: Digest,
    /// Number of columns.
    pub columns: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Ring of the ciphertexts.
    pub parameters: Parameters,
    /// Bytes of the segment files.
    pub stored_bytes: u64,
    /// Identifier of the owner's key, which does not reveal it.
    pub key_check: [u8; 16],
    /// Length of the longest itemset that the parameters support.
    pub max_len: u8,
}

/// Damage report, as precise as the cause is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Name of the dataset or genome collection; `None` if the catalogue as a whole is damaged or has no name for it.
    pub name: Option<String>,
    /// Damaged dataset.
    pub dataset: Option<DatasetId>,
    /// Number of the damaged segment.
    pub segment: Option<u32>,
    /// Limb and column of the damaged part, if it is a panel.
    pub panel: Option<(Limb, Column)>,
    /// Path of the file or directory, where known: for the operator only.
    pub path: Option<PathBuf>,
    /// Cause and remedy, in sentences without the path.
    pub problem: String,
}

impl Damage {
    /// Creates a report that has only the cause.
    pub fn of(error: impl fmt::Display) -> Self {
        Self {
            name: None,
            dataset: None,
            segment: None,
            panel: None,
            path: None,
            problem: error.to_string(),
        }
    }
}

/// Totals of a scrub.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Number of datasets, published or being uploaded.
    pub datasets: u64,
    /// Number of segments with a sound header.
    pub segments: u64,
    /// Number of genome collections with a sound header and index.
    pub collections: u64,
    /// Number of parts, damaged ones included: panels and sealed cells of segments, parts of collections, counts of
    /// searches.
    pub parts: u64,
    /// Bytes of the segments and collections, unreadable ones included.
    pub bytes: u64,
    /// Number of damaged parts.
    pub damaged: u64,
}
