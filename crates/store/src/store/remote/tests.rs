//! Store in object storage, here a directory, under failures of its cache, its objects and concurrent servers.

use super::super::*;
use crate::error::{ObjectStorageError, UploadError};
use crate::object::object_of;
use crate::testing::{
    COLUMNS, ID, append, bundle, description, files, fill, residues, rewrite, send, two_limbs,
};
use oboro_faults::Image;
use oboro_format::{Bundle, Corruption, ErrorKind, FormatError, Role};
use oboro_residency::{Arrival, PanelKey, Snapshot, Stream, WorkUnit};
use oboro_ring::{Column, Limb};
use parking_lot::Mutex;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;

const BLOCKS: [u32; 2] = [2, 3];

struct Setting {
    directory: TempDir,
    bundle: Bundle,
}

impl Setting {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let bundle = bundle(&directory.path().join("a.oboro"), &two_limbs(), &BLOCKS);
        Self { directory, bundle }
    }

    /// Creates a setting with the dataset published and no open server.
    fn published() -> Self {
        let setting = Self::new();
        setting.publish(&setting.open("cache"));
        setting
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn location(&self, cache: &str, cache_bytes: u64) -> Location {
        Location::Objects {
            url: format!("file://{}", self.path("objects").display()),
            cache: self.path(cache),
            cache_bytes,
        }
    }

    fn try_open(&self, cache: &str) -> Result<Store, StoreError> {
        Store::open_on(self.location(cache, u64::MAX), Placement::default())
    }

    fn open(&self, cache: &str) -> Store {
        self.try_open(cache).unwrap()
    }

    fn publish(&self, store: &Store) {
        send(store, &self.bundle);
        store.access().publish_pending(ID).unwrap();
    }

    fn object(&self, index: u32) -> PathBuf {
        self.path("objects").join(object_of(ID, index))
    }

    fn cached(&self, cache: &str, index: u32) -> PathBuf {
        self.path(cache).join(object_of(ID, index))
    }

    /// Returns the names of the objects, without those of the store as a whole.
    fn objects(&self) -> Vec<String> {
        let names = files(&self.path("objects")).into_iter();
        let names = names.map(|path| path.to_str().unwrap().to_owned());
        names
            .filter(|name| name != "grants" && name != "identity")
            .collect()
    }

    /// Returns the offset of a panel in the file of its segment.
    fn panel_offset(&self, index: u32, limb: usize, column: u32) -> u64 {
        let segment = self.bundle.open_segment(index).unwrap();
        let panel = segment
            .description()
            .panel_number(Limb(limb), Column(column))
            .unwrap();
        segment.header().part_extent(panel).offset
    }

    /// Compares all panels with what was written.
    fn check(&self, snapshot: &Snapshot) {
        for index in 0..BLOCKS.len() {
            for limb in 0..2 {
                for column in 0..COLUMNS {
                    self.check_panel(snapshot, index, limb, column).unwrap();
                }
            }
        }
    }

    fn check_panel(
        &self,
        snapshot: &Snapshot,
        index: usize,
        limb: usize,
        column: u32,
    ) -> Result<(), StoreError> {
        let panel = snapshot.panel(index, Limb(limb), Column(column))?;
        let segment = self.bundle.open_segment(index as u32).unwrap();
        let all: Vec<u32> = panel.pieces().flatten().copied().collect();
        assert!(all == residues(segment.description(), Limb(limb), Column(column)));
        Ok(())
    }
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn bytes_of(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn an_empty_directory_serves_all_that_was_published_and_fetches_only_what_is_used() {
    let setting = Setting::published();
    for index in 0..2 {
        let object = fs::read(setting.object(index)).unwrap();
        assert!(object == fs::read(setting.bundle.segment_path(index)).unwrap());
    }
    let store = setting.open("other");
    let snapshot = store.access().snapshot("a").unwrap();
    assert_eq!(snapshot.root(), setting.bundle.manifest().root());
    setting.check_panel(&snapshot, 1, 0, 1).unwrap();
    let (first, second) = (setting.panel_offset(1, 0, 0), setting.panel_offset(1, 0, 1));
    let stride = second - first;
    assert_eq!(bytes_of(&setting.cached("other", 1)), first + stride);
    assert_eq!(
        bytes_of(&setting.cached("other", 0)),
        setting.panel_offset(0, 0, 0)
    );
    setting.check(&snapshot);

    // The next server finds it there without requests to the objects.
    drop((snapshot, store));
    let store = setting.open("other");
    for index in 0..2 {
        fs::remove_file(setting.object(index)).unwrap();
    }
    setting.check(&store.access().snapshot("a").unwrap());
}

#[test]
fn wrong_bytes_in_the_cache_are_fetched_again_and_wrong_objects_are_named() {
    let setting = Setting::published();
    let at = setting.panel_offset(1, 1, 0);
    for offset in [0, 100, at] {
        flip(&setting.cached("cache", 1), offset);
    }
    setting.check(&setting.open("cache").access().snapshot("a").unwrap());
    let repaired = fs::read(setting.cached("cache", 1)).unwrap();
    assert!(repaired == fs::read(setting.object(1)).unwrap());

    flip(&setting.object(1), at);
    setting.check(&setting.open("cache").access().snapshot("a").unwrap());
    let store = setting.open("other");
    let snapshot = store.access().snapshot("a").unwrap();
    let error = setting.check_panel(&snapshot, 1, 1, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLoss);
    let said = error.to_string();
    for part in [
        "limb 1, column 0",
        "segment 1",
        "file://",
        "00000001.seg",
        "digest",
    ] {
        assert!(said.contains(part), "{said}");
    }
    setting.check_panel(&snapshot, 1, 1, 1).unwrap();
    fs::remove_file(setting.object(0)).unwrap();
    let error = setting.check_panel(&snapshot, 0, 0, 0).unwrap_err();
    assert!(matches!(
        error,
        StoreError::Format(FormatError::Damaged {
            corruption: Corruption::Missing,
            ..
        })
    ));

    // Truncated objects are damage, too, before a panel or in it.
    let object = fs::read(setting.object(1)).unwrap();
    for end in [at - 1, at + 1] {
        fs::write(setting.object(1), &object[..end as usize]).unwrap();
        let error = setting.check_panel(&snapshot, 1, 1, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataLoss);
        let length = format!("({end} bytes instead of {})", object.len());
        let dataset = ID.to_string();
        let said = error.to_string();
        for part in ["limb 1, column 0", "segment 1", &dataset, &length] {
            assert!(said.contains(part), "{said}");
        }
    }
    fs::write(setting.object(1), &object).unwrap();

    // Once the object is restored, everything works.
    flip(&setting.object(1), at);
    setting.check_panel(&snapshot, 1, 1, 0).unwrap();
}

#[test]
fn the_cache_keeps_to_its_size() {
    let setting = Setting::published();
    let segment = fs::metadata(setting.object(1)).unwrap().len();
    let size = |cache: &str| -> u64 {
        let files = (0..2).map(|index| setting.cached(cache, index));
        files.map(|path| bytes_of(&path)).sum()
    };
    let headers = 2 * setting.panel_offset(0, 0, 0);
    for cache in ["cache", "other"] {
        let location = setting.location(cache, segment);
        let store = Store::open_on(location, Placement::default()).unwrap();
        for _ in 0..2 {
            let snapshot = store.access().snapshot("a").unwrap();
            for (index, limb, column) in [(0, 0, 0), (1, 0, 0), (1, 1, 1), (0, 1, 1), (0, 0, 1)] {
                snapshot
                    .segment(index)
                    .read_packed_panel(Limb(limb), Column(column))
                    .unwrap();
                assert!(size(cache) <= segment + headers, "{}", size(cache));
            }
            setting.check(&snapshot);
        }
        assert!(size(cache) > 0);
    }
}

#[test]
fn who_asks_for_many_panels_waits_for_each_once() {
    let setting = Setting::published();
    let store = setting.open("other");
    let snapshot = store.access().snapshot("a").unwrap();
    for panels_read in [8, 0] {
        let (stream, heard) = stream_all(&snapshot);
        for _ in 0..2 {
            let Arrival::Unit(unit) = heard.recv().unwrap() else {
                panic!("all of it is there");
            };
            stream.release(unit);
        }
        assert_eq!(stream.reads().panels, panels_read);
    }
    setting.check(&snapshot);
}

/// Streams all columns of both segments, one after the other.
fn stream_all(snapshot: &Snapshot) -> (Stream, Receiver<Arrival>) {
    let of_limb = |limb| Column::first(COLUMNS).map(move |column| PanelKey::new(limb, column));
    let (sender, heard) = channel();
    let listener = move |arrival| drop(sender.send(arrival));
    let parts = Limb::first(2).flat_map(of_limb).collect();
    let stream = snapshot.stream(vec![parts], units([0, 1]), Arc::new(listener));
    (stream.unwrap(), heard)
}

/// Returns a unit of one run for each segment.
fn units<const N: usize>(segments: [usize; N]) -> Vec<WorkUnit> {
    let unit = |segment| WorkUnit {
        segments: segment..segment + 1,
        pass: 0,
    };
    segments.map(unit).into()
}

#[test]
fn streams_fetch_what_the_cache_does_not_have() {
    let setting = Setting::published();
    flip(&setting.cached("cache", 1), setting.panel_offset(1, 0, 1));
    for cache in ["cache", "other"] {
        let location = setting.location(cache, u64::MAX);
        let store = Store::open_within(location, 1 << 20, Placement::default()).unwrap();
        let snapshot = store.access().snapshot("a").unwrap();
        let (stream, heard) = stream_all(&snapshot);
        for _ in 0..2 {
            let Arrival::Unit(unit) = heard.recv().unwrap() else {
                panic!("all of it is there");
            };
            for (limb, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                setting.check_panel(&snapshot, unit, limb, column).unwrap();
            }
            stream.release(unit);
        }
        assert_eq!(stream.reads().panels, 8);
    }
    flip(&setting.object(1), setting.panel_offset(1, 0, 1));
    let store =
        Store::open_within(setting.location("third", 0), 1 << 20, Placement::default()).unwrap();
    let (sender, heard) = channel();
    let sender = Mutex::new(sender);
    let listener = move |arrival| drop(sender.lock().send(arrival));
    let part = PanelKey::new(Limb(0), Column(1));
    let snapshot = store.access().snapshot("a").unwrap();
    let _stream = snapshot
        .stream(vec![vec![part]], units([1]), Arc::new(listener))
        .unwrap();
    let Arrival::Failed(error) = heard.recv().unwrap() else {
        panic!("the object is damaged");
    };
    assert!(error.to_string().contains("file://"), "{error}");
}

#[test]
fn the_last_to_start_has_the_objects() {
    let setting = Setting::new();
    let first = setting.open("cache");
    send(&first, &setting.bundle);
    let second = setting.open("other");
    let error = first.access().publish_pending(ID).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert!(
        matches!(
            error,
            StoreError::Object(ObjectStorageError::OtherServer { .. })
        ),
        "{error}"
    );
    assert!(first.access().list().unwrap().datasets.is_empty());
    setting.publish(&second);
    // The upload can continue with a server that owns them.
    drop(first);
    let first = setting.open("cache");
    assert_eq!(first.access().list().unwrap().datasets.len(), 1);
    assert!(matches!(
        second.access().delete_now("a"),
        Err(StoreError::Object(ObjectStorageError::OtherServer { .. }))
    ));
    setting.check(&second.access().snapshot("a").unwrap());
    first.access().delete_now("a").unwrap();
}

#[test]
fn a_grant_at_the_server_before_undoes_no_revocation() {
    let setting = Setting::published();
    let grant = |grantee: &str| Grant {
        grantee: grantee.to_owned(),
        name: "a".to_owned(),
        roles: Role::Count.into(),
    };
    let older = setting.open("cache");
    older.access().grant(&grant("bob")).unwrap();
    let newer = setting.open("other");
    // The previous server cannot grant either, even before the new one has changed anything.
    let refused = older.access().grant(&grant("carol")).unwrap_err();
    assert!(refused.to_string().contains("another server"), "{refused}");
    newer.access().revoke(&grant("bob")).unwrap();
    assert!(older.access().grant(&grant("carol")).is_err());
    assert_eq!(newer.access().grants().unwrap(), []);
    newer.access().grant(&grant("dan")).unwrap();
    drop(newer);
    let next = setting.open("third");
    assert_eq!(next.access().grants().unwrap(), [grant("dan")]);
}

#[test]
fn the_server_before_replaces_and_removes_nothing() {
    let setting = Setting::published();
    let older = setting.open("cache");
    // An upload of another version is in progress there.
    let other = Setting::new();
    let others = append_other(&other.bundle);
    let begun = older
        .access()
        .begin_upload("a", &others.manifest().encode());
    let dataset = begun.unwrap().dataset;
    let newer = setting.open("other");
    let longer = append(&setting.bundle, &[1]);
    send(&newer, &longer);
    newer.access().publish_pending(ID).unwrap();
    let objects = Image::read(&setting.path("objects"));
    let index = others.manifest().segments.len() as u32 - 1;
    let upload = older.access().of_upload("a").unwrap();
    let mut receiver = upload.receive_pending(dataset, index, 0).unwrap();
    receiver
        .write(&fs::read(others.segment_path(index)).unwrap())
        .unwrap();
    let refused = receiver.finish().unwrap_err();
    assert!(refused.to_string().contains("another server"), "{refused}");
    older.access().cancel_upload("a").unwrap();
    assert!(Image::read(&setting.path("objects")) == objects);
}

#[test]
fn an_upload_survives_its_server_and_lost_objects() {
    let setting = Setting::new();
    send(&setting.open("cache"), &setting.bundle);
    assert_eq!(setting.objects().len(), 3);
    let store = setting.open("cache");
    // Another server has swept one in between.
    fs::remove_file(setting.object(1)).unwrap();
    assert!(matches!(
        store.access().publish_pending(ID),
        Err(StoreError::Upload(UploadError::NotComplete {
            index: 1,
            ..
        }))
    ));
    setting.publish(&store);
    drop(store);
    setting.check(&setting.open("other").access().snapshot("a").unwrap());
    // A directory with an older state takes over what is published.
    let longer = append(&setting.bundle, &[1]);
    let other = setting.open("other");
    send(&other, &longer);
    other.access().publish_pending(ID).unwrap();
    drop(other);
    assert!(
        setting
            .open("cache")
            .access()
            .begin_upload("a", &longer.manifest().encode())
            .unwrap()
            .published
    );
}

#[test]
fn what_is_deleted_goes_and_nothing_else() {
    let setting = Setting::published();
    let other = |name: &str| setting.path("objects/segments").join(name);
    fs::create_dir_all(other("notes")).unwrap();
    fs::write(other("notes/00000000.seg"), "kept").unwrap();
    let store = setting.open("cache");
    store.access().delete_now("a").unwrap();
    let names = ["catalogue.sqlite", "segments/notes/00000000.seg"];
    assert_eq!(setting.objects(), names);
    assert!(!setting.cached("cache", 0).exists());
    drop(store);
    // As if the server had been killed in between.
    fs::create_dir_all(setting.object(0).parent().unwrap()).unwrap();
    fs::write(setting.object(0), "left").unwrap();
    let store = setting.open("other");
    assert_eq!(setting.objects(), names);
    assert_eq!(store.unnamed_objects(), 0);
    assert!(matches!(
        store
            .access()
            .begin_upload("a", &setting.bundle.manifest().encode()),
        Err(StoreError::Upload(UploadError::Purged { .. }))
    ));
}

#[test]
fn an_older_catalogue_takes_nothing_from_newer_ones() {
    let setting = Setting::new();
    let catalogue = setting.path("objects/catalogue.sqlite");
    let store = setting.open("cache");
    let mut catalogues = vec![fs::read(&catalogue).unwrap()];
    setting.publish(&store);
    catalogues.push(fs::read(&catalogue).unwrap());
    let longer = append(&setting.bundle, &[1]);
    send(&store, &longer);
    store.access().publish_pending(ID).unwrap();
    drop(store);
    let newest = fs::read(&catalogue).unwrap();
    for (older, unnamed) in catalogues.into_iter().zip([3, 1]) {
        fs::write(&catalogue, older).unwrap();
        for cache in ["cache", "other"] {
            assert_eq!(setting.open(cache).unnamed_objects(), unnamed);
        }
    }
    assert_eq!(setting.objects().len(), 4);
    fs::write(&catalogue, newest).unwrap();
    let store = setting.open("cache");
    assert_eq!(store.unnamed_objects(), 0);
    let snapshot = store.access().snapshot("a").unwrap();
    assert_eq!(snapshot.root(), longer.manifest().root());
    setting.check(&snapshot);
}

/// As `append` with one block, with another mask.
fn append_other(bundle: &Bundle) -> Bundle {
    let mut manifest = bundle.manifest().clone();
    let mut segment = description(&manifest.parameters, 2, manifest.block_count(), 1);
    segment.seeds[0].0[31] ^= 1;
    let writer = bundle.change().unwrap();
    let entry = fill(writer.segment(segment).unwrap());
    manifest.segments.push(entry);
    manifest.next_segment += 1;
    manifest.version += 1;
    writer.commit(&manifest, b"sealed", &[]).unwrap()
}

#[test]
fn an_upload_does_not_pass_with_the_objects_of_another() {
    let setting = Setting::published();
    let other = Setting::new();
    let (mine, theirs) = (append(&setting.bundle, &[1]), append_other(&other.bundle));
    let store = setting.open("cache");
    send(&store, &mine);
    drop(store);
    send(&setting.open("other"), &theirs);
    let store = setting.open("cache");
    assert!(matches!(
        store.access().publish_pending(ID),
        Err(StoreError::Upload(UploadError::NotComplete {
            index: 2,
            ..
        }))
    ));
    send(&store, &mine);
    store.access().publish_pending(ID).unwrap();
    setting.check(&setting.open("third").access().snapshot("a").unwrap());
}

#[test]
fn what_was_rewritten_is_noted_in_the_bucket() {
    let setting = Setting::published();
    let before = Image::read(&setting.path("objects"));
    let store = setting.open("cache");
    let newer = rewrite(&setting.bundle, 1, &[]);
    send(&store, &newer);
    let (notes, note) = ("objects/rewritten", format!("objects/rewritten/{ID}"));
    fs::write(setting.path(notes), []).unwrap();
    store.access().publish_pending(ID).unwrap_err();
    assert!(
        !setting
            .path("cache/rewritten")
            .join(ID.to_string())
            .exists()
    );
    fs::remove_file(setting.path(notes)).unwrap();
    store.access().publish_pending(ID).unwrap();
    drop(store);
    let noted = fs::read(setting.path(&note)).unwrap();
    assert_eq!(noted, newer.manifest().encode());

    // A note that is only in the cache is uploaded when the store is opened.
    fs::remove_file(setting.path(&note)).unwrap();
    drop(setting.open("cache"));
    assert!(fs::read(setting.path(&note)).unwrap() == noted);

    let is_refused = |cache: &str| setting.open(cache).access().snapshot("a").unwrap_err();
    fs::remove_dir_all(setting.path("objects")).unwrap();
    fs::create_dir(setting.path("objects")).unwrap();
    before.write(&setting.path("objects"));
    fs::create_dir_all(setting.path(notes)).unwrap();
    fs::write(setting.path(&note), &noted[1..]).unwrap();
    let error = is_refused("other");
    assert!(matches!(error, StoreError::DamagedNote { .. }), "{error}");
    // A sound one repairs the copy.
    fs::write(setting.path(&note), &noted).unwrap();
    for cache in ["other", "third", "cache"] {
        let error = is_refused(cache);
        assert!(matches!(error, StoreError::Outdated { .. }), "{error}");
    }
}

#[test]
fn a_cancelled_upload_leaves_no_objects() {
    let setting = Setting::published();
    let longer = append(&setting.bundle, &[1]);
    let store = setting.open("cache");
    send(&store, &longer);
    assert_eq!(setting.objects().len(), 4);
    store.access().cancel_upload("a").unwrap();
    assert_eq!(setting.objects().len(), 3);
    setting.check(&setting.open("other").access().snapshot("a").unwrap());
}

#[test]
fn segments_without_a_catalogue_are_left_alone() {
    let setting = Setting::published();
    fs::remove_file(setting.path("objects/catalogue.sqlite")).unwrap();
    for cache in ["cache", "other"] {
        let refused = setting.try_open(cache).err().unwrap();
        assert!(
            matches!(
                refused,
                StoreError::Object(ObjectStorageError::CatalogueObjectMissing { .. })
            ),
            "{refused}"
        );
    }
    assert_eq!(setting.objects().len(), 2);
}

#[test]
fn a_damaged_catalogue_is_refused_and_one_in_the_cache_replaced() {
    let setting = Setting::published();
    let local = setting.path("cache/catalogue.sqlite");
    fs::write(&local, "no database ".repeat(1000)).unwrap();
    assert_eq!(
        setting
            .open("cache")
            .access()
            .list()
            .unwrap()
            .datasets
            .len(),
        1
    );
    fs::write(setting.path("objects/catalogue.sqlite"), "no database").unwrap();
    let refused = setting.try_open("cache").err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::DataLoss, "{refused}");
    assert_eq!(setting.objects().len(), 3);
}

#[test]
fn directories_are_not_taken_for_what_they_are_not() {
    let setting = Setting::published();
    let cache = setting.path("cache");
    assert!(matches!(
        Store::open(&cache),
        Err(StoreError::Object(ObjectStorageError::IsCache { .. }))
    ));
    assert!(matches!(
        Scrub::of_directory(&cache),
        Err(StoreError::Object(ObjectStorageError::IsCache { .. }))
    ));
    let copy = backup(&cache, &setting.path("copy"), &|_, _| ());
    assert!(matches!(
        copy,
        Err(StoreError::Object(ObjectStorageError::IsCache { .. }))
    ));
    drop(Store::open(&setting.path("store")).unwrap());
    assert!(matches!(
        setting.try_open("store"),
        Err(StoreError::Object(ObjectStorageError::IsNoCache { .. }))
    ));
    let elsewhere = Location::Objects {
        url: format!("file://{}", setting.path("elsewhere").display()),
        cache,
        cache_bytes: 0,
    };
    let refused = Store::open_on(elsewhere, Placement::default());
    assert!(matches!(
        refused,
        Err(StoreError::Object(ObjectStorageError::IsCache { .. }))
    ));
    for url in ["s3://", "gs://bucket", "file://relative", "data"] {
        let location = Location::Objects {
            url: url.into(),
            cache: setting.path("new"),
            cache_bytes: 0,
        };
        let refused = Store::open_on(location, Placement::default());
        assert!(
            matches!(
                refused,
                Err(StoreError::Object(ObjectStorageError::ObjectsUrl { .. }))
            ),
            "{url}"
        );
    }
}

#[test]
fn a_scrub_reads_the_objects() {
    let setting = Setting::published();
    let store = setting.open("cache");
    let damaged = || {
        let mut scrub = store.access().scrub(None).unwrap();
        let mut damaged = Vec::new();
        while let Some(part) = scrub.next_part().unwrap() {
            damaged.extend(part.damage);
        }
        damaged
    };
    flip(&setting.cached("cache", 0), setting.panel_offset(0, 0, 0));
    assert_eq!(damaged(), []);
    flip(&setting.object(1), setting.panel_offset(1, 1, 1));
    let [damage] = damaged().try_into().unwrap();
    assert_eq!(
        (damage.segment, damage.panel),
        (Some(1), Some((Limb(1), Column(1))))
    );
    assert!(
        damage
            .path
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("file://")
    );
    let object = fs::read(setting.object(1)).unwrap();
    fs::write(
        setting.object(1),
        &object[..setting.panel_offset(1, 1, 1) as usize],
    )
    .unwrap();
    assert!(
        damaged()
            .iter()
            .any(|it| (it.segment, it.panel) == (Some(1), Some((Limb(1), Column(1)))))
    );
    fs::write(setting.object(1), object).unwrap();
    flip(&setting.object(1), 100);
    let [damage] = damaged().try_into().unwrap();
    assert_eq!((damage.segment, damage.panel), (Some(1), None));
    fs::remove_file(setting.object(0)).unwrap();
    assert_eq!(damaged().len(), 2);
}
