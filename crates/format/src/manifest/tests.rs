//! Tests of manifests: golden bytes, canonical encoding, total decoding, extension.

use super::*;
use crate::testing::{ID, assert_golden, manifest, one_limb, two_limbs};
use proptest::prelude::*;

const ROW_ID_BYTES: u32 = 3;

fn entry(index: u8, first_block: u64, blocks: u32) -> SegmentEntry {
    let bytes = segment_bytes(&one_limb(), 2, ROW_ID_BYTES, blocks).unwrap();
    SegmentEntry {
        number: u32::from(index & 0xf),
        digest: Digest([index; 32]),
        seeds: Digest([index ^ 0xff; 32]),
        first_block,
        blocks,
        bytes,
    }
}

fn sample() -> Manifest {
    let segments = vec![entry(0xa0, 0, 64), entry(0xa1, 64, 5)];
    Manifest {
        row_id_bytes: ROW_ID_BYTES,
        ..manifest(&one_limb(), segments)
    }
}

fn next() -> Manifest {
    let mut next = sample();
    next.version += 1;
    next.segments.push(entry(0xa2, 69, 1));
    next.next_segment += 1;
    next
}

/// Returns the sample with its last segment replaced.
fn rewritten() -> Manifest {
    let mut new = sample().rewritten();
    new.segments[1] = entry(0xa2, 64, 5);
    new.next_segment += 1;
    new
}

fn reseal(bytes: &mut [u8]) {
    let body = bytes.len() - 32;
    let digest = Digest::of(&bytes[..body]);
    bytes[body..].copy_from_slice(&digest.0);
}

#[test]
fn the_format_is_the_golden_one() {
    let manifest = sample();
    let bytes = manifest.encode();
    assert_eq!(bytes.len(), FIXED + 2 * ENTRY + DIGEST);
    assert_golden("manifest", &bytes);
    assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
    assert_golden("manifest.root", &manifest.root().0);
    assert_eq!(manifest.block_count(), 69);
}

#[test]
fn every_altered_or_missing_byte_is_found() {
    let bytes = sample().encode();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << bit;
            assert!(
                Manifest::decode(&altered).is_err(),
                "bit {bit} of byte {at}"
            );
        }
        assert!(Manifest::decode(&bytes[..at]).is_err());
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(Manifest::decode(&longer).is_err());
}

#[test]
fn a_newer_format_says_so() {
    let mut bytes = sample().encode();
    bytes[8] = 9;
    let error = Manifest::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("newer Oboro (format version 9"), "{error}");
}

#[test]
fn impossible_manifests_are_refused() {
    let changes: [fn(&mut Manifest); 14] = [
        |m| m.version = 0,
        |m| m.max_len = 0,
        |m| m.max_len = 17,
        |m| m.columns = 0,
        |m| m.columns = MAX_COLUMNS + 1,
        |m| m.row_id_bytes += 1,
        |m| m.row_id_bytes = MAX_ROW_ID_BYTES + 1,
        |m| m.segments.clear(),
        |m| m.segments[0].blocks = 65,
        |m| m.segments[1].blocks = 0,
        |m| m.segments[1].first_block = 63,
        |m| m.segments[1].bytes += 1,
        |m| m.segments[1].number = 0,
        |m| m.next_segment = 1,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut manifest = sample();
        change(&mut manifest);
        assert!(manifest.validate().is_err(), "change {number}");
        assert!(
            Manifest::decode(&manifest.encode()).is_err(),
            "change {number}"
        );
    }
}

#[test]
fn roots_differ_where_anything_differs() {
    assert_eq!(sample().root(), sample().root());
    assert_ne!(sample().root(), next().root());
    let mut other = sample();
    other.segments[1].digest.0[31] ^= 1;
    assert_ne!(other.root(), sample().root());
}

#[test]
fn an_extension_keeps_everything_and_adds_segments() {
    next().extends(&sample()).unwrap();
    // Two appends may be uploaded at once.
    let mut later = next();
    later.version += 1;
    later.segments.push(entry(0xa3, 70, 1));
    later.next_segment += 1;
    later.extends(&sample()).unwrap();

    type Change = (&'static str, fn(&mut Manifest));
    let changes: [Change; 13] = [
        ("another dataset", |m| m.dataset = DatasetId([9; 16])),
        ("another key", |m| m.key_check[0] ^= 1),
        ("generation", |m| m.generation[0] ^= 1),
        ("parameters", |m| m.parameters = two_limbs()),
        ("parameters", |m| m.max_len += 1),
        ("columns", |m| m.columns += 1),
        ("row ids", |m| m.row_id_bytes += 1),
        ("not newer", |m| m.version -= 1),
        ("fewer new segments", |m| m.version += 1),
        ("that the other lacks", |m| m.segments[1].digest.0[0] ^= 1),
        ("that the other lacks", |m| m.segments[1].seeds.0[0] ^= 1),
        ("older segments are missing", |m| m.segments.truncate(1)),
        ("numbers of older ones", |m| m.segments[2].number = 1),
    ];
    for (reason, change) in changes {
        let mut new = next();
        change(&mut new);
        let error = new.extends(&sample()).unwrap_err().to_string();
        assert!(
            error.contains(reason) && error.contains(&ID.to_string()),
            "{reason:?} is not in: {error}"
        );
    }
}

#[test]
fn the_format_of_a_rewritten_version_is_the_golden_one() {
    let manifest = rewritten();
    let bytes = manifest.encode();
    assert_eq!(
        bytes.len(),
        FIXED + 2 * NUMBER + 2 * (ENTRY + NUMBER) + 2 * DIGEST
    );
    assert_golden("manifest-4", &bytes);
    assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
    // A manifest that the first format can represent is rejected in the second.
    let mut bytes = sample().encode();
    bytes[8] = 4;
    bytes.splice(FIXED..FIXED, [2, 0, 0, 0, 0, 0, 0, 0]);
    for (index, at) in [(0u32, FIXED + 8), (1, FIXED + 8 + 88)] {
        bytes.splice(at..at, index.to_le_bytes());
    }
    reseal(&mut bytes);
    let error = Manifest::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("not the first that can say it"), "{error}");
}

#[test]
fn a_rewriting_follows_the_versions_that_it_replaces() {
    let (old, new) = (sample(), rewritten());
    assert_eq!(
        (new.version, &new.earlier_roots[..]),
        (2, &[old.root()][..])
    );
    new.follows(&old).unwrap();
    assert!(new.extends(&old).is_err());
    assert!(old.follows(&new).is_err());
    // An append to it is one more version.
    let mut later = new.appended();
    later.segments.push(SegmentEntry {
        number: 3,
        ..entry(0xa3, 69, 1)
    });
    later.next_segment += 1;
    later.extends(&new).unwrap();
    for older in [&new, &old] {
        later.follows(older).unwrap();
    }
    // It does not replace a version appended in parallel.
    let parted = next();
    for follows in [new.follows(&parted), parted.follows(&new)] {
        let error = follows.unwrap_err().to_string();
        assert!(error.contains("each was changed without"), "{error}");
    }
    // Nor does a segment with an old number replace anything.
    for change in [
        (|m| m.segments[1].number = 1) as fn(&mut Manifest),
        |m| m.segments[0].digest.0[0] ^= 1,
        |m| m.columns += 1,
        |m| m.version = 1,
        |m| m.dataset = DatasetId([9; 16]),
    ] {
        let mut other = rewritten();
        change(&mut other);
        assert!(other.follows(&old).is_err());
    }
    // Another key is permitted.
    let mut rotated = rewritten();
    rotated.key_check[0] ^= 1;
    rotated.follows(&old).unwrap();
}

/// A server may still have any of the appended versions, even one that the first format does not date.
#[test]
fn a_rewriting_names_all_versions_before_it() {
    let blocks = [64, 64, 3, 64, 1, 64, 64, 64];
    // The segments of each version, two of which end with a full one.
    let versions = [3, 4, 5, 7, 8];
    let mut all = vec![manifest(&one_limb(), Vec::new())];
    for (version, &end) in (1..).zip(&versions) {
        let mut next = all[all.len() - 1].clone();
        next.version = version;
        for (index, &blocks) in blocks
            .iter()
            .enumerate()
            .take(end)
            .skip(next.segments.len())
        {
            let bytes = segment_bytes(&one_limb(), 2, 0, blocks).unwrap();
            let first_block = next.block_count();
            next.segments.push(SegmentEntry {
                number: index as u32,
                bytes,
                ..entry(index as u8, first_block, blocks)
            });
            next.next_segment += 1;
        }
        next.validate().unwrap();
        all.push(next);
    }
    let new = all[versions.len()].rewritten();
    for older in &all[1..] {
        assert!(new.earlier_roots.contains(&older.root()));
    }
    assert!(new.earlier_roots.len() < 20, "{}", new.earlier_roots.len());
    assert_eq!(new.earlier_roots.last(), Some(&all[versions.len()].root()));
}

proptest! {
    #[test]
    fn random_bytes_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Manifest::decode(&bytes).is_err());
    }

    /// An attacker can compute digests, too: decoding must not panic, and the result must be canonical.
    #[test]
    fn resealed_bytes_are_errors_or_canonical(
        at in 8usize..190,
        value in any::<[u8; 4]>(),
        cut in 0usize..250,
    ) {
        let mut bytes = sample().encode();
        bytes[at..at + 4].copy_from_slice(&value);
        bytes.truncate(bytes.len().min(300 - cut).max(32));
        reseal(&mut bytes);
        if let Ok(manifest) = Manifest::decode(&bytes) {
            prop_assert_eq!(manifest.encode(), bytes);
        }
    }

    #[test]
    fn decode_inverts_encode(
        blocks in prop::collection::vec((1u32..=64, any::<u8>()), 1..20),
        skipped in 0u32..2,
        replaced in prop::collection::vec(any::<[u8; 32]>(), 0..3),
        version in 1u64..,
        max_len in 1u8..=16,
        key_check in any::<[u8; 16]>(),
    ) {
        let mut manifest = Manifest {
            row_id_bytes: ROW_ID_BYTES,
            ..manifest(&one_limb(), Vec::new())
        };
        for (blocks, digest) in blocks {
            let entry = SegmentEntry {
                number: manifest.next_segment,
                ..entry(digest, manifest.block_count(), blocks)
            };
            manifest.segments.push(entry);
            manifest.next_segment += 1 + skipped;
        }
        manifest.earlier_roots = replaced.into_iter().map(Digest).collect();
        (manifest.version, manifest.max_len, manifest.key_check) = (version, max_len, key_check);
        prop_assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
    }
}
