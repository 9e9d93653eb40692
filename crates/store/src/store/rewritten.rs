//! Notes of what owners rewrote. They outlive the catalogue: a backup that is older than an erasure is restored together
//! with the newest notes at hand, and then does not bring back what was erased.
//!
//! A note is the manifest of the newest rewritten version of a dataset, in a file named by the dataset's id. It names
//! every version that it replaced. A store that publishes one of these when it is opened removes the segments that the
//! newer version does not have, and does not serve the dataset until its owner has uploaded it again.

use super::*;
use oboro_format::files::{Durability, replace};

/// The directory of the notes, in the store's.
pub(super) const NOTES: &str = "rewritten";

fn note(home: &Path, id: DatasetId) -> PathBuf {
    home.join(NOTES).join(id.to_string())
}

/// The newest version of a dataset that is known to have replaced others.
fn noted(home: &Path, id: DatasetId) -> Result<Option<Manifest>, StoreError> {
    let path = note(home, id);
    match fs::read(&path) {
        // A damaged one is written anew with the next rewriting; until then `replay` has the dataset not served.
        Ok(bytes) => Ok(Manifest::decode(&bytes).ok().filter(|it| it.dataset == id)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", &path)(error).into()),
    }
}

/// Writes a note, and makes it durable.
fn write(home: &Path, manifest: &[u8], id: DatasetId) -> Result<(), StoreError> {
    ensure_directory(&home.join(NOTES))?;
    replace(&note(home, id), manifest, Durability::Durable)?;
    Ok(sync_directory(&home.join(NOTES))?)
}

impl Shared {
    /// Notes that this version of a dataset replaced earlier ones.
    pub(super) fn note_rewritten(&self, manifest: &Manifest) -> Result<(), StoreError> {
        write(&self.home, &manifest.encode(), manifest.dataset)?;
        match &self.remote {
            Some(remote) => remote.put_note(manifest.dataset, &note(&self.home, manifest.dataset)),
            None => Ok(()),
        }
    }

    /// The notes in object storage.
    fn remote_notes(&self) -> Result<Vec<(DatasetId, Vec<u8>)>, StoreError> {
        match &self.remote {
            Some(remote) => remote.notes(),
            None => Ok(Vec::new()),
        }
    }

    /// The newest version of a dataset that is known to have replaced others.
    pub(super) fn noted(&self, id: DatasetId) -> Result<Option<Manifest>, StoreError> {
        noted(&self.home, id)
    }
}

/// Whether the owner of a dataset is known to have replaced this version.
pub(super) fn is_replaced(home: &Path, manifest: &Manifest) -> Result<bool, StoreError> {
    let newest = noted(home, manifest.dataset)?;
    Ok(newest.is_some_and(|it| it.earlier_roots.contains(&manifest.root())))
}

/// Copies the notes of a store to a backup of it.
pub(super) fn copy_notes(from: &Path, to: &Path) -> Result<(), StoreError> {
    let (from, to) = (from.join(NOTES), to.join(NOTES));
    let notes: Vec<String> = names(&from)?;
    let notes = notes
        .iter()
        .filter(|name| name.parse::<DatasetId>().is_ok());
    for (index, name) in notes.enumerate() {
        if index == 0 {
            ensure_directory(&to)?;
        }
        let path = from.join(name);
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        replace(&to.join(name), &bytes, Durability::Durable)?;
    }
    Ok(())
}

/// Compares what is published with the notes: notes what they lack, and removes what they say was replaced. Returns the
/// datasets that must not be served.
///
/// # Errors
/// A disk that fails, objects out of reach.
pub(super) fn replay(shared: &Shared) -> Result<HashSet<DatasetId>, StoreError> {
    let mut outdated = HashSet::new();
    for (id, bytes) in shared.remote_notes()? {
        let Ok(newest) = Manifest::decode(&bytes) else {
            continue;
        };
        if shared
            .noted(id)?
            .is_none_or(|it| it.version < newest.version)
        {
            write(&shared.home, &bytes, id)?;
        }
    }
    let catalogue = &shared.state.lock().catalogue;
    let published = catalogue.all(Table::Dataset)?;
    let pending = catalogue.all(Table::Upload)?;
    for record in published {
        // A damaged manifest is reported when its dataset is used.
        let Ok(manifest) = stored_manifest(&record) else {
            continue;
        };
        let newest = shared.noted(record.id)?;
        if newest.is_none() && exists(&note(&shared.home, record.id))? {
            // It is damaged: what it replaced is not known.
            outdated.insert(record.id);
            continue;
        }
        let replaces = |newer: &Manifest| newer.earlier_roots.contains(&manifest.root());
        if let Some(newest) = newest.as_ref().filter(|newest| replaces(newest)) {
            let pending = pending.iter().filter(|it| it.id == record.id);
            let mut keep = &manifest.numbers() & &newest.numbers();
            for upload in pending {
                keep.extend(
                    stored_manifest(upload).map_or_else(|_| BTreeSet::new(), |it| it.numbers()),
                );
            }
            let directory = shared.dataset(record.id);
            if exists(&directory)? {
                sweep(&directory, &keep, &keep)?;
            }
            shared.remove_objects(record.id, &keep);
            outdated.insert(record.id);
        } else if !manifest.earlier_roots.is_empty()
            && newest.is_none_or(|it| it.version < manifest.version)
        {
            shared.note_rewritten(&manifest)?;
        }
    }
    Ok(outdated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ID, append, bundle, files, one_limb, rewrite, send};
    use oboro_faults::{Disk, EIO, Failure, Image, scratch};

    #[test]
    fn a_restored_backup_does_not_bring_back_what_was_rewritten() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let first = bundle(&path("bundle"), &one_limb(), &[1, 2]);
        let store = Store::open(&path("store")).unwrap();
        send(&store, &first);
        store.access().publish(ID).unwrap();
        drop(store);
        let backup = Image::read(&path("store"));
        let bytes = fs::read(first.segment_path(1)).unwrap();
        let second = rewrite(&first, 1, &[]);
        let store = Store::open(&path("store")).unwrap();
        send(&store, &second);
        let snapshot = store.access().snapshot("a").unwrap();
        store.access().publish(ID).unwrap();
        // Who counts may go on; nobody new begins with the old version.
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
        // The old version is not accepted either; the present one, with something appended, is.
        assert!(
            store
                .access()
                .begin_upload("a", &first.manifest().encode())
                .is_err()
        );
        let third = append(&second, &[1]);
        send(&store, &third);
        store.access().publish(ID).unwrap();
        store.access().snapshot("a").unwrap();
        drop(store);
        let store = Store::open(&path("restored")).unwrap();
        assert_eq!(
            store.access().snapshot("a").unwrap().root(),
            third.manifest().root()
        );
    }

    /// The bytes of the segment of this number, in a store.
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
            store.access().publish(ID).unwrap();
            let second = rewrite(&first, 1, &[]);
            send(&store, &second);
            drop(store.access().snapshot("a").unwrap());
            disk.fail(Failure::Once { at, errno: EIO });
            let failed = store.access().publish(ID).is_err();
            disk.mend();
            if !failed && disk.attempts() < at {
                break;
            }
            let published = store.access().list().unwrap().datasets[0].version == 2;
            published_before_it_failed += u32::from(failed && published);
            store.access().publish(ID).unwrap();
            assert!(!has(disk.path(), &bytes), "{at}");
            let old = first.manifest().root();
            assert!(store.access().snapshot_at("a", old).is_err(), "{at}");
            assert_eq!(store.access().publish(ID).unwrap().rewrote, []);
            assert_eq!(
                store.shared.noted(ID).unwrap().as_ref(),
                Some(second.manifest())
            );
        }
        assert!(published_before_it_failed > 0);
    }

    /// A version that was uploaded and never published may have what its successor does not.
    #[test]
    fn an_upload_that_is_superseded_leaves_nothing() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let first = bundle(&path("bundle"), &one_limb(), &[1]);
        let store = Store::open(&path("store")).unwrap();
        send(&store, &first);
        store.access().publish(ID).unwrap();
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
        store.access().publish(ID).unwrap();
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
        store.access().publish(ID).unwrap();
        drop(store);
        let backup = Image::read(&path("store"));
        let second = rewrite(&first, 1, &[]);
        let store = Store::open(&path("store")).unwrap();
        send(&store, &second);
        store.access().publish(ID).unwrap();
        drop(store);
        fs::create_dir_all(path("restored/rewritten")).unwrap();
        backup.write(&path("restored"));
        Image::read(&path("store/rewritten")).write(&path("restored/rewritten"));
        // An append to the old version.
        fs::create_dir(path("other")).unwrap();
        old.write(&path("other"));
        let parted = append(&oboro_format::Bundle::open(&path("other")).unwrap(), &[1]);
        let store = Store::open(&path("restored")).unwrap();
        for refused in [
            &parted,
            &oboro_format::Bundle::open(&path("other")).unwrap(),
        ] {
            let manifest = refused.manifest().encode();
            assert!(store.access().begin_upload("a", &manifest).is_err());
        }
        let listing = store.access().list().unwrap();
        assert!(listing.datasets.is_empty());
        assert!(matches!(listing.damaged[..], [StoreError::Outdated { .. }]));
        // A backup has what is served.
        drop(store);
        let backed_up = backup::backup(&path("restored"), &path("again"), &|_, _| {}).unwrap();
        assert_eq!(backed_up.datasets, 0);
        let store = Store::open(&path("restored")).unwrap();
        send(&store, &second);
        store.access().publish(ID).unwrap();
        store.access().snapshot("a").unwrap();
    }
}
