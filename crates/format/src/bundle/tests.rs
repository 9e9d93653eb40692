//! Tests of bundles: they appear and grow by one rename, and a crash in between has no visible effect.

use super::*;
use crate::testing::{
    append, assert_golden, bundle, description, files, fill, manifest, one_limb, two_limbs,
};
use crate::{Digest, ErrorKind};
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

#[test]
fn a_bundle_can_be_written_opened_and_verified() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.oboro");
    let written = bundle(&path, &two_limbs(), &[3, 1]);
    let opened = Bundle::open(&path).unwrap();
    assert_eq!(opened.manifest(), written.manifest());
    assert_eq!(opened.sealed(), b"sealed");
    assert_eq!(opened.open_segment(1).unwrap().blocks(), 1);
    assert!(opened.open_segment(2).is_err());
    opened.verify().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("head")), 0o600);
    assert_eq!(
        files(directory.path()),
        [
            "a.oboro/head",
            "a.oboro/lock",
            "a.oboro/segments/00000000.seg",
            "a.oboro/segments/00000001.seg"
        ]
        .map(PathBuf::from)
    );
}

#[test]
fn the_head_is_the_golden_one() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.oboro");
    bundle(&path, &one_limb(), &[1]);
    let bytes = fs::read(path.join("head")).unwrap();
    assert_golden("bundle.head", &bytes);
    let (manifest, sealed) = decode_head(&bytes).unwrap();
    assert_eq!(Manifest::decode(manifest).unwrap().columns, 2);
    assert_eq!(sealed, b"sealed");
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert!(decode_head(&altered).is_err(), "byte {at}");
        assert!(decode_head(&bytes[..at]).is_err(), "{at} bytes");
    }
    fs::write(path.join("head"), &bytes[..bytes.len() - 1]).unwrap();
    let error = Bundle::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("a.oboro/head") && error.contains("altered"),
        "{error}"
    );
}

#[test]
fn an_existing_bundle_is_never_touched() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.oboro");
    bundle(&path, &one_limb(), &[1]);
    assert!(matches!(
        Bundle::create(&path),
        Err(FormatError::Exists { .. })
    ));

    let other = directory.path().join("b.oboro");
    let writer = Bundle::create(&other).unwrap();
    fs::create_dir(&other).unwrap();
    let segments = vec![fill(
        writer.segment(description(&one_limb(), 0, 0, 1)).unwrap(),
    )];
    let error = writer
        .commit(&manifest(&one_limb(), segments), b"", &[])
        .unwrap_err();
    assert!(matches!(error, FormatError::Exists { .. }), "{error}");
    assert!(files(&other).is_empty());
}

#[test]
fn an_uncommitted_bundle_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.oboro");
    let writer = Bundle::create(&path).unwrap();
    fill(writer.segment(description(&one_limb(), 0, 0, 1)).unwrap());
    assert!(matches!(
        Bundle::create(&path),
        Err(FormatError::Locked { .. })
    ));
    drop(writer);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

    // A crash leaves the staging directory; the next attempt removes it.
    fs::create_dir_all(directory.path().join(".a.oboro.partial/segments")).unwrap();
    fs::write(
        directory
            .path()
            .join(".a.oboro.partial/segments/00000009.seg"),
        b"left",
    )
    .unwrap();
    assert_eq!(files(bundle(&path, &one_limb(), &[1]).directory()).len(), 3);
}

#[test]
fn an_append_counts_when_the_head_is_renamed() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.oboro");
    let first = bundle(&path, &one_limb(), &[2]);

    // A crashed append leaves a segment that the head does not name.
    let writer = first.change().unwrap();
    fill(writer.segment(description(&one_limb(), 1, 2, 3)).unwrap());
    let error = first.change().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(writer);
    assert_eq!(Bundle::open(&path).unwrap().manifest(), first.manifest());

    // The next append removes all leftovers of the previous one.
    let leftovers = ["00000001.seg", "00000007.seg", "00000002.seg.partial"];
    for name in leftovers {
        fs::write(path.join("segments").join(name), b"left").unwrap();
    }
    let second = append(&first, &[4]);
    assert_eq!(files(&path.join("segments")).len(), 2);
    assert_eq!(second.manifest().version, 2);
    assert_eq!(second.manifest().block_count(), 6);
    let opened = Bundle::open(&path).unwrap();
    assert_eq!(opened.manifest(), second.manifest());
    opened.verify().unwrap();

    // The bundle opened earlier is stale and must not overwrite it.
    assert!(matches!(
        first.change(),
        Err(FormatError::BundleChanged { .. })
    ));
    let writer = second.change().unwrap();
    assert_eq!(writer.next_segment(), 2);
    assert!(writer.segment(description(&one_limb(), 1, 2, 3)).is_err());
}

#[test]
fn a_manifest_that_does_not_fit_is_not_committed() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.oboro");
    let changes: [fn(&mut Manifest); 4] = [
        |m| m.version = 2,
        |m| m.segments[0].digest = Digest([0; 32]),
        |m| m.dataset.0[0] ^= 1,
        // Another plaintext modulus gives a segment of equal length.
        |m| m.parameters = oboro_ring::Parameters::new(10, 1, 18_433).unwrap(),
    ];
    for (number, change) in changes.iter().enumerate() {
        let writer = Bundle::create(&path).unwrap();
        let entry = fill(writer.segment(description(&one_limb(), 0, 0, 1)).unwrap());
        let mut manifest = manifest(&one_limb(), vec![entry]);
        change(&mut manifest);
        assert!(
            writer.commit(&manifest, b"", &[]).is_err(),
            "change {number}"
        );
        assert!(!path.exists());
    }
    let error = Bundle::open(&path).unwrap_err().to_string();
    assert!(error.contains("Check the path"), "{error}");
}

proptest! {
    #[test]
    fn random_heads_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode_head(&bytes).is_err());
    }

    #[test]
    fn lying_lengths_are_errors(manifest in any::<u64>(), sealed in any::<u64>(), rest in 0usize..100) {
        prop_assume!(manifest.checked_add(sealed) != Some(rest as u64));
        let mut head = Writer::with_preamble(MAGIC, VERSION);
        head.u64(manifest).u64(sealed).put(&vec![0; rest]);
        prop_assert!(decode_head(&head.seal()).is_err());
    }
}

#[test]
fn a_temporary_bundle_goes_with_its_last_version() {
    let directory = TempDir::new().unwrap();
    let temporary = |blocks: &[u32]| {
        let writer = Bundle::create_temporary(directory.path()).unwrap();
        crate::testing::extend(writer, manifest(&one_limb(), Vec::new()), blocks)
    };
    let first = temporary(&[1]);
    let path = first.directory().to_path_buf();
    assert_eq!(path.parent(), Some(directory.path()));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    Bundle::open(&path).unwrap().verify().unwrap();
    let second = append(&first, &[2]);
    drop(first);
    second.verify().unwrap();
    let other = temporary(&[1]);
    assert_ne!(other.directory(), path);
    drop((second, other));
    assert!(files(directory.path()).is_empty());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_temporary_bundle_that_was_not_committed_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let writer = Bundle::create_temporary(directory.path()).unwrap();
    fill(writer.segment(description(&one_limb(), 0, 0, 1)).unwrap());
    drop(writer);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
