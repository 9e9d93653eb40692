//! Encrypted datasets at the owner: from transactions to a bundle ready for upload.
//!
//! Transactions and columns are shuffled first, so that neither the order of rows nor the order of
//! items leaves the owner. Segments are written one after another, their columns encrypted on
//! several threads; nothing counts until the bundle's head is in place.

use crate::checks::CheckColumns;
use crate::record::{OwnerRecord, RecordError};
use crate::transactions::Transactions;
use oboro_ring::{Parameters, moment};
use oboro_rlwe::{
    Block, BlockNoise, DatasetKey, EncryptError, Encryptor, KeyCheck, MasterKey, PlanError,
    SealError, plan,
};
use oboro_store::{
    BLOCKS_PER_SEGMENT, Bundle, BundleWriter, DatasetId, Manifest, SegmentDescription,
    SegmentEntry, StoreError,
};
use rand::seq::SliceRandom;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use thiserror::Error;
use zeroize::Zeroizing;

/// Why a dataset could not be encrypted or opened.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum DatasetError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the operating system gave no randomness ({0}); nothing was encrypted, try again")]
    Randomness(#[from] getrandom::Error),
    #[error(
        "the key {given} is not the one that dataset {dataset} was encrypted with ({wanted}); give the right key file"
    )]
    WrongKey {
        dataset: DatasetId,
        given: KeyCheck,
        wanted: KeyCheck,
    },
    #[error(
        "{unknown} items are not columns of this dataset, {example:?} for one; append only items that it was made with (drop the others), or encrypt everything anew"
    )]
    UnknownItems { unknown: usize, example: String },
    #[error("a maximum itemset length of {0} is not possible; choose 1 to {max}", max = moment::MAX_LENGTH)]
    MaxLen(usize),
    #[error(
        "{wanted} check columns are not possible here; choose none, or from {least} (as many as the longest itemsets have items, so that answers of every length are checked) to {most}", most = CheckColumns::MOST
    )]
    CheckColumns { wanted: usize, least: usize },
    #[error(
        "nothing to encrypt: there are {transactions} transactions and {items} items; check the input and --min-item-support"
    )]
    Nothing { transactions: usize, items: usize },
}

impl From<SealError> for DatasetError {
    fn from(error: SealError) -> Self {
        RecordError::from(error).into()
    }
}

/// An encrypted dataset, opened with its owner's key.
#[derive(Debug)]
pub struct Dataset {
    bundle: Bundle,
    record: OwnerRecord,
    key: DatasetKey,
}

/// Told of every encrypted block-column: how many are done, of how many.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

impl Dataset {
    /// Encrypts `transactions` into a new bundle at `directory`, for itemsets of up to `max_len`, with
    /// as many `check_columns` planted among those of the items: none, or at least `max_len`.
    ///
    /// # Errors
    /// An existing directory, parameters that do not exist, a full disk; nothing is left behind.
    pub fn create(
        transactions: &Transactions,
        master: &MasterKey,
        directory: &Path,
        max_len: usize,
        check_columns: usize,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        if !(1..=moment::MAX_LENGTH).contains(&max_len) {
            return Err(DatasetError::MaxLen(max_len));
        }
        if transactions.is_empty() || transactions.item_count() == 0 {
            return Err(DatasetError::Nothing {
                transactions: transactions.len(),
                items: transactions.item_count(),
            });
        }
        // No itemset is longer than there are items.
        let max_len = max_len.min(transactions.item_count());
        if check_columns != 0 && !(max_len..=CheckColumns::MOST).contains(&check_columns) {
            return Err(DatasetError::CheckColumns {
                wanted: check_columns,
                least: max_len,
            });
        }
        let all = transactions.item_count() + check_columns;
        let parameters = plan(transactions.len() as u64, all as u64, max_len)?;
        let key = DatasetKey::fresh(master, parameters)?;
        let writer = Bundle::create(directory)?;
        let mut columns: Vec<u32> = (0..all as u32).collect();
        columns.shuffle(&mut rand::rng());
        let (columns, check_columns) = columns.split_at(transactions.item_count());
        let mut checks = CheckColumns::plant(check_columns, all);
        let mut named: Vec<_> = columns.iter().zip(transactions.names()).collect();
        named.sort_unstable();
        let names = named.into_iter().map(|(_, name)| name.clone()).collect();
        let manifest = Manifest {
            dataset: DatasetId(key.dataset()),
            key_check: master.check().0,
            generation: key.generation(),
            parameters: key.ring().parameters().clone(),
            max_len: max_len as u8,
            columns: all as u32,
            version: 0,
            segments: Vec::new(),
        };
        let new = NewRows {
            transactions,
            columns,
            threads,
            progress,
        };
        let (manifest, noise) = new.encrypt(&key, manifest, &mut checks, &writer)?;
        let total = transactions.len() as u64;
        let record = OwnerRecord::new(&manifest, total, names, checks, noise);
        let bundle = writer.commit(&manifest, &record.seal(&key)?)?;
        Ok(Self {
            bundle,
            record,
            key,
        })
    }

    /// Opens the bundle at `directory` with its owner's key.
    ///
    /// # Errors
    /// Another key, a damaged or foreign bundle.
    pub fn open(directory: &Path, master: &MasterKey) -> Result<Self, DatasetError> {
        let bundle = Bundle::open(directory)?;
        let manifest = bundle.manifest();
        let (given, wanted) = (master.check(), KeyCheck(manifest.key_check));
        if given != wanted {
            return Err(DatasetError::WrongKey {
                dataset: manifest.dataset,
                given,
                wanted,
            });
        }
        let parameters = manifest.parameters.clone();
        let key = DatasetKey::new(master, parameters, manifest.dataset.0, manifest.generation);
        let record = OwnerRecord::open(&key, manifest, bundle.sealed())?;
        Ok(Self {
            bundle,
            record,
            key,
        })
    }

    /// Encrypts more transactions of the same items into new segments.
    ///
    /// # Errors
    /// Items that the dataset does not have, or as [`Dataset::create`]; the bundle stays as it was.
    pub fn append(
        self,
        transactions: &Transactions,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        if transactions.is_empty() {
            return Err(DatasetError::Nothing {
                transactions: 0,
                items: transactions.item_count(),
            });
        }
        let by_name: HashMap<&str, u32> = self
            .record
            .names
            .iter()
            .map(String::as_str)
            .zip(self.record.item_columns())
            .collect();
        let column = |name: &String| by_name.get(name.as_str()).copied();
        let mut unknown = transactions
            .names()
            .iter()
            .filter(|name| column(name).is_none());
        if let Some(example) = unknown.next() {
            return Err(DatasetError::UnknownItems {
                unknown: 1 + unknown.count(),
                example: example.clone(),
            });
        }
        let columns: Vec<u32> = transactions.names().iter().filter_map(column).collect();
        let writer = self.bundle.append()?;
        let new = NewRows {
            transactions,
            columns: &columns,
            threads,
            progress,
        };
        let mut checks = self.record.checks.clone();
        let manifest = self.bundle.manifest().clone();
        let (manifest, noise) = new.encrypt(&self.key, manifest, &mut checks, &writer)?;
        let noise = noise.max(BlockNoise {
            norm: self.record.noise_norm,
            peak: self.record.noise_peak,
        });
        let total = self.record.transactions + transactions.len() as u64;
        let names = self.record.names.clone();
        let record = OwnerRecord::new(&manifest, total, names, checks, noise);
        let bundle = writer.commit(&manifest, &record.seal(&self.key)?)?;
        Ok(Self {
            bundle,
            record,
            key: self.key,
        })
    }

    /// The bundle on disk.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The public description.
    pub fn manifest(&self) -> &Manifest {
        self.bundle.manifest()
    }

    /// What only the owner knows.
    pub fn record(&self) -> &OwnerRecord {
        &self.record
    }

    /// The key of this dataset.
    pub fn key(&self) -> &DatasetKey {
        &self.key
    }
}

/// Transactions on their way into new blocks of a dataset.
struct NewRows<'a> {
    transactions: &'a Transactions,
    /// The column of each item.
    columns: &'a [u32],
    threads: NonZeroUsize,
    progress: Progress<'a>,
}

impl NewRows<'_> {
    /// Encrypts all rows, with what `checks` draw and count, into segments behind those of `manifest`;
    /// the next version of it.
    fn encrypt(
        &self,
        key: &DatasetKey,
        mut manifest: Manifest,
        checks: &mut CheckColumns,
        writer: &BundleWriter,
    ) -> Result<(Manifest, BlockNoise), DatasetError> {
        let ring = key.ring();
        let blocks = self.transactions.len().div_ceil(ring.degree()) as u64;
        let mut bits = self.shuffled_bits(&manifest.parameters, manifest.columns, blocks);
        checks.draw(self.transactions.len(), &mut bits);
        checks.count(&bits);
        let first_new = manifest.block_count();
        let done = AtomicU64::new(0);
        let total = blocks * u64::from(manifest.columns);
        let advance = || (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        let mut noise = BlockNoise::default();
        let mut first = 0;
        while first < blocks {
            let count = u64::from(BLOCKS_PER_SEGMENT).min(blocks - first);
            let segment = SegmentRows {
                key,
                first: first_new + first,
                bits: &bits,
                rows: first..first + count,
            };
            let (entry, measured) = segment.encrypt(&manifest, writer, self.threads, &advance)?;
            manifest.segments.push(entry);
            noise = noise.max(measured);
            first += count;
        }
        manifest.version += 1;
        Ok((manifest, noise))
    }

    /// A bit for each (column, slot), slots of all new blocks in a row, transactions in random order.
    fn shuffled_bits(
        &self,
        parameters: &Parameters,
        columns: u32,
        blocks: u64,
    ) -> Zeroizing<Vec<Vec<u64>>> {
        let mut order: Vec<usize> = (0..self.transactions.len()).collect();
        order.shuffle(&mut rand::rng());
        let words = blocks as usize * parameters.degree() / 64;
        let mut bits = Zeroizing::new(vec![vec![0u64; words]; columns as usize]);
        for (basket, &slot) in self.transactions.iter().zip(&order) {
            for &item in basket {
                bits[self.columns[item as usize] as usize][slot / 64] |= 1 << (slot % 64);
            }
        }
        bits
    }
}

/// The rows of one segment.
struct SegmentRows<'a> {
    key: &'a DatasetKey,
    /// The number of its first block in the dataset.
    first: u64,
    bits: &'a [Vec<u64>],
    /// Its blocks, counted from the first new one.
    rows: std::ops::Range<u64>,
}

impl SegmentRows<'_> {
    fn encrypt(
        &self,
        manifest: &Manifest,
        writer: &BundleWriter,
        threads: NonZeroUsize,
        advance: &(dyn Fn() + Sync),
    ) -> Result<(SegmentEntry, BlockNoise), DatasetError> {
        let words = self.key.ring().degree() / 64;
        let slices: Vec<Vec<&[u64]>> = self
            .rows
            .clone()
            .map(|row| {
                self.bits
                    .iter()
                    .map(|column| &column[row as usize * words..][..words])
                    .collect()
            })
            .collect();
        let blocks = slices
            .iter()
            .zip(self.first..)
            .map(|(columns, number)| Block::new(self.key, number, columns))
            .collect::<Result<Vec<_>, _>>()?;
        let segment = writer.segment(SegmentDescription {
            dataset: manifest.dataset,
            index: manifest.segments.len() as u32,
            first_block: self.first,
            columns: manifest.columns,
            parameters: manifest.parameters.clone(),
            seeds: blocks.iter().map(Block::seed).collect(),
        })?;
        let next = AtomicU32::new(0);
        let noise = Mutex::new(BlockNoise::default());
        let work = || -> Result<(), DatasetError> {
            let mut encryptor = Encryptor::new(self.key);
            let mut limbs = vec![
                vec![0; blocks.len() * self.key.ring().degree()];
                self.key.ring().limbs().len()
            ];
            loop {
                let column = next.fetch_add(1, Ordering::Relaxed);
                if column >= manifest.columns {
                    return Ok(());
                }
                let measured = self
                    .encrypt_column(column, &blocks, &mut encryptor, &mut limbs, advance)
                    .map_err(DatasetError::from)
                    .and_then(|measured| {
                        for (limb, panel) in limbs.iter().enumerate() {
                            segment.write_panel(limb, column as usize, panel)?;
                        }
                        Ok(measured)
                    })
                    // The other threads have nothing left to do then.
                    .inspect_err(|_| next.store(manifest.columns, Ordering::Relaxed))?;
                let mut noise = noise.lock().expect("no thread panics with the lock");
                *noise = noise.max(measured);
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (1..threads.get()).map(|_| scope.spawn(work)).collect();
            let own = work();
            workers
                .into_iter()
                .map(|worker| worker.join().expect("encryption does not panic"))
                .chain([own])
                .collect::<Result<(), _>>()
        })?;
        let noise = noise.into_inner().expect("no thread panics with the lock");
        Ok((segment.finish()?, noise))
    }

    fn encrypt_column(
        &self,
        column: u32,
        blocks: &[Block<'_>],
        encryptor: &mut Encryptor<'_>,
        limbs: &mut [Vec<u32>],
        advance: &(dyn Fn() + Sync),
    ) -> Result<BlockNoise, EncryptError> {
        let degree = self.key.ring().degree();
        encryptor.begin_column(column);
        let mut noise = BlockNoise::default();
        for (i, block) in blocks.iter().enumerate() {
            let mut out: Vec<&mut [u32]> = limbs
                .iter_mut()
                .map(|limb| &mut limb[i * degree..(i + 1) * degree])
                .collect();
            noise = noise.max(encryptor.encrypt(block, &mut out)?);
            advance();
        }
        Ok(noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::TransactionsBuilder;
    use std::collections::HashSet;

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

    fn create(directory: &Path, master: &MasterKey, count: usize) -> Result<Dataset, DatasetError> {
        Dataset::create(
            &transactions(count),
            master,
            directory,
            2,
            0,
            threads(),
            &|_, _| {},
        )
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
            Err(DatasetError::Store(StoreError::Exists { .. }))
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
            .append(&transactions(31), threads(), &|_, _| {})
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
        let error = after.append(&strange, threads(), &|_, _| {}).unwrap_err();
        assert!(
            matches!(&error, DatasetError::UnknownItems { unknown: 1, example } if example == "new"),
            "{error}"
        );
        assert_eq!(
            Dataset::open(&path, &master).unwrap().record().transactions,
            131
        );
    }

    #[test]
    fn check_columns_stay_when_transactions_are_appended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d.oboro");
        let master = MasterKey::generate().unwrap();
        let (all, progress) = (transactions(100), |_, _| {});
        let made = Dataset::create(&all, &master, &path, 2, 4, threads(), &progress).unwrap();
        let before = made.record().clone();
        assert_eq!((made.manifest().columns, before.checks.len()), (10, 4));
        let after = made
            .append(&transactions(31), threads(), &progress)
            .unwrap();
        let opened = Dataset::open(&path, &master).unwrap();
        assert_eq!(opened.record(), after.record());
        let columns = opened.record().item_columns();
        for (name, &column) in opened.record().names.iter().zip(&columns) {
            let number = all.names().iter().position(|other| other == name).unwrap();
            let appended = transactions(31);
            let appended_number = appended.names().iter().position(|other| other == name);
            let first = all.item_supports()[number];
            let second = appended_number.map_or(0, |number| appended.item_supports()[number]);
            assert_eq!(before.checks.known(&[column]), Some(first));
            assert_eq!(
                opened.record().checks.known(&[column]),
                Some(first + second)
            );
        }
        // Drawn for the appended transactions, too: with one item that all have, each check column
        // is alone.
        let always = opened
            .record()
            .names
            .iter()
            .position(|name| name == "always");
        let always = columns[always.unwrap()];
        let (mut grown, mut largest) = (0, 0);
        for check in (0..10).filter(|column| !columns.contains(column)) {
            let known = |record: &OwnerRecord| record.checks.known(&[check]).unwrap();
            grown += known(opened.record()) - known(&before);
            largest = largest.max(known(opened.record()));
            let pair = [always, check];
            assert_eq!(
                opened.record().checks.known(&pair),
                Some(known(opened.record()))
            );
        }
        assert!(grown > 0 && largest < 131);
    }

    #[test]
    fn two_encryptions_share_no_seed_no_id_and_no_order() {
        let directory = tempfile::tempdir().unwrap();
        let master = MasterKey::generate().unwrap();
        // 24 items: their columns are in the same order by chance once in 24! times.
        let items: Vec<String> = (0..24).map(|i| format!("item {i}")).collect();
        let transactions = Transactions::from_named(vec![items; 3 * 4096]).unwrap();
        let [a, b] = ["a", "b"].map(|name| {
            let path = directory.path().join(name);
            Dataset::create(&transactions, &master, &path, 2, 0, threads(), &|_, _| {}).unwrap()
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
        let create = |transactions: &Transactions, max_len, checks| {
            Dataset::create(
                transactions,
                &master,
                &path,
                max_len,
                checks,
                threads(),
                &|_, _| {},
            )
            .unwrap_err()
        };
        assert!(matches!(
            create(&transactions(3), 0, 0),
            DatasetError::MaxLen(0)
        ));
        assert!(matches!(
            create(&transactions(3), 17, 0),
            DatasetError::MaxLen(17)
        ));
        assert!(matches!(
            create(&TransactionsBuilder::new().finish(), 2, 0),
            DatasetError::Nothing { .. }
        ));
        for wanted in [1, 2, 17] {
            assert!(matches!(
                create(&transactions(3), 3, wanted),
                DatasetError::CheckColumns { least: 3, .. }
            ));
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn progress_reaches_its_total() {
        let directory = tempfile::tempdir().unwrap();
        let most = AtomicU64::new(0);
        let path = directory.path().join("d.oboro");
        Dataset::create(
            &transactions(5000),
            &MasterKey::generate().unwrap(),
            &path,
            2,
            0,
            threads(),
            &|done, total| {
                assert!(done <= total && total == 2 * 6);
                most.fetch_max(done, Ordering::Relaxed);
            },
        )
        .unwrap();
        assert_eq!(most.into_inner(), 12);
    }
}
