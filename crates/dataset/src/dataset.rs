//! Encrypted datasets of an owner: from transactions to a bundle ready for upload.
//!
//! Transactions and columns are shuffled first: the order of rows and of items stays with the owner. A bundle is
//! invalid until its head is written.

use crate::encryption::NewRows;
use crate::error::{DatasetError, RecordError, other_ranges};
use crate::progress::Progress;
use crate::ranges::{MOST_FOCUS, MOST_PAIR_COLUMNS, NewBlocks, NewStratum, by_support};
use crate::record::{Failure, Items, Notes, OwnerRecord, Trust, bounds};
use crate::shuffled::{PAIR_COLUMNS, Shuffled};
use oboro_format::files::free_bytes;
use oboro_format::{
    BLOCKS_PER_SEGMENT, Bundle, BundleWriter, DatasetId, Digest, FormatError, MAX_ROW_ID_BYTES,
    Manifest, RecoveryContent, RecoveryHead, segment_bytes,
};
use oboro_input::readers::{Missing, ReadOptions};
use oboro_input::transactions::MinSupport;
use oboro_ring::{Column, Parameters, moment};
use oboro_rlwe::{
    Bounds, ColumnOrder, DatasetKey, KeyCheck, MasterKey, PairReader, PrefixReader, RangeLimb,
    SecretGeneration, plan,
};
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The size of a dataset before it is encrypted.
#[derive(Debug, Clone)]
pub struct DatasetPlan {
    /// The ring.
    pub parameters: Parameters,
    /// The length of the longest itemsets, at most the number of items.
    pub max_len: usize,
    /// The number of columns, one per item.
    pub columns: u32,
    /// The bytes reserved for each row id; 0 without row ids.
    pub row_id_bytes: u32,
    /// The bytes of ciphertext and sealed cells.
    pub bytes: u64,
}

impl DatasetPlan {
    /// Plans for this number of transactions and items, for itemsets of up to `max_len`, with row ids of up to
    /// `longest_row_id` bytes or none.
    ///
    /// # Errors
    /// No parameters exist for these sizes.
    pub fn new(
        transactions: u64,
        items: usize,
        longest_row_id: Option<usize>,
        max_len: usize,
    ) -> Result<Self, DatasetError> {
        if !(1..=moment::MAX_LENGTH).contains(&max_len) {
            return Err(DatasetError::MaxLen(max_len));
        }
        let max_len = max_len.min(items.max(1));
        let parameters = plan(transactions, items as u64, max_len)?;
        Bounds::new(&parameters, items as u64, max_len)
            .and_then(|bounds| bounds.strata_of(transactions, SecretGeneration::default()))
            .ok_or(DatasetError::TooManyRanges)?;
        let columns = u32::try_from(items).unwrap_or(u32::MAX);
        let row_id_bytes = longest_row_id.map_or(0, padded_row_id_bytes);
        let bytes = stored_bytes(&parameters, columns, row_id_bytes, transactions)?;
        Ok(Self {
            parameters,
            max_len,
            columns,
            row_id_bytes,
            bytes,
        })
    }

    /// Plans for these rows.
    ///
    /// # Errors
    /// Nothing to encrypt; otherwise as [`DatasetPlan::new`].
    pub fn of(rows: &Shuffled, max_len: usize) -> Result<Self, DatasetError> {
        let (transactions, items) = (rows.len(), rows.names().len());
        if max_len > 0 && (transactions == 0 || items == 0) {
            return Err(DatasetError::Nothing {
                transactions,
                items,
            });
        }
        Self::new(transactions as u64, items, rows.longest_row_id(), max_len)
    }
}

/// Returns the focus items of `rows`, by number.
fn focus(rows: &Shuffled, max_len: usize) -> Result<Vec<usize>, DatasetError> {
    let given = rows.focus();
    if given.len() > MOST_FOCUS {
        return Err(DatasetError::MuchFocus {
            given: given.len(),
            most: MOST_FOCUS,
        });
    }
    if !given.is_empty() && max_len < 2 {
        return Err(DatasetError::FocusWithoutPairs);
    }
    let item = |name: &String| {
        let item = rows.names().iter().position(|it| it == name);
        item.ok_or_else(|| DatasetError::UnknownFocus(name.clone()))
    };
    given.iter().map(item).collect()
}

/// Sorts columns by their supports, with fixed parts for the pairs of the first `pair_columns` and of the focus.
pub(crate) fn column_order(
    supports: &[u64],
    pair_columns: usize,
    mut focus: Vec<Column>,
) -> ColumnOrder {
    let order = by_support(supports);
    let paired = order.len().min(pair_columns);
    // If all pairs have fixed parts, those of the focus are among them.
    if paired == order.len() {
        focus.clear();
    }
    focus.sort_by_key(|column| order.iter().position(|it| it == column));
    ColumnOrder::new(order, paired, &focus).expect("columns are different")
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Returns the bytes that a dataset reserves for each row id, given the longest of the first file. Rounds up: later
/// ids may be a little longer, and the exact length is hidden.
fn padded_row_id_bytes(longest: usize) -> u32 {
    let longest = u32::try_from(longest).unwrap_or(MAX_ROW_ID_BYTES);
    longest.next_multiple_of(8).min(MAX_ROW_ID_BYTES)
}

/// Returns the bytes of `transactions` encrypted and sealed at once.
pub(crate) fn stored_bytes(
    parameters: &Parameters,
    columns: u32,
    row_id_bytes: u32,
    transactions: u64,
) -> Result<u64, DatasetError> {
    let blocks = transactions.div_ceil(parameters.degree() as u64);
    let full = u64::from(BLOCKS_PER_SEGMENT);
    let rest = (blocks % full) as u32;
    let segment = |blocks: u32| {
        segment_bytes(parameters, columns, row_id_bytes, blocks).ok_or(DatasetError::TooWide {
            columns,
            limbs: parameters.limb_count(),
        })
    };
    let whole = segment(BLOCKS_PER_SEGMENT)?.saturating_mul(blocks / full);
    Ok(match rest {
        0 => whole,
        rest => whole.saturating_add(segment(rest)?),
    })
}

/// Refuses more bytes than the file system has free.
pub(crate) fn check_free_bytes(
    directory: &Path,
    needed: u64,
    free: Option<u64>,
) -> Result<(), DatasetError> {
    match free {
        Some(free) if free < needed => Err(DatasetError::NoSpace {
            directory: directory.to_path_buf(),
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

/// An encrypted dataset, opened with its owner's key.
#[derive(Debug)]
pub struct Dataset {
    pub(crate) bundle: Bundle,
    pub(crate) record: OwnerRecord,
    pub(crate) key: DatasetKey,
}

/// Treatment of items of appended transactions that are not columns of the dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NewItems {
    /// Refuses the append.
    Refuse,
    /// Leaves them out. The record's minimum item support rises above their possible supports.
    Drop {
        /// The support that refuses the append if one of them may have it, appends included.
        below: Option<MinSupport>,
    },
    /// Encrypts everything again with columns for them, one version before the append.
    Reencrypt,
}

/// Destination of a new bundle.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// Directory that must not exist yet. The bundle is durable.
    New(&'a Path),
    /// Parent of a new directory, which is removed when the dataset and its later versions are dropped.
    Temporary(&'a Path),
}

impl Target<'_> {
    /// Returns the directory itself, or the parent of the new one.
    fn path(&self) -> &Path {
        match self {
            Self::New(directory) | Self::Temporary(directory) => directory,
        }
    }

    fn create(self) -> Result<BundleWriter, FormatError> {
        match self {
            Self::New(directory) => Bundle::create(directory),
            Self::Temporary(within) => Bundle::create_temporary(within),
        }
    }
}

/// Derives the key of a dataset.
///
/// # Errors
/// The master key is another one.
fn key_of(manifest: &Manifest, master: &MasterKey) -> Result<DatasetKey, DatasetError> {
    let (given, wanted) = (master.check(), KeyCheck(manifest.key_check));
    if given != wanted {
        return Err(DatasetError::WrongKey {
            dataset: manifest.dataset,
            given,
            wanted,
        });
    }
    let (parameters, dataset) = (manifest.parameters.clone(), manifest.dataset.0);
    Ok(DatasetKey::new(
        master,
        parameters,
        dataset,
        manifest.generation,
    ))
}

impl Dataset {
    /// Encrypts `rows` into a new bundle, for itemsets of up to `max_len`.
    ///
    /// # Errors
    /// An existing directory, sizes without parameters, too little disk space, an interruption. Leaves nothing behind.
    pub fn create(
        rows: Shuffled,
        master: &MasterKey,
        target: Target<'_>,
        max_len: usize,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        let plan = DatasetPlan::of(&rows, max_len)?;
        rows.check_memory(plan.parameters.degree(), 0)?;
        check_free_bytes(target.path(), plan.bytes, free_bytes(target.path()))?;
        let focus = focus(&rows, max_len)?;
        if !(PAIR_COLUMNS..=MOST_PAIR_COLUMNS).contains(&rows.pair_columns()) {
            return Err(DatasetError::PairColumns {
                given: rows.pair_columns(),
                least: PAIR_COLUMNS,
                most: MOST_PAIR_COLUMNS,
            });
        }
        let key = DatasetKey::fresh(master, plan.parameters)?;
        let mut writer = target.create()?;
        let mut columns: Vec<Column> = Column::first(plan.columns).collect();
        oboro_ring::sample::shuffle(&mut oboro_ring::sample::fresh_generator()?, &mut columns);
        let manifest = Manifest {
            dataset: DatasetId(key.dataset()),
            key_check: master.check().0,
            generation: key.generation(),
            parameters: key.ring().parameters().clone(),
            max_len: plan.max_len as u8,
            columns: plan.columns,
            row_id_bytes: plan.row_id_bytes,
            version: 1,
            next_segment: 0,
            earlier_roots: Vec::new(),
            segments: Vec::new(),
        };
        let new = NewRows {
            rows: &rows,
            columns: &columns,
            threads,
            progress,
        };
        let generation = rows.fresh_secrets(&key, None)?;
        let of_stratum = key.with_secret_generation(generation);
        let (manifest, noise) = new.encrypt(&of_stratum, manifest, &writer)?;
        let items = Items::new(&rows, &columns);
        let order = column_order(
            &items.supports,
            rows.pair_columns(),
            focus.iter().map(|&item| columns[item]).collect(),
        );
        let new = NewBlocks {
            key: &key,
            manifest: &manifest,
            bounds: &bounds(&manifest).expect("they hold for what was planned"),
            order: &order,
            threads,
            encrypted: manifest.block_count() * u64::from(manifest.columns),
            progress,
        };
        let strata = new.keep(
            NewStratum::of(new.bounds, rows.len() as u64, generation)?,
            None,
            &mut writer,
        )?;
        let notes = Notes {
            absorbs: rows.absorbs().unwrap_or(true),
            reliance: None,
        };
        let record = OwnerRecord::new(&manifest, strata, &order, items, noise, notes);
        Self::commit(writer, key, &manifest, record, &[])
    }

    /// Publishes a version after opening its record as a later command would. Of older ranges, only `ranges` are
    /// kept.
    ///
    /// # Errors
    /// A record that would not open, which is a bug in Oboro; a failing disk. The bundle is unchanged.
    pub(crate) fn commit(
        writer: BundleWriter,
        key: DatasetKey,
        manifest: &Manifest,
        record: OwnerRecord,
        ranges: &[Digest],
    ) -> Result<Self, DatasetError> {
        let sealed = record.seal(&key)?;
        let opened = OwnerRecord::open(&key, &Manifest::decode(&manifest.encode())?, &sealed);
        opened.map_err(DatasetError::NotCommitted)?;
        let ranges = [&record.ranges(), ranges].concat();
        let bundle = writer.commit(manifest, &sealed, &ranges)?;
        Ok(Self {
            bundle,
            record,
            key,
        })
    }

    /// Opens the bundle at `directory` with its owner's key.
    ///
    /// # Errors
    /// The wrong key, a damaged or foreign bundle.
    pub fn open(directory: &Path, master: &MasterKey) -> Result<Self, DatasetError> {
        let bundle = Bundle::open(directory)?;
        // Best effort, but erased data should not survive a crash.
        let _ = bundle.remove_leftovers();
        let manifest = bundle.manifest();
        let key = key_of(manifest, master)?;
        let record = OwnerRecord::open(&key, manifest, bundle.sealed())?;
        Ok(Self {
            bundle,
            record,
            key,
        })
    }

    /// Restores the bundle of a dataset, without its segments, from the owner's recovery copy of the version with
    /// this root. Later notes about the server's answers are not in it.
    ///
    /// # Errors
    /// An existing directory, the wrong key, content that is damaged or of another version. Leaves nothing behind.
    pub fn recover(
        directory: &Path,
        content: &RecoveryContent,
        head: &RecoveryHead,
        master: &MasterKey,
    ) -> Result<Self, DatasetError> {
        Bundle::recover(directory, content, |manifest, sealed, ranges| {
            let key = key_of(manifest, master)?;
            let record = OwnerRecord::open(&key, manifest, sealed)?;
            let lacks = |it: &Digest| !ranges.contains(it);
            if RecoveryHead::of(manifest) != *head || record.ranges().iter().any(lacks) {
                return Err(RecordError::OtherRecovery.into());
            }
            Ok::<_, DatasetError>(())
        })?;
        Self::open(directory, master)
    }

    /// Checks that these transactions can be appended, without regard to the disk.
    ///
    /// # Errors
    /// Errors of [`append`](Self::append) about the transactions.
    pub fn check_append(&self, rows: &Shuffled, new_items: NewItems) -> Result<(), DatasetError> {
        if rows.is_empty() {
            return Err(DatasetError::Nothing {
                transactions: 0,
                items: rows.names().len(),
            });
        }
        if rows.min_item_support() > 1 {
            return Err(DatasetError::ItemsLeftOut(rows.min_item_support()));
        }
        match (self.manifest().row_id_bytes as usize, rows.longest_row_id()) {
            (0, Some(_)) => return Err(DatasetError::NoRowIds),
            (1.., None) => return Err(DatasetError::LackingRowIds),
            (reserved, Some(longest)) if longest > reserved => {
                return Err(DatasetError::LongRowIds { longest, reserved });
            }
            _ => {}
        }
        let new = self.new_items(rows);
        if let Some((example, _)) = new.iter().min() {
            match new_items {
                NewItems::Refuse => {
                    return Err(DatasetError::NewItems {
                        count: new.len(),
                        example: example.clone(),
                    });
                }
                NewItems::Reencrypt if self.record.min_item_support > 1 => {
                    return Err(DatasetError::ItemsMissing(self.record.min_item_support));
                }
                NewItems::Reencrypt => {
                    self.reencrypted_bytes(new.len(), rows.len() as u64)?;
                }
                NewItems::Drop { .. } => {}
            }
        }
        let options = rows.how_read().map(|it| &it.options);
        // A table without any item of the dataset is another one, or read in a wrong way.
        let may_lack = |it: &ReadOptions| {
            it.missing == Some(Missing::Absent) && rows.names().len() > new.len()
        };
        if options.is_some_and(|it| it.format.is_table() && !may_lack(it)) {
            let here: HashSet<&String> = rows.names().iter().collect();
            let names = self.record.names.iter();
            let mut lacking = names.filter(|name| !here.contains(name));
            if let Some(example) = lacking.next() {
                return Err(DatasetError::LackingItems {
                    lacking: 1 + lacking.count(),
                    example: example.clone(),
                });
            }
        }
        if let NewItems::Drop { below: Some(below) } = new_items {
            let transactions = self.record.transactions + rows.len() as u64;
            let items = self.record.items().leaving_out(&new);
            items.check_left_out(&new, below.threshold(transactions))?;
        }
        let left_out = match new_items {
            NewItems::Drop { .. } => new.len(),
            NewItems::Refuse | NewItems::Reencrypt => 0,
        };
        rows.check_memory(self.manifest().parameters.degree(), left_out)?;
        Ok(())
    }

    /// Returns the items without a column in the dataset, with their supports in these transactions.
    fn new_items(&self, rows: &Shuffled) -> Vec<(String, u64)> {
        let here: HashSet<&String> = self.record.names.iter().collect();
        let items = rows.names().iter().zip(rows.supports());
        let new = items.filter(|(name, _)| !here.contains(name));
        new.map(|(name, support)| (name.clone(), support)).collect()
    }

    /// Encrypts everything again, with columns for the new items of `rows`; returns the new dataset.
    ///
    /// # Errors
    /// As [`Dataset::create`]; the bundle is unchanged then.
    pub fn with_new_items(
        &self,
        rows: &Shuffled,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        let new = self.new_items(rows).into_iter();
        let mut names: Vec<String> = new.map(|it| it.0).collect();
        names.sort_unstable();
        self.with_items(&names, rows.len() as u64, threads, progress)
    }

    /// Encrypts more transactions into new segments; returns the new dataset. Items missing in `rows` are in none of
    /// these transactions; a table must have them all. The transactions form a stratum of their own, which absorbs
    /// the youngest small ones (`rewrite::absorb`).
    ///
    /// # Errors
    /// New items, unless they are dropped; with a bound, a dropped item that may reach it; rows restricted before;
    /// otherwise as [`Dataset::create`]. The bundle is unchanged, except with [`DatasetError::NotAppended`]: then it
    /// is that of [`with_new_items`](Self::with_new_items).
    pub fn append(
        &self,
        mut rows: Shuffled,
        new_items: NewItems,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        self.check_append(&rows, new_items)?;
        let new = self.new_items(&rows);
        if new_items == NewItems::Reencrypt && !new.is_empty() {
            let wider = self.with_new_items(&rows, threads, progress)?;
            let appended = wider.append(rows, NewItems::Refuse, threads, progress);
            return appended.map_err(DatasetError::not_appended);
        }
        let by_name: HashMap<&str, Column> = self
            .record
            .names
            .iter()
            .map(String::as_str)
            .zip((0..).map(Column))
            .collect();
        rows = rows.only(|name| by_name.contains_key(name));
        let column = |name: &String| by_name.get(name.as_str()).copied();
        let columns: Vec<Column> = rows.names().iter().filter_map(column).collect();
        let items = self.record.items().leaving_out(&new).with(&rows, &columns);
        let absorption = self.absorption(&rows)?;
        if !absorption.strata.is_empty() {
            let (rows, columns) = (&rows, &columns[..]);
            return self.append_absorbing(rows, columns, &absorption, items, threads, progress);
        }
        let directory = self.bundle.directory();
        let needed = self.appended_with(&rows, &absorption)?;
        check_free_bytes(directory, needed, free_bytes(directory))?;
        let mut writer = self.bundle.change()?;
        let new = NewRows {
            rows: &rows,
            columns: &columns,
            threads,
            progress,
        };
        let manifest = self.bundle.manifest().clone();
        let before = writer.sealed_before().unwrap_or(self.bundle.sealed());
        let before = OwnerRecord::open(&self.key, &manifest, before)?;
        let generation = rows.fresh_secrets(&self.key, Some(manifest.root()))?;
        let key = self.key.with_secret_generation(generation);
        let (manifest, noise) = new.encrypt(&key, manifest.appended(), &writer)?;
        let noise = noise.max(self.record.noise());
        let strata = self.record.strata(self.manifest())?;
        let order = self.record.column_order()?;
        let new = NewBlocks {
            key: &self.key,
            manifest: &manifest,
            bounds: strata.bounds(),
            order: &order,
            threads,
            encrypted: (manifest.block_count() - self.manifest().block_count())
                * u64::from(manifest.columns),
            progress,
        };
        let mut strata: Vec<NewStratum> = self.record.strata.iter().map(NewStratum::kept).collect();
        strata.extend(NewStratum::of(new.bounds, rows.len() as u64, generation)?);
        let strata = new.keep(strata, Some(&self.bundle), &mut writer)?;
        let notes = Notes {
            absorbs: rows.absorbs().unwrap_or(before.absorbs),
            ..before.notes()
        };
        let record = OwnerRecord::new(&manifest, strata, &order, items, noise, notes);
        // Readers of the previous version still find its ranges.
        let ranges = self.record.ranges();
        Self::commit(writer, self.key.clone(), &manifest, record, &ranges)
    }

    /// Counts the `names` without a column in the dataset.
    pub fn count_new_items(&self, names: &[String]) -> usize {
        let here: HashSet<&String> = self.record.names.iter().collect();
        names.iter().filter(|name| !here.contains(name)).count()
    }

    /// Opens the reader that verifies pairs counted by a server.
    ///
    /// # Errors
    /// A sealed range that is missing or damaged.
    pub fn pair_reader(&self) -> Result<PairReader, DatasetError> {
        let strata = self.record.strata(self.manifest())?;
        let reader = PairReader::new(
            &self.key,
            strata,
            &self.record.column_order()?,
            self.ranges()?,
        );
        Ok(reader.ok_or_else(other_ranges)?)
    }

    /// Opens the reader that verifies moments of longer itemsets computed by a server.
    ///
    /// # Errors
    /// A sealed range that is missing or damaged.
    pub fn prefix_reader(&self) -> Result<PrefixReader, DatasetError> {
        let strata = self.record.strata(self.manifest())?;
        let reader = PrefixReader::new(
            &self.key,
            &strata,
            &self.record.column_order()?,
            self.ranges()?,
        );
        Ok(reader.ok_or_else(other_ranges)?)
    }

    /// Reads the kept data of each range.
    fn ranges(&self) -> Result<Vec<Vec<RangeLimb>>, DatasetError> {
        let range = |digest| Ok(self.key.open_range(&self.bundle.read_range(digest)?)?);
        self.record.ranges().into_iter().map(range).collect()
    }

    /// Returns the bundle on disk.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Returns the public manifest.
    pub fn manifest(&self) -> &Manifest {
        self.bundle.manifest()
    }

    /// Returns the owner's record.
    pub fn record(&self) -> &OwnerRecord {
        &self.record
    }

    /// Reads the owner's record as currently stored in the bundle.
    fn present_record(&self) -> Result<OwnerRecord, DatasetError> {
        let present = self.bundle.present()?;
        Ok(OwnerRecord::open(
            &self.key,
            present.manifest(),
            present.sealed(),
        )?)
    }

    /// Reads the state of trust in the server, as currently stored in the bundle.
    ///
    /// # Errors
    /// A bundle that was changed or removed.
    pub fn trust(&self) -> Result<Trust, DatasetError> {
        let record = self.present_record()?;
        let failure = self.bundle.note()?;
        Ok(Trust {
            relied_on: record.reliance,
            failure: failure.map(|sealed| Failure::open(&self.key, &sealed)),
        })
    }

    /// Records that the owner relies on unverified answers. Waits for other writers of the bundle, except for an
    /// append, which may take long.
    ///
    /// # Errors
    /// A bundle that cannot be written; then no answers may be requested.
    pub fn rely_on_server(&self) -> Result<(), DatasetError> {
        self.note_in_record(
            |record, version| record.relies_on_server(version),
            |record, version| record.rely_on_server(version, unix_seconds()),
        )
    }

    /// Writes a note into the record on disk unless `is_noted`; both callbacks get the version there.
    fn note_in_record(
        &self,
        is_noted: impl Fn(&OwnerRecord, u64) -> bool,
        note: impl Fn(&mut OwnerRecord, u64),
    ) -> Result<(), DatasetError> {
        const ATTEMPTS: u32 = 200;
        const WAIT: Duration = Duration::from_millis(10);
        let mut attempt = 1;
        loop {
            let present = self.bundle.present()?;
            let record = OwnerRecord::open(&self.key, present.manifest(), present.sealed())?;
            if is_noted(&record, present.manifest().version) {
                return Ok(());
            }
            let noted = self.bundle.reseal(|manifest, sealed| {
                let mut record = OwnerRecord::open(&self.key, manifest, sealed)?;
                note(&mut record, manifest.version);
                Ok::<_, DatasetError>(record.seal(&self.key)?)
            });
            match noted {
                Err(DatasetError::Format(FormatError::Locked { .. })) if attempt < ATTEMPTS => {
                    attempt += 1;
                    thread::sleep(WAIT);
                }
                noted => return noted,
            }
        }
    }

    /// Records a false answer in a separate file, which a concurrent append does not block. The first one stays until
    /// [`reset_trust`](Self::reset_trust).
    ///
    /// # Errors
    /// A bundle that cannot be written.
    pub fn record_failure(&self, what: &str) -> Result<(), DatasetError> {
        if self.bundle.note()?.is_some() {
            return Ok(());
        }
        let failure = Failure {
            unix_seconds: unix_seconds(),
            what: what.to_owned(),
        };
        Ok(self.bundle.write_note(&failure.seal(&self.key)?)?)
    }

    /// Records the owner's decision to use the server again, after a false answer or unverified ones.
    ///
    /// # Errors
    /// A bundle that cannot be written.
    pub fn reset_trust(&self) -> Result<(), DatasetError> {
        self.note_in_record(
            |record, _| record.reliance.is_none_or(|it| it.decided),
            |record, _| {
                if let Some(reliance) = &mut record.reliance {
                    reliance.decided = true;
                }
            },
        )?;
        Ok(self.bundle.remove_note()?)
    }

    /// Returns the key of this dataset.
    pub fn key(&self) -> &DatasetKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_format::ErrorClass;
    use oboro_input::transactions::{MinSupport, Transactions, TransactionsBuilder};
    use std::collections::BTreeSet;
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn transactions(count: usize) -> Transactions {
        Transactions::from_named((0..count).map(|i| {
            let mut basket = vec!["always".to_owned()];
            basket.extend(
                (0..5)
                    .filter(|bit| i >> bit & 1 == 1)
                    .map(|bit| format!("bit {bit}")),
            );
            basket
        }))
        .unwrap()
    }

    fn threads() -> NonZeroUsize {
        NonZeroUsize::new(2).unwrap()
    }

    fn rows(count: usize) -> Shuffled {
        Shuffled::of(transactions(count))
    }

    fn go_on(_: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn create(directory: &Path, master: &MasterKey, count: usize) -> Result<Dataset, DatasetError> {
        let target = Target::New(directory);
        Dataset::create(rows(count), master, target, 2, threads(), &go_on)
    }

    #[test]
    fn a_bundle_opens_with_its_key_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let (master, other) = (
            MasterKey::generate().unwrap(),
            MasterKey::generate().unwrap(),
        );
        let made = create(&path, &master, 100).unwrap();
        let opened = Dataset::open(&path, &master).unwrap();
        assert_eq!(opened.record(), made.record());
        assert_eq!(opened.record().transactions, 100);
        let mut names = opened.record().names.clone();
        names.sort();
        assert_eq!(
            names,
            ["always", "bit 0", "bit 1", "bit 2", "bit 3", "bit 4"]
        );
        assert!(matches!(
            Dataset::open(&path, &other),
            Err(DatasetError::WrongKey { .. })
        ));
        assert!(matches!(
            create(&path, &master, 100),
            Err(DatasetError::Format(FormatError::Exists { .. }))
        ));
        made.bundle().verify().unwrap();
    }

    #[test]
    fn names_are_not_in_the_bundle() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        create(&path, &MasterKey::generate().unwrap(), 10).unwrap();
        for file in [path.join("head"), path.join("segments/00000000.seg")] {
            let bytes = std::fs::read(file).unwrap();
            assert!(!bytes.windows(6).any(|w| w == b"always"));
        }
    }

    #[test]
    fn appending_adds_segments_and_keeps_the_old_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let before = create(&path, &master, 100).unwrap().manifest().clone();
        let after = Dataset::open(&path, &master)
            .unwrap()
            .append(
                rows(31).absorbing(Some(false)),
                NewItems::Refuse,
                threads(),
                &go_on,
            )
            .unwrap();
        assert_eq!(
            (after.record().transactions, after.manifest().version),
            (131, 2)
        );
        assert_eq!(after.manifest().segments[0], before.segments[0]);
        assert_eq!(after.manifest().block_count(), 2);
        after.manifest().extends(&before).unwrap();
        assert_eq!(
            Dataset::open(&path, &master).unwrap().record(),
            after.record()
        );

        let strange = Transactions::from_named([["always", "new"]]).unwrap();
        let strange = Shuffled::of(strange.clone());
        let error = after
            .append(strange, NewItems::Refuse, threads(), &go_on)
            .unwrap_err();
        assert!(
            matches!(&error, DatasetError::NewItems { count: 1, example } if example == "new"),
            "{error}"
        );
        assert_eq!(
            Dataset::open(&path, &master).unwrap().record().transactions,
            131
        );
    }

    #[test]
    fn a_table_that_is_appended_has_all_columns() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let table = |text: &str, missing| {
            let options = oboro_input::readers::ReadOptions {
                missing,
                ..Default::default()
            };
            let (data, how) =
                oboro_input::readers::read(text.as_bytes(), "data", &options).unwrap();
            Shuffled::of(data.clone()).with_how_read(how)
        };
        let rows = table("milk,tea,salt\n1,0,1\n0,1,1\n", None);
        let target = Target::New(&path);
        let made = Dataset::create(rows, &master, target, 2, threads(), &go_on).unwrap();
        let narrow = |missing| table("tea,milk\n1,0\n1,1\n", missing);
        let error = made
            .append(narrow(None), NewItems::Refuse, threads(), &go_on)
            .unwrap_err();
        assert!(
            matches!(&error, DatasetError::LackingItems { lacking: 1, example } if example == "salt"),
            "{error}"
        );
        let absent = narrow(Some(Missing::Absent));
        assert_eq!(
            made.append(absent, NewItems::Refuse, threads(), &go_on)
                .unwrap()
                .record()
                .transactions,
            4
        );
    }

    /// Encrypts 100 transactions without the items in fewer than 50.
    fn without_rare_items(path: &Path, master: &MasterKey) -> Dataset {
        let rows = rows(100).restrict(MinSupport::Count(50));
        Dataset::create(rows, master, Target::New(path), 2, threads(), &go_on).unwrap()
    }

    #[test]
    fn the_support_from_which_items_are_complete_is_recorded_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = without_rare_items(&path, &master);
        assert_eq!(made.record().min_item_support, 50);
        let kept = Transactions::from_named([["always", "bit 0"]]).unwrap();
        // An item that was left out before cannot occur in an append.
        let more = Shuffled::of(kept.clone());
        let after = made
            .append(more, NewItems::Refuse, threads(), &go_on)
            .unwrap();
        let opened = Dataset::open(&path, &master).unwrap();
        assert_eq!(opened.record(), after.record());
        assert_eq!(opened.record().min_item_support, 50);
        let restricted = Shuffled::of(kept.clone()).restrict(MinSupport::Count(2));
        assert!(matches!(
            after.append(restricted, NewItems::Refuse, threads(), &go_on),
            Err(DatasetError::ItemsLeftOut(2))
        ));
    }

    #[test]
    fn new_items_are_left_out_and_the_threshold_rises_above_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = without_rare_items(&path, &master);
        let day = |items: &[&[&str]]| {
            let baskets = items.iter().map(|it| it.iter().copied());
            Shuffled::of(Transactions::from_named(baskets).unwrap())
        };
        let drop = NewItems::Drop { below: None };
        let first = day(&[&["always", "new"], &["new", "other"], &["always"]]);
        let after = made.append(first, drop, threads(), &go_on).unwrap();
        // Each was in at most 49 transactions, and is in two more.
        assert_eq!(after.record().min_item_support, 52);
        let always = |it: &Dataset| {
            let place = it.record().names.iter().position(|it| it == "always");
            it.record().supports[place.unwrap()]
        };
        assert_eq!((always(&after), after.record().transactions), (102, 103));
        // The largest of them counts, not the sum.
        let second = day(&[&["other"], &["other"]]);
        let after = after.append(second, drop, threads(), &go_on).unwrap();
        assert_eq!(after.record().min_item_support, 53);
        let opened = Dataset::open(&path, &master).unwrap();
        assert_eq!(opened.record(), after.record());
        // Known items leave it unchanged.
        let after = after.append(day(&[&["always"]]), drop, threads(), &go_on);
        assert_eq!(after.as_ref().unwrap().record().min_item_support, 53);
        let below = |count| NewItems::Drop {
            below: Some(MinSupport::Count(count)),
        };
        let third = || day(&[&["other"], &["fourth"]]);
        let refused = after.unwrap();
        let error = refused
            .append(third(), below(53), threads(), &go_on)
            .unwrap_err();
        assert!(
            matches!(&error, DatasetError::LeftOutTooOften { example, support: 53, limit: 53 } if example == "other"),
            "{error}"
        );
        assert_eq!(
            Dataset::open(&path, &master).unwrap().record(),
            refused.record()
        );
        let after = refused
            .append(third(), below(54), threads(), &go_on)
            .unwrap();
        assert_eq!(after.record().min_item_support, 54);
    }

    #[test]
    fn supports_are_recorded_and_grow_with_appends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 100).unwrap();
        let after = made
            .append(rows(31), NewItems::Refuse, threads(), &go_on)
            .unwrap();
        let opened = Dataset::open(&path, &master).unwrap();
        for (record, count) in [
            (made.record(), vec![100]),
            (after.record(), vec![100, 31]),
            (opened.record(), vec![100, 31]),
        ] {
            for (name, &support) in record.names.iter().zip(&record.supports) {
                let in_each = count.iter().map(|&count| {
                    let data = transactions(count);
                    let number = data.names().iter().position(|other| other == name);
                    number.map_or(0, |number| data.item_supports()[number])
                });
                assert_eq!(support, in_each.sum::<u64>(), "{name}");
            }
        }
    }

    /// The youngest strata are absorbed, so blocks are as few as if all had been encrypted at once.
    #[test]
    fn small_appends_share_a_stratum_and_its_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let master = MasterKey::generate().unwrap();
        let target = Target::Temporary(directory.path());
        let threads = NonZeroUsize::MIN;
        let mut dataset = Dataset::create(rows(32), &master, target, 2, threads, &go_on).unwrap();
        let blocks =
            |it: &Dataset| -> Vec<u64> { it.record().strata.iter().map(|it| it.blocks).collect() };
        let mut generations = HashSet::new();
        for (more, expected) in [
            (4_064, vec![1]),
            (1, vec![2]),
            (5_000, vec![3]),
            // The older stratum is larger.
            (1, vec![3, 1]),
            (4_096, vec![3, 2]),
            (9_000, vec![6]),
        ] {
            let absorbed = dataset.absorbed_transactions(&rows(more)).unwrap();
            let bytes = dataset.appended_bytes(&rows(more)).unwrap();
            let appended = dataset.append(rows(more), NewItems::Refuse, threads, &go_on);
            let appended = appended.unwrap();
            assert_eq!(blocks(&appended), expected, "{more} more");
            let last = appended.record().strata.last().unwrap();
            assert_eq!(last.transactions, absorbed + more as u64);
            assert_eq!(appended.manifest().segments.last().unwrap().bytes, bytes);
            assert!(generations.insert(last.secret_generation));
            appended.manifest().follows(dataset.manifest()).unwrap();
            appended.pair_reader().unwrap();
            appended.bundle().verify().unwrap();
            dataset = appended;
        }
        let counts = [32, 4_064, 1, 5_000, 1, 4_096, 9_000];
        let all = counts.iter().sum::<usize>() as u64;
        assert_eq!(dataset.record().transactions, all);
        for (name, &support) in dataset
            .record()
            .names
            .iter()
            .zip(&dataset.record().supports)
        {
            let supports = counts.map(|count| {
                let data = transactions(count);
                let number = data.names().iter().position(|other| other == name);
                number.map_or(0, |number| data.item_supports()[number])
            });
            assert_eq!(support, supports.iter().sum::<u64>(), "{name}");
        }
    }

    /// Recovered directories, which lack the segments of a stratum, do not absorb it; nor do appends with absorbing
    /// disabled.
    #[test]
    fn appends_absorb_only_what_is_there_and_only_if_they_may() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 100).unwrap();
        std::fs::remove_file(made.bundle().segment_path(0)).unwrap();
        let append = |dataset: &Dataset, absorbs| {
            let rows = rows(31).absorbing(absorbs);
            let appended = dataset.append(rows, NewItems::Refuse, threads(), &go_on);
            let appended = appended.unwrap();
            let opened = Dataset::open(&path, &master).unwrap();
            assert_eq!(opened.record(), appended.record());
            opened
        };
        let strata = |it: &Dataset| it.record().strata.len();
        let after = append(&made, None);
        assert_eq!(strata(&after), 2);
        after.manifest().extends(made.manifest()).unwrap();
        // The appended stratum is present.
        let after = append(&after, None);
        assert_eq!(strata(&after), 2);
        let after = append(&after, Some(false));
        assert_eq!(strata(&after), 3);
        let after = append(&after, None);
        assert_eq!(strata(&after), 4);
        let after = append(&after, Some(true));
        assert_eq!(strata(&after), 2);
        assert_eq!(after.record().transactions, 100 + 5 * 31);
    }

    fn append(dataset: &Dataset, count: usize, absorbs: bool) -> Dataset {
        let rows = rows(count).absorbing(Some(absorbs));
        let appended = dataset.append(rows, NewItems::Refuse, threads(), &go_on);
        appended.unwrap()
    }

    fn generations(dataset: &Dataset) -> Vec<SecretGeneration> {
        let strata = dataset.record().strata.iter();
        strata.map(|it| it.secret_generation).collect()
    }

    /// Checks that a later command opens the dataset and its kept ranges.
    fn opens(dataset: &Dataset, path: &Path, master: &MasterKey) {
        let opened = Dataset::open(path, master).unwrap();
        assert_eq!(opened.record(), dataset.record());
        opened.pair_reader().unwrap();
        opened.bundle().verify().unwrap();
    }

    /// A trusted server may know the secrets of all existing strata, in any copy of the directory.
    #[test]
    fn whatever_is_encrypted_again_or_appended_has_new_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let copy = directory.path().join("copy.oboro");
        let (master, other) = (
            MasterKey::generate().unwrap(),
            MasterKey::generate().unwrap(),
        );
        let made = create(&path, &master, 100).unwrap();
        let image = oboro_faults::Image::read(&path);
        std::fs::create_dir(&copy).unwrap();
        image.write(&copy);
        let mut seen = HashSet::from([generations(&made)[0]]);
        let appended = append(&made, 31, false);
        let copied = append(&Dataset::open(&copy, &master).unwrap(), 31, false);
        for dataset in [&appended, &copied] {
            assert_eq!(generations(dataset)[0], generations(&made)[0]);
            assert!(seen.insert(generations(dataset)[1]));
        }
        let erased = appended.erase(&BTreeSet::from([0, 4096]), threads(), &go_on);
        let erased = erased.unwrap();
        assert_eq!(generations(&erased), generations(&appended));
        let absorbing = append(&erased, 31, true);
        let compacted = append(&absorbing, 31, false);
        assert_eq!(generations(&compacted)[0], generations(&absorbing)[0]);
        let compacted = compacted
            .compact(false, threads(), &go_on)
            .unwrap()
            .unwrap();
        let rotated = compacted.rotate(&other, threads(), &go_on).unwrap();
        let new = Shuffled::of(Transactions::from_named([["new"]]).unwrap());
        let wider = rotated.append(
            new.absorbing(Some(false)),
            NewItems::Reencrypt,
            threads(),
            &go_on,
        );
        let wider = wider.unwrap();
        for dataset in [&absorbing, &compacted, &rotated, &wider] {
            assert!(generations(dataset).into_iter().all(|it| seen.insert(it)));
        }
        opens(&wider, &path, &other);
    }

    #[test]
    fn a_dataset_opens_after_trust_and_the_erasure_of_an_append() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 100).unwrap();
        made.rely_on_server().unwrap();
        let appended = append(&made, 31, false);
        appended.rely_on_server().unwrap();
        let slots = (4096..4096 + 31).collect();
        let erased = appended.erase(&slots, threads(), &go_on).unwrap();
        opens(&erased, &path, &master);
        let compacted = erased.compact(false, threads(), &go_on).unwrap().unwrap();
        assert_eq!(compacted.record().transactions, 100);
        opens(&compacted, &path, &master);
    }

    /// Sums of one stratum are not confused with replaced ones in another stratum, which keeps a segment.
    #[test]
    fn rows_of_a_large_stratum_and_a_small_one_are_erased_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 64 * 4096 + 1).unwrap();
        assert_eq!(made.manifest().segments.len(), 2);
        let appended = append(&made, 31, false);
        let slots = BTreeSet::from([1, 65 * 4096]);
        let erased = appended.erase(&slots, threads(), &go_on).unwrap();
        assert_eq!(erased.record().transactions, 64 * 4096 + 1 + 31 - 2);
        opens(&erased, &path, &master);
    }

    #[test]
    fn a_record_that_would_not_open_is_not_committed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 100).unwrap();
        let manifest = made.manifest().rewritten();
        let notes = made.record().notes();
        let (order, noise) = (made.record().column_order().unwrap(), made.record().noise());
        let items = made.record().items();
        // No stratum.
        let record = OwnerRecord::new(&manifest, Vec::new(), &order, items, noise, notes);
        let writer = made.bundle().change().unwrap();
        let error = Dataset::commit(writer, made.key().clone(), &manifest, record, &[]);
        let error = error.unwrap_err();
        assert!(matches!(error, DatasetError::NotCommitted(_)), "{error}");
        opens(&made, &path, &master);
    }

    #[test]
    fn what_became_of_trust_stays_in_the_bundle() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 100).unwrap();
        assert_eq!(made.trust().unwrap(), Trust::default());
        made.rely_on_server().unwrap();
        made.record_failure("first").unwrap();
        made.record_failure("second").unwrap();
        // The value in memory is older than the bundle; appends keep the bundle's notes.
        let after = made
            .append(rows(31), NewItems::Refuse, threads(), &go_on)
            .unwrap();
        after.rely_on_server().unwrap();
        let after = after
            .append(rows(31), NewItems::Refuse, threads(), &go_on)
            .unwrap();
        for dataset in [&after, &Dataset::open(&path, &master).unwrap()] {
            let trust = dataset.trust().unwrap();
            assert_eq!(trust.relied_on.unwrap().version, 2);
            assert_eq!(trust.failure.unwrap().what, "first");
        }
        assert_eq!(made.trust().unwrap(), after.trust().unwrap());
        after.reset_trust().unwrap();
        let trust = after.trust().unwrap();
        assert!(trust.relied_on.unwrap().decided && trust.failure.is_none());
        // Later use of answers needs another decision.
        after.rely_on_server().unwrap();
        assert!(!after.trust().unwrap().relied_on.unwrap().decided);
        after.reset_trust().unwrap();
        after.bundle().verify().unwrap();

        // An append does not prevent recording a failure. A damaged failure file counts as a failure, and a concurrent
        // record of reliance waits for the lock.
        let writer = after.bundle().change().unwrap();
        after.record_failure("third").unwrap();
        drop(writer);
        assert_eq!(after.trust().unwrap().failure.unwrap().what, "third");
        std::fs::write(path.join("failure"), b"x").unwrap();
        assert!(
            after
                .trust()
                .unwrap()
                .failure
                .unwrap()
                .what
                .contains("damaged")
        );
        let other = create(&directory.path().join("other.oboro"), &master, 100).unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| other.rely_on_server().unwrap());
            }
        });
        assert!(other.trust().unwrap().relied_on.is_some());
    }

    #[test]
    fn sealed_cells_are_what_was_encrypted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 5000).unwrap();
        let dataset = made
            .append(rows(31), NewItems::Refuse, threads(), &go_on)
            .unwrap();
        let mut supports = vec![0; dataset.manifest().columns as usize];
        for (index, entry) in (0..).zip(&dataset.manifest().segments) {
            let segment = dataset.bundle().open_segment(index).unwrap();
            for (column, support) in Column::enumerate(&mut supports) {
                let which = oboro_rlwe::CellsId {
                    segment: index,
                    seeds: &entry.seeds.0,
                    column,
                };
                let sealed = segment.read_cells(column).unwrap();
                let bits = dataset.key().open_cells(which, &sealed).unwrap();
                assert_eq!(bits.len(), entry.blocks as usize * 4096 / 64);
                *support += crate::shuffled::count_ones(&bits);
            }
        }
        assert_eq!(supports, dataset.record().supports);
    }

    #[test]
    fn two_encryptions_share_no_seed_no_id_and_no_order() {
        let directory = tempfile::tempdir().unwrap();
        let master = MasterKey::generate().unwrap();
        // 24 items: their columns are in equal order by chance once in 24! times.
        let items: Vec<String> = (0..24).map(|i| format!("item {i}")).collect();
        let transactions = Transactions::from_named(vec![items; 3 * 4096]).unwrap();
        let [a, b] = ["a", "b"].map(|name| {
            let path = directory.path().join(name);
            let rows = Shuffled::of(transactions.clone());
            Dataset::create(rows, &master, Target::New(&path), 2, threads(), &go_on).unwrap()
        });
        assert_ne!(a.record().names, b.record().names);
        assert_ne!(a.manifest().generation, b.manifest().generation);
        assert_ne!(a.manifest().dataset, b.manifest().dataset);
        let seeds = |d: &Dataset| {
            d.bundle()
                .open_segment(0)
                .unwrap()
                .description()
                .seeds
                .clone()
        };
        let all: HashSet<[u8; 32]> = seeds(&a).iter().chain(&seeds(&b)).map(|s| s.0).collect();
        assert_eq!(
            all.len(),
            6,
            "every block of every encryption has a seed of its own"
        );
    }

    #[test]
    fn impossible_requests_leave_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let create = |transactions: &Transactions, max_len| {
            let (rows, target) = (Shuffled::of(transactions.clone()), Target::New(&path));
            Dataset::create(rows, &master, target, max_len, threads(), &go_on).unwrap_err()
        };
        assert!(matches!(
            create(&transactions(3), 0),
            DatasetError::MaxLen(0)
        ));
        assert!(matches!(
            create(&transactions(3), 17),
            DatasetError::MaxLen(17)
        ));
        assert!(matches!(
            create(&TransactionsBuilder::new().finish(), 2),
            DatasetError::Nothing { .. }
        ));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn progress_reaches_its_total() {
        let directory = tempfile::tempdir().unwrap();
        let most = AtomicU64::new(0);
        let path = directory.path().join("d.oboro");
        let progress = |done, total| {
            assert!(done <= total && total == 2 * 6);
            most.fetch_max(done, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let master = MasterKey::generate().unwrap();
        let target = Target::New(&path);
        Dataset::create(rows(5000), &master, target, 2, threads(), &progress).unwrap();
        assert_eq!(most.into_inner(), 12);
    }

    #[test]
    fn an_interruption_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let until = |last: u64| {
            move |done, _| {
                if done < last {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            }
        };
        for (target, last) in [
            (Target::New(&path), 1),
            (Target::Temporary(directory.path()), 7),
        ] {
            let error = Dataset::create(rows(5000), &master, target, 2, threads(), &until(last))
                .unwrap_err();
            assert!(matches!(error, DatasetError::Interrupted), "{error}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
        let made = create(&path, &master, 100).unwrap();
        let error = made
            .append(rows(31), NewItems::Refuse, threads(), &until(1))
            .unwrap_err();
        assert!(matches!(error, DatasetError::Interrupted), "{error}");
        let segments = std::fs::read_dir(path.join("segments")).unwrap();
        assert_eq!(segments.count(), 1);
        made.append(rows(31), NewItems::Refuse, threads(), &go_on)
            .unwrap();
    }

    #[test]
    fn an_append_that_ends_after_encrypting_again_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let made = create(&path, &master, 100).unwrap();
        let new = || Shuffled::of(Transactions::from_named([["new"]]).unwrap());
        let is_wider = || {
            let now = Dataset::open(&path, &master).unwrap();
            now.count_new_items(&["new".to_owned()]) == 0
        };
        // Only the second half is interrupted.
        let progress = |_, _| {
            if is_wider() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let error = made
            .append(new(), NewItems::Reencrypt, threads(), &progress)
            .unwrap_err();
        assert_eq!(error.class(), ErrorClass::Interrupted);
        assert!(matches!(error, DatasetError::NotAppended { .. }), "{error}");
        let wider = Dataset::open(&path, &master).unwrap();
        assert_eq!(wider.record().transactions, 100);
        let appended = wider.append(new(), NewItems::Reencrypt, threads(), &go_on);
        assert_eq!(appended.unwrap().record().transactions, 101);
    }

    #[test]
    fn what_does_not_fit_the_disk_is_refused_before_anything_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let plan = DatasetPlan::new(5000, 6, None, 2).unwrap();
        let target = Target::New(&path);
        let made = Dataset::create(rows(5000), &master, target, 2, threads(), &go_on).unwrap();
        assert_eq!(made.manifest().segment_bytes(), plan.bytes);
        let more = made.appended_bytes(&rows(31)).unwrap();
        let after = made
            .append(rows(31), NewItems::Refuse, threads(), &go_on)
            .unwrap();
        assert_eq!(after.manifest().segment_bytes(), plan.bytes + more);

        for free in [None, Some(plan.bytes)] {
            check_free_bytes(&path, plan.bytes, free).unwrap();
        }
        let error = check_free_bytes(&path, plan.bytes, Some(plan.bytes - 1)).unwrap_err();
        let message = error.to_string();
        for part in [
            plan.bytes.to_string(),
            (plan.bytes - 1).to_string(),
            "--min-item-support".to_owned(),
        ] {
            assert!(message.contains(&part), "{message}");
        }
        // Far more than any disk has.
        assert!(
            free_bytes(&directory.path().join("none/below")).is_some_and(|it| it < u64::MAX / 2)
        );
    }

    #[test]
    fn a_temporary_dataset_goes_with_its_last_version() {
        let directory = tempfile::tempdir().unwrap();
        let master = MasterKey::generate().unwrap();
        let target = Target::Temporary(directory.path());
        let made = Dataset::create(rows(100), &master, target, 2, threads(), &go_on).unwrap();
        let after = made
            .append(rows(31), NewItems::Refuse, threads(), &go_on)
            .unwrap();
        drop(made);
        after.bundle().verify().unwrap();
        drop(after);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn items_keep_the_owners_order_and_being_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let names: Vec<String> = (0..24).map(|i| (i * 7 % 24).to_string()).collect();
        let transactions = Transactions::from_baskets(names.clone(), [[3, 5]]).unwrap();
        let rows = || Shuffled::of(transactions.clone()).with_numbers();
        let target = Target::New(&path);
        let made = Dataset::create(rows(), &master, target, 2, threads(), &go_on).unwrap();
        assert!(made.record().ordered_names().eq(names.iter()));
        assert_ne!(made.record().names, names);
        made.append(rows(), NewItems::Refuse, threads(), &go_on)
            .unwrap();
        let opened = Dataset::open(&path, &master).unwrap();
        assert!(opened.record().ordered_names().eq(names.iter()));
        assert!(opened.record().numbers);
    }
}
