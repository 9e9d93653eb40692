//! Notes of owners' rewritings. They outlive the catalogue: a backup older than an erasure is restored together with
//! the newest notes at hand, which keeps erased data from coming back.
//!
//! A note is the manifest of a dataset's newest published version, in a file named by the dataset's id, from its first
//! rewriting on. If a store is opened with an earlier version, it removes the segments that the note lacks. It does not
//! serve the dataset until its owner has uploaded it again.

use super::directory::length;
use super::namespace::Namespace;
use super::stored_manifest::stored_manifest;
use crate::catalogue::Table;
use crate::error::StoreError;
use crate::layout::NOTES;
use oboro_format::files::{
    Durability, ensure_directory, exists, io_error, names, read_if_there, rename_durably, replace,
    sweep, sync_directory,
};
use oboro_format::{DatasetId, FormatError, Manifest};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

fn note(home: &Path, id: DatasetId) -> PathBuf {
    home.join(NOTES).join(id.to_string())
}

/// Returns the newest version of a dataset known to have replaced others.
///
/// # Errors
/// A damaged note, a disk that fails.
fn noted(home: &Path, id: DatasetId) -> Result<Option<Manifest>, StoreError> {
    let path = note(home, id);
    let found = match read_if_there(&path) {
        Err(FormatError::DanglingLink { .. }) => {
            return Err(StoreError::DamagedNote { dataset: id, path });
        }
        found => found?,
    };
    match found.map(|bytes| decode(&bytes, id)) {
        Some(None) => Err(StoreError::DamagedNote { dataset: id, path }),
        noted => Ok(noted.flatten()),
    }
}

fn decode(note: &[u8], id: DatasetId) -> Option<Manifest> {
    let noted = Manifest::decode(note).ok();
    noted.filter(|it| it.dataset == id)
}

/// Returns the ids of the datasets that have notes.
fn all(home: &Path) -> Result<Vec<DatasetId>, StoreError> {
    let names = names(&home.join(NOTES))?;
    Ok(names.iter().filter_map(|it| it.parse().ok()).collect())
}

/// Returns true if this version needs a note.
pub(super) fn is_newer(manifest: &Manifest, noted: Option<&Manifest>) -> bool {
    !manifest.earlier_roots.is_empty() && noted.is_none_or(|it| it.version < manifest.version)
}

/// Returns true if the owner of a dataset is known to have replaced this version.
///
/// # Errors
/// A damaged note, a disk that fails.
pub(super) fn is_replaced(home: &Path, manifest: &Manifest) -> Result<bool, StoreError> {
    let newest = noted(home, manifest.dataset)?;
    Ok(newest.is_some_and(|it| it.replaces(manifest)))
}

/// Copies the notes of a store to its backup.
///
/// # Errors
/// A disk that fails.
pub(super) fn copy_notes(from: &Path, to: &Path) -> Result<(), StoreError> {
    for id in all(from)? {
        let path = note(from, id);
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        write(to, id, &bytes)?;
    }
    Ok(())
}

/// Writes a note durably.
fn write(home: &Path, id: DatasetId, bytes: &[u8]) -> Result<(), StoreError> {
    ensure_directory(&home.join(NOTES))?;
    replace(&note(home, id), bytes, Durability::Durable)?;
    Ok(sync_directory(&home.join(NOTES))?)
}

impl Namespace {
    /// Notes that this version of a dataset replaced earlier ones, durably, and as an object first.
    ///
    /// # Errors
    /// A disk that fails, objects out of reach.
    pub(super) fn note(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let path = note(&self.home, manifest.dataset);
        let staged = path.with_extension("new");
        ensure_directory(&self.home.join(NOTES))?;
        replace(&staged, &manifest.encode(), Durability::Durable)?;
        self.backend.put_note(manifest.dataset, &staged)?;
        Ok(rename_durably(&staged, &path)?)
    }

    /// Returns the newest version of a dataset known to have replaced others.
    ///
    /// # Errors
    /// A damaged note, a disk that fails.
    pub(super) fn noted(&self, id: DatasetId) -> Result<Option<Manifest>, StoreError> {
        noted(&self.home, id)
    }

    /// Returns the bytes of all notes, which outlive their datasets.
    ///
    /// # Errors
    /// A disk that fails.
    pub(super) fn note_bytes(&self) -> Result<u64, StoreError> {
        let directory = self.home.join(NOTES);
        let lengths = names(&directory)?.into_iter().map(|name| {
            let found = length(&directory.join(name))?;
            Ok::<_, StoreError>(found.unwrap_or(0))
        });
        lengths.sum()
    }

    /// Refuses to publish a version that its owner is known to have replaced, or that diverged from the newest.
    ///
    /// # Errors
    /// Such a version, a damaged note, a disk that fails.
    pub(super) fn check_is_not_replaced(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let Some(newest) = self.noted(manifest.dataset)? else {
            return Ok(());
        };
        // An older version that is contained in the newest replaces nothing.
        if newest.version > manifest.version && !newest.replaces(manifest) || newest == *manifest {
            return Ok(());
        }
        Ok(manifest.follows(&newest)?)
    }

    /// Refuses to serve a dataset whose published version its owner is known to have replaced.
    ///
    /// # Errors
    /// Such a version, a damaged note, a disk that fails.
    pub(super) fn check_is_served(
        &self,
        published: &Manifest,
        name: &str,
    ) -> Result<(), StoreError> {
        if is_replaced(&self.home, published)? {
            return Err(StoreError::Outdated { name: name.into() });
        }
        Ok(())
    }

    /// Synchronises the local notes with those in object storage, keeping the newest of each.
    fn compare_notes(&self) -> Result<(), StoreError> {
        let Some(notes) = self.backend.notes()? else {
            return Ok(());
        };
        let objects: HashMap<DatasetId, Vec<u8>> = notes.into_iter().collect();
        let here = all(&self.home)?;
        for &id in objects.keys().chain(&here).collect::<BTreeSet<_>>() {
            let here = match noted(&self.home, id) {
                Err(StoreError::DamagedNote { .. }) => None,
                other => other?,
            };
            let object = objects.get(&id);
            let there = object.and_then(|bytes| decode(bytes, id));
            let version = |it: &Option<Manifest>| it.as_ref().map_or(0, |it| it.version);
            if version(&here) > version(&there) {
                self.backend.put_note(id, &note(&self.home, id))?;
            } else if let Some(bytes) = object.filter(|_| here.is_none() || here != there) {
                // A damaged one as well: then the replaced versions are unknown.
                write(&self.home, id, bytes)?;
            }
        }
        Ok(())
    }
}

/// Compares the published versions with the notes: adds missing notes, and removes replaced data. Returns the datasets
/// that must not be served.
///
/// # Errors
/// A disk that fails, objects out of reach.
pub(super) fn replay(namespace: &Namespace) -> Result<HashSet<DatasetId>, StoreError> {
    namespace.compare_notes()?;
    let mut outdated = HashSet::new();
    let catalogue = &namespace.state.lock().catalogue;
    // A damaged manifest is reported when its dataset is used.
    let manifests = |table| -> Result<Vec<Manifest>, StoreError> {
        let records = catalogue.all(table)?;
        Ok(records
            .iter()
            .filter_map(|it| stored_manifest(it).ok())
            .collect())
    };
    let (mut published, pending) = (manifests(Table::Dataset)?, manifests(Table::Upload)?);
    // A deleted dataset may be published again.
    published.append(&mut manifests(Table::Deleted)?);
    let here = published.iter().chain(&pending).map(|it| it.dataset);
    for id in here.collect::<BTreeSet<_>>() {
        let published = published.iter().find(|it| it.dataset == id);
        let newest = match namespace.noted(id) {
            Err(StoreError::DamagedNote { .. }) => {
                outdated.insert(id);
                continue;
            }
            noted => noted?,
        };
        if let Some(published) = published
            && is_newer(published, newest.as_ref())
        {
            namespace.note(published)?;
            continue;
        }
        let Some(newest) = newest else { continue };
        let replaced = published.filter(|it| newest.replaces(it));
        if replaced.is_some() {
            namespace.remove_recovery(id)?;
        }
        let mut versions: Vec<&Manifest> = published.into_iter().collect();
        versions.extend(pending.iter().filter(|it| it.dataset == id));
        let mut keep = BTreeSet::new();
        for version in &versions {
            match namespace.check_is_not_replaced(version) {
                Ok(()) => keep.extend(version.numbers()),
                Err(_) => keep.extend(&version.numbers() & &newest.numbers()),
            }
        }
        if versions.iter().any(|it| !it.numbers().is_subset(&keep)) {
            let directory = namespace.dataset(id);
            if exists(&directory)? {
                sweep(&directory, &keep, &keep)?;
            }
            namespace.backend.remove_segments(id, &keep);
        }
        outdated.extend(replaced.map(|it| it.dataset));
    }
    Ok(outdated)
}

#[cfg(test)]
mod tests {
    use super::super::scrub::Scrub;
    use super::super::{Store, backup};
    use super::*;
    use crate::testing::{ID, append, bundle, files, one_limb, rewrite, send};
    use oboro_faults::{Disk, EIO, Failure, Image, scratch};
    use oboro_format::Bundle;

    /// Creates a store and a bundle in a directory, with one version published.
    fn published(directory: &Path) -> (Store, Bundle) {
        let first = bundle(&directory.join("bundle"), &one_limb(), &[1, 2]);
        let store = Store::open(&directory.join("store")).unwrap();
        send(&store, &first);
        store.access().publish_pending(ID).unwrap();
        (store, first)
    }

    #[test]
    fn a_restored_backup_does_not_bring_back_what_was_rewritten() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let (store, first) = published(directory.path());
        drop(store);
        let backup = Image::read(&path("store"));
        let bytes = fs::read(first.segment_path(1)).unwrap();
        let second = rewrite(&first, 1, &[]);
        let store = Store::open(&path("store")).unwrap();
        send(&store, &second);
        let snapshot = store.access().snapshot("a").unwrap();
        store.access().publish_pending(ID).unwrap();
        // Calls in progress may continue; new ones cannot begin with the old version.
        snapshot
            .panel(1, oboro_ring::Limb(0), oboro_ring::Column(0))
            .unwrap();
        let old = first.manifest().root();
        assert!(store.access().snapshot_at("a", old).is_err());
        drop((store, snapshot));
        let has_old = |store: &str| {
            let image = files(&path(store));
            image
                .iter()
                .any(|file| fs::read(path(store).join(file)).unwrap() == bytes)
        };
        assert!(!has_old("store"));

        fs::create_dir(path("restored")).unwrap();
        backup.write(&path("restored"));
        assert!(has_old("restored"));
        let notes = Image::read(&path("store/rewritten"));
        fs::create_dir(path("restored/rewritten")).unwrap();
        notes.write(&path("restored/rewritten"));
        let store = Store::open(&path("restored")).unwrap();
        assert!(!has_old("restored"));
        let error = store.access().snapshot("a").unwrap_err();
        assert!(matches!(error, StoreError::Outdated { .. }), "{error}");
        // Publishing again changes nothing, and the note stays.
        let error = store.access().publish_pending(ID).unwrap_err();
        assert!(matches!(error, StoreError::Outdated { .. }), "{error}");
        let noted = store.namespace().noted(ID).unwrap();
        assert_eq!(noted.as_ref(), Some(second.manifest()));
        // The old version is not accepted either; the current one, with an append, is.
        assert!(
            store
                .access()
                .begin_upload("a", &first.manifest().encode())
                .is_err()
        );
        let third = append(&second, &[1]);
        send(&store, &third);
        store.access().publish_pending(ID).unwrap();
        store.access().snapshot("a").unwrap();
        drop(store);
        let store = Store::open(&path("restored")).unwrap();
        assert_eq!(
            store.access().snapshot("a").unwrap().root(),
            third.manifest().root()
        );
    }

    /// Returns true if a store contains these bytes of a segment.
    fn has(store: &Path, bytes: &[u8]) -> bool {
        let mut found = files(store).into_iter();
        found.any(|file| fs::read(store.join(file)).unwrap() == bytes)
    }

    #[test]
    fn what_fails_after_publishing_is_done_by_the_next_attempt() {
        let owner = scratch();
        let first = bundle(&owner.path().join("bundle"), &one_limb(), &[1, 2]);
        let bytes = fs::read(first.segment_path(1)).unwrap();
        let copy = Image::read(owner.path());
        let mut published_before_it_failed = 0;
        for at in 0.. {
            fs::remove_dir_all(owner.path().join("bundle")).unwrap();
            copy.write(owner.path());
            let disk = Disk::new();
            let store = Store::open(&disk.path().join("store")).unwrap();
            send(&store, &first);
            store.access().publish_pending(ID).unwrap();
            let second = rewrite(&first, 1, &[]);
            send(&store, &second);
            drop(store.access().snapshot("a").unwrap());
            disk.fail(Failure::Once { at, errno: EIO });
            let failed = store.access().publish_pending(ID).is_err();
            disk.mend();
            if !failed && disk.attempts() < at {
                break;
            }
            let published = store.access().list().unwrap().datasets[0].version == 2;
            published_before_it_failed += u32::from(failed && published);
            store.access().publish_pending(ID).unwrap();
            assert!(!has(disk.path(), &bytes), "{at}");
            let old = first.manifest().root();
            assert!(store.access().snapshot_at("a", old).is_err(), "{at}");
            assert_eq!(store.access().publish_pending(ID).unwrap().rewrote, []);
            assert_eq!(
                store.namespace().noted(ID).unwrap().as_ref(),
                Some(second.manifest())
            );
        }
        assert!(published_before_it_failed > 0);
    }

    /// With as many new segments as new versions, a version looks like the noted one with appends.
    #[test]
    fn what_was_appended_since_is_forgotten_when_it_is_rewritten() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let first = bundle(&path("bundle"), &one_limb(), &[1, 2]);
        let store = Store::open(&path("store")).unwrap();
        let publish = |bundle: &Bundle| {
            send(&store, bundle);
            let published = store.access().publish_pending(ID).unwrap();
            store.access().snapshot("a").unwrap();
            published.rewrote
        };
        let root = |bundle: &Bundle| bundle.manifest().root();
        publish(&first);
        let second = rewrite(&first, 1, &[]);
        assert_eq!(publish(&second), [root(&first)]);
        let third = append(&second, &[64, 1]);
        // Calls on the second version may continue.
        assert_eq!(publish(&third), []);
        store.access().snapshot_at("a", root(&second)).unwrap();
        let erased = fs::read(third.segment_path(3)).unwrap();
        let fourth = rewrite(&third, 3, &[]);
        assert!(!fourth.manifest().replaces(second.manifest()));
        assert_eq!(publish(&fourth), [&first, &second, &third].map(root));
        assert!(!has(&path("store"), &erased));
        for older in [&second, &third] {
            assert!(store.access().snapshot_at("a", root(older)).is_err());
        }
    }

    #[test]
    fn with_a_damaged_note_nothing_is_served_or_published() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let (store, first) = published(directory.path());
        drop(store);
        fs::create_dir(path("store/rewritten")).unwrap();
        let note = note(&path("store"), ID);
        fs::write(&note, [0; 100]).unwrap();
        let store = Store::open(&path("store")).unwrap();
        let is_damage = |error| assert!(matches!(error, StoreError::DamagedNote { .. }), "{error}");
        is_damage(store.access().snapshot("a").unwrap_err());
        is_damage(store.access().publish_pending(ID).unwrap_err());
        let manifest = first.manifest().encode();
        is_damage(store.access().begin_upload("a", &manifest).unwrap_err());
        is_damage(store.access().list().unwrap().damaged.remove(0));
        let failed = backup::backup(&path("store"), &path("backup"), &|_, _| {});
        is_damage(failed.unwrap_err());
        drop(store);
        let mut scrub = Scrub::of_directory(&path("store")).unwrap();
        let mut parts = std::iter::from_fn(|| scrub.next_part().unwrap());
        let damage = parts.find_map(|it| it.damage).unwrap();
        assert!(damage.problem.contains("rewritten"), "{}", damage.problem);
        drop(scrub);
        // As the error says.
        fs::remove_file(note).unwrap();
        let store = Store::open(&path("store")).unwrap();
        store.access().snapshot("a").unwrap();
    }

    #[test]
    fn a_backup_has_no_version_that_its_notes_name_as_replaced() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let (store, first) = published(directory.path());
        let second = rewrite(&first, 1, &[]);
        send(&store, &second);
        let publish = |done, total| {
            // When all is copied but the notes.
            if done == total {
                store.access().publish_pending(ID).unwrap();
            }
        };
        backup::backup(&path("store"), &path("backup"), &publish).unwrap();
        let copy = Store::open(&path("backup")).unwrap();
        assert_eq!(
            copy.access().snapshot("a").unwrap().root(),
            second.manifest().root()
        );
    }

    /// A restored upload that was never published may contain data that its successor erased.
    #[test]
    fn a_restored_upload_is_not_published() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let first = bundle(&path("bundle"), &one_limb(), &[1, 2]);
        let erased = fs::read(first.segment_path(1)).unwrap();
        let store = Store::open(&path("store")).unwrap();
        send(&store, &first);
        let copy = Image::read(&path("store"));
        store.access().publish_pending(ID).unwrap();
        let second = rewrite(&first, 1, &[]);
        send(&store, &second);
        store.access().publish_pending(ID).unwrap();
        drop(store);
        fs::create_dir_all(path("restored/rewritten")).unwrap();
        copy.write(&path("restored"));
        Image::read(&path("store/rewritten")).write(&path("restored/rewritten"));
        assert!(has(&path("restored"), &erased));
        let store = Store::open(&path("restored")).unwrap();
        assert!(!has(&path("restored"), &erased));
        store.access().publish_pending(ID).unwrap_err();
        send(&store, &second);
        store.access().publish_pending(ID).unwrap();
        store.access().snapshot("a").unwrap();
    }

    /// A version that was uploaded and never published may contain data that its successor lacks.
    #[test]
    fn an_upload_that_is_superseded_leaves_nothing() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let first = bundle(&path("bundle"), &one_limb(), &[1]);
        let store = Store::open(&path("store")).unwrap();
        send(&store, &first);
        store.access().publish_pending(ID).unwrap();
        let second = append(&first, &[64, 1]);
        send(&store, &second);
        let bytes = fs::read(second.segment_path(2)).unwrap();
        assert!(has(&path("store"), &bytes));
        let third = rewrite(&second, 2, &[&first]);
        // It extends the published version as well.
        third.manifest().extends(first.manifest()).unwrap();
        store
            .access()
            .begin_upload("a", &third.manifest().encode())
            .unwrap();
        assert!(!has(&path("store"), &bytes));
        send(&store, &third);
        store.access().publish_pending(ID).unwrap();
        assert!(!has(&path("store"), &bytes));
        assert!(path("store/rewritten").join(ID.to_string()).exists());
    }

    #[test]
    fn a_copy_that_parted_is_not_taken_after_a_restore() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let first = bundle(&path("bundle"), &one_limb(), &[1, 2]);
        let old = Image::read(&path("bundle"));
        let store = Store::open(&path("store")).unwrap();
        send(&store, &first);
        store.access().publish_pending(ID).unwrap();
        drop(store);
        let backup = Image::read(&path("store"));
        let second = rewrite(&first, 1, &[]);
        let store = Store::open(&path("store")).unwrap();
        send(&store, &second);
        store.access().publish_pending(ID).unwrap();
        drop(store);
        fs::create_dir_all(path("restored/rewritten")).unwrap();
        backup.write(&path("restored"));
        Image::read(&path("store/rewritten")).write(&path("restored/rewritten"));
        // An append to the old version.
        fs::create_dir(path("other")).unwrap();
        old.write(&path("other"));
        let parted = append(&Bundle::open(&path("other")).unwrap(), &[1]);
        let store = Store::open(&path("restored")).unwrap();
        for refused in [&parted, &Bundle::open(&path("other")).unwrap()] {
            let manifest = refused.manifest().encode();
            assert!(store.access().begin_upload("a", &manifest).is_err());
        }
        let listing = store.access().list().unwrap();
        assert!(listing.datasets.is_empty());
        assert!(matches!(listing.damaged[..], [StoreError::Outdated { .. }]));
        // A backup contains the served datasets.
        drop(store);
        let backed_up = backup::backup(&path("restored"), &path("again"), &|_, _| {}).unwrap();
        assert_eq!(backed_up.datasets, 0);
        let store = Store::open(&path("restored")).unwrap();
        send(&store, &second);
        store.access().publish_pending(ID).unwrap();
        store.access().snapshot("a").unwrap();
    }
}
