//! The owner's dataset on a disk whose power is cut after every operation, or of which one operation fails:
//! the old version or the new one is there, complete, and the command can be run again.
#![cfg(target_os = "linux")]

use oboro_faults::{Disk, EIO, ENOSPC, Extent, Failure, Image, Loss, replay, scratch};
use oboro_format::FormatError;
use oboro_mining::{Dataset, DatasetError, NewItems, Shuffled, Target, Transactions};
use oboro_rlwe::MasterKey;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

/// Transactions added by each version, from 1.
const ADDED: [usize; 3] = [5, 3, 4];
/// In a sample every so-many-th operation fails.
const STRIDE: usize = 3;

struct Owner {
    key: MasterKey,
}

impl Owner {
    fn new() -> Self {
        Self {
            key: MasterKey::generate().unwrap(),
        }
    }

    /// Makes the dataset, or appends to it: version `version` of it.
    fn encrypt(&self, directory: &Path, version: usize) -> Result<Dataset, DatasetError> {
        let path = directory.join("d.oboro");
        let rows =
            (0..ADDED[version - 1]).map(|row| [format!("item {}", row % 2), "all".to_owned()]);
        let rows = Shuffled::of(&Transactions::from_named(rows).unwrap()).unwrap();
        let go_on = |_, _| ControlFlow::Continue(());
        let (target, threads) = (Target::New(&path), NonZeroUsize::MIN);
        match version {
            1 => Dataset::create(rows, &self.key, target, 2, threads, &go_on),
            _ => Dataset::open(&path, &self.key)?.append(rows, NewItems::Refuse, threads, &go_on),
        }
    }

    /// The version that is there, which must be whole; 0 if there is none.
    fn version(&self, directory: &Path) -> usize {
        if !directory.join("d.oboro").exists() {
            return 0;
        }
        let dataset = Dataset::open(&directory.join("d.oboro"), &self.key).unwrap();
        dataset.bundle().verify().unwrap();
        dataset.pair_reader().unwrap();
        let version = dataset.manifest().version as usize;
        let rows: usize = ADDED[..version].iter().sum();
        assert_eq!(dataset.record().transactions, rows as u64);
        version
    }

    /// All further versions can be made, and then nothing else is there.
    fn finish(&self, directory: &Path) {
        for version in self.version(directory) + 1..=ADDED.len() {
            self.encrypt(directory, version).unwrap();
            assert_eq!(self.version(directory), version);
        }
        let image = Image::read(directory);
        let paths = image.paths().map(|path| path.to_str().unwrap());
        let (ranges, found): (Vec<_>, Vec<_>) =
            paths.partition(|path| path.starts_with("d.oboro/ranges/"));
        // Those of this version and of the one before, and one that the next append removes.
        assert!((2..=3).contains(&ranges.len()), "{ranges:?}");
        assert_eq!(
            found,
            [
                "d.oboro",
                "d.oboro/head",
                "d.oboro/lock",
                "d.oboro/ranges",
                "d.oboro/segments",
                "d.oboro/segments/00000000.seg",
                "d.oboro/segments/00000001.seg",
                "d.oboro/segments/00000002.seg",
            ]
        );
    }
}

#[test]
fn a_power_cut_at_any_step_leaves_the_old_version_or_the_new_one() {
    let (owner, disk) = (Owner::new(), Disk::new());
    for version in 1..=ADDED.len() {
        owner.encrypt(disk.path(), version).unwrap();
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

/// What is noted of the server: whether it was trusted, and whether an answer of it was false.
#[test]
fn a_power_cut_keeps_what_was_noted_of_the_server() {
    let (owner, disk) = (Owner::new(), Disk::new());
    let dataset = owner.encrypt(disk.path(), 1).unwrap();
    disk.acknowledge();
    dataset.rely_on_server().unwrap();
    disk.acknowledge();
    dataset.record_failure("false").unwrap();
    disk.acknowledge();
    dataset.reset_trust().unwrap();
    disk.acknowledge();
    // After each of these, and before any.
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
        let found = (trust.relied_on, trust.failure.is_some());
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
    for version in 1..=ADDED.len() {
        let Err(error) = owner.encrypt(disk.path(), version) else {
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
            owner.encrypt(disk.path(), version).unwrap();
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
