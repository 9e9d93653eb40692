//! Files of the owner and of the store.

use crate::decoded;
use oboro_client::decode_kept;
use oboro_dataset::OwnerRecord;
use oboro_format::{
    Bundle, Digest, Manifest, RecoveryContent, Segment, check_recovery, decode_recovery,
    encode_recovery,
};
use oboro_ring::{Column, Limb, Parameters};
use oboro_rlwe::{DatasetKey, MasterKey};
use oboro_store::Store;
use std::fs;
use std::io::Write;
use std::sync::LazyLock;
use tempfile::{NamedTempFile, TempDir};

/// The highest Argon2id costs of key files to open, in the file's units.
const CHEAP: [u32; 3] = [64, 2, 4];

static MANIFEST: LazyLock<Manifest> = LazyLock::new(|| {
    let golden = include_bytes!("../../../format/tests/golden/manifest");
    Manifest::decode(golden).expect("the golden file is a manifest")
});

/// The same for single items, which fit into its one limb: its bounds are valid.
static SINGLE_ITEMS: LazyLock<Manifest> = LazyLock::new(|| Manifest {
    max_len: 1,
    ..MANIFEST.clone()
});

/// The key of the dataset that [`MANIFEST`] describes.
pub(crate) static KEY: LazyLock<DatasetKey> = LazyLock::new(|| {
    let Manifest {
        parameters,
        dataset,
        generation,
        ..
    } = &*MANIFEST;
    DatasetKey::new(&master(), parameters.clone(), dataset.0, *generation)
});

/// A key whose ring supports itemsets of four.
static RANGE_KEY: LazyLock<DatasetKey> = LazyLock::new(|| {
    let parameters = Parameters::new(12, 4, 40961).expect("they are secure");
    DatasetKey::new(&master(), parameters, [1; 16], [2; 16])
});

pub(crate) fn master() -> MasterKey {
    let golden = include_str!("../../../rlwe/tests/golden/plain-key.hex");
    let bytes = data_encoding::HEXLOWER
        .decode(golden.trim().as_bytes())
        .expect("the golden file is in hexadecimal");
    MasterKey::load(file(&bytes).path(), || None).expect("the golden file is a key")
}

/// A file that only its owner may read.
fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(bytes).expect("there is space");
    file
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// Appends the digest of the store's formats.
fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &Digest::of(body).0].concat()
}

/// A key file. One without a passphrase must save to the same bytes; a passphrase is tried if its cost is low.
pub fn key_file(bytes: &[u8]) -> Option<()> {
    let word = |i: usize| u32::from_le_bytes(bytes[16 + 4 * i..][..4].try_into().expect("four"));
    let is_cheap = bytes.len() >= 28 && (0..3).all(|i| word(i) <= CHEAP[i]);
    let passphrase = || is_cheap.then(|| "moon".to_owned().into());
    let key = decoded(MasterKey::load(file(bytes).path(), passphrase))?;
    let directory = directory();
    let copy = directory.path().join("key");
    decoded(key.save(&copy, None)).expect("the key can be saved");
    let is_plain = bytes[12..16] == [0; 4];
    assert_eq!(fs::read(copy).expect("it was saved") == bytes, is_plain);
    Some(())
}

/// A manifest without its digest.
pub fn manifest(body: &[u8]) -> Option<()> {
    let bytes = sealed(body);
    let manifest = decoded(Manifest::decode(&bytes))?;
    assert_eq!(manifest.encode(), bytes, "one manifest has one encoding");
    assert!(decoded(manifest.extends(&manifest)).is_none());
    Some(())
}

/// The JSON in an owner record.
pub fn owner_record(json: &[u8]) -> Option<()> {
    let seal = KEY.seal("oboro owner record", json);
    let sealed = seal.expect("there is randomness");
    let record = decoded(OwnerRecord::open(&KEY, &SINGLE_ITEMS, &sealed))?;
    assert!(decoded(OwnerRecord::open(&KEY, &SINGLE_ITEMS, json)).is_none());
    let again = record.seal(&KEY).expect("there is randomness");
    let again = OwnerRecord::open(&KEY, &SINGLE_ITEMS, &again);
    assert!(again.is_ok_and(|again| again == record));
    Some(())
}

/// The sealed content of a range file.
pub fn range(plain: &[u8]) -> Option<()> {
    let seal = RANGE_KEY.seal("oboro range", plain);
    let range = decoded(RANGE_KEY.open_range(&seal.expect("there is randomness")))?;
    assert!(decoded(RANGE_KEY.open_range(plain)).is_none());
    let again = RANGE_KEY.seal_range(&range).expect("there is randomness");
    let again = RANGE_KEY.open("oboro range", &again);
    assert!(again.is_ok_and(|again| **again == *plain));
    Some(())
}

/// A recovery copy without its digest, or else what one has sealed.
pub fn recovery(bytes: &[u8]) -> Option<()> {
    let copy = sealed(bytes);
    let checked = check_recovery(&copy[..], copy.len() as u64);
    if let Some((head, inner)) = decoded(decode_recovery(&copy)) {
        assert_eq!(encode_recovery(&head, inner), copy);
        assert!(checked.is_ok_and(|checked| checked == Ok(head)));
        return Some(());
    }
    assert!(!checked.is_ok_and(|checked| checked.is_ok()));
    let content = decoded(RecoveryContent::decode(bytes))?;
    let again = content.encode(0).expect("it is not too long");
    assert_eq!(RecoveryContent::decode(&again).ok(), Some(content));
    Some(())
}

/// A segment file: the number of its pages of 4 KiB, and its header up to the digest. Panels are zero.
pub fn segment(bytes: &[u8]) -> Option<()> {
    let (&pages, header) = bytes.split_first()?;
    let length = u64::from(pages) << 12;
    let file = file(&sealed(header));
    file.as_file().set_len(length).expect("there is space");
    let segment = decoded(Segment::open(file.path()))?;
    assert_eq!(segment.entry().bytes, length);
    let mut panel = vec![u32::MAX; segment.panel_len()];
    if decoded(segment.read_panel(Limb(0), Column(0), &mut panel)).is_some() {
        assert!(panel.iter().all(|&residue| residue == 0));
    }
    decoded(segment.verify())
}

/// The header of a cell cache file. Whatever it claims, no more is read than the dataset has.
pub fn kept_cells(bytes: &[u8]) -> Option<()> {
    let (columns, segments, length) = decoded(decode_kept(bytes, &MANIFEST))?;
    assert!(columns.is_sorted() && columns.iter().all(|it| it.0 < MANIFEST.sealed_columns()));
    assert!(!segments.is_empty() && segments.end as usize <= MANIFEST.segments.len());
    assert!(length <= MANIFEST.segment_bytes());
    Some(())
}

/// A bundle's head without its digest.
pub fn bundle(body: &[u8]) -> Option<()> {
    let directory = directory();
    fs::write(directory.path().join("head"), sealed(body)).expect("there is space");
    let bundle = decoded(Bundle::open(directory.path()))?;
    let parts = [&bundle.manifest().encode(), bundle.sealed()].concat();
    assert!(body.ends_with(&parts));
    for index in 0..2 {
        assert!(decoded(bundle.open_segment(index)).is_none());
    }
    Some(())
}

/// The database of a store, without segments.
pub fn catalogue(bytes: &[u8]) -> Option<()> {
    let directory = directory();
    fs::write(directory.path().join("catalogue.sqlite"), bytes).expect("there is space");
    let store = decoded(Store::open(directory.path()))?;
    let listing = decoded(store.access().list())?;
    for dataset in listing.datasets {
        assert!(decoded(store.access().snapshot(&dataset.name)).is_none());
    }
    Some(())
}
