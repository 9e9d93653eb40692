//! What the owner alone knows of an encrypted dataset: item names, their columns, check columns and
//! the supports known with them, how many transactions there are, and the root hash of what was
//! encrypted.
//!
//! Kept sealed under the master key in the bundle's head, so that a copy of the bundle tells
//! nothing more than the server's.

use crate::checks::CheckColumns;
use oboro_rlwe::{DatasetKey, SealError};
use oboro_store::{Digest, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

/// Version 1 has no check columns.
const VERSION: u32 = 2;
const CONTEXT: &str = "oboro owner record";

/// The owner's record of one dataset, as JSON inside its seal.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnerRecord {
    version: u32,
    /// The root hash of the manifest it was written with, in hexadecimal.
    root: String,
    /// The number of transactions; blocks are padded with empty ones.
    pub transactions: u64,
    /// The item of each column that is no check column.
    pub names: Vec<String>,
    /// The largest `ρ = ‖φ‖₂/(t·√N)` measured while encrypting.
    pub noise_norm: f64,
    /// The largest `κ = ‖φ̂‖_∞/(t·√N)` measured while encrypting.
    pub noise_peak: f64,
    /// The check columns.
    #[serde(default)]
    pub checks: CheckColumns,
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
        checks: CheckColumns,
        noise: oboro_rlwe::BlockNoise,
    ) -> Self {
        Self {
            version: VERSION,
            root: manifest.root().to_string(),
            transactions,
            names,
            noise_norm: noise.norm,
            noise_peak: noise.peak,
            checks,
        }
    }

    /// The sealed bytes.
    ///
    /// # Errors
    /// No randomness.
    pub fn seal(&self, key: &DatasetKey) -> Result<Vec<u8>, SealError> {
        let mut json = Zeroizing::new(Vec::with_capacity(
            256 + 2 * self.names_bytes() + self.checks.json_bytes(),
        ));
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

    /// The columns that have items, in the order of `names`.
    pub fn item_columns(&self) -> Vec<u32> {
        let columns = 0..(self.names.len() + self.checks.len()) as u32;
        columns
            .filter(|&column| !self.checks.contain(column))
            .collect()
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
        let columns = manifest.columns as usize;
        if !self.checks.fit(columns) {
            return damaged("its check columns do not fit the columns");
        }
        if self.names.len() + self.checks.len() != columns {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Dataset;
    use crate::transactions::Transactions;
    use oboro_rlwe::MasterKey;
    use serde_json::{Value, json};
    use std::num::NonZeroUsize;

    fn dataset(directory: &std::path::Path) -> Dataset {
        let transactions = Transactions::from_named([vec!["a", "b"], vec!["a"]]).unwrap();
        let (master, path) = (MasterKey::generate().unwrap(), directory.join("d"));
        Dataset::create(
            &transactions,
            &master,
            &path,
            2,
            2,
            NonZeroUsize::MIN,
            &|_, _| {},
        )
        .unwrap()
    }

    /// What comes of opening the record with fields changed, and without those changed to null.
    fn reopened(dataset: &Dataset, changes: Value) -> Result<OwnerRecord, RecordError> {
        let mut fields = serde_json::to_value(dataset.record()).unwrap();
        for (name, value) in changes.as_object().unwrap() {
            fields[name] = value.clone();
        }
        fields
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let sealed = dataset
            .key()
            .seal(CONTEXT, fields.to_string().as_bytes())
            .unwrap();
        OwnerRecord::open(dataset.key(), dataset.manifest(), &sealed)
    }

    #[test]
    fn a_record_of_version_1_opens_without_check_columns() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        let names = ["a", "b", "c", "d"];
        let old = json!({ "version": 1, "names": names, "checks": null });
        let record = reopened(&dataset, old).unwrap();
        assert!(record.checks.is_empty());
        assert_eq!(
            (record.names.len(), record.item_columns()),
            (4, vec![0, 1, 2, 3])
        );
    }

    #[test]
    fn records_that_do_not_fit_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        assert_eq!(&reopened(&dataset, json!({})).unwrap(), dataset.record());
        let error = reopened(&dataset, json!({ "version": 3 })).unwrap_err();
        assert!(matches!(error, RecordError::Newer(3)));
        for damage in [
            json!({ "checks": null }),
            json!({ "checks": { "columns": [0], "supports": [[0, 0, 0, 0], [0, 0, 0, 0]] } }),
            json!({ "checks": { "columns": [0, 1], "supports": [] } }),
            json!({ "names": ["a"] }),
            json!({ "names": ["a", "a"] }),
            json!({ "transactions": 0 }),
            json!({ "transactions": 4097 }),
        ] {
            let error = reopened(&dataset, damage.clone()).unwrap_err();
            assert!(matches!(error, RecordError::Damaged(_)), "{damage}");
        }
    }
}
