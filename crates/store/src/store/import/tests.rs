//! Imports of local bundles.

use super::*;
use crate::error::UploadError;
use crate::location::Location;
use crate::store::Store;
use crate::testing::{ID, append, bundle, bundle_of, one_limb};
use oboro_format::DatasetId;
use oboro_format::files::names;
use oboro_format::{ErrorKind, FormatError};
use oboro_residency::Placement;
use oboro_ring::{Column, Limb};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tempfile::TempDir;

struct Setting {
    directory: TempDir,
    bundle: Bundle,
}

impl Setting {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let bundle = bundle(&directory.path().join("a.oboro"), &one_limb(), &[2, 1]);
        Self { directory, bundle }
    }

    fn open(&self) -> Store {
        Store::open(&self.root()).unwrap()
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn stored(&self, index: u32) -> PathBuf {
        let name = format!("segments/{ID}/{index:08}.seg");
        self.root().join(name)
    }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn an_imported_bundle_is_published_without_a_copy() {
    let setting = Setting::new();
    let store = setting.open();
    let published = store.access().import("a", &setting.bundle).unwrap();
    assert_eq!(published.root, setting.bundle.manifest().root());
    assert_eq!(
        store.access().import("a", &setting.bundle).unwrap(),
        published
    );
    for index in 0..2 {
        let (ours, theirs) = (setting.stored(index), setting.bundle.segment_path(index));
        assert_eq!(inode(&ours), inode(&theirs));
    }
    drop(store);
    let store = setting.open();
    let snapshot = store.access().snapshot("a").unwrap();
    assert_eq!(snapshot.block_count(), 3);
    snapshot.panel(1, Limb(0), Column(1)).unwrap();
}

#[test]
fn a_later_version_adds_its_segments() {
    let setting = Setting::new();
    let store = setting.open();
    store.access().import("a", &setting.bundle).unwrap();
    let grown = append(&setting.bundle, &[1]);
    assert_eq!(store.access().import("a", &grown).unwrap().version, 2);
    assert_eq!(store.access().snapshot("a").unwrap().block_count(), 4);
    // The store's files outlive the bundle.
    fs::remove_dir_all(grown.directory()).unwrap();
    store
        .access()
        .snapshot("a")
        .unwrap()
        .panel(2, Limb(0), Column(0))
        .unwrap();
}

#[test]
fn an_import_goes_on_where_an_upload_stopped() {
    let setting = Setting::new();
    let store = setting.open();
    let manifest = setting.bundle.manifest().encode();
    store.access().begin_upload("a", &manifest).unwrap();
    let bytes = fs::read(setting.bundle.segment_path(0)).unwrap();
    let mut receiver = store.access().receive_pending(ID, 0, 0).unwrap();
    receiver.write(&bytes[..5000]).unwrap();
    drop(receiver);
    store.access().import("a", &setting.bundle).unwrap();
    let directory = setting.stored(0);
    let left = names(directory.parent().unwrap()).unwrap();
    assert!(left.iter().all(|name| name.ends_with(".seg")), "{left:?}");
}

#[test]
fn what_cannot_be_published_is_refused() {
    let setting = Setting::new();
    let store = setting.open();
    store.access().import("a", &setting.bundle).unwrap();
    let other = setting.directory.path().join("b.oboro");
    let other = bundle_of(DatasetId([9; 16]), &other, &one_limb(), &[1]);
    let error = store.access().import("a", &other).unwrap_err();
    assert!(
        matches!(error, StoreError::Upload(UploadError::NameTaken { .. })),
        "{error}"
    );
    let error = store.access().import("../b", &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = store.access().import("b", &setting.bundle).unwrap_err();
    assert!(
        matches!(error, StoreError::Upload(UploadError::StoredAs { .. })),
        "{error}"
    );
    let older = Bundle::open(setting.bundle.directory()).unwrap();
    store
        .access()
        .import("a", &append(&setting.bundle, &[1]))
        .unwrap();
    let error = store.access().import("a", &older).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Format(FormatError::NotAnExtension { .. })
        ),
        "{error}"
    );
}

#[test]
fn damage_is_found_before_it_is_published_or_before_it_is_computed_on() {
    let setting = Setting::new();
    let store = setting.open();
    let path = setting.bundle.segment_path(1);
    let bytes = fs::read(&path).unwrap();
    let altered = |at: usize| {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        fs::write(&path, altered).unwrap();
    };
    altered(100);
    let error = store.access().import("a", &setting.bundle).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLoss);
    assert!(store.access().list().unwrap().datasets.is_empty());
    altered(5000);
    store.access().import("a", &setting.bundle).unwrap();
    let snapshot = store.access().snapshot("a").unwrap();
    let error = snapshot.panel(1, Limb(0), Column(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLoss);
    snapshot.panel(0, Limb(0), Column(0)).unwrap();
}

#[test]
fn where_a_file_has_no_second_name_it_is_copied_and_checked() {
    let setting = Setting::new();
    let objects = setting.directory.path().join("objects");
    let location = Location::Objects {
        url: format!("file://{}", objects.display()),
        cache: setting.root(),
        cache_bytes: u64::MAX,
    };
    let store = Store::open_on(location, Placement::default()).unwrap();
    store.access().import("a", &setting.bundle).unwrap();
    store
        .access()
        .snapshot("a")
        .unwrap()
        .panel(0, Limb(0), Column(1))
        .unwrap();
    assert_ne!(
        inode(&setting.stored(0)),
        inode(&setting.bundle.segment_path(0))
    );

    let other = setting.directory.path().join("b.oboro");
    let other = bundle_of(DatasetId([9; 16]), &other, &one_limb(), &[1]);
    let path = other.segment_path(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = store.access().import("b", &other).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Upload(UploadError::SegmentRefused { .. })
        ),
        "{error}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_bundle_of_another_file_system_is_copied() {
    let setting = Setting::new();
    let memory = Path::new("/dev/shm");
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    let here = device(setting.directory.path()).unwrap();
    if device(memory).is_err() || device(memory).is_ok_and(|device| device == here) {
        println!("skipped: /dev/shm is no file system of its own here");
        return;
    }
    let elsewhere = TempDir::new_in(memory).unwrap();
    let bundle = bundle(&elsewhere.path().join("a.oboro"), &one_limb(), &[1]);
    let store = setting.open();
    store.access().import("a", &bundle).unwrap();
    drop(elsewhere);
    store
        .access()
        .snapshot("a")
        .unwrap()
        .panel(0, Limb(0), Column(0))
        .unwrap();
}

/// Store and bundle are on one disk, which records links.
#[cfg(target_os = "linux")]
#[test]
fn a_power_cut_at_any_step_of_an_import_leaves_it_published_or_to_be_repeated() {
    use oboro_faults::{Disk, replay};

    let disk = Disk::new();
    let path = |directory: &Path| directory.join("a.oboro");
    let made = bundle(&path(disk.path()), &one_limb(), &[1, 1]);
    let store = Store::open(disk.path().join("store").as_path()).unwrap();
    disk.acknowledge();
    store.access().import("a", &made).unwrap();
    disk.acknowledge();
    drop(store);
    replay(&disk.record(), |directory, cut| {
        let store = Store::open(directory.join("store").as_path()).unwrap();
        if cut.acknowledged == 2 {
            assert_eq!(store.access().list().unwrap().datasets.len(), 1);
        }
        if cut.acknowledged == 0 {
            return;
        }
        let bundle = Bundle::open(&path(directory)).unwrap();
        store.access().import("a", &bundle).unwrap();
        let snapshot = store.access().snapshot("a").unwrap();
        for segment in 0..2 {
            snapshot.panel(segment, Limb(0), Column(1)).unwrap();
        }
    });
}
