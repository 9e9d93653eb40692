//! Notes of what owners rewrote. They outlive the catalogue: a backup that is older than an erasure is restored together
//! with the newest notes at hand, and then does not bring back what was erased.
//!
//! A note is the manifest of the newest rewritten version of a dataset, in a file named by the dataset's id. It names
//! every version that it replaced. A store that publishes one of these when it is opened removes the segments that the
//! newer version does not have, and does not serve the dataset until its owner has uploaded it again.

use super::*;
use oboro_format::files::{Durability, replace};

/// The directory of the notes, in the store's.
const NOTES: &str = "rewritten";

impl Shared {
    fn note(&self, id: DatasetId) -> PathBuf {
        self.home.join(NOTES).join(id.to_string())
    }

    /// Notes that this version of a dataset replaced earlier ones.
    pub(super) fn note_rewritten(&self, manifest: &Manifest) -> Result<(), StoreError> {
        ensure_directory(&self.home.join(NOTES))?;
        let path = self.note(manifest.dataset);
        replace(&path, &manifest.encode(), Durability::Durable)?;
        Ok(sync_directory(&self.home.join(NOTES))?)
    }

    /// The newest version of a dataset that is known to have replaced others.
    pub(super) fn noted(&self, id: DatasetId) -> Result<Option<Manifest>, StoreError> {
        let path = self.note(id);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(Manifest::decode(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error).into()),
        }
    }
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
/// A note that is damaged, a disk that fails.
pub(super) fn replay(shared: &Shared) -> Result<HashSet<DatasetId>, StoreError> {
    let mut outdated = HashSet::new();
    let catalogue = &shared.state.lock().catalogue;
    let published = catalogue.all(Table::Dataset)?;
    let pending = catalogue.all(Table::Upload)?;
    for record in published {
        // A damaged manifest is reported when its dataset is used.
        let Ok(manifest) = stored_manifest(&record) else {
            continue;
        };
        let newest = shared.noted(record.id)?;
        let replaces = |newer: &Manifest| newer.replaced.contains(&manifest.root());
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
        } else if !manifest.replaced.is_empty()
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
    use oboro_faults::{Image, scratch};

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
}
