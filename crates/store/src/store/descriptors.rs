//! More segments and uploads than the process may have descriptors, with the limit set in a child process.

use super::Store;
use crate::error::StoreError;
use crate::location::Location;
use crate::testing::{ID, bundle, one_limb, residues, send};
use oboro_format::{Bundle, ErrorKind};
use oboro_residency::Placement;
use oboro_residency::Snapshot;
use oboro_ring::{Column, Limb};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::process::Command;
use std::{env, fs, thread};
use tempfile::TempDir;

/// Descriptor limit of the process. About 25 are for segments between reads, and half of those for segments that
/// outlive their names.
const DESCRIPTORS: u64 = 200;
const COUNT: usize = 230;
const IN_CHILD: &str = "OBORO_TEST_FEW_DESCRIPTORS";

/// Runs `body` in a process with few descriptors, by running this test again.
fn with_few_descriptors(test: &str, body: impl FnOnce()) {
    if env::var_os(IN_CHILD).is_some() {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(DESCRIPTORS);
        setrlimit(Resource::Nofile, limit).unwrap();
        return body();
    }
    let test = format!("store::descriptors::{test}");
    let child = Command::new(env::current_exe().unwrap())
        .arg(&test)
        .env(IN_CHILD, "1")
        .env("RUST_TEST_NOCAPTURE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

fn many_segments(directory: &TempDir) -> Bundle {
    bundle(&directory.path().join("bundle"), &one_limb(), &[1; COUNT])
}

/// Reads a column of every segment on several threads; returns the number of correct ones, and the errors.
fn read(snapshot: &Snapshot, column: u32) -> (usize, Vec<StoreError>) {
    let part = |segment: usize| {
        let panel = snapshot.panel(segment, Limb(0), Column(column))?;
        let expected = residues(
            snapshot.segment(segment).description(),
            Limb(0),
            Column(column),
        );
        assert!(panel.pieces().flatten().eq(&expected));
        Ok(())
    };
    let read: Vec<Result<(), StoreError>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|first| {
                let segments = (first..COUNT).step_by(8);
                scope.spawn(move || segments.map(part).collect::<Vec<_>>())
            })
            .collect();
        let read = threads.into_iter().map(|thread| thread.join().unwrap());
        read.flatten().collect()
    });
    let errors: Vec<_> = read.into_iter().filter_map(Result::err).collect();
    (COUNT - errors.len(), errors)
}

fn locations(directory: &TempDir) -> [Location; 2] {
    let path = |name| directory.path().join(name);
    let objects = Location::Objects {
        url: format!("file://{}", path("objects").display()),
        cache: path("cache"),
        cache_bytes: u64::MAX,
    };
    [Location::Directory(path("store")), objects]
}

#[test]
fn more_segments_than_descriptors_are_read_and_deleted() {
    with_few_descriptors(
        "more_segments_than_descriptors_are_read_and_deleted",
        || {
            let directory = TempDir::new().unwrap();
            let bundle = many_segments(&directory);
            for location in locations(&directory) {
                let store = Store::open_on(location.clone(), Placement::default()).unwrap();
                send(&store, &bundle);
                store.access().publish_pending(ID).unwrap();
                let snapshot = store.access().snapshot("a").unwrap();
                assert_eq!(read(&snapshot, 0).0, COUNT);
                let mut scrub = store.access().scrub(None).unwrap();
                while let Some(part) = scrub.next_part().unwrap() {
                    assert!(part.damage.is_none(), "{part:?}");
                }
                drop((snapshot, scrub, store));
                // Within a budget, reads bypass the page cache.
                let store = Store::open_within(location, 64 << 20, Placement::default()).unwrap();
                let snapshot = store.access().snapshot("a").unwrap();
                assert_eq!(read(&snapshot, 0).0, COUNT);
                store.access().delete_now("a").unwrap();
                let (right, errors) = read(&snapshot, 1);
                assert!(right >= 8 && !errors.is_empty(), "{right}");
                for error in errors {
                    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
                }
            }
        },
    );
}

#[test]
fn more_segments_than_descriptors_are_received_at_a_time() {
    with_few_descriptors(
        "more_segments_than_descriptors_are_received_at_a_time",
        || {
            let directory = TempDir::new().unwrap();
            let bundle = many_segments(&directory);
            let store = Store::open(&directory.path().join("store")).unwrap();
            let access = store.access();
            access
                .begin_upload("a", &bundle.manifest().encode())
                .unwrap();
            let mut receivers: Vec<_> = (0..COUNT as u32)
                .map(|index| access.receive_pending(ID, index, 0).unwrap())
                .collect();
            for half in 0..2 {
                for (index, receiver) in receivers.iter_mut().enumerate() {
                    let bytes = fs::read(bundle.segment_path(index as u32)).unwrap();
                    let (first, second) = bytes.split_at(bytes.len() / 2);
                    receiver.write([first, second][half]).unwrap();
                }
            }
            for receiver in receivers {
                receiver.finish().unwrap();
            }
            access.publish_pending(ID).unwrap();
            let snapshot = access.snapshot("a").unwrap();
            assert_eq!(read(&snapshot, 0).0, COUNT);
        },
    );
}
