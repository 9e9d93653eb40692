//! What the owner alone knows of an encrypted dataset: item names, their columns, how many
//! transactions there are, and the root hash of what was encrypted.
//!
//! Kept sealed under the master key in the bundle's head, so that a copy of the bundle tells
//! nothing more than the server's.

use oboro_rlwe::{DatasetKey, SealError};
use oboro_store::{Digest, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

const VERSION: u32 = 1;
const CONTEXT: &str = "oboro owner record";

/// The owner's record of one dataset, as JSON inside its seal.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnerRecord {
    version: u32,
    /// The root hash of the manifest it was written with, in hexadecimal.
    root: String,
    /// The number of transactions; blocks are padded with empty ones.
    pub transactions: u64,
    /// The item of each column.
    pub names: Vec<String>,
    /// The largest `ρ = ‖φ‖₂/(t·√N)` measured while encrypting.
    pub noise_norm: f64,
    /// The largest `κ = ‖φ̂‖_∞/(t·√N)` measured while encrypting.
    pub noise_peak: f64,
}

/// A record that cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum RecordError {
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(
        "the owner record was written by a newer Oboro (version {0}, this one reads {VERSION}); update Oboro"
    )]
    Newer(u32),
    #[error("the owner record is damaged ({0}); restore the dataset's directory from your backup")]
    Damaged(String),
}

/// Without the names: they must not reach a log by way of a `{:?}`.
impl fmt::Debug for OwnerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "OwnerRecord({} items, {} transactions)",
            self.names.len(),
            self.transactions
        )
    }
}

impl OwnerRecord {
    /// A record for the dataset that `manifest` describes.
    pub fn new(
        manifest: &Manifest,
        transactions: u64,
        names: Vec<String>,
        noise: oboro_rlwe::BlockNoise,
    ) -> Self {
        Self {
            version: VERSION,
            root: manifest.root().to_string(),
            transactions,
            names,
            noise_norm: noise.norm,
            noise_peak: noise.peak,
        }
    }

    /// The sealed bytes.
    ///
    /// # Errors
    /// No randomness.
    pub fn seal(&self, key: &DatasetKey) -> Result<Vec<u8>, SealError> {
        let mut json = Zeroizing::new(Vec::with_capacity(256 + 2 * self.names_bytes()));
        serde_json::to_writer(&mut *json, self)
            .expect("names and finite numbers always have a JSON form");
        key.seal(CONTEXT, &json)
    }

    fn names_bytes(&self) -> usize {
        self.names.iter().map(|name| name.len() + 4).sum()
    }

    /// Opens a record and checks it against the manifest that lies beside it.
    ///
    /// # Errors
    /// Another key, an altered record, or a record that belongs to other data.
    pub fn open(key: &DatasetKey, manifest: &Manifest, sealed: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let json = key.open(CONTEXT, sealed)?;
        let damaged = |error: serde_json::Error| RecordError::Damaged(error.to_string());
        let Version { version } = serde_json::from_slice(&json).map_err(damaged)?;
        if version > VERSION {
            return Err(RecordError::Newer(version));
        }
        let record: Self = serde_json::from_slice(&json).map_err(damaged)?;
        record.check(manifest)?;
        Ok(record)
    }

    /// The root hash of the data that the record belongs to.
    pub fn root(&self) -> &str {
        &self.root
    }

    fn check(&self, manifest: &Manifest) -> Result<(), RecordError> {
        let damaged = |what: &str| Err(RecordError::Damaged(what.to_owned()));
        if self.root.parse::<Digest>().ok() != Some(manifest.root()) {
            return damaged("it belongs to another version of the manifest beside it");
        }
        if self.names.len() != manifest.columns as usize {
            return damaged("it does not name every column");
        }
        if self.names.iter().collect::<HashSet<_>>().len() != self.names.len() {
            return damaged("it names an item twice");
        }
        let slots = manifest
            .block_count()
            .saturating_mul(manifest.parameters.degree() as u64);
        if self.transactions == 0 || self.transactions > slots {
            return damaged("its number of transactions does not fit the blocks");
        }
        Ok(())
    }
}
