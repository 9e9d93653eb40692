//! The disk itself: it observes everything, keeps what was synced, loses what was not, and fails on demand.
#![cfg(target_os = "linux")]

use oboro_faults::{Disk, EIO, Failure, Image, Loss, Wear};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn paths(image: &Image) -> Vec<String> {
    let paths = image.paths();
    paths
        .map(|path| path.to_str().unwrap().to_owned())
        .collect()
}

/// The content after a power cut now.
fn after_cut(disk: &Disk, loss: Loss) -> Image {
    let record = disk.record();
    record.image(record.operations(), loss)
}

#[test]
fn every_way_to_change_a_file_is_seen() {
    let disk = Disk::new();
    let at = |name: &str| disk.path().join(name);
    fs::create_dir_all(at("a/b/c")).unwrap();
    fs::write(at("a/first"), b"written whole").unwrap();
    let mut file = File::create(at("a/b/second")).unwrap();
    file.write_all(&[7; 5000]).unwrap();
    file.seek(SeekFrom::Start(100)).unwrap();
    file.write_all(b"in the middle").unwrap();
    file.write_all_at(b"behind the end", 6000).unwrap();
    file.set_len(6005).unwrap();
    let mut appended = OpenOptions::new().append(true).open(at("a/first")).unwrap();
    appended.write_all(b", and more").unwrap();
    fs::hard_link(at("a/first"), at("a/linked")).unwrap();
    appended.write_all(b" by two names").unwrap();
    fs::rename(at("a/b"), at("moved")).unwrap();
    file.write_all(b"by its old descriptor").unwrap();
    fs::write(at("replaced"), b"old").unwrap();
    fs::write(at("replaced"), b"new").unwrap();
    fs::rename(at("a/linked"), at("replaced")).unwrap();
    fs::create_dir_all(at("tree/with/branches")).unwrap();
    fs::write(at("tree/with/leaf"), b"leaf").unwrap();
    fs::remove_dir_all(at("tree")).unwrap();
    fs::write(at("gone"), b"gone").unwrap();
    fs::remove_file(at("gone")).unwrap();
    let image = after_cut(&disk, Loss::Nothing);
    assert_eq!(image, Image::read(disk.path()));
    assert_eq!(
        paths(&image),
        [
            "a",
            "a/first",
            "moved",
            "moved/c",
            "moved/second",
            "replaced"
        ]
    );
    let copy = tempfile::tempdir().unwrap();
    image.write(copy.path());
    assert_eq!(Image::read(copy.path()), image);
}

#[test]
fn what_was_not_synced_is_lost() {
    let disk = Disk::new();
    let path = disk.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"first").unwrap();
    file.sync_all().unwrap();
    // The bytes are durable, the name is not.
    assert_eq!(paths(&after_cut(&disk, Loss::All)), [""; 0]);
    sync(disk.path());
    file.write_all(b" second").unwrap();
    let lost = tempfile::tempdir().unwrap();
    after_cut(&disk, Loss::All).write(lost.path());
    assert_eq!(fs::read(lost.path().join("file")).unwrap(), b"first");
    fs::rename(&path, disk.path().join("renamed")).unwrap();
    assert_eq!(paths(&after_cut(&disk, Loss::All)), ["file"]);
    assert_eq!(paths(&after_cut(&disk, Loss::Nothing)), ["renamed"]);
    sync(disk.path());
    assert_eq!(paths(&after_cut(&disk, Loss::All)), ["renamed"]);
    // A directory's content is lost with its name.
    fs::create_dir(disk.path().join("a")).unwrap();
    fs::write(disk.path().join("a/file"), b"x").unwrap();
    sync(&disk.path().join("a/file"));
    sync(&disk.path().join("a"));
    assert_eq!(paths(&after_cut(&disk, Loss::All)), ["renamed"]);
    sync(disk.path());
    assert_eq!(
        paths(&after_cut(&disk, Loss::All)),
        ["a", "a/file", "renamed"]
    );
}

#[test]
fn writes_are_torn_and_reordered_by_sectors() {
    let disk = Disk::new();
    let mut file = File::create(disk.path().join("file")).unwrap();
    sync(disk.path());
    file.write_all(&[1; 4096]).unwrap();
    let copy = |loss| {
        let directory = tempfile::tempdir().unwrap();
        after_cut(&disk, loss).write(directory.path());
        fs::read(directory.path().join("file")).unwrap()
    };
    assert_eq!(copy(Loss::TornWrite), [1; 2048]);
    let states: Vec<Vec<u8>> = (0..50).map(|seed| copy(Loss::Some { seed })).collect();
    for state in &states {
        assert_eq!(state.len() % 512, 0);
        let whole = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
        assert!(state.chunks(512).all(whole));
    }
    let has = |wanted: fn(&[u8]) -> bool| assert!(states.iter().any(|state| wanted(state)));
    has(|state| state.is_empty());
    has(|state| state == [1; 4096]);
    has(|state| state.len() == 4096 && state[..512] == [0; 512] && state.contains(&1));
    has(|state| state.len() < 4096 && state.contains(&1));
    assert_eq!(copy(Loss::Some { seed: 3 }), copy(Loss::Some { seed: 3 }));
}

#[test]
fn acknowledgements_divide_the_record() {
    let disk = Disk::new();
    fs::write(disk.path().join("a"), b"a").unwrap();
    disk.acknowledge();
    disk.acknowledge();
    fs::write(disk.path().join("b"), b"b").unwrap();
    disk.acknowledge();
    let record = disk.record();
    let cuts = (0..=record.operations()).map(|operations| record.cut(operations));
    let cuts: Vec<_> = cuts.map(|cut| (cut.acknowledged, cut.under_way)).collect();
    assert_eq!(
        cuts,
        [(0, false), (0, true), (2, false), (2, true), (3, false)]
    );
}

#[test]
fn an_operation_fails_as_planned() {
    let disk = Disk::new();
    let write = || -> std::io::Result<()> {
        let mut file = File::create(disk.path().join("file"))?;
        file.write_all(b"some bytes")?;
        file.sync_all()?;
        fs::rename(disk.path().join("file"), disk.path().join("other"))
    };
    for at in 0..4 {
        disk.fail(Failure::Once { at, errno: EIO });
        assert_eq!(write().unwrap_err().raw_os_error(), Some(EIO), "{at}");
        let _ = fs::remove_file(disk.path().join("file"));
    }
    disk.fail(Failure::Once { at: 4, errno: EIO });
    write().unwrap();
    assert_eq!(disk.attempts(), 4);
    disk.mend();

    // What a sync failed to write is lost, even if the next one succeeds.
    let mut file = File::create(disk.path().join("file")).unwrap();
    sync(disk.path());
    file.write_all(b"lost").unwrap();
    disk.fail(Failure::Once { at: 0, errno: EIO });
    file.sync_all().unwrap_err();
    file.write_all(b" kept").unwrap();
    file.sync_all().unwrap();
    let copy = tempfile::tempdir().unwrap();
    after_cut(&disk, Loss::All).write(copy.path());
    assert_eq!(
        fs::read(copy.path().join("file")).unwrap(),
        b"\0\0\0\0 kept"
    );
}

#[test]
fn a_full_disk_takes_no_more_and_shrinks() {
    let disk = Disk::new();
    let (old, new) = (disk.path().join("old"), disk.path().join("new"));
    fs::write(&old, [1; 5000]).unwrap();
    disk.fail(Failure::Full { at: 0 });
    let error = fs::write(&new, [2; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    // The rest of the last block, and existing data.
    let mut file = OpenOptions::new().write(true).open(&old).unwrap();
    file.write_all(&[3; 8192]).unwrap();
    let error = file.write_all(&[3; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let error = file.set_len(8193).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    fs::remove_file(&old).unwrap();
    fs::write(&new, [2; 8192]).unwrap();
    fs::write(&old, [1; 1]).unwrap_err();
    disk.mend();
    fs::write(&old, [1; 5000]).unwrap();
    assert_eq!(Image::read(disk.path()), after_cut(&disk, Loss::Nothing));
}

#[test]
fn worn_bytes_are_read_wrongly_or_not_at_all_until_mended() {
    let disk = Disk::new();
    let path = disk.path().join("file");
    let bytes: Vec<u8> = (0..100).collect();
    fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    let read_at = |offset| {
        let mut buffer = [0; 10];
        file.read_exact_at(&mut buffer, offset).map(|()| buffer)
    };
    disk.wear_out(&path, 42, Wear::Flipped);
    let flipped = [40, 41, 43, 43, 44, 45, 46, 47, 48, 49];
    assert_eq!(read_at(40).unwrap(), flipped);
    assert_eq!(read_at(43).unwrap(), bytes[43..53]);
    // Through any descriptor, and at an offset, too.
    let mut other = File::open(&path).unwrap();
    other.seek(SeekFrom::Start(40)).unwrap();
    let mut buffer = [0; 10];
    other.read_exact(&mut buffer).unwrap();
    assert_eq!(buffer, flipped);

    disk.wear_out(&path, 50, Wear::Unreadable { errno: EIO });
    let error = read_at(43).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(EIO));
    assert_eq!(read_at(51).unwrap(), bytes[51..61]);
    disk.mend();
    assert_eq!(fs::read(&path).unwrap(), bytes);
}
