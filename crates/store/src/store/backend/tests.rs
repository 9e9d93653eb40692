//! One suite for all backends: what is stored is found by the next server, and what is removed is not.

use super::Backend;
use crate::layout::{RECOVERY, SEGMENTS};
use crate::location::Location;
use crate::store::Store;
use crate::store::namespace::Namespace;
use crate::testing::{ID, bundle, one_limb, send};
use oboro_format::Bundle;
use oboro_residency::Placement;
use oboro_ring::{Column, Limb};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Storage of one kind.
struct Setting {
    directory: TempDir,
    location: Location,
}

impl Setting {
    /// Returns a directory, and objects with a directory as their cache.
    fn all() -> [Self; 2] {
        let directories = [(); 2].map(|()| TempDir::new().unwrap());
        let [local, objects] = &directories;
        let locations = [
            Location::Directory(local.path().join("store")),
            Location::Objects {
                url: format!("file://{}", objects.path().join("objects").display()),
                cache: objects.path().join("store"),
                cache_bytes: u64::MAX,
            },
        ];
        let mut locations = locations.into_iter();
        directories.map(|directory| Self {
            directory,
            location: locations.next().unwrap(),
        })
    }

    fn open(&self) -> Store {
        Store::open_on(self.location.clone(), Placement::default()).unwrap()
    }

    fn bundle(&self) -> Bundle {
        let path = self.directory.path().join("bundle");
        bundle(&path, &one_limb(), &[1, 2])
    }

    /// Writes a file for the backend.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join("store").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// Stores the file of a segment, as an upload does.
fn put(namespace: &Namespace, bundle: &Bundle, index: u32) -> PathBuf {
    let path = namespace.segment(bundle.manifest(), index);
    let partial = path.with_extension("partial");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(bundle.segment_path(index), &partial).unwrap();
    let backend = &namespace.backend;
    backend.put_segment(ID, index, &partial).unwrap();
    fs::rename(partial, &path).unwrap();
    backend.name_segment(ID, index, &path);
    path
}

fn is_right(backend: &dyn Backend, path: &Path, bundle: &Bundle, index: u32) -> bool {
    let opened = backend.open_segment(path, bundle.manifest(), index);
    let read = opened.and_then(|it| Ok(it.read_packed_panel(Limb(0), Column(1))?));
    let expected = bundle.open_segment(index).unwrap();
    let expected = expected.read_packed_panel(Limb(0), Column(1)).unwrap();
    read.is_ok_and(|it| it == expected)
}

#[test]
fn stored_segments_are_read_and_named_to_operators() {
    for setting in Setting::all() {
        let (store, bundle) = (setting.open(), setting.bundle());
        let namespace = store.namespace();
        let backend = &*namespace.backend;
        for index in 0..2 {
            let path = put(&namespace, &bundle, index);
            assert!(is_right(backend, &path, &bundle, index));
            let place = backend.place(path.clone(), ID, index);
            assert!(place.ends_with(path.file_name().unwrap()));
            assert_eq!(place == path, backend.keeps_files());
        }
        assert_eq!(backend.missing(bundle.manifest(), &[0, 1]).unwrap(), None);
        // Of removed ones the file decides where files are the data.
        backend.remove_segments(ID, &BTreeSet::from([0]));
        let missing = backend.missing(bundle.manifest(), &[0, 1]).unwrap();
        assert_eq!(missing, (!backend.keeps_files()).then_some(1));
        backend.take_back_segment(ID, 0);
        let missing = backend.missing(bundle.manifest(), &[0]).unwrap();
        assert_eq!(missing.is_none(), backend.keeps_files());
    }
}

#[test]
fn a_published_dataset_is_there_for_the_next_server() {
    for setting in Setting::all() {
        let store = setting.open();
        let bundle = setting.bundle();
        send(&store, &bundle);
        store.access().publish_pending(ID).unwrap();
        drop(store);
        if let Location::Objects { cache, .. } = &setting.location {
            fs::remove_dir_all(cache).unwrap();
        }
        let store = setting.open();
        assert_eq!(store.unnamed_objects(), 0);
        let snapshot = store.access().snapshot("a").unwrap();
        assert_eq!(snapshot.root(), bundle.manifest().root());
        let namespace = store.namespace();
        for index in 0..2 {
            let path = namespace.segment(bundle.manifest(), index);
            assert!(is_right(&*namespace.backend, &path, &bundle, index));
        }
        store.access().delete_now("a").unwrap();
        drop((snapshot, namespace, store));
        let left = setting.directory.path().join("objects").join(SEGMENTS);
        let left = oboro_format::files::names(&left.join(ID.to_string()));
        assert!(left.unwrap_or_default().is_empty());
    }
}

#[test]
fn recovery_copies_are_kept_counted_and_removed() {
    for setting in Setting::all() {
        let store = setting.open();
        let namespace: Arc<Namespace> = store.namespace();
        let backend = &*namespace.backend;
        assert!(backend.recovery(ID).unwrap().is_none());
        for bytes in [&b"first"[..], b"second"] {
            let file = setting.file(&format!("{RECOVERY}/copy.partial"), bytes);
            backend.put_recovery(ID, &file, bytes.len() as u64).unwrap();
            let _ = fs::remove_file(file);
            let mut copy = backend.recovery(ID).unwrap().unwrap();
            let mut read = Vec::new();
            copy.content.read_to_end(&mut read).unwrap();
            assert_eq!((&*read, copy.bytes), (bytes, bytes.len() as u64));
            assert_eq!(copy.path.is_some(), backend.keeps_files());
            assert_eq!(backend.recovery_bytes(None).unwrap(), bytes.len() as u64);
            assert_eq!(backend.recovery_bytes(Some(ID)).unwrap(), 0);
        }
        backend.remove_recovery(ID).unwrap();
        backend.remove_recovery(ID).unwrap();
        assert!(backend.recovery(ID).unwrap().is_none());
        assert_eq!(backend.recovery_bytes(None).unwrap(), 0);
    }
}

#[test]
fn notes_are_stored_beyond_the_directory_or_nowhere_else() {
    for setting in Setting::all() {
        let store = setting.open();
        let namespace = store.namespace();
        let backend = &*namespace.backend;
        let file = setting.file("note.new", b"a note");
        backend.put_note(ID, &file).unwrap();
        let expected = (!backend.keeps_files()).then(|| vec![(ID, b"a note".to_vec())]);
        assert_eq!(backend.notes().unwrap(), expected);
    }
}
