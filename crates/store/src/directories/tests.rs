//! Directories that are not what they were given as are refused before anything is done.

use super::*;
use crate::files::create_private_directory;
use crate::testing::assert_golden;
use proptest::prelude::*;
use tempfile::TempDir;

const STORE: [u8; 16] = [7; 16];

/// So many empty directories.
fn paths(count: usize) -> (TempDir, Vec<PathBuf>) {
    let root = TempDir::new().unwrap();
    let paths = (0..count).map(|place| root.path().join(place.to_string()));
    let paths: Vec<PathBuf> = paths.collect();
    paths
        .iter()
        .for_each(|path| create_private_directory(path).unwrap());
    (root, paths)
}

fn of(paths: &[&PathBuf]) -> Directories {
    let paths = paths.iter().map(|&path| path.clone());
    Directories::new(paths.collect()).unwrap()
}

fn striped(directories: usize) -> Option<Striped> {
    Some(Striped {
        store: STORE,
        directories,
    })
}

/// A store of three directories, and one that is empty.
fn marked() -> (TempDir, Vec<PathBuf>) {
    let (root, paths) = paths(4);
    let all = of(&[&paths[0], &paths[1], &paths[2]]);
    all.mark_new(striped(1).unwrap()).unwrap();
    all.check(striped(3)).unwrap();
    (root, paths)
}

fn fault(error: StoreError) -> (PathBuf, DirectoryFault) {
    match error {
        StoreError::Directory { path, fault } => (path, fault),
        other => panic!("{other}"),
    }
}

#[test]
fn a_store_is_given_whole_and_in_order() {
    let (_root, paths) = marked();
    let [home, second, third, empty] = &paths[..] else {
        unreachable!()
    };
    let refused = |given: &[&PathBuf], path: &PathBuf, expected: DirectoryFault| {
        let found = fault(of(given).check(striped(3)).unwrap_err());
        assert_eq!(found, (path.clone(), expected));
    };
    let place = |place, given| DirectoryFault::Place { place, given };
    refused(&[home, third, second], third, place(2, 1));
    let swapped = of(&[second, home, third]).check_home().unwrap_err();
    assert_eq!(fault(swapped), (second.clone(), place(1, 0)));
    let unmarked = DirectoryFault::Unmarked { given: 1 };
    refused(&[home, empty, third], empty, unmarked);
    for given in [&[home][..], &[home, second]] {
        let error = of(given).check(striped(3)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("has 3 directories") && text.contains("DIR,DIR"),
            "{text}"
        );
    }
    of(&[home, second, third, empty]).check(striped(3)).unwrap();
    let error = of(&[home, second, third, empty]).check_all(striped(3));
    assert!(matches!(
        error,
        Err(StoreError::Directories {
            known: 3,
            given: 4,
            ..
        })
    ));
}

#[test]
fn what_belongs_to_others_is_not_taken() {
    let (root, paths) = marked();
    let [home, second, _, empty] = &paths[..] else {
        unreachable!()
    };
    let other = Some(Striped {
        store: [8; 16],
        directories: 1,
    });
    // Of another store, of one of a single directory, and of one whose home is not there.
    for striped in [other, None] {
        let found = fault(of(&[empty, second]).check(striped).unwrap_err());
        assert_eq!(found, (second.clone(), DirectoryFault::Foreign));
    }
    let found = fault(of(&[empty, home]).check(None).unwrap_err());
    assert_eq!(found, (home.clone(), DirectoryFault::Foreign));
    fs::write(empty.join(CATALOGUE), "it has one").unwrap();
    let new = root.path().join("new");
    let found = fault(of(&[&new, empty]).check(None).unwrap_err());
    assert_eq!(found, (empty.clone(), DirectoryFault::Taken));
}

#[test]
fn one_to_many_different_directories_are_given() {
    let (root, paths) = paths(2);
    let again = root.path().join("1/../0");
    let twice = Directories::new(vec![paths[0].clone(), paths[1].clone(), again.clone()]);
    assert_eq!(fault(twice.unwrap_err()), (again, DirectoryFault::Repeated));
    for count in [0, MAX_DIRECTORIES + 1] {
        let many = (0..count).map(|place| root.path().join(format!("new{place}")));
        let error = Directories::new(many.collect()).unwrap_err();
        assert!(
            matches!(error, StoreError::DirectoryCount { .. }),
            "{error}"
        );
    }
}

#[test]
fn the_mark_is_the_golden_one() {
    let mark = Mark {
        store: STORE,
        place: 2,
    };
    assert_golden("directory.mark", &mark.encode());
}

proptest! {
    #[test]
    fn a_mark_is_read_as_it_was_written_or_not_at_all(
        store: [u8; 16],
        place in 0..MAX_DIRECTORIES,
        at in 0..MARK_BYTES,
        flip in 1..=u8::MAX,
        length in 0..MARK_BYTES,
    ) {
        let mark = Mark { store, place };
        let mut bytes = mark.encode();
        prop_assert_eq!(Mark::decode(&bytes), Ok(mark));
        prop_assert!(Mark::decode(&bytes[..length]).is_err());
        bytes[at] ^= flip;
        prop_assert!(Mark::decode(&bytes).is_err());
    }
}
