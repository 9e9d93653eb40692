//! Script of uploads, appends, cancellations and deletions, with the promises at each step.
//!
//! All fault tests share it; the datasets `a`, `b` and `c` have two versions each, `a` a third, rewritten one.

use super::Store;
use crate::error::{StoreError, UploadError};
use crate::layout::segment_path;
use crate::testing::{append, bundle_of, files, one_limb, rewrite};
use oboro_faults::{Image, scratch};
use oboro_format::{Bundle, DatasetId, Digest};
use oboro_ring::{Column, Limb};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// One call, or several that promise nothing before the last.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Closes the store and opens it.
    Open,
    /// Sends this many more bytes of a version, without publishing it.
    Send(&'static str, u64, u64),
    /// Sends the missing bytes and publishes.
    Upload(&'static str, u64),
    Cancel(&'static str),
    Delete(&'static str),
}

use Step::*;

/// More bytes than any version has.
const ALL: u64 = u64::MAX;

pub(super) const SCRIPT: &[Step] = &[
    Open,
    Upload("a", 1),
    // A segment and a half.
    Send("b", 1, 18_000),
    Cancel("b"),
    Send("b", 1, 5_000),
    Upload("b", 1),
    Send("a", 2, 9_000),
    Open,
    Send("a", 2, ALL),
    Cancel("a"),
    Upload("a", 2),
    Send("a", 3, 5_000),
    Open,
    Upload("a", 3),
    // Complete but never published, twice.
    Send("c", 1, ALL),
    Cancel("c"),
    Send("c", 1, ALL),
    Cancel("c"),
    Upload("c", 1),
    Send("b", 2, 9_000),
    Delete("b"),
    Delete("a"),
];

/// Promises of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Promised {
    pub(super) published: BTreeMap<&'static str, u64>,
    pub(super) deleted: BTreeSet<&'static str>,
}

impl Promised {
    /// Returns the promises after each number of steps of the script.
    pub(super) fn by_steps() -> Vec<Self> {
        let mut all = vec![Self::default()];
        for step in SCRIPT {
            let mut next = all[all.len() - 1].clone();
            match *step {
                Upload(name, version) => drop(next.published.insert(name, version)),
                Delete(name) => {
                    next.published.remove(name);
                    next.deleted.insert(name);
                }
                Open | Send(..) | Cancel(_) => {}
            }
            all.push(next);
        }
        all
    }
}

/// Bundles of three datasets, two or three versions of each.
pub(super) struct Owner {
    _directory: TempDir,
    bundles: BTreeMap<(&'static str, u64), Bundle>,
    /// Copy of each version's directory: rewriting removes the data it replaces.
    copies: BTreeMap<(&'static str, u64), PathBuf>,
}

impl Owner {
    pub(super) fn new() -> Self {
        let directory = scratch();
        let (mut bundles, mut copies) = (BTreeMap::new(), BTreeMap::new());
        for (name, id) in [("a", 0xa), ("b", 0xb), ("c", 0xc)] {
            let at = directory.path().join(name);
            let first = bundle_of(DatasetId([id; 16]), &at, &one_limb(), &[1, 1]);
            let second = append(&first, &[2]);
            let mut versions = vec![first, second];
            let old = directory.path().join(format!("{name}.old"));
            fs::create_dir(&old).unwrap();
            Image::read(&at).write(&old);
            if name == "a" {
                versions.push(rewrite(&versions[1], 1, &[&versions[0]]));
            }
            for (version, bundle) in (1..).zip(versions) {
                let copy = if version < 3 { &old } else { &at };
                copies.insert((name, version), copy.clone());
                bundles.insert((name, version), bundle);
            }
        }
        Self {
            _directory: directory,
            bundles,
            copies,
        }
    }

    /// Sends at most `most` of the missing bytes; returns true if everything has arrived.
    fn send(
        &self,
        store: &Store,
        name: &'static str,
        version: u64,
        mut most: u64,
    ) -> Result<bool, StoreError> {
        let bundle = &self.bundles[&(name, version)];
        let status = store
            .access()
            .begin_upload(name, &bundle.manifest().encode())?;
        for segment in status.segments.iter().filter(|segment| !segment.complete) {
            let mut receiver = store.access().receive_segment(
                status.dataset,
                bundle.manifest().root(),
                segment.index,
                segment.bytes_received,
            )?;
            let path = bundle.segment_path(segment.index);
            let path = path.strip_prefix(bundle.directory()).unwrap();
            let bytes = fs::read(self.copies[&(name, version)].join(path)).unwrap();
            for chunk in bytes[segment.bytes_received as usize..].chunks(6000) {
                let chunk = &chunk[..chunk.len().min(most as usize)];
                receiver.write(chunk)?;
                most -= chunk.len() as u64;
            }
            if receiver.received() < receiver.announced() {
                return Ok(false);
            }
            receiver.finish()?;
        }
        Ok(true)
    }

    fn upload(&self, store: &Store, name: &'static str, version: u64) -> Result<(), StoreError> {
        assert!(self.send(store, name, version, ALL)?);
        let published = store.access().publish(
            self.id(name),
            self.bundles[&(name, version)].manifest().root(),
        )?;
        self.assert_root(name, version, published.root);
        Ok(())
    }

    /// Checks the root hash of a version.
    pub(super) fn assert_root(&self, name: &'static str, version: u64, root: Digest) {
        assert_eq!(root, self.bundles[&(name, version)].manifest().root());
    }

    fn id(&self, name: &'static str) -> DatasetId {
        self.bundles[&(name, 1)].manifest().dataset
    }

    /// Checks every panel of published datasets against the owner's bundle.
    fn assert_intact(&self, store: &Store, published: &BTreeMap<&'static str, u64>) {
        for (&name, &version) in published {
            let snapshot = store.access().snapshot(name).unwrap();
            let manifest = self.bundles[&(name, version)].manifest();
            assert_eq!(snapshot.manifest(), manifest);
            for segment in 0..manifest.segments.len() {
                for column in Column::first(manifest.columns) {
                    snapshot.panel(segment, Limb(0), column).unwrap();
                }
            }
        }
    }
}

/// Returns the location of the store on a disk.
fn store_path(disk: &Path) -> PathBuf {
    disk.join("data/store")
}

/// Store that a script operates on; `None` before it is first opened.
pub(super) struct Server<'a> {
    owner: &'a Owner,
    path: PathBuf,
    store: Option<Store>,
}

impl<'a> Server<'a> {
    pub(super) fn new(owner: &'a Owner, disk: &Path) -> Self {
        Self {
            owner,
            path: store_path(disk),
            store: None,
        }
    }

    pub(super) fn run(&mut self, step: Step) -> Result<(), StoreError> {
        if let Open = step {
            self.store = None;
            self.store = Some(Store::open(&self.path)?);
            return Ok(());
        }
        let store = self.store();
        match step {
            Open => Ok(()),
            Send(name, version, bytes) => self.owner.send(store, name, version, bytes).map(drop),
            Upload(name, version) => self.owner.upload(store, name, version),
            Cancel(name) => store.access().cancel_upload(name).map(drop),
            Delete(name) => store.access().delete_now(name).map(drop),
        }
    }

    pub(super) fn store(&self) -> &Store {
        self.store.as_ref().expect("the script begins with `Open`")
    }

    /// Checks that an open store has one of these states published, intact.
    pub(super) fn assert_one_of(&self, promised: &[Promised], context: &str) {
        let Some(store) = &self.store else {
            return;
        };
        let found = listed(store);
        let promised = promised
            .iter()
            .find(|promised| is(&found, &promised.published))
            .unwrap_or_else(|| panic!("{context}: {found:?} instead of {promised:?}"));
        self.owner.assert_intact(store, &promised.published);
    }
}

fn listed(store: &Store) -> BTreeMap<String, u64> {
    let datasets = store.access().list().unwrap().datasets.into_iter();
    datasets.map(|info| (info.name, info.version)).collect()
}

fn is(listed: &BTreeMap<String, u64>, published: &BTreeMap<&'static str, u64>) -> bool {
    let published = published.iter().map(|(name, version)| (*name, *version));
    listed
        .iter()
        .map(|(name, version)| (name.as_str(), *version))
        .eq(published)
}

/// Opens the remains, checks the promises, and then that everything works.
pub(super) fn check_survivors(owner: &Owner, disk: &Path, promised: &[&Promised], cancel: bool) {
    let path = store_path(disk);
    let store = Store::open(&path).unwrap();
    let found = listed(&store);
    let promised = promised
        .iter()
        .find(|promised| is(&found, &promised.published))
        .unwrap_or_else(|| panic!("{found:?} instead of {promised:?}"));
    owner.assert_intact(&store, &promised.published);
    for &name in &promised.deleted {
        for version in [1, 2] {
            let error = owner.send(&store, name, version, ALL).unwrap_err();
            assert!(
                matches!(error, StoreError::Upload(UploadError::Purged { .. })),
                "{error}"
            );
        }
    }
    let mut newest = BTreeMap::new();
    for name in ["a", "b", "c"] {
        if promised.deleted.contains(name) {
            continue;
        }
        if cancel {
            match store.access().cancel_upload(name) {
                Ok(_) | Err(StoreError::NoDataset { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            assert!(is(&listed(&store), &promised.published) || !newest.is_empty());
        }
        let last = if name == "a" { 3 } else { 2 };
        // The rest of a partially received file may be anything: then it is sent again.
        let mut sent = owner.upload(&store, name, last);
        while let Err(StoreError::Upload(UploadError::SegmentRefused { .. })) = sent {
            sent = owner.upload(&store, name, last);
        }
        sent.unwrap();
        newest.insert(name, last);
    }
    owner.assert_intact(&store, &newest);
    drop(store);
    let store = Store::open(&path).unwrap();
    assert!(is(&listed(&store), &newest));
    owner.assert_intact(&store, &newest);
    assert_no_leftovers(owner, &path, &newest);
}

/// Checks that the store's directory contains only what the catalogue names.
fn assert_no_leftovers(owner: &Owner, path: &Path, published: &BTreeMap<&'static str, u64>) {
    let own = ["catalogue.sqlite", "identity", "lock", "reserve"].map(PathBuf::from);
    let mut expected = BTreeSet::from(own);
    for (&name, &version) in published {
        let note = Path::new("rewritten").join(owner.id(name).to_string());
        assert!(version < 3 || path.join(note).exists());
        for number in owner.bundles[&(name, version)].manifest().numbers() {
            expected.insert(segment_path("".as_ref(), owner.id(name), number));
        }
    }
    // Notes outlive their datasets.
    let found = files(path).into_iter();
    let found = found.filter(|file| !file.starts_with("rewritten"));
    assert!(found.eq(expected));
}
