//! Tests of segments: golden bytes, round trips, rejection of altered files.

use super::open_files::OpenFiles;
use super::*;
use crate::error::ErrorKind;
use crate::files::{Durability, partial_path};
use crate::limits::{MAX_COLUMNS, MAX_ROW_ID_BYTES};
use crate::testing::{
    assert_golden, cells, description, files, golden_path, manifest, one_limb, residues, two_limbs,
    write_segment,
};
use oboro_ring::{Column, Limb};
use proptest::prelude::*;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn golden_copy(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("copy.seg");
    fs::copy(golden_path("segment.seg"), &path).unwrap();
    path
}

fn check(path: &Path) -> Result<(), FormatError> {
    Segment::open(path)?.verify()
}

/// Recomputes the digest of a header of the golden shape, as an attacker would.
fn reseal(bytes: &mut [u8]) {
    let digested = 72 + 4 + 32 + 4 * 32;
    let digest = Digest::of(&bytes[..digested]);
    bytes[digested..digested + 32].copy_from_slice(&digest.0);
}

#[test]
fn the_format_is_the_golden_one() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let description = description(&one_limb(), 3, 130, 1);
    let entry = write_segment(&path, description.clone());
    assert_golden("segment.seg", &fs::read(&path).unwrap());

    let segment = Segment::open(&golden_path("segment.seg")).unwrap();
    assert_eq!(*segment.description(), description);
    assert_eq!(segment.entry(), entry);
    assert_eq!(Some(entry.bytes), segment_bytes(&one_limb(), 2, 0, 1));
    let mut panel = vec![0; segment.panel_len()];
    for column in 0..2 {
        segment
            .read_panel(Limb(0), Column(column), &mut panel)
            .unwrap();
        assert_eq!(panel, residues(&description, Limb(0), Column(column)));
        assert_eq!(
            segment.read_cells(Column(column)).unwrap(),
            cells(&description, Column(column))
        );
    }
    assert!(matches!(
        segment.read_cells(Column(2)),
        Err(FormatError::NoCells {
            column: Column(2),
            ..
        })
    ));
}

#[test]
fn parts_may_come_in_any_order_from_many_threads() {
    let directory = TempDir::new().unwrap();
    let description = description(&two_limbs(), 0, 0, 3);
    let (one, many) = (
        directory.path().join("one.seg"),
        directory.path().join("many.seg"),
    );
    write_segment(&one, description.clone());
    let writer = SegmentWriter::create(&many, description.clone(), Durability::Durable).unwrap();
    std::thread::scope(|scope| {
        for column in (0..2).rev() {
            let (writer, description) = (&writer, &description);
            scope.spawn(move || {
                for limb in (0..2).rev() {
                    writer
                        .write_panel(
                            Limb(limb),
                            Column(column),
                            &residues(description, Limb(limb), Column(column)),
                        )
                        .unwrap();
                }
                let cells = cells(description, Column(column));
                writer.write_cells(Column(column), &cells).unwrap();
            });
        }
    });
    writer.finish().unwrap();
    assert!(fs::read(one).unwrap() == fs::read(&many).unwrap());
    let segment = Segment::open(&many).unwrap();
    let mut panel = vec![0; segment.panel_len()];
    segment.read_panel(Limb(1), Column(0), &mut panel).unwrap();
    assert_eq!(panel, residues(&description, Limb(1), Column(0)));
}

#[test]
fn an_unfinished_writer_leaves_nothing_and_the_old_file_stays() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let description = description(&one_limb(), 0, 0, 2);
    let panel = residues(&description, Limb(0), Column(0));
    let writer = SegmentWriter::create(&path, description.clone(), Durability::Durable).unwrap();
    writer.write_panel(Limb(0), Column(0), &panel).unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("panel (limb 0, column 1)"), "{error}");
    assert!(files(directory.path()).is_empty());

    write_segment(&path, description.clone());
    let writer = SegmentWriter::create(&path, description.clone(), Durability::Durable).unwrap();
    assert!(matches!(
        SegmentWriter::create(&path, description, Durability::Durable),
        Err(FormatError::Locked { .. })
    ));
    drop(writer);
    check(&path).unwrap();
    assert_eq!(files(directory.path()).len(), 1);
}

#[test]
fn a_leftover_of_a_crash_does_not_show_in_the_next_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    fs::write(partial_path(&path), vec![0xff; 100_000]).unwrap();
    write_segment(&path, description(&one_limb(), 3, 130, 1));
    assert_golden("segment.seg", &fs::read(&path).unwrap());
}

#[test]
fn a_panel_is_written_once_and_only_with_canonical_residues() {
    let directory = TempDir::new().unwrap();
    let description = description(&one_limb(), 0, 0, 1);
    let writer = SegmentWriter::create(
        &directory.path().join("a.seg"),
        description.clone(),
        Durability::Durable,
    )
    .unwrap();
    let mut panel = residues(&description, Limb(0), Column(0));
    assert!(matches!(
        writer.write_panel(Limb(1), Column(0), &panel),
        Err(FormatError::NoPanel { .. })
    ));
    assert!(matches!(
        writer.write_panel(Limb(0), Column(2), &panel),
        Err(FormatError::NoPanel { .. })
    ));
    assert!(writer.write_panel(Limb(0), Column(0), &panel[1..]).is_err());
    writer.write_panel(Limb(0), Column(0), &panel).unwrap();
    let error = writer
        .write_panel(Limb(0), Column(0), &panel)
        .unwrap_err()
        .to_string();
    assert!(error.contains("written twice"), "{error}");
    let sealed = cells(&description, Column(1));
    assert!(writer.write_cells(Column(1), &sealed[1..]).is_err());
    assert!(matches!(
        writer.write_cells(Column(2), &sealed),
        Err(FormatError::NoCells { .. })
    ));
    writer.write_cells(Column(1), &sealed).unwrap();
    let error = writer
        .write_cells(Column(1), &sealed)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("sealed cells (column 1)") && error.contains("written twice"),
        "{error}"
    );
    panel[7] = description.parameters.limb_moduli()[0].value();
    let error = writer
        .write_panel(Limb(0), Column(1), &panel)
        .unwrap_err()
        .to_string();
    assert!(error.contains("not below their modulus"), "{error}");
}

#[test]
fn impossible_segments_are_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    for (blocks, columns) in [(0, 2), (65, 2), (1, 0), (1, MAX_COLUMNS + 1)] {
        let description = SegmentDescription {
            columns,
            ..description(&one_limb(), 0, 0, blocks)
        };
        assert!(matches!(
            SegmentWriter::create(&path, description, Durability::Durable),
            Err(FormatError::Misuse { .. })
        ));
        assert_eq!(segment_bytes(&one_limb(), columns, 0, blocks), None);
    }
    assert!(files(directory.path()).is_empty());
    // A full panel at N = 4096 is 896 KiB.
    let parameters = Parameters::new(12, 2, 65_537).unwrap();
    let layout = Layout::new(12, 2, 18, 0, 64).unwrap();
    assert_eq!(layout.stride(0), 896 << 10);
    // Sealed cells have a bit for each of 64 × 4096 slots, a nonce and a tag.
    assert_eq!(layout.stride(36), (32 << 10) + 4096);
    assert_eq!(
        segment_bytes(&parameters, 18, 0, 64),
        Some(layout.header + 36 * (896 << 10) + 18 * (36 << 10))
    );
}

/// A bit of a row id is a column that has cells and no panels.
#[test]
fn row_ids_are_sealed_like_cells() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let description = SegmentDescription {
        row_id_bytes: 2,
        ..description(&two_limbs(), 0, 0, 3)
    };
    let entry = write_segment(&path, description.clone());
    assert_eq!(Some(entry.bytes), segment_bytes(&two_limbs(), 2, 2, 3));
    let segment = Segment::open(&path).unwrap();
    assert_eq!(*segment.description(), description);
    segment.verify().unwrap();
    assert_eq!(segment.header().parts(), 2 * 2 + 2 + 16);
    for column in 0..18 {
        let read = segment.read_cells(Column(column)).unwrap();
        assert_eq!(read, cells(&description, Column(column)));
    }
    assert!(segment.read_cells(Column(18)).is_err());
    let mut panel = vec![0; segment.panel_len()];
    assert!(segment.read_panel(Limb(0), Column(2), &mut panel).is_err());
    assert_eq!(
        segment.description().part_name(5),
        "sealed cells (column 1) of "
    );
    assert_eq!(
        segment.description().part_name(6),
        "sealed row ids (bit 0) of "
    );

    let longer = SegmentDescription {
        row_id_bytes: MAX_ROW_ID_BYTES + 1,
        ..description
    };
    assert!(SegmentWriter::create(&path, longer, Durability::Durable).is_err());
}

#[test]
fn every_altered_byte_is_found() {
    let directory = TempDir::new().unwrap();
    let path = golden_copy(&directory);
    let bytes = fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        for altered in [byte ^ 1, byte ^ 0x80] {
            file.write_all_at(&[altered], at as u64).unwrap();
            assert!(
                check(&path).is_err(),
                "byte {at} became {altered:#x} unnoticed"
            );
        }
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    check(&path).unwrap();
}

#[test]
fn every_truncated_or_extended_file_is_found() {
    let directory = TempDir::new().unwrap();
    let path = golden_copy(&directory);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length + 1).unwrap();
    assert!(
        Segment::open(&path)
            .unwrap_err()
            .to_string()
            .contains("truncated or extended")
    );
    for shorter in (0..length).rev() {
        file.set_len(shorter).unwrap();
        assert!(Segment::open(&path).is_err(), "{shorter} bytes passed");
    }
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let directory = TempDir::new().unwrap();
    let path = golden_copy(&directory);
    let bytes = fs::read(&path).unwrap();
    let mut altered = bytes.clone();
    altered[4096 + 4096 + 5] ^= 1;
    fs::write(&path, &altered).unwrap();
    let error = check(&path).unwrap_err().to_string();
    for part in [
        "limb 0, column 1",
        "segment 3",
        &"11".repeat(16),
        "copy.seg",
        "altered",
        "Restore",
    ] {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }

    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = bytes.clone();
        change(&mut changed);
        fs::write(&path, &changed).unwrap();
        Segment::open(&path).unwrap_err().to_string()
    };
    for version in [1, 2] {
        let older = refusal(&|b| b[8] = version);
        let what = format!("older Oboro (format version {version}");
        assert!(
            older.contains(&what) && older.contains("Encrypt the data again"),
            "{older}"
        );
    }
    let newer = refusal(&|b| b[8] = 4);
    assert!(
        newer.contains("written by a newer Oboro (format version 4"),
        "{newer}"
    );
    let other = refusal(&|b| b[0] = b'o');
    assert!(
        other.contains("does not begin with \"OBOROSEG\""),
        "{other}"
    );
    // Plaintext modulus, bits of a cell, the limb's prime.
    for at in [60, 64, 72] {
        let foreign = refusal(&|b| {
            b[at] ^= 1;
            reseal(b);
        });
        assert!(foreign.contains("foreign parameters"), "{foreign}");
    }
    let missing = Segment::open(&directory.path().join("none.seg"))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("missing"), "{missing}");
}

/// Opens the segments at these paths, with at most `files` files open between reads.
fn among(files: usize, paths: &[PathBuf]) -> (Arc<OpenFiles>, Vec<Segment>) {
    let files = Arc::new(OpenFiles::new(Some(files)));
    let open = |path: &PathBuf| {
        let file = SegmentFile::open_among(&files, path);
        file.and_then(Segment::of_file).unwrap()
    };
    let segments = paths.iter().map(open).collect();
    (files, segments)
}

/// Creates copies of the golden segment.
fn copies(directory: &TempDir, count: usize) -> Vec<PathBuf> {
    let paths = (0..count).map(|number| directory.path().join(format!("{number}.seg")));
    let copy = |path: PathBuf| {
        fs::copy(golden_path("segment.seg"), &path).unwrap();
        path
    };
    paths.map(copy).collect()
}

#[test]
fn few_files_are_open_for_many_segments() {
    let directory = TempDir::new().unwrap();
    let (files, segments) = among(3, &copies(&directory, 20));
    for _ in 0..2 {
        for segment in &segments {
            segment.verify().unwrap();
            let past_the_cache = segment.file().past_the_cache();
            assert!(past_the_cache.is_ok() || !has_direct(&directory));
            assert_eq!(files.len(), 3);
        }
    }
    drop(segments);
    assert_eq!(files.len(), 0);
}

/// Returns true if the file system of a directory supports direct I/O.
fn has_direct(directory: &TempDir) -> bool {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = OpenOptions::new();
    let path = directory.path().join("0.seg");
    options.read(true).custom_flags(flags).open(path).is_ok()
}

#[test]
fn what_is_read_keeps_its_file_while_others_take_the_place() {
    let directory = TempDir::new().unwrap();
    let (files, segments) = among(1, &copies(&directory, 2));
    let file = segments[0].file().file().unwrap();
    segments[1].verify().unwrap();
    assert_eq!(files.len(), 1);
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, *MAGIC.as_bytes());
}

#[test]
fn segments_outlive_their_names_as_far_as_descriptors_suffice() {
    let directory = TempDir::new().unwrap();
    let paths = copies(&directory, 5);
    let (_files, segments) = among(4, &paths);
    for segment in &segments {
        segment.file().outlive_its_name();
    }
    for path in &paths {
        fs::remove_file(path).unwrap();
    }
    // Some of the others stay open until the capacity is needed.
    let read = |segment: &Segment| segment.verify().map_err(|error| error.kind());
    let gone = Err(ErrorKind::FailedPrecondition);
    let _: Vec<_> = segments.iter().map(read).collect();
    let (held, others) = segments.split_at(2);
    for _ in 0..2 {
        assert!(held.iter().all(|segment| read(segment).is_ok()));
        let direct = held[0].file().past_the_cache();
        assert!(direct.is_ok() || !has_direct(&directory));
        drop(direct);
    }
    assert!(others.iter().any(|segment| read(segment) == gone));
    let error = others[0].verify().unwrap_err().to_string();
    assert!(error.contains("deleted or rewritten meanwhile"), "{error}");
}

#[test]
fn another_file_of_the_same_name_is_damage_and_a_copy_is_not() {
    let directory = TempDir::new().unwrap();
    let paths = copies(&directory, 2);
    let (_files, segments) = among(1, &paths);
    // The link prevents the file system from reusing the file's number.
    fs::hard_link(&paths[0], directory.path().join("first")).unwrap();
    let close = || segments[1].verify().unwrap();
    let replace = |bytes: &[u8]| {
        let new = directory.path().join("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(new, &paths[0]).unwrap();
    };
    let original = fs::read(&paths[0]).unwrap();
    for _ in 0..2 {
        replace(&original);
        close();
        segments[0].verify().unwrap();
    }
    let mut altered = original.clone();
    altered[100] ^= 1;
    for other in [
        &altered[..],
        &original[..50],
        &original[..original.len() - 1],
    ] {
        replace(other);
        close();
        let error = segments[0].verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataLoss);
        assert!(error.to_string().contains("is not the one"), "{error}");
        assert!(segments[0].file().writable().is_err());
    }
    fs::remove_file(&paths[0]).unwrap();
    close();
    let error = segments[0].verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLoss);
    assert!(error.to_string().contains("is missing"), "{error}");
    // Not damage once removal is permitted.
    segments[0].file().let_go();
    for there in [false, true] {
        if there {
            replace(&altered);
        }
        let error = segments[0].verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    }
}

#[test]
fn a_file_truncated_while_open_is_an_error() {
    let directory = TempDir::new().unwrap();
    let path = golden_copy(&directory);
    let segment = Segment::open(&path).unwrap();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5000)
        .unwrap();
    let error = segment.verify().unwrap_err().to_string();
    assert!(error.contains("truncated while in use"), "{error}");
}

proptest! {
    #[test]
    fn random_files_are_errors(mut bytes in prop::collection::vec(any::<u8>(), 0..6000), known in any::<bool>()) {
        if known && bytes.len() >= 12 {
            bytes[..8].copy_from_slice(MAGIC.as_bytes());
            bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        }
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("a.seg");
        fs::write(&path, bytes).unwrap();
        prop_assert!(check(&path).is_err());
    }

    #[test]
    fn headers_that_lie_never_panic(at in 8usize..232, value in any::<[u8; 4]>()) {
        let directory = TempDir::new().unwrap();
        let path = golden_copy(&directory);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at..at + 4].copy_from_slice(&value);
        reseal(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let _ = check(&path);
    }
}

#[test]
fn a_header_alone_verifies_parts() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let parameters = two_limbs();
    let entry = write_segment(&path, description(&parameters, 0, 0, 3));
    let mut named = manifest(&parameters, vec![entry]);
    let segment = Segment::open(&path).unwrap();
    let bytes = segment.header_bytes();
    assert_eq!(bytes, fs::read(&path).unwrap()[..bytes.len()]);
    assert_eq!(SegmentHeader::bytes_of(&named, 0), bytes.len() as u64);
    let header = SegmentHeader::decode(&bytes, &named, 0).unwrap();
    assert_eq!(header.description(), segment.description());
    assert_eq!(header.parts(), 6);
    let whole = fs::read(&path).unwrap();
    for part in 0..header.parts() {
        let PartExtent { offset, len } = header.part_extent(part);
        let mut bytes = whole[offset as usize..][..len].to_vec();
        assert!(header.is_part(part, &bytes));
        assert!(!header.is_part((part + 1) % 6, &bytes));
        assert!(!header.is_part(part, &bytes[1..]));
        for altered in [7, len - 1] {
            bytes[altered] ^= 1;
            assert!(!header.is_part(part, &bytes));
            bytes[altered] ^= 1;
        }
    }
    assert_eq!(header.part_extent(6).offset, whole.len() as u64);

    for cut in [0, 1, 63, 64, bytes.len() - 1] {
        assert!(SegmentHeader::decode(&bytes[..cut], &named, 0).is_err());
    }
    let mut altered = bytes.clone();
    altered[70] ^= 1;
    assert!(SegmentHeader::decode(&altered, &named, 0).is_err());
    named.segments[0].digest = Digest([1; 32]);
    let error = SegmentHeader::decode(&bytes, &named, 0).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is not the one that the manifest names")
    );
}
