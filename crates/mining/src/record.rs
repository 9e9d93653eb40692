//! What the owner alone knows of an encrypted dataset: item names, their columns, check columns and
//! the supports known with them, how many transactions there are, and the root hash of what was
//! encrypted.
//!
//! Kept sealed under the master key in the bundle's head, so that a copy of the bundle tells
//! nothing more than the server's.

use crate::checks::CheckColumns;
use crate::readers::HowRead;
use crate::shuffled::Shuffled;
use oboro_rlwe::{DatasetKey, SealError};
use oboro_store::{Digest, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

const VERSION: u32 = 4;
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
    /// The support from which on no item is missing: 1 if none was left out.
    pub min_item_support: u64,
    /// The owner's order of items, as places in `names`: that of the columns that were encrypted.
    pub order: Vec<u32>,
    /// Whether the owner knows the items by whole numbers, of which the names are the digits.
    pub numbers: bool,
    /// The largest `ρ = ‖φ‖₂/(t·√N)` measured while encrypting.
    pub noise_norm: f64,
    /// The largest `κ = ‖φ̂‖_∞/(t·√N)` measured while encrypting.
    pub noise_peak: f64,
    /// The check columns.
    pub checks: CheckColumns,
    /// How the file that it was made of was read, so that others are read so; `None` if there was none.
    pub read: Option<HowRead>,
}

/// The items of a dataset, as [`OwnerRecord`] has them.
pub(crate) struct Items {
    names: Vec<String>,
    order: Vec<u32>,
    numbers: bool,
    min_support: u64,
    read: Option<HowRead>,
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
            min_support: rows.min_item_support(),
            read: rows.how_read().cloned(),
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
    #[error(
        "the owner record is of version {0}, which does not say whether items were left out, and this Oboro reads version {VERSION} only; encrypt the data again"
    )]
    Older(u32),
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
            min_item_support: items.min_support,
            noise_norm: noise.norm,
            noise_peak: noise.peak,
            checks,
            read: items.read,
        }
    }

    /// The sealed bytes.
    ///
    /// # Errors
    /// No randomness.
    pub fn seal(&self, key: &DatasetKey) -> Result<Vec<u8>, SealError> {
        let mut json = Zeroizing::new(Vec::with_capacity(
            4096 + 2 * self.names_bytes() + self.checks.json_bytes(),
        ));
        serde_json::to_writer(&mut *json, self)
            .expect("names and finite numbers always have a JSON form");
        key.seal(CONTEXT, &json)
    }

    fn names_bytes(&self) -> usize {
        // With the comma and the quotes of a name, and a number of the order.
        let read = self.read.iter();
        let columns = read.flat_map(|it| it.columns_dropped.iter().chain(&it.options.drop_columns));
        self.names
            .iter()
            .chain(columns)
            .map(|name| name.len() + 12)
            .sum()
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
        match version {
            VERSION => {}
            newer if newer > VERSION => return Err(RecordError::Newer(newer)),
            older => return Err(RecordError::Older(older)),
        }
        let record: Self = serde_json::from_slice(&json).map_err(damaged)?;
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
            min_support: self.min_item_support,
            read: self.read.clone(),
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
        if self.min_item_support == 0 {
            return damaged("its minimum item support is 0");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Dataset, Target};
    use crate::readers::Format;
    use crate::transactions::Transactions;
    use oboro_rlwe::MasterKey;
    use serde_json::{Value, json};
    use std::num::NonZeroUsize;
    use std::ops::ControlFlow;

    const GOLDEN: &str = include_str!("../tests/golden/owner-record-4.json");

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

    /// The outcome of opening the record with fields changed, and without those changed to null.
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
    fn records_of_older_versions_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        for version in 1..VERSION {
            let old = json!({ "version": version, "min_item_support": null });
            let error = reopened(&dataset, old).unwrap_err();
            assert!(matches!(error, RecordError::Older(it) if it == version));
            assert!(error.to_string().contains("encrypt the data again"));
        }
    }

    /// The JSON inside the seal stays readable: names, order and what else it says.
    #[test]
    fn the_golden_record_opens() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        let mut fields: Value = serde_json::from_str(GOLDEN).unwrap();
        fields["root"] = json!(dataset.manifest().root().to_string());
        let record = reopened(&dataset, fields).unwrap();
        assert!(record.ordered_names().eq(["10", "7"]) && record.numbers);
        assert_eq!((record.transactions, record.min_item_support), (3, 2));
        assert_eq!(record.checks.len(), 2);
        assert_eq!(record.checks.known(&[2]), Some(1));
        let read = record.read.unwrap();
        assert_eq!((read.options.format, read.items), (Format::CsvOneHot, 2));
        assert_eq!(read.options.drop_columns, ["patient_id"]);
    }

    #[test]
    fn the_record_that_is_written_has_the_golden_fields() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
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
        let error = reopened(&dataset, json!({ "version": VERSION + 1 })).unwrap_err();
        assert!(matches!(error, RecordError::Newer(newer) if newer == VERSION + 1));
        for damage in [
            json!({ "checks": null }),
            json!({ "checks": { "columns": [0], "supports": [[0, 0, 0, 0], [0, 0, 0, 0]] } }),
            json!({ "checks": { "columns": [0, 1], "supports": [] } }),
            json!({ "names": ["a"] }),
            json!({ "names": ["a", "a"] }),
            json!({ "order": null }),
            json!({ "numbers": null }),
            json!({ "min_item_support": null }),
            json!({ "min_item_support": 0 }),
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
