//! The owner's secret record of an encrypted dataset: item names, their columns and supports, the number of
//! transactions, the root hash of the ciphertext, and the state of trust in the server.
//!
//! The record is sealed under the master key in the bundle's head: a copy of the bundle reveals no more than the
//! server's copy.

use crate::error::{DatasetError, RecordError};
use crate::shuffled::Shuffled;
use oboro_format::{Digest, Manifest};
use oboro_input::readers::HowRead;
use oboro_ring::Column;
use oboro_rlwe::{
    BlockNoise, Bounds, ColumnOrder, DatasetKey, Extent, OrderError, SealError, SecretGeneration,
    Strata,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use zeroize::Zeroizing;

const VERSION: u32 = 8;
const CONTEXT: &str = "oboro owner record";

/// Owner's record of one dataset, as JSON inside its seal.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnerRecord {
    version: u32,
    /// The root hash of the manifest it was written with, in hexadecimal.
    root: String,
    /// The number of transactions, without erased ones; blocks are padded with empty ones.
    pub transactions: u64,
    /// The item names, one per column.
    pub names: Vec<String>,
    /// The support of each item, in the order of `names`; never requested from the server.
    pub supports: Vec<u64>,
    /// The support from which every item is present; 1 if no items were left out.
    pub min_item_support: u64,
    /// The supports in appended transactions of items without a column. `min_item_support` is the threshold of the
    /// first encryption plus the largest of these.
    pub(crate) left_out: BTreeMap<String, u64>,
    /// The columns of the items in the owner's order.
    #[serde(with = "column_numbers")]
    pub order: Vec<Column>,
    /// `true` if the owner's items are integers, with their digits as names.
    pub numbers: bool,
    /// The largest `ρ = ‖φ‖₂/(t·√N)` measured while encrypting.
    pub noise_norm: f64,
    /// The largest `κ = ‖φ̂‖_∞/(t·√N)` measured while encrypting.
    pub noise_peak: f64,
    /// The largest `κ_m = ‖m̂‖_∞/(t·√N)` measured while encrypting; 0 if the ring has fewer than four limbs.
    pub noise_plaintext_peak: f64,
    /// The columns sorted by their supports when they were encrypted, the largest first.
    #[serde(with = "column_numbers")]
    by_support: Vec<Column>,
    /// The number of columns in `by_support`, from the first on, that have fixed parts for all their pairs.
    paired: u32,
    /// The columns whose pairs with all others have fixed parts, if not all pairs do.
    #[serde(with = "column_numbers")]
    focus: Vec<Column>,
    /// The strata (transactions shuffled together), with the kept data of their ranges.
    pub(crate) strata: Vec<StratumRecord>,
    /// The interpretation of the first file, which applies to later ones; `None` without a file.
    pub read: Option<HowRead>,
    /// `true` if appends absorb the youngest strata.
    pub(crate) absorbs: bool,
    /// The use of unverified answers when this was read; see [`Dataset::trust`](crate::Dataset::trust).
    pub(crate) reliance: Option<Reliance>,
}

/// Latest use of unverified answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reliance {
    /// The newest version that they were about. A lying server may have learned secrets of the columns of this
    /// version.
    pub version: u64,
    /// The time, in seconds since 1970 (UTC).
    pub unix_seconds: u64,
    /// `true` if the owner has decided to use the server again.
    pub decided: bool,
}

/// Fields of a record that describe no data; a new version keeps them.
#[derive(Clone, Copy)]
pub(crate) struct Notes {
    pub(crate) absorbs: bool,
    pub(crate) reliance: Option<Reliance>,
}

/// Blocks that are counted together, with their kept data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StratumRecord {
    pub(crate) blocks: u64,
    /// The number of transactions when they were shuffled.
    pub(crate) transactions: u64,
    /// The number of transactions erased since, which are empty.
    pub(crate) erased: u64,
    /// The number of erased transactions in the sample; 0 without a sample.
    pub(crate) erased_in_sample: u64,
    /// The generation of its columns' secrets.
    #[serde(with = "generation")]
    pub(crate) secret_generation: SecretGeneration,
    /// The digests of the sealed files of its ranges: of the total, then of the sample if it has one. Empty if pairs
    /// are not counted.
    #[serde(with = "hex")]
    pub(crate) ranges: Vec<Digest>,
}

/// Counts of erased transactions of a stratum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ErasedCounts {
    pub(crate) all: u64,
    /// The number in the sample; 0 without a sample.
    pub(crate) in_sample: u64,
}

impl StratumRecord {
    /// Returns the stratum after more transactions were erased.
    pub(crate) fn without(&self, more: ErasedCounts) -> Self {
        Self {
            erased: self.erased + more.all,
            erased_in_sample: self.erased_in_sample + more.in_sample,
            ..self.clone()
        }
    }

    /// Returns the number of transactions without erased ones.
    pub(crate) fn present(&self) -> u64 {
        self.transactions.saturating_sub(self.erased)
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            blocks: self.blocks,
            transactions: self.transactions,
            erased: self.erased,
            erased_in_sample: self.erased_in_sample,
            secret_generation: self.secret_generation,
        }
    }
}

/// Serializes digests in hexadecimal.
mod hex {
    use super::Digest;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        digests: &[Digest],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(digests.iter().map(Digest::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Digest>, D::Error> {
        let all: Vec<String> = Vec::deserialize(deserializer)?;
        let digest = |it: String| it.parse().map_err(D::Error::custom);
        all.into_iter().map(digest).collect()
    }
}

/// Serializes a generation of secrets in hexadecimal.
mod generation {
    use super::SecretGeneration;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        secrets: &SecretGeneration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", u128::from_be_bytes(secrets.0)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SecretGeneration, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_hex = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let number = u128::from_str_radix(&text, 16).ok().filter(|_| is_hex);
        let number = number.ok_or_else(|| D::Error::custom("a generation has 32 hex digits"))?;
        Ok(SecretGeneration(number.to_be_bytes()))
    }
}

/// Serializes columns as their numbers.
mod column_numbers {
    use super::Column;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        columns: &[Column],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(columns.iter().map(|it| it.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Column>, D::Error> {
        let all: Vec<u32> = Vec::deserialize(deserializer)?;
        Ok(all.into_iter().map(Column).collect())
    }
}

/// State of the owner's trust in the dataset's server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Trust {
    /// The latest use of unverified answers, on which later queries may depend.
    pub relied_on: Option<Reliance>,
    /// The false answer on which the owner has not decided yet.
    pub failure: Option<Failure>,
}

impl Failure {
    const CONTEXT: &str = "oboro failure";

    /// Seals the failure for the file next to the head.
    ///
    /// # Errors
    /// No randomness is available.
    pub(crate) fn seal(&self, key: &DatasetKey) -> Result<Vec<u8>, SealError> {
        let json = serde_json::to_vec(self).expect("words and numbers always have a JSON form");
        key.seal(Self::CONTEXT, &json)
    }

    /// Opens a failure file; an unreadable one counts as a failure.
    pub(crate) fn open(key: &DatasetKey, sealed: &[u8]) -> Self {
        let json = key.open(Self::CONTEXT, sealed).ok();
        let failure = json.and_then(|json| serde_json::from_slice(&json).ok());
        failure.unwrap_or_else(|| Self {
            unix_seconds: 0,
            what: "something was found, but the note about it is damaged".to_owned(),
        })
    }
}

/// False answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The time, in seconds since 1970 (UTC).
    pub unix_seconds: u64,
    /// The problem, in words for the owner.
    pub what: String,
}

/// Items of a dataset, as stored in [`OwnerRecord`].
pub(crate) struct Items {
    names: Vec<String>,
    pub(crate) supports: Vec<u64>,
    order: Vec<Column>,
    numbers: bool,
    min_support: u64,
    left_out: BTreeMap<String, u64>,
    read: Option<HowRead>,
}

impl Items {
    /// Takes the items of `rows`; the `i`-th one gets the column `columns[i]`, each column once.
    pub(crate) fn new(rows: &Shuffled, columns: &[Column]) -> Self {
        let mut by_column: Vec<usize> = (0..columns.len()).collect();
        by_column.sort_unstable_by_key(|&item| columns[item]);
        let name = |&item: &usize| rows.names()[item].clone();
        let supports = rows.supports();
        Self {
            names: by_column.iter().map(name).collect(),
            supports: by_column.iter().map(|&item| supports[item]).collect(),
            order: columns.to_vec(),
            numbers: rows.are_numbers(),
            min_support: rows.min_item_support(),
            left_out: BTreeMap::new(),
            read: rows.how_read().cloned(),
        }
    }

    /// Replaces the supports and the number of transactions, which leaves no trace of the erased rows.
    pub(crate) fn after_erasure(mut self, supports: Vec<u64>, transactions: u64) -> Self {
        self.supports = supports;
        let read = self.read.take();
        self.read = read.map(|it| it.recounted(transactions, &self.names, &self.supports));
        self
    }

    /// Moves item `i` to the column `numbers[i]`. The present items come first, in the order of their columns; `new`
    /// ones follow, which no transaction has.
    pub(crate) fn renumbered(mut self, numbers: &[Column], new: &[String]) -> Self {
        let known = self.names.len();
        self.names.extend(new.iter().cloned());
        self.supports.resize(self.names.len(), 0);
        self.numbers &= new.iter().all(|name| name.parse::<i64>().is_ok());
        let order = self.order.iter().map(|&column| numbers[column]);
        self.order = order.chain(numbers[known..].iter().copied()).collect();
        let mut items: Vec<_> = self
            .names
            .into_iter()
            .zip(self.supports)
            .enumerate()
            .collect();
        items.sort_unstable_by_key(|&(item, _)| numbers[item]);
        (self.names, self.supports) = items.into_iter().map(|it| it.1).unzip();
        self
    }

    /// Adds the transactions of `rows`, whose `i`-th item has the column `columns[i]`.
    pub(crate) fn with(mut self, rows: &Shuffled, columns: &[Column]) -> Self {
        for (&column, support) in columns.iter().zip(rows.supports()) {
            self.supports[column] += support;
        }
        self
    }

    /// Rejects these items without a column if one may be in `limit` transactions.
    pub(crate) fn check_left_out(
        &self,
        items: &[(String, u64)],
        limit: u64,
    ) -> Result<(), DatasetError> {
        let names = items.iter().map(|(name, _)| name);
        let most = names.map(|name| (self.at_first() - 1 + self.left_out[name], name));
        match most.max() {
            Some((support, example)) if support >= limit => Err(DatasetError::LeftOutTooOften {
                example: example.clone(),
                support,
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the minimum support before items were left out of appends.
    fn at_first(&self) -> u64 {
        self.min_support - self.left_out.values().copied().max().unwrap_or(0)
    }

    /// Adds to the supports of items left out of appends, and raises the minimum support above the possible support
    /// of each. Before the first append, such an item was in fewer transactions than the first threshold.
    pub(crate) fn leaving_out(mut self, items: &[(String, u64)]) -> Self {
        let at_first = self.at_first();
        for (name, support) in items {
            *self.left_out.entry(name.clone()).or_default() += support;
        }
        let most = self.left_out.values().copied().max();
        self.min_support = at_first + most.unwrap_or(0);
        self
    }
}

/// Omits the names: they must not reach a log through `{:?}`.
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
    /// Creates a record for the dataset that `manifest` describes.
    pub(crate) fn new(
        manifest: &Manifest,
        strata: Vec<StratumRecord>,
        order: &ColumnOrder,
        items: Items,
        noise: BlockNoise,
        notes: Notes,
    ) -> Self {
        Self {
            version: VERSION,
            root: manifest.root().to_string(),
            transactions: strata.iter().map(StratumRecord::present).sum(),
            by_support: order.columns().to_vec(),
            paired: order.paired().len() as u32,
            focus: order
                .focus()
                .iter()
                .map(|&it| order.columns()[it])
                .collect(),
            strata,
            names: items.names,
            supports: items.supports,
            order: items.order,
            numbers: items.numbers,
            min_item_support: items.min_support,
            left_out: items.left_out,
            noise_norm: noise.norm,
            noise_peak: noise.peak,
            noise_plaintext_peak: noise.plaintext_peak,
            read: items.read,
            absorbs: notes.absorbs,
            reliance: notes.reliance,
        }
    }

    pub(crate) fn notes(&self) -> Notes {
        Notes {
            absorbs: self.absorbs,
            reliance: self.reliance,
        }
    }

    /// Records that the owner relies on unverified answers about this version.
    pub(crate) fn rely_on_server(&mut self, version: u64, unix_seconds: u64) {
        self.reliance = Some(Reliance {
            version,
            unix_seconds,
            decided: false,
        });
    }

    /// Returns true if the owner relies on unverified answers about this version.
    pub(crate) fn relies_on_server(&self, version: u64) -> bool {
        self.reliance
            .is_some_and(|it| it.version == version && !it.decided)
    }

    /// Encrypts the record.
    ///
    /// # Errors
    /// No randomness is available.
    pub fn seal(&self, key: &DatasetKey) -> Result<Vec<u8>, SealError> {
        let mut json = Zeroizing::new(Vec::with_capacity(
            8192 + 2 * self.names_bytes() + 256 * self.strata.len(),
        ));
        serde_json::to_writer(&mut *json, self)
            .expect("names and finite numbers always have a JSON form");
        key.seal(CONTEXT, &json)
    }

    fn names_bytes(&self) -> usize {
        // Each name with its comma and quotes, its numbers in both orders and its support.
        let read = self.read.iter();
        let columns = read.flat_map(|it| it.columns_dropped.iter().chain(&it.options.drop_columns));
        self.names
            .iter()
            .chain(self.left_out.keys())
            .chain(columns)
            .map(|name| name.len() + 36)
            .sum()
    }

    /// Opens a record and checks it against the manifest stored next to it.
    ///
    /// # Errors
    /// The wrong key, an altered record, or a record that belongs to other data.
    pub fn open(key: &DatasetKey, manifest: &Manifest, sealed: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let json = key.open(CONTEXT, sealed)?;
        let unusable = |error: serde_json::Error| RecordError::Unusable(error.to_string());
        let Version { version } = serde_json::from_slice(&json).map_err(unusable)?;
        match version {
            VERSION => {}
            newer if newer > VERSION => {
                return Err(RecordError::Newer {
                    found: newer,
                    known: VERSION,
                });
            }
            older => {
                return Err(RecordError::Older {
                    found: older,
                    known: VERSION,
                });
            }
        }
        let record: Self = serde_json::from_slice(&json).map_err(unusable)?;
        record.check(manifest)?;
        Ok(record)
    }

    /// Iterates over the names in the owner's order.
    pub fn ordered_names(&self) -> impl ExactSizeIterator<Item = &str> {
        let name = |&column: &Column| self.names[column].as_str();
        self.order.iter().map(name)
    }

    /// Returns the largest noise measured.
    pub(crate) fn noise(&self) -> BlockNoise {
        BlockNoise {
            norm: self.noise_norm,
            peak: self.noise_peak,
            plaintext_peak: self.noise_plaintext_peak,
        }
    }

    pub(crate) fn items(&self) -> Items {
        Items {
            names: self.names.clone(),
            supports: self.supports.clone(),
            order: self.order.clone(),
            numbers: self.numbers,
            min_support: self.min_item_support,
            left_out: self.left_out.clone(),
            read: self.read.clone(),
        }
    }

    /// Returns the root hash of the record's data.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the strata of the dataset that `manifest` describes, with their bounds.
    ///
    /// # Errors
    /// Strata that do not fit the manifest.
    pub fn strata(&self, manifest: &Manifest) -> Result<Strata, RecordError> {
        let extents: Vec<Extent> = self.strata.iter().map(StratumRecord::extent).collect();
        bounds(manifest)
            .and_then(|bounds| Strata::new(bounds, &extents))
            .ok_or_else(|| {
                RecordError::Unusable("its strata are none that there can be".to_owned())
            })
    }

    /// Returns the order of columns in fingerprints, and the pairs with fixed parts.
    ///
    /// # Errors
    /// Never for a record that was opened.
    pub fn column_order(&self) -> Result<ColumnOrder, RecordError> {
        let (columns, paired) = (self.by_support.clone(), self.paired as usize);
        let order = ColumnOrder::new(columns, paired, &self.focus);
        order.map_err(|it: OrderError| RecordError::Unusable(it.to_string()))
    }

    /// Returns the items of the focus columns, if not all pairs have fixed parts.
    pub fn focus_names(&self) -> Vec<&str> {
        let name = |&column: &Column| self.names[column].as_str();
        self.focus.iter().map(name).collect()
    }

    /// Returns the digests of all sealed ranges, ordered as the strata.
    pub(crate) fn ranges(&self) -> Vec<Digest> {
        let strata = self.strata.iter();
        strata.flat_map(|it| it.ranges.iter().copied()).collect()
    }

    fn check(&self, manifest: &Manifest) -> Result<(), RecordError> {
        let unusable = |what: &str| Err(RecordError::Unusable(what.to_owned()));
        if self.root.parse::<Digest>().ok() != Some(manifest.root()) {
            return Err(RecordError::OtherManifest);
        }
        let columns = manifest.columns as usize;
        if self.names.len() != columns {
            return unusable("it does not name every column");
        }
        if self.supports.len() != columns {
            return unusable("it does not have the support of every item");
        }
        if self
            .supports
            .iter()
            .any(|&support| support > self.transactions)
        {
            return unusable("an item is in more transactions than there are");
        }
        if self.names.iter().collect::<HashSet<_>>().len() != self.names.len() {
            return unusable("it names an item twice");
        }
        let mut order = self.order.clone();
        order.sort_unstable();
        if !order.into_iter().eq(Column::first(self.names.len() as u32)) {
            return unusable("its order does not have every item once");
        }
        if self.numbers && !self.names.iter().all(|name| name.parse::<i64>().is_ok()) {
            return unusable("an item is no number where all are");
        }
        let slots = manifest
            .block_count()
            .saturating_mul(manifest.parameters.degree() as u64);
        if self.transactions == 0 || self.transactions > slots {
            return unusable("its number of transactions does not fit the blocks");
        }
        let most_left_out = self.left_out.values().copied().max().unwrap_or(0);
        if self.min_item_support <= most_left_out {
            return unusable(
                "its minimum item support is 0, or not above that of an item that was left out",
            );
        }
        if self.names.iter().any(|it| self.left_out.contains_key(it)) {
            return unusable("an item that has a column was left out");
        }
        let strata = self.strata(manifest)?;
        let extents = self.strata.iter();
        let sum = |sum: (u64, u64), it: &StratumRecord| {
            (
                sum.0.saturating_add(it.blocks),
                sum.1.saturating_add(it.present()),
            )
        };
        if extents.fold((0, 0), sum) != (manifest.block_count(), self.transactions) {
            return unusable("its strata are not all of its blocks and transactions");
        }
        let ranges = match strata.bounds().limbs(2) {
            Some(_) => strata.ranges().len(),
            None => 0,
        };
        if self.ranges().len() != ranges {
            return unusable("it does not have what is kept of each range");
        }
        let order = self.column_order()?;
        let are_all = order.columns().len() == columns
            && order.columns().iter().all(|it| it.0 < manifest.columns);
        if !are_all {
            return unusable("its order of supports does not have every column once");
        }
        Ok(())
    }
}

/// Computes the bounds for a dataset; `None` if its parameters allow none.
pub(crate) fn bounds(manifest: &Manifest) -> Option<Bounds> {
    Bounds::new(
        &manifest.parameters,
        manifest.columns.into(),
        manifest.max_len.into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Dataset, Target};
    use oboro_input::readers::Format;
    use oboro_input::transactions::Transactions;
    use oboro_rlwe::MasterKey;
    use serde_json::{Value, json};
    use std::num::NonZeroUsize;
    use std::ops::ControlFlow;

    const GOLDEN: &str = include_str!("../tests/golden/owner-record-8.json");

    fn dataset(directory: &std::path::Path) -> Dataset {
        let transactions = Transactions::from_named([vec!["a", "b"], vec!["a"]]).unwrap();
        let rows = Shuffled::of(transactions.clone());
        let (master, path) = (MasterKey::generate().unwrap(), directory.join("d"));
        let target = Target::New(&path);
        Dataset::create(rows, &master, target, 2, NonZeroUsize::MIN, &|_, _| {
            ControlFlow::Continue(())
        })
        .unwrap()
    }

    /// Reopens the record with some fields changed, or removed where the change is null.
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
            assert!(matches!(error, RecordError::Older { found, .. } if found == version));
            assert!(error.to_string().contains("encrypt the data again"));
        }
    }

    /// Later versions must read the JSON inside the seal: names, order and the other fields.
    #[test]
    fn the_golden_record_opens() {
        let directory = tempfile::tempdir().unwrap();
        let dataset = dataset(directory.path());
        let mut fields: Value = serde_json::from_str(GOLDEN).unwrap();
        fields["root"] = json!(dataset.manifest().root().to_string());
        let record = reopened(&dataset, fields).unwrap();
        assert!(record.ordered_names().eq(["10", "7"]) && record.numbers);
        assert_eq!((record.transactions, record.min_item_support), (2, 2));
        assert_eq!(
            (record.strata[0].transactions, record.strata[0].erased),
            (3, 1)
        );
        assert_eq!(record.supports, [2, 1]);
        assert_eq!(
            record.reliance.map(|it| (it.version, it.decided)),
            Some((1, false))
        );
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
        assert!(matches!(error, RecordError::Newer { found, .. } if found == VERSION + 1));
        // Two transactions, `erased` of which were erased.
        let stratum = |erased: u64, in_sample: Value| {
            let mut stratum = serde_json::to_value(&dataset.record().strata[0]).unwrap();
            stratum["erased"] = json!(erased);
            stratum["erased_in_sample"] = in_sample;
            stratum
        };
        for damage in [
            json!({ "supports": null }),
            json!({ "supports": [1] }),
            json!({ "supports": [2, 3] }),
            json!({ "absorbs": null }),
            json!({ "names": ["a"] }),
            json!({ "names": ["a", "a"] }),
            json!({ "order": null }),
            json!({ "numbers": null }),
            json!({ "min_item_support": null }),
            json!({ "min_item_support": 0 }),
            json!({ "left_out": null }),
            json!({ "left_out": { "c": 1 } }),
            json!({ "left_out": { "a": 1 }, "min_item_support": 2 }),
            json!({ "order": [0] }),
            json!({ "order": [0, 2] }),
            json!({ "order": [1, 1] }),
            json!({ "numbers": true }),
            json!({ "transactions": 0 }),
            json!({ "transactions": 4097 }),
            json!({ "by_support": null }),
            json!({ "by_support": [0, 0] }),
            json!({ "by_support": [0, 2] }),
            json!({ "by_support": [0] }),
            json!({ "by_support": [0], "paired": 1 }),
            json!({ "paired": 3 }),
            json!({ "focus": [0] }),
            json!({ "paired": 1, "focus": [2] }),
            json!({ "strata": null }),
            json!({ "strata": [] }),
            json!({ "strata": [stratum(3, json!(0))] }),
            json!({ "strata": [stratum(1, json!(0))] }),
            // No sample exists.
            json!({ "strata": [stratum(0, json!(1))] }),
            json!({ "strata": [stratum(0, json!(null))] }),
        ] {
            let error = reopened(&dataset, damage.clone()).unwrap_err();
            assert!(matches!(error, RecordError::Unusable(_)), "{damage}");
            let message = error.to_string();
            assert!(
                message.contains("intact") && !message.contains("restore"),
                "{message}"
            );
        }
    }
}
