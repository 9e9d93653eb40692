//! A backup is a store with the data published at one moment, whatever happens during the copy, or it is absent.

use super::super::script::{Owner, Server, Step};
use super::*;
use crate::error::UploadError;
use crate::store::Store;
use crate::store::scrub::Scrub;
use oboro_faults::{Disk, EIO, Failure, replay, scratch};
use oboro_format::DatasetId;
use std::cell::{Cell, RefCell};

const STEPS: &[Step] = &[
    Step::Open,
    Step::Upload("a", 1),
    Step::Upload("a", 2),
    Step::Upload("b", 1),
    Step::Send("b", 2, 13_000),
    Step::Upload("c", 1),
    Step::Delete("c"),
];

fn server<'a>(owner: &'a Owner, disk: &Path) -> Server<'a> {
    let mut server = Server::new(owner, disk);
    STEPS.iter().for_each(|&step| server.run(step).unwrap());
    server
}

fn store(disk: &Path) -> PathBuf {
    disk.join("data/store")
}

/// Returns a file of the dataset at the server.
fn second_segment(disk: &Path) -> PathBuf {
    store(disk).join(format!("segments/{}/00000001.seg", DatasetId([0xb; 16])))
}

/// Returns the content of a backup after checking all of it.
fn names_and_versions(backup: &Path) -> Vec<(String, u64)> {
    let mut scrub = Scrub::of_directory(backup).unwrap();
    while let Some(part) = scrub.next_part().unwrap() {
        assert_eq!(part.damage, None);
    }
    drop(scrub);
    let store = Store::open(backup).unwrap();
    assert!(!backup.join("unknown").exists());
    let datasets = store.access().list().unwrap().datasets.into_iter();
    datasets.map(|info| (info.name, info.version)).collect()
}

fn expected(datasets: &[(&str, u64)]) -> Vec<(String, u64)> {
    let datasets = datasets.iter();
    datasets
        .map(|&(name, version)| (name.to_owned(), version))
        .collect()
}

#[test]
fn a_backup_has_what_was_published_and_takes_uploads_up_anew() {
    let (owner, directory) = (Owner::new(), scratch());
    let server = server(&owner, directory.path());
    let target = directory.path().join("made/on/demand/");
    let reported = Cell::new((0, 0));
    let copied = backup(&store(directory.path()), &target, &|done, total| {
        reported.set((done, total));
    });
    let copied = copied.unwrap();
    assert_eq!((copied.datasets, copied.segments), (2, 5));
    assert_eq!(reported.get(), (copied.bytes, copied.bytes));
    assert_eq!(names_and_versions(&target), expected(&[("a", 2), ("b", 1)]));
    for dataset in names(&target.join(SEGMENTS)).unwrap() {
        for file in names(&target.join(SEGMENTS).join(&dataset)).unwrap() {
            let path = Path::new(SEGMENTS).join(&dataset).join(file);
            let bytes = |root: &Path| fs::read(root.join(&path)).unwrap();
            assert!(bytes(&target) == bytes(&store(directory.path())));
        }
    }
    let error = backup(&store(directory.path()), &target, &|_, _| {}).unwrap_err();
    assert!(
        matches!(error, StoreError::Format(FormatError::Exists { .. })),
        "{error}"
    );

    // Restored in the same way, it works like any store.
    let other = scratch();
    backup(&target, &store(other.path()), &|_, _| {}).unwrap();
    drop(server);
    let mut restored = Server::new(&owner, other.path());
    for step in [Step::Open, Step::Upload("b", 2), Step::Upload("a", 2)] {
        restored.run(step).unwrap();
    }
    assert!(matches!(
        restored.run(Step::Upload("c", 1)),
        Err(StoreError::Upload(UploadError::Purged { .. }))
    ));
}

#[test]
fn what_happens_meanwhile_is_in_it_or_not() {
    let (owner, directory) = (Owner::new(), scratch());
    let (mut earlier, mut later) = (0, 0);
    // Number of panels, of ten, that are copied when everything changes.
    for at in 0..10 {
        let disk = directory.path().join(at.to_string());
        let server = RefCell::new(server(&owner, &disk));
        let target = disk.join("backup");
        let parts = Cell::new(0);
        let meanwhile = |_, _| {
            if parts.replace(parts.get() + 1) == at {
                let mut server = server.borrow_mut();
                server.run(Step::Upload("b", 2)).unwrap();
                server.run(Step::Delete("a")).unwrap();
            }
        };
        backup(&store(&disk), &target, &meanwhile).unwrap();
        let found = names_and_versions(&target);
        if found == expected(&[("a", 2), ("b", 1)]) {
            earlier += 1;
        } else {
            assert_eq!(found, expected(&[("b", 2)]), "{at}");
            later += 1;
        }
    }
    assert!(earlier > 0 && later > 0, "{earlier} {later}");
}

#[test]
fn what_is_damaged_is_named_and_not_backed_up() {
    let (owner, directory) = (Owner::new(), scratch());
    let _server = server(&owner, directory.path());
    let path = second_segment(directory.path());
    let target = directory.path().join("backup");
    let refused = || {
        let error = backup(&store(directory.path()), &target, &|_, _| {}).unwrap_err();
        assert_eq!(names(directory.path()).unwrap(), ["data"]);
        error.to_string()
    };
    let sound = fs::read(&path).unwrap();
    let mut bytes = sound.clone();
    bytes[4096] ^= 1;
    fs::write(&path, bytes).unwrap();
    let text = refused();
    assert!(text.contains("panel (limb 0, column 0) of segment 1 of dataset 0b0b"));
    fs::remove_file(&path).unwrap();
    let text = refused();
    assert!(text.contains("segment 1 of dataset 0b0b") && text.contains("is missing"));
    fs::write(&path, sound).unwrap();
    backup(&store(directory.path()), &target, &|_, _| {}).unwrap();

    let nowhere = directory.path().join("nowhere");
    let error = backup(&target.join(SEGMENTS), &nowhere, &|_, _| {}).unwrap_err();
    assert!(matches!(error, StoreError::NoStore { .. }), "{error}");
    assert!(!nowhere.exists());
}

#[test]
fn what_no_backup_has_made_is_left_alone() {
    let (owner, directory) = (Owner::new(), scratch());
    let _server = server(&owner, directory.path());
    let segment = second_segment(directory.path());
    let (target, partial) = ["backup", "backup.partial"]
        .map(|name| directory.path().join(name))
        .into();
    let backup = |target: &Path| backup(&store(directory.path()), target, &|_, _| {});
    // Another store.
    backup(&partial).unwrap();
    let held = crate::testing::files(&partial);
    let error = backup(&target).unwrap_err();
    assert!(
        matches!(&error, StoreError::Format(FormatError::Exists { path }) if *path == partial),
        "{error}"
    );
    assert_eq!(crate::testing::files(&partial), held);
    assert!(!target.exists());

    // An attempt that failed without cleaning up, and one that was interrupted before it began.
    fs::remove_dir_all(&partial).unwrap();
    fs::create_dir(&partial).unwrap();
    let sound = fs::read(&segment).unwrap();
    fs::write(&segment, b"damaged").unwrap();
    backup(&target).unwrap_err();
    assert!(!partial.exists());
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join(UNFINISHED), b"").unwrap();
    fs::write(partial.join(CATALOGUE), b"half").unwrap();
    fs::write(&segment, sound).unwrap();
    backup(&target).unwrap();
    assert!(!target.join(UNFINISHED).exists());
}

#[test]
fn a_power_cut_leaves_a_whole_backup_or_none() {
    let (owner, origin, disk) = (Owner::new(), scratch(), Disk::new());
    let _server = server(&owner, origin.path());
    backup(
        &store(origin.path()),
        &disk.path().join("backup"),
        &|_, _| {},
    )
    .unwrap();
    disk.acknowledge();
    replay(&disk.record(), |disk, cut| {
        let target = disk.join("backup");
        if cut.acknowledged == 0 && !target.exists() {
            // Leftovers do not interfere.
            backup(&store(origin.path()), &target, &|_, _| {}).unwrap();
        }
        assert_eq!(names_and_versions(&target), expected(&[("a", 2), ("b", 1)]));
    });
}

#[test]
fn a_disk_that_fails_leaves_no_backup() {
    let (owner, origin) = (Owner::new(), scratch());
    let _server = server(&owner, origin.path());
    let backup_to = |disk: &Disk| {
        let target = disk.path().join("backup");
        backup(&store(origin.path()), &target, &|_, _| {}).map(|_| target)
    };
    let operations = {
        let disk = Disk::new();
        backup_to(&disk).unwrap();
        disk.attempts()
    };
    for at in 0..operations {
        for failure in [Failure::Once { at, errno: EIO }, Failure::Full { at }] {
            let disk = Disk::new();
            disk.fail(failure);
            let failed = backup_to(&disk);
            disk.mend();
            // Only the removal of a superfluous file may fail silently.
            if let Err(error) = failed {
                let text = error.to_string();
                assert!(
                    text.contains("Check the") || text.contains("Free some space"),
                    "{failure:?}: {text}"
                );
                let target = disk.path().join("backup");
                if !target.exists() {
                    backup_to(&disk).unwrap();
                }
            }
            let target = disk.path().join("backup");
            assert_eq!(
                names_and_versions(&target),
                expected(&[("a", 2), ("b", 1)]),
                "{failure:?}"
            );
        }
    }
}
