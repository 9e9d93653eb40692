//! Published versions as read by another process: any storage, and missing parts.

use super::*;
use crate::Store;
use crate::testing::{ID, append, bundle, files, residues, send, two_limbs};
use oboro_format::DEFAULT_NAMESPACE;
use oboro_format::FormatError;
use oboro_ring::{Column, Limb};
use std::fs;
use tempfile::TempDir;

/// Creates a store with one dataset of three segments; returns it with the dataset's bundle.
fn published(location: impl Into<Location>, root: &TempDir) -> (Store, oboro_format::Bundle) {
    let store = Store::open_on(location, Placement::default()).unwrap();
    let bundle = bundle(&root.path().join("bundle"), &two_limbs(), &[2, 2, 1]);
    send(&store, &bundle);
    store.access().publish_pending(ID).unwrap();
    (store, bundle)
}

fn open(location: impl Into<Location>) -> SharedStore {
    SharedStore::open(location.into(), Placement::default(), None).unwrap()
}

fn assert_intact(snapshot: &Snapshot) {
    for segment in 0..snapshot.manifest().segments.len() {
        let description = snapshot.segment(segment).description();
        let panel = snapshot.panel(segment, Limb(1), Column(0)).unwrap();
        assert!(
            panel
                .pieces()
                .flatten()
                .eq(&residues(description, Limb(1), Column(0)))
        );
    }
}

#[test]
fn reads_beside_the_store_that_has_the_directory() {
    let root = TempDir::new().unwrap();
    let directory = root.path().join("a");
    let (store, bundle) = published(&directory, &root);
    let shared = open(&directory);
    let manifest = bundle.manifest().clone();
    let snapshot = shared
        .snapshot(DEFAULT_NAMESPACE, "a", manifest.clone())
        .unwrap();
    assert_intact(&snapshot);
    assert!(Arc::ptr_eq(
        &snapshot,
        &shared.snapshot(DEFAULT_NAMESPACE, "a", manifest).unwrap()
    ));
    // A newer version contains the older one's panels.
    let longer = append(&bundle, &[2]);
    send(&store, &longer);
    store.access().publish_pending(ID).unwrap();
    let newer = shared
        .snapshot(DEFAULT_NAMESPACE, "a", longer.manifest().clone())
        .unwrap();
    assert_intact(&newer);
    let panels = [&snapshot, &newer].map(|it| it.panel(0, Limb(0), Column(0)).unwrap());
    assert!(Arc::ptr_eq(&panels[0], &panels[1]));
}

#[test]
fn objects_are_read_by_way_of_a_cache_of_ones_own() {
    let root = TempDir::new().unwrap();
    let location = |cache: &str| Location::Objects {
        url: format!("file://{}", root.path().join("objects").display()),
        cache: root.path().join(cache),
        cache_bytes: u64::MAX,
    };
    let (_store, bundle) = published(location("server"), &root);
    let shared = open(location("worker"));
    let snapshot = shared
        .snapshot(DEFAULT_NAMESPACE, "a", bundle.manifest().clone())
        .unwrap();
    assert_intact(&snapshot);
    let taken = SharedStore::open(location("worker"), Placement::default(), None);
    assert!(matches!(
        taken.err(),
        Some(StoreError::Format(FormatError::Locked { .. }))
    ));
}

#[test]
fn what_is_missing_or_another_is_named() {
    let root = TempDir::new().unwrap();
    let home = root.path().join("a");
    let (_store, bundle) = published(&home, &root);
    let mut other = bundle.manifest().clone();
    other.segments[1].digest.0[0] ^= 1;
    let shared = open(&home);
    let refusal = shared
        .snapshot(DEFAULT_NAMESPACE, "a", other)
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("segment 1 of dataset"), "{refusal}");
    let second = files(&home)
        .into_iter()
        .find(|it| it.ends_with("00000001.seg"));
    fs::remove_file(home.join(second.unwrap())).unwrap();
    let missing = shared
        .snapshot(DEFAULT_NAMESPACE, "a", bundle.manifest().clone())
        .unwrap_err();
    assert!(
        missing.to_string().contains("segment 1 of dataset"),
        "{missing}"
    );
    assert_eq!(missing.kind(), oboro_format::ErrorKind::DataLoss);
}
