//! The owner's dataset on a disk that loses power after each operation, or on which one operation fails. Afterwards
//! the old version or the new one is complete, and the command can be repeated.
#![cfg(target_os = "linux")]

use oboro_dataset::{Dataset, DatasetError, NewItems, Shuffled, Target};
use oboro_faults::{Disk, EIO, ENOSPC, Extent, Failure, Image, Loss, replay, scratch};
use oboro_format::FormatError;
use oboro_input::Transactions;
use oboro_rlwe::MasterKey;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

/// The number of transactions of each version, from 1: three encryptions, an erasure, a compaction, a rotation.
const TRANSACTIONS: [usize; 6] = [5, 8, 12, 11, 11, 11];
/// The distance between failing operations in a sample of them.
const STRIDE: usize = 3;

struct Owner {
    key: MasterKey,
    /// The key of the last version.
    next_key: MasterKey,
}

impl Owner {
    fn new() -> Self {
        Self {
            key: MasterKey::generate().unwrap(),
            next_key: MasterKey::generate().unwrap(),
        }
    }

    fn open(&self, directory: &Path) -> Result<Dataset, DatasetError> {
        let path = directory.join("d.oboro");
        match Dataset::open(&path, &self.key) {
            Err(DatasetError::WrongKey { .. }) => Dataset::open(&path, &self.next_key),
            opened => opened,
        }
    }

    /// Creates the dataset, or changes it to version `version`.
    fn make(&self, directory: &Path, version: usize) -> Result<Dataset, DatasetError> {
        let path = directory.join("d.oboro");
        let before = version.checked_sub(2).map_or(0, |it| TRANSACTIONS[it]);
        let new = before..TRANSACTIONS[version - 1].max(before);
        let basket = |row: usize| [format!("item {}", row % 2), "all".to_owned()];
        let rows = Transactions::from_named(new.clone().map(basket)).unwrap();
        let rows = rows.with_row_ids(new.map(|row| format!("row {row}")).collect());
        let rows = Shuffled::of(rows.unwrap());
        let go_on = |_, _| ControlFlow::Continue(());
        let (target, threads) = (Target::New(&path), NonZeroUsize::MIN);
        let open = || self.open(directory);
        match version {
            1 => Dataset::create(rows, &self.key, target, 2, threads, &go_on),
            // The first append absorbs the existing strata; the second leaves a stratum to compact.
            2 | 3 => {
                let rows = rows.absorbing(Some(version == 2));
                open()?.append(rows, NewItems::Refuse, threads, &go_on)
            }
            4 => {
                let dataset = open()?;
                let mut rows = dataset.own_row_ids(threads)?.into_iter();
                let row = rows.find(|it| it.id == "row 6").unwrap();
                dataset.erase(&[row.slot].into(), threads, &go_on)
            }
            5 => Ok(open()?.compact(false, threads, &go_on)?.unwrap()),
            _ => open()?.rotate(&self.next_key, threads, &go_on),
        }
    }

    /// Returns the present version, which must be complete; 0 without a dataset.
    fn version(&self, directory: &Path) -> usize {
        if !directory.join("d.oboro").exists() {
            return 0;
        }
        let dataset = self.open(directory).unwrap();
        dataset.bundle().verify().unwrap();
        dataset.pair_reader().unwrap();
        let version = dataset.manifest().version as usize;
        let transactions = TRANSACTIONS[version - 1] as u64;
        assert_eq!(dataset.record().transactions, transactions);
        let ids = dataset.own_row_ids(NonZeroUsize::MIN).unwrap();
        assert_eq!(ids.len() as u64, transactions);
        version
    }

    /// Makes all further versions, and checks that no other files remain.
    fn finish(&self, directory: &Path) {
        for version in self.version(directory) + 1..=TRANSACTIONS.len() {
            self.make(directory, version).unwrap();
            assert_eq!(self.version(directory), version);
        }
        let image = Image::read(directory);
        let paths = image.paths().map(|path| path.to_str().unwrap());
        let (ranges, found): (Vec<_>, Vec<_>) =
            paths.partition(|path| path.starts_with("d.oboro/ranges/"));
        // The range of this version, and those that the next change removes.
        assert!((1..=3).contains(&ranges.len()), "{ranges:?}");
        assert_eq!(
            found,
            [
                "d.oboro",
                "d.oboro/head",
                "d.oboro/lock",
                "d.oboro/ranges",
                "d.oboro/segments",
                "d.oboro/segments/00000005.seg",
            ]
        );
    }
}

#[test]
fn a_power_cut_at_any_step_leaves_the_old_version_or_the_new_one() {
    let (owner, disk) = (Owner::new(), Disk::new());
    for version in 1..=TRANSACTIONS.len() {
        owner.make(disk.path(), version).unwrap();
        disk.acknowledge();
    }
    let record = disk.record();
    assert!(record.image(record.operations(), Loss::Nothing) == Image::read(disk.path()));
    replay(&record, |directory, cut| {
        let version = owner.version(directory);
        let newest = cut.acknowledged + usize::from(cut.under_way);
        assert!(
            (cut.acknowledged..=newest).contains(&version),
            "{version}: {cut:?}"
        );
        owner.finish(directory);
    });
}

/// Notes about the server: use of unverified answers, and a false answer.
#[test]
fn a_power_cut_keeps_what_was_noted_of_the_server() {
    let (owner, disk) = (Owner::new(), Disk::new());
    let dataset = owner.make(disk.path(), 1).unwrap();
    disk.acknowledge();
    dataset.rely_on_server().unwrap();
    disk.acknowledge();
    dataset.record_failure("false").unwrap();
    disk.acknowledge();
    dataset.reset_trust().unwrap();
    disk.acknowledge();
    // After each operation, and before any.
    let noted = [
        (false, false),
        (false, false),
        (true, false),
        (true, true),
        (true, false),
    ];
    replay(&disk.record(), |directory, cut| {
        if owner.version(directory) == 0 {
            assert_eq!(cut.acknowledged, 0, "{cut:?}");
            return;
        }
        let dataset = Dataset::open(&directory.join("d.oboro"), &owner.key).unwrap();
        let trust = dataset.trust().unwrap();
        let found = (trust.relied_on.is_some(), trust.failure.is_some());
        let newest = cut.acknowledged + usize::from(cut.under_way);
        let possible = &noted[cut.acknowledged..=newest];
        assert!(possible.contains(&found), "{found:?}: {cut:?}");
    });
}

#[test]
fn an_operation_that_fails_costs_one_command() {
    let owner = Owner::new();
    let operations = {
        let disk = Disk::new();
        owner.finish(disk.path());
        disk.attempts()
    };
    for at in Extent::wanted().steps(operations, STRIDE) {
        for failure in [
            Failure::Once { at, errno: EIO },
            Failure::Once { at, errno: ENOSPC },
            Failure::Full { at },
        ] {
            run_with(&owner, failure);
        }
    }
}

fn run_with(owner: &Owner, failure: Failure) {
    let disk = Disk::new();
    disk.fail(failure);
    for version in 1..=TRANSACTIONS.len() {
        let Err(error) = owner.make(disk.path(), version) else {
            continue;
        };
        let text = error.to_string();
        assert!(
            text.contains("Free some space") || text.contains("Check the"),
            "{failure:?}: {text}"
        );
        disk.mend();
        let there = match error {
            DatasetError::Format(FormatError::Unconfirmed { .. }) => version,
            _ => version - 1,
        };
        assert_eq!(owner.version(disk.path()), there, "{failure:?}: {text}");
        if there < version {
            owner.make(disk.path(), version).unwrap();
            let record = disk.record();
            let left = scratch();
            record
                .image(record.operations(), Loss::All)
                .write(left.path());
            assert_eq!(owner.version(left.path()), version, "{failure:?}: {text}");
        }
    }
    owner.finish(disk.path());
}
