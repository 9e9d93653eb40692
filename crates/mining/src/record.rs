//! What the owner alone knows of an encrypted dataset: item names, their columns, check columns and
//! the supports known with them, how many transactions there are, and the root hash of what was
//! encrypted.
//!
//! Kept sealed under the master key in the bundle's head, so that a copy of the bundle tells
//! nothing more than the server's.

use crate::checks::CheckColumns;
use crate::shuffled::Shuffled;
use crate::transactions::compare_names;
use oboro_rlwe::{DatasetKey, SealError};
use oboro_store::{Digest, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

/// Version 1 has no check columns, version 2 no order of items.
const VERSION: u32 = 3;
/// The first version with an order of items.
const ORDERED: u32 = 3;
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
    /// The owner's order of items, as places in `names`: that of the columns that were encrypted.
    #[serde(default)]
    pub order: Vec<u32>,
    /// Whether the owner knows the items by whole numbers, of which the names are the digits.
    #[serde(default)]
    pub numbers: bool,
    /// The largest `ρ = ‖φ‖₂/(t·√N)` measured while encrypting.
    pub noise_norm: f64,
    /// The largest `κ = ‖φ̂‖_∞/(t·√N)` measured while encrypting.
    pub noise_peak: f64,
    /// The check columns.
    #[serde(default)]
    pub checks: CheckColumns,
}

/// The items of a dataset, as [`OwnerRecord`] has them.
pub(crate) struct Items {
    names: Vec<String>,
    order: Vec<u32>,
    numbers: bool,
}

impl Items {
    /// Those of `rows`, of which the `i`-th gets the column `columns[i]`.
    pub(crate) fn new(rows: &Shuffled, columns: &[u32]) -> Self {
        let mut by_column: Vec<u32> = (0..columns.len() as u32).collect();
        by_column.sort_unstable_by_key(|&item| columns[item as usize]);
        let name = |&item: &u32| rows.names()[item as usize].clone();
        Self {
            names: by_column.iter().map(name).collect(),
            order: places(&by_column),
            numbers: rows.are_numbers(),
        }
    }
}

/// Where in `numbers`, which has each number below its length once, each number is.
fn places(numbers: &[u32]) -> Vec<u32> {
    let mut places = vec![0; numbers.len()];
    for (&number, place) in numbers.iter().zip(0..) {
        places[number as usize] = place;
    }
    places
}

/// The order that records without one stand for.
fn order_by_name(names: &[String]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..names.len() as u32).collect();
    order.sort_by(|&a, &b| compare_names(&names[a as usize], &names[b as usize]));
    order
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
    pub(crate) fn new(
        manifest: &Manifest,
        transactions: u64,
        items: Items,
        checks: CheckColumns,
        noise: oboro_rlwe::BlockNoise,
    ) -> Self {
        Self {
            version: VERSION,
            root: manifest.root().to_string(),
            transactions,
            names: items.names,
            order: items.order,
            numbers: items.numbers,
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
        // With the comma and the quotes of a name, and a number of the order.
        self.names.iter().map(|name| name.len() + 12).sum()
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
        let mut record: Self = serde_json::from_slice(&json).map_err(damaged)?;
        if version < ORDERED {
            record.order = order_by_name(&record.names);
        }
        record.check(manifest)?;
        Ok(record)
    }

    /// The names in the owner's order.
    pub fn ordered_names(&self) -> impl ExactSizeIterator<Item = &str> {
        let name = |&place: &u32| self.names[place as usize].as_str();
        self.order.iter().map(name)
    }

    pub(crate) fn items(&self) -> Items {
        Items {
            names: self.names.clone(),
            order: self.order.clone(),
            numbers: self.numbers,
        }
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
        let mut order = self.order.clone();
        order.sort_unstable();
        if !order.into_iter().eq(0..self.names.len() as u32) {
            return damaged("its order does not have every item once");
        }
        if self.numbers && !self.names.iter().all(|name| name.parse::<i64>().is_ok()) {
            return damaged("an item is no number where all are");
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
    use crate::dataset::{Dataset, Target};
    use crate::transactions::Transactions;
    use oboro_rlwe::MasterKey;
    use serde_json::{Value, json};
    use std::num::NonZeroUsize;
    use std::ops::ControlFlow;

    fn dataset(directory: &std::path::Path) -> Dataset {
        let transactions = Transactions::from_named([vec!["a", "b"], vec!["a"]]).unwrap();
        let rows = Shuffled::of(&transactions).unwrap();
        let (master, path) = (MasterKey::generate().unwrap(), directory.join("d"));
        let target = Target::New(&path);
        Dataset::create(rows, &master, target, 2, 2, NonZeroUsize::MIN, &|_, _| {
            ControlFlow::Continue(())
        })
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
        let old = json!({
            "version": 1, "names": names, "checks": null, "order": null, "numbers": null,
        });
        let record = reopened(&dataset, old).unwrap();
        assert!(record.checks.is_empty());
        assert_eq!(
            (record.names.len(), record.item_columns()),
            (4, vec![0, 1, 2, 3])
        );
    }

    #[test]
    fn a_record_of_version_2_opens_with_items_in_the_order_of_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        let old = json!({ "version": 2, "names": ["10", "9"], "order": null, "numbers": null });
        let record = reopened(&dataset, old).unwrap();
        assert_eq!((&record.order[..], record.numbers), (&[1, 0][..], false));
        assert!(record.ordered_names().eq(["9", "10"]));
    }

    /// The JSON inside the seal of each version stays readable: names, order and what else it says.
    #[test]
    fn golden_records_open() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        let open = |golden: &str| {
            let mut fields: Value = serde_json::from_str(golden).unwrap();
            fields["root"] = json!(dataset.manifest().root().to_string());
            for later in ["order", "numbers"] {
                let fields = fields.as_object_mut().unwrap();
                fields.entry(later).or_insert(Value::Null);
            }
            reopened(&dataset, fields).unwrap()
        };
        let second = open(include_str!("../tests/golden/owner-record-2.json"));
        let third = open(include_str!("../tests/golden/owner-record-3.json"));
        assert!(second.ordered_names().eq(["7", "10"]));
        assert!(third.ordered_names().eq(["10", "7"]));
        assert!(third.numbers && !second.numbers);
        for record in [second, third] {
            assert_eq!((record.transactions, record.checks.len()), (3, 2));
            assert_eq!(record.checks.known(&[2]), Some(1));
        }
    }

    #[test]
    fn the_record_that_is_written_has_the_golden_fields() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        let golden = include_str!("../tests/golden/owner-record-3.json");
        let golden: Value = serde_json::from_str(golden).unwrap();
        let written = serde_json::to_value(dataset.record()).unwrap();
        let fields = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(&written), fields(&golden));
        assert_eq!(written["version"], golden["version"]);
    }

    #[test]
    fn records_that_do_not_fit_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        assert_eq!(&reopened(&dataset, json!({})).unwrap(), dataset.record());
        let error = reopened(&dataset, json!({ "version": 4 })).unwrap_err();
        assert!(matches!(error, RecordError::Newer(4)));
        for damage in [
            json!({ "checks": null }),
            json!({ "checks": { "columns": [0], "supports": [[0, 0, 0, 0], [0, 0, 0, 0]] } }),
            json!({ "checks": { "columns": [0, 1], "supports": [] } }),
            json!({ "names": ["a"] }),
            json!({ "names": ["a", "a"] }),
            json!({ "order": null }),
            json!({ "order": [0] }),
            json!({ "order": [0, 2] }),
            json!({ "order": [1, 1] }),
            json!({ "numbers": true }),
            json!({ "transactions": 0 }),
            json!({ "transactions": 4097 }),
        ] {
            let error = reopened(&dataset, damage.clone()).unwrap_err();
            assert!(matches!(error, RecordError::Damaged(_)), "{damage}");
        }
    }
}
