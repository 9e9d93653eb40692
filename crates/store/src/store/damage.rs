//! Bit flips at rest in every part of a store's data, and unreadable sectors: each is found and named, or changes
//! nothing.

use super::Store;
use super::script::{Owner, Server, Step};
use super::scrub::Scrub;
use crate::error::StoreError;
use oboro_faults::{Disk, EIO, Extent, Image, Wear, scratch};
use oboro_format::{Damage, ErrorKind};
use oboro_ring::{Column, Limb};
use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Store with two published datasets, one of them in two versions, and an upload half done.
struct Setting {
    owner: Owner,
    image: Image,
}

const A: &str = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

impl Setting {
    fn new() -> Self {
        let (owner, directory) = (Owner::new(), scratch());
        let mut server = Server::new(&owner, directory.path());
        for step in [
            Step::Open,
            Step::Upload("a", 1),
            Step::Upload("a", 2),
            Step::Upload("b", 1),
            Step::Send("c", 1, 18_000),
        ] {
            server.run(step).unwrap();
        }
        drop(server);
        let image = Image::read(directory.path());
        Self { owner, image }
    }

    /// Returns a copy of the store with one bit of a file flipped.
    fn with_flipped(&self, file: &str, at: usize) -> (TempDir, PathBuf) {
        let directory = scratch();
        self.image.write(directory.path());
        let store = directory.path().join("data/store");
        let mut bytes = fs::read(store.join(file)).unwrap();
        bytes[at] ^= 1 << (at % 8);
        fs::write(store.join(file), bytes).unwrap();
        (directory, store)
    }

    /// Returns an intact file of the store.
    fn file(&self, file: &str) -> Vec<u8> {
        let directory = scratch();
        self.image.write(directory.path());
        fs::read(directory.path().join("data/store").join(file)).unwrap()
    }

    /// Reads all of a published dataset and compares it with the owner's; returns its version or an error.
    fn read(&self, store: &Store, name: &'static str) -> Result<u64, StoreError> {
        let snapshot = store.access().snapshot(name)?;
        let version = snapshot.manifest().version;
        self.owner.assert_root(name, version, snapshot.root());
        for segment in 0..snapshot.manifest().segments.len() {
            for column in Column::first(snapshot.manifest().columns) {
                snapshot.panel(segment, Limb(0), column)?;
                snapshot.segment(segment).read_cells(column)?;
            }
        }
        Ok(version)
    }
}

/// Returns the findings of a scrub of a store.
fn scrubbed(store: &Path) -> Result<Vec<Damage>, StoreError> {
    let mut scrub = Scrub::of_directory(store)?;
    let mut damage = Vec::new();
    while let Some(part) = scrub.next_part()? {
        damage.extend(part.damage);
    }
    Ok(damage)
}

#[test]
fn every_byte_of_the_catalogue() {
    let setting = Setting::new();
    let bytes = setting.file("catalogue.sqlite");
    // Most of the rest is free space within pages.
    let empty = Extent::wanted().steps(bytes.len(), 64);
    let used = (0..bytes.len()).filter(|&at| bytes[at] != 0);
    let (mut refused, mut unsound, mut sound) = (0, 0, 0);
    for at in used.chain(empty) {
        let (_directory, path) = setting.with_flipped("catalogue.sqlite", at);
        let damage = scrubbed(&path);
        let store = match Store::open(&path) {
            Ok(store) => store,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("catalogue"), "byte {at}: {text}");
                assert!(damage.is_err(), "byte {at}: {damage:?}");
                refused += 1;
                continue;
            }
        };
        let listing = store
            .access()
            .list()
            .unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert!(!listing.datasets.is_empty(), "byte {at}");
        for name in ["a", "b"] {
            match setting.read(&store, name) {
                Ok(version) => {
                    let listed = listing.datasets.iter().find(|info| info.name == name);
                    assert_eq!(listed.map(|info| info.version), Some(version), "byte {at}");
                    sound += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    let named = text.contains("dataset") && text.contains(name);
                    assert!(named, "byte {at}: {text}");
                    assert!(!damage.as_ref().unwrap().is_empty(), "byte {at}");
                    unsound += 1;
                }
            }
        }
    }
    assert!(
        refused > 0 && unsound > 0 && sound > 0,
        "{refused} {unsound} {sound}"
    );
}

#[test]
fn every_byte_of_a_segment() {
    let setting = Setting::new();
    let file = format!("segments/{A}/00000002.seg");
    let directory = scratch();
    setting.image.write(directory.path());
    let store = directory.path().join("data/store");
    let bytes = fs::read(store.join(&file)).unwrap();
    // A page of header, a panel of two blocks for each of two columns, a page of sealed cells for each.
    let (header, panel) = (4096, (bytes.len() - 3 * 4096) / 2);
    let cells = header + 2 * panel;
    let sampled = Extent::wanted().steps(bytes.len() - header, 61);
    for at in (0..header).chain(sampled.into_iter().map(|at| header + at)) {
        let write = |byte: u8| {
            let segment = File::options().write(true).open(store.join(&file));
            segment.unwrap().write_all_at(&[byte], at as u64).unwrap();
        };
        write(bytes[at] ^ 1 << (at % 8));
        let damage = scrubbed(&store).unwrap();
        let (panel, location) = match at {
            _ if at < header => (None, String::new()),
            _ if at < cells => {
                let column = ((at - header) / panel) as u32;
                let location = format!("panel (limb 0, column {column})");
                (Some((Limb(0), Column(column))), location)
            }
            _ => {
                let column = (at - cells) / 4096;
                (None, format!("sealed cells (column {column})"))
            }
        };
        let found = damage.iter().map(|it| (it.segment, it.panel));
        assert!(found.eq([(Some(2), panel)]), "byte {at}: {damage:?}");
        let store = Store::open(&store).unwrap();
        assert_eq!(
            store.access().list().unwrap().datasets.len(),
            2,
            "byte {at}"
        );
        let text = setting.read(&store, "a").unwrap_err().to_string();
        for part in ["segment 2 of dataset", A, "00000002.seg", &location] {
            assert!(text.contains(part), "byte {at}: {part:?} is not in: {text}");
        }
        assert_eq!(setting.read(&store, "b").unwrap(), 1, "byte {at}");
        write(bytes[at]);
    }
}

#[test]
fn a_disk_that_wears_out_while_it_serves() {
    let (owner, disk) = (Owner::new(), Disk::new());
    let mut server = Server::new(&owner, disk.path());
    for step in [Step::Open, Step::Upload("a", 1), Step::Upload("b", 1)] {
        server.run(step).unwrap();
    }
    let path = disk
        .path()
        .join(format!("data/store/segments/{A}/00000001.seg"));
    // A page of header, then a panel of one block for each of two columns.
    let panel = |column: usize| 4096 + column * 4096 + 17;
    for wear in [Wear::Flipped, Wear::Unreadable { errno: EIO }] {
        server.run(Step::Open).unwrap();
        let store = server.store();
        let says = match wear {
            Wear::Flipped => "does not match its digest",
            Wear::Unreadable { .. } => "cannot be read: Input/output error",
        };
        let lost = |error: StoreError, location: &str| {
            assert_eq!(error.kind(), ErrorKind::DataLoss);
            let text = error.to_string();
            for part in ["segment 1 of dataset", A, location, says, "from a copy"] {
                assert!(text.contains(part), "{part:?} is not in: {text}");
            }
        };
        disk.wear_out(&path, 40, wear);
        lost(store.access().snapshot("a").unwrap_err(), "");
        disk.mend();

        // One panel is in memory when the disk wears out, the other one is not.
        let snapshot = store.access().snapshot("a").unwrap();
        let resident = snapshot.panel(1, Limb(0), Column(0)).unwrap();
        let before: Vec<u32> = resident.pieces().flatten().copied().collect();
        disk.wear_out(&path, panel(0), wear);
        disk.wear_out(&path, panel(1), wear);
        lost(
            snapshot.panel(1, Limb(0), Column(1)).unwrap_err().into(),
            "panel (limb 0, column 1)",
        );
        lost(
            snapshot
                .segment(1)
                .read_packed_panel(Limb(0), Column(0))
                .unwrap_err()
                .into(),
            "panel (limb 0, column 0)",
        );
        let again = snapshot.panel(1, Limb(0), Column(0)).unwrap();
        assert!(again.pieces().flatten().copied().eq(before));
        // Neither the rest of the dataset nor another one is affected.
        snapshot.panel(0, Limb(0), Column(1)).unwrap();
        store
            .access()
            .snapshot("b")
            .unwrap()
            .panel(1, Limb(0), Column(1))
            .unwrap();
        disk.mend();
        snapshot.panel(1, Limb(0), Column(1)).unwrap();
    }
}
