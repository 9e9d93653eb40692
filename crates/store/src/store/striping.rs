//! A store in several directories: what lies where, and what happens to directories.

use super::script::{Owner, Server, Step, Stripes};
use super::*;
use crate::testing::{ID, append, bundle, files, residues, send, two_limbs};
use crate::{Bundle, DirectoryFault};
use oboro_faults::{Image, scratch};
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

/// The owner's bundle of three segments of four panels, two limbs of two columns, and directories.
struct Setting {
    root: TempDir,
    bundle: Bundle,
}

impl Setting {
    fn new() -> Self {
        let root = scratch();
        let bundle = bundle(&root.path().join("bundle"), &two_limbs(), &[2, 2, 1]);
        Self { root, bundle }
    }

    fn directory(&self, place: usize) -> PathBuf {
        self.root.path().join(place.to_string())
    }

    fn directories(&self, places: &[usize]) -> Directories {
        let paths = places.iter().map(|&place| self.directory(place));
        Directories::new(paths.collect()).unwrap()
    }

    fn open(&self, places: &[usize]) -> Result<Store, StoreError> {
        Store::open(self.directories(places))
    }

    fn published(&self, places: &[usize]) -> Store {
        let store = self.open(places).unwrap();
        send(&store, &self.bundle);
        store.publish(ID).unwrap();
        store
    }

    fn segment(&self, place: usize, index: u32) -> PathBuf {
        let datasets = self.directory(place).join(SEGMENTS);
        datasets.join(ID.to_string()).join(segment_name(index))
    }

    /// Every panel is what the owner wrote.
    fn assert_intact(&self, store: &Store) {
        let snapshot = store.snapshot("a").unwrap();
        assert_eq!(snapshot.manifest(), self.bundle.manifest());
        for segment in 0..snapshot.manifest().segments.len() {
            let description = snapshot.segment(segment).description();
            for (limb, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let panel = snapshot.panel(segment, limb, column).unwrap();
                let expected = residues(description, limb, column);
                assert!(panel.pieces().flatten().eq(&expected));
            }
        }
    }
}

fn damaged(directories: Directories) -> Vec<Damage> {
    let mut scrub = Scrub::of_directories(directories).unwrap();
    let mut damage = Vec::new();
    while let Some(part) = scrub.next_part().unwrap() {
        damage.extend(part.damage);
    }
    damage
}

fn fault(refused: Result<Store, StoreError>) -> DirectoryFault {
    match refused.err().unwrap() {
        StoreError::Directory { fault, .. } => fault,
        other => panic!("{other}"),
    }
}

#[test]
fn each_panel_lies_in_one_directory_where_it_would_lie_alone() {
    let setting = Setting::new();
    setting.assert_intact(&setting.published(&[0, 1, 2]));
    for index in 0..3 {
        let whole = fs::read(setting.bundle.segment_path(index)).unwrap();
        let segment = setting.bundle.open_segment(index).unwrap();
        let mut end = segment.header_len();
        let part_of = |part| {
            end += segment.part_len(part);
            end
        };
        let ends: Vec<u64> = (0..segment.parts()).map(part_of).collect();
        for place in 0..3 {
            let part = fs::read(setting.segment(place, index)).unwrap();
            assert_eq!(part.len(), whole.len());
            let is_here = |at: usize| match (at as u64) < segment.header_len() {
                true => place == 0,
                false => {
                    let part = ends.partition_point(|&end| end <= at as u64);
                    (part + index as usize) % 3 == place
                }
            };
            for at in 0..whole.len() {
                assert_eq!(part[at], if is_here(at) { whole[at] } else { 0 });
            }
        }
    }
}

#[test]
fn an_upload_goes_on_where_it_stopped_however_it_is_cut() {
    let setting = Setting::new();
    let places = [0, 1, 2];
    let manifest = setting.bundle.manifest().encode();
    for (index, most) in [(0, 3000), (1, 5 << 12), (2, 4097)] {
        let bytes = fs::read(setting.bundle.segment_path(index)).unwrap();
        let mut sent = 0;
        while sent < bytes.len() {
            let store = setting.open(&places).unwrap();
            let status = store.begin_upload("a", &manifest).unwrap();
            let received = status.segments[index as usize].bytes_received;
            assert_eq!(received, sent as u64);
            let mut receiver = store.receive_segment(ID, index, received).unwrap();
            let end = bytes.len().min(sent + 3 * most);
            for chunk in bytes[sent..end].chunks(most) {
                receiver.write(chunk).unwrap();
            }
            sent = end;
            if sent == bytes.len() {
                receiver.finish().unwrap();
            }
        }
    }
    let store = setting.open(&places).unwrap();
    store.publish(ID).unwrap();
    setting.assert_intact(&store);
}

#[test]
fn a_directory_that_is_added_gets_its_part_of_what_is_uploaded_from_then_on() {
    let mut setting = Setting::new();
    drop(setting.published(&[0]));
    let alone = Image::read(&setting.directory(0).join(SEGMENTS));
    let store = setting.open(&[0, 1]).unwrap();
    setting.assert_intact(&store);
    assert!(Image::read(&setting.directory(0).join(SEGMENTS)) == alone);
    setting.bundle = append(&setting.bundle, &[1]);
    send(&store, &setting.bundle);
    drop(store);
    // What was begun over two stays so, what is appended to it goes over three.
    setting.bundle = append(&setting.bundle, &[1]);
    let store = setting.open(&[0, 1, 2]).unwrap();
    send(&store, &setting.bundle);
    store.publish(ID).unwrap();
    setting.assert_intact(&store);
    drop(store);
    let widths = (0..5).map(|index| {
        (0..3)
            .filter(|&at| setting.segment(at, index).exists())
            .count()
    });
    assert_eq!(widths.collect::<Vec<_>>(), [1, 1, 1, 2, 3]);
    setting.assert_intact(&setting.open(&[0, 1, 2]).unwrap());
    assert_eq!(damaged(setting.directories(&[0, 1, 2])), []);
}

#[test]
fn a_store_without_one_of_its_directories_is_left_alone() {
    let setting = Setting::new();
    drop(setting.published(&[0, 1, 2]));
    let sound = Image::read(setting.root.path());
    let refused = |places: &[usize]| setting.open(places).err().unwrap();
    for places in [&[0][..], &[0, 1]] {
        assert!(matches!(
            refused(places),
            StoreError::Directories { known: 3, .. }
        ));
    }
    assert_eq!(
        fault(setting.open(&[0, 2, 1])),
        DirectoryFault::Place { place: 2, given: 1 }
    );
    assert_eq!(
        fault(setting.open(&[1, 0, 2])),
        DirectoryFault::Place { place: 1, given: 0 }
    );
    // A disk that is not mounted leaves an empty directory, or none.
    assert_eq!(
        fault(setting.open(&[0, 1, 7])),
        DirectoryFault::Unmarked { given: 2 }
    );
    assert_eq!(fault(setting.open(&[7, 1, 2])), DirectoryFault::Foreign);
    assert!(Image::read(setting.root.path()) == sound);
    fs::create_dir(setting.directory(7)).unwrap();
    assert_eq!(
        fault(setting.open(&[0, 7, 2])),
        DirectoryFault::Unmarked { given: 1 }
    );
    assert_eq!(fault(setting.open(&[7, 1, 2])), DirectoryFault::Foreign);
    fs::remove_dir(setting.directory(7)).unwrap();
    // Neither does another store take them.
    drop(setting.open(&[8]).unwrap());
    assert_eq!(fault(setting.open(&[8, 1])), DirectoryFault::Foreign);
    assert_eq!(fault(setting.open(&[8, 0])), DirectoryFault::Foreign);
    fs::remove_dir_all(setting.directory(8)).unwrap();
    assert!(Image::read(setting.root.path()) == sound);
    let scrub = Scrub::of_directories(setting.directories(&[0, 1, 2, 7]));
    assert!(matches!(
        scrub.err(),
        Some(StoreError::Directories { given: 4, .. })
    ));
    setting.assert_intact(&setting.open(&[0, 1, 2]).unwrap());
}

#[test]
fn damage_is_found_in_the_directory_that_has_it() {
    let setting = Setting::new();
    let places = [0, 1];
    drop(setting.published(&places));
    let segment = setting.bundle.open_segment(1).unwrap();
    // The second panel of the second segment is in the home, the first in the other directory.
    for (column, place) in [(0, 1), (1, 0)] {
        let path = setting.segment(place, 1);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff; 9], segment.panel_place(0, column).offset)
            .unwrap();
        let found = damaged(setting.directories(&places));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].segment, found[0].panel),
            (Some(1), Some((0, column as u32)))
        );
        assert_eq!(found[0].path.as_ref(), Some(&path));
        let store = setting.open(&places).unwrap();
        let text = store
            .snapshot("a")
            .unwrap()
            .panel(1, 0, column)
            .unwrap_err()
            .to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        let whole = fs::read(setting.bundle.segment_path(1)).unwrap();
        let at = segment.panel_place(0, column).offset;
        file.write_all_at(&whole[at as usize..at as usize + 9], at)
            .unwrap();
    }
    let other = setting.segment(1, 2);
    let bytes = fs::read(&other).unwrap();
    for wrong in [None, Some(&bytes[1..])] {
        match wrong {
            None => fs::remove_file(&other).unwrap(),
            Some(bytes) => fs::write(&other, bytes).unwrap(),
        }
        let found = damaged(setting.directories(&places));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path.as_ref(), Some(&other));
        let error = setting.open(&places).unwrap().snapshot("a").unwrap_err();
        assert!(
            error.to_string().contains(other.to_str().unwrap()),
            "{error}"
        );
    }
    fs::write(&other, bytes).unwrap();
    setting.assert_intact(&setting.open(&places).unwrap());
}

#[test]
fn a_catalogue_of_one_directory_is_not_taken_for_that_of_several() {
    let setting = Setting::new();
    drop(setting.published(&[0, 1]));
    let target = setting.directory(9);
    backup(setting.directories(&[0, 1]), &target, &|_, _| {}).unwrap();
    let catalogue = setting.directory(0).join(CATALOGUE);
    fs::copy(target.join(CATALOGUE), &catalogue).unwrap();
    for places in [&[0][..], &[0, 1]] {
        assert_eq!(fault(setting.open(places)), DirectoryFault::Foreign);
    }
}

#[test]
fn a_damaged_mark_is_an_error() {
    let setting = Setting::new();
    drop(setting.open(&[0, 1]).unwrap());
    let path = setting.directory(1).join("directory");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 4;
    fs::write(&path, bytes).unwrap();
    let error = setting.open(&[0, 1]).err().unwrap();
    assert_eq!(error.kind(), crate::ErrorKind::DataLoss);
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn a_backup_is_in_one_directory() {
    let setting = Setting::new();
    let store = setting.published(&[0, 1, 2]);
    let target = setting.directory(9);
    backup(setting.directories(&[0, 1, 2]), &target, &|_, _| {}).unwrap();
    for index in 0..3 {
        let copied = fs::read(setting.segment(9, index)).unwrap();
        assert!(copied == fs::read(setting.bundle.segment_path(index)).unwrap());
    }
    let partly = backup(
        setting.directories(&[0, 1]),
        &setting.directory(8),
        &|_, _| {},
    );
    assert!(matches!(partly, Err(StoreError::Directories { .. })));
    assert!(!setting.directory(8).exists());
    drop(store);
    assert_eq!(damaged(setting.directories(&[9])), []);
    // It may be striped again.
    setting.assert_intact(&setting.open(&[9, 10]).unwrap());
}

#[test]
fn what_is_deleted_or_cancelled_leaves_every_directory() {
    let (owner, disk) = (Owner::new(), scratch());
    let mut server = Server::striped(&owner, disk.path(), Stripes::Two);
    for step in [
        Step::Open,
        Step::Upload("a", 1),
        Step::Send("b", 1, 18_000),
        Step::Cancel("b"),
        Step::Send("a", 2, 18_000),
        Step::Cancel("a"),
    ] {
        server.run(step).unwrap();
    }
    let directories = Stripes::Two.directories(disk.path(), true);
    let segments = || {
        let paths = directories.of_datasets();
        paths.map(|path| files(&path).len()).collect::<Vec<_>>()
    };
    assert_eq!(segments(), [2, 2]);
    server.run(Step::Delete("a")).unwrap();
    assert_eq!(segments(), [0, 0]);
}

#[test]
fn a_dataset_that_the_catalogue_forgot_is_set_aside_in_every_directory() {
    let setting = Setting::new();
    drop(setting.open(&[0, 1]).unwrap());
    let catalogue = setting.directory(0).join(CATALOGUE);
    let older = fs::read(&catalogue).unwrap();
    drop(setting.published(&[0, 1]));
    let whole = [0, 1].map(|place| fs::read(setting.segment(place, 0)).unwrap());
    fs::write(&catalogue, older).unwrap();
    assert_eq!(damaged(setting.directories(&[0, 1])).len(), 2);
    drop(setting.open(&[0, 1]).unwrap());
    for (place, whole) in whole.iter().enumerate() {
        let unknown = setting.directory(place).join("unknown");
        let kept = fs::read(unknown.join(ID.to_string()).join(segment_name(0)));
        assert!(kept.unwrap() == *whole);
    }
}
