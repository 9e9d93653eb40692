//! What a server reports about its datasets.

use crate::id::{DatasetId, Digest};
use oboro_ring::{Column, Limb, Parameters};
use std::fmt;
use std::path::PathBuf;

/// A published dataset, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetInfo {
    /// The name it is stored under.
    pub name: String,
    /// Its id.
    pub dataset: DatasetId,
    /// The published version.
    pub version: u64,
    /// The root hash of that version.
    pub root: Digest,
    /// The number of columns.
    pub columns: u32,
    /// The number of blocks.
    pub blocks: u64,
    /// The ring of its ciphertexts.
    pub parameters: Parameters,
    /// The bytes of its segment files.
    pub stored_bytes: u64,
    /// Identifies the owner's key without revealing it.
    pub key_check: [u8; 16],
    /// The longest itemset that its parameters support.
    pub max_len: u8,
}

/// Damage, named as precisely as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The name of the dataset or collection of genomes; absent where the catalogue as a whole is damaged, or knows none.
    pub name: Option<String>,
    /// The dataset.
    pub dataset: Option<DatasetId>,
    /// Its segment.
    pub segment: Option<u32>,
    /// The limb and the column, if it is a panel.
    pub panel: Option<(Limb, Column)>,
    /// The file or directory, where it is known: for the operator only.
    pub path: Option<PathBuf>,
    /// What is wrong and what to do, in sentences without the path.
    pub problem: String,
}

impl Damage {
    /// Damage of which nothing more is known.
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

/// How much was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Datasets, published or being uploaded.
    pub datasets: u64,
    /// Segments with a sound header.
    pub segments: u64,
    /// Collections of genomes with a sound header and index.
    pub collections: u64,
    /// Parts of segments: panels and the sealed cells of columns; parts of collections; counts of searches. Damaged ones
    /// included.
    pub parts: u64,
    /// Bytes of the segments and collections, unreadable ones included.
    pub bytes: u64,
    /// Parts that are damaged.
    pub damaged: u64,
}
