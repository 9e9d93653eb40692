//! A scrub finds all damage and nothing else, changes nothing and blocks nothing.

use super::super::script::{Owner, Server, Step};
use super::*;
use crate::testing::files;
use oboro_faults::{Disk, EIO, Image, Wear, scratch};
use oboro_ring::{Column, Limb};
use std::fs;
use std::os::unix::fs::FileExt;

const A: &str = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
const C: &str = "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c";

/// Dataset `a` in two versions, `b`, and uploads of `b` and `c` in progress.
const STEPS: &[Step] = &[
    Step::Open,
    Step::Upload("a", 1),
    Step::Upload("a", 2),
    Step::Upload("b", 1),
    Step::Send("b", 2, 5_000),
    Step::Send("c", 1, 26_000),
];

fn server<'a>(owner: &'a Owner, disk: &Path) -> Server<'a> {
    let mut server = Server::new(owner, disk);
    STEPS.iter().for_each(|&step| server.run(step).unwrap());
    server
}

/// Returns all damage, and the amount checked.
fn run(mut scrub: Scrub) -> (Vec<Damage>, Scrubbed) {
    let mut damage = Vec::new();
    while let Some(part) = scrub.next_part().unwrap() {
        damage.extend(part.damage);
    }
    let scrubbed = scrub.scrubbed();
    assert_eq!(scrubbed.bytes, scrub.total_bytes());
    assert_eq!(scrubbed.damaged, damage.len() as u64);
    (damage, scrubbed)
}

/// Segment, panel, and expected message.
type Expected = (Option<u32>, Option<(usize, u32)>, &'static str);

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_sound_store_is_read_once_and_not_changed() {
    let (owner, directory) = (Owner::new(), scratch());
    let server = server(&owner, directory.path());
    // Three segments of `a`, two of `b`, and the one of `c` that is complete: each has a header, and panels and sealed
    // cells of two columns.
    let whole = Scrubbed {
        collections: 0,
        datasets: 3,
        segments: 6,
        parts: 24,
        bytes: 5 * 5 * 4096 + 7 * 4096,
        damaged: 0,
    };
    assert_eq!(
        run(server.store().access().scrub(None).unwrap()),
        (Vec::new(), whole)
    );
    let one = Scrubbed {
        collections: 0,
        datasets: 1,
        segments: 2,
        parts: 8,
        bytes: 2 * 5 * 4096,
        damaged: 0,
    };
    assert_eq!(
        run(server.store().access().scrub(Some("b")).unwrap()),
        (Vec::new(), one)
    );
    let error = server.store().access().scrub(Some("nobody")).unwrap_err();
    assert!(matches!(error, StoreError::NoDataset { .. }), "{error}");

    let path = directory.path().join("data/store");
    let text = Scrub::of_directory(&path).unwrap_err().to_string();
    assert!(text.contains("in use") && text.contains("oboro scrub --server"));
    drop(server);
    let before = Image::read(&path);
    assert_eq!(
        run(Scrub::of_directory(&path).unwrap()),
        (Vec::new(), whole)
    );
    assert!(Image::read(&path) == before);
}

#[test]
fn what_is_damaged_is_named() {
    let (owner, directory) = (Owner::new(), scratch());
    let server = server(&owner, directory.path());
    let store = directory.path().join("data/store");
    let segment = |id, index| store.join(format!("segments/{id}/{index:08}.seg"));
    let paths = files(&store).into_iter().map(|path| store.join(path));
    let sound: Vec<_> = paths.map(|path| (fs::read(&path).unwrap(), path)).collect();
    let found = |damaged: &[Expected]| {
        let (found, _) = run(server.store().access().scrub(None).unwrap());
        assert_eq!(found.len(), damaged.len(), "{found:?}");
        for (damage, &(segment, panel, problem)) in found.iter().zip(damaged) {
            let panel = panel.map(|(limb, column)| (Limb(limb), Column(column)));
            assert_eq!((damage.segment, damage.panel), (segment, panel));
            assert!(damage.problem.contains(problem), "{damage:?}");
            let path = damage.path.as_ref().unwrap().to_str().unwrap();
            assert!(path.starts_with(store.to_str().unwrap()));
            assert!(!damage.problem.contains(path), "{damage:?}");
        }
        for (bytes, path) in &sound {
            fs::write(path, bytes).unwrap();
        }
        found
    };

    flip(&segment(A, 1), 4096);
    flip(&segment(A, 2), 100);
    flip(&segment(C, 0), 3 * 4096 - 1);
    let damage = found(&[
        (
            Some(1),
            Some((0, 0)),
            "panel (limb 0, column 0) of segment 1 of dataset 0a0a",
        ),
        (Some(2), None, "segment 2 of dataset 0a0a"),
        (
            Some(0),
            Some((0, 1)),
            "panel (limb 0, column 1) of segment 0 of dataset 0c0c",
        ),
    ]);
    assert_eq!(damage[0].name.as_deref(), Some("a"));
    assert_eq!(damage[0].dataset, Some(DatasetId([0xa; 16])));
    assert!(damage[0].problem.contains("from a copy"));

    fs::remove_file(segment(A, 0)).unwrap();
    fs::copy(segment(A, 1), segment(A, 2)).unwrap();
    found(&[
        (Some(0), None, "is missing"),
        (Some(2), None, "not the one that the manifest names"),
    ]);

    let stranger = store.join("segments/00000000000000000000000000000001");
    fs::create_dir(&stranger).unwrap();
    fs::copy(segment(A, 1), stranger.join("00000000.seg")).unwrap();
    found(&[(None, None, "not in the catalogue")]);
    fs::remove_dir_all(stranger).unwrap();

    // The catalogue is read again, though SQLite has cached it.
    let catalogue = store.join("catalogue.sqlite");
    let bytes = fs::read(&catalogue).unwrap();
    for (at, _) in (0..)
        .zip(bytes.windows(8))
        .filter(|(_, it)| it == b"OBOROMAN")
    {
        flip(&catalogue, at + 30);
    }
    let manifest = (None, None, "the catalogue's manifest of dataset");
    let found = found(&[manifest; 4]);
    assert!(
        found
            .iter()
            .all(|it| it.dataset.is_some() && it.name.is_some())
    );
}

#[test]
fn a_disk_that_does_not_read_is_damage_and_the_rest_is_checked() {
    let (owner, disk) = (Owner::new(), Disk::new());
    let server = server(&owner, disk.path());
    let path = disk
        .path()
        .join(format!("data/store/segments/{A}/00000000.seg"));
    let errno = EIO;
    disk.wear_out(&path, 2 * 4096 + 5, Wear::Unreadable { errno });
    disk.wear_out(&path, 4096 + 5, Wear::Flipped);
    let (damage, scrubbed) = run(server.store().access().scrub(None).unwrap());
    let found: Vec<_> = damage.iter().map(|it| (it.segment, it.panel)).collect();
    let panel = |column| Some((Limb(0), Column(column)));
    assert_eq!(found, [(Some(0), panel(0)), (Some(0), panel(1))]);
    assert!(damage[1].problem.contains("cannot be read: Input/output"));
    assert_eq!((scrubbed.segments, scrubbed.parts), (6, 24));
}

#[test]
fn what_is_deleted_or_appended_meanwhile_is_not_missed() {
    let (owner, directory) = (Owner::new(), scratch());
    for step in 0..12 {
        let mut server = server(&owner, &directory.path().join(step.to_string()));
        let mut scrub = server.store().access().scrub(None).unwrap();
        for _ in 0..step {
            assert!(scrub.next_part().unwrap().unwrap().damage.is_none());
        }
        for step in [Step::Delete("a"), Step::Cancel("c"), Step::Upload("b", 2)] {
            server.run(step).unwrap();
        }
        let (damage, _) = run(scrub);
        assert_eq!(damage, []);
    }
}
