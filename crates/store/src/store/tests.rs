//! The store under broken connections, crashes, wrong bytes, full disks, and deletion during a query. A crash is a
//! store dropped at that point.

use super::Store;
use super::access::Access;
use super::namespace::Namespace;
use super::reports::{PublishedVersion, UploadStatus};
use super::stored_manifest::stored_manifest;
use crate::catalogue::Table;
use crate::error::{StoreError, UploadError};
use crate::testing::{
    ID, append, bundle, bundle_of, files, one_limb, residues, send, send_as, two_limbs,
};
use oboro_format::{Bundle, Corruption, DatasetId, Digest, ErrorKind, FormatError, Roles};
use oboro_residency::{Placement, ResidencyError};
use oboro_ring::{Column, Factor, Limb};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

struct Setting {
    directory: TempDir,
    bundle: Bundle,
}

impl Setting {
    fn new(blocks: &[u32]) -> Self {
        let directory = TempDir::new().unwrap();
        let bundle = bundle(&directory.path().join("a.oboro"), &one_limb(), blocks);
        Self { directory, bundle }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn open(&self) -> Store {
        Store::open(&self.root()).unwrap()
    }

    fn begin(&self, store: &Store) -> UploadStatus {
        store
            .access()
            .begin_upload("a", &self.bundle.manifest().encode())
            .unwrap()
    }

    fn segment(&self, index: u32) -> Vec<u8> {
        fs::read(self.bundle.segment_path(index)).unwrap()
    }

    fn send(&self, store: &Store) {
        send(store, &self.bundle);
    }

    fn publish(&self, store: &Store) -> PublishedVersion {
        self.send(store);
        store.access().publish_pending(ID).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let names = files(&self.root())
            .into_iter()
            .map(|path| path.to_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("segments/")).collect()
    }
}

fn received(status: &UploadStatus) -> Vec<(u64, bool)> {
    status
        .segments
        .iter()
        .map(|segment| (segment.bytes_received, segment.complete))
        .collect()
}

#[test]
fn a_dataset_is_uploaded_published_listed_and_read() {
    let setting = Setting::new(&[2, 1]);
    let store = setting.open();
    let status = setting.begin(&store);
    assert_eq!((status.dataset, status.published), (ID, false));
    assert_eq!(received(&status), [(0, false), (0, false)]);
    assert!(store.access().list().unwrap().datasets.is_empty());
    assert_eq!(
        store.access().snapshot("a").unwrap_err().kind(),
        ErrorKind::NotFound
    );

    let manifest = setting.bundle.manifest();
    let published = setting.publish(&store);
    assert_eq!(
        published,
        PublishedVersion {
            dataset: ID,
            version: 1,
            rewrote: Vec::new(),
            root: manifest.root()
        }
    );
    assert_eq!(store.access().publish_pending(ID).unwrap(), published);
    assert!(setting.begin(&store).published);

    let [info] = store.access().list().unwrap().datasets.try_into().unwrap();
    assert_eq!(
        (info.name.as_str(), info.dataset, info.version),
        ("a", ID, 1)
    );
    assert_eq!(
        (info.root, info.blocks, info.columns),
        (manifest.root(), 3, 2)
    );
    assert_eq!(
        info.stored_bytes,
        (setting.segment(0).len() + setting.segment(1).len()) as u64
    );
    assert_eq!((info.key_check, info.max_len), (manifest.key_check, 4));
    assert_eq!(info.parameters, one_limb());

    let snapshot = store.access().snapshot("a").unwrap();
    assert_eq!(
        (snapshot.root(), snapshot.block_count(), snapshot.name()),
        (manifest.root(), 3, "a")
    );
    for segment in 0..2 {
        let description = setting
            .bundle
            .open_segment(segment as u32)
            .unwrap()
            .description()
            .clone();
        for column in 0..2 {
            let panel = snapshot.panel(segment, Limb(0), Column(column)).unwrap();
            assert_eq!(
                panel.pieces().collect::<Vec<_>>(),
                [residues(&description, Limb(0), Column(column))]
            );
        }
        let mask = snapshot.panel(segment, Limb(0), Factor::Mask).unwrap();
        assert_eq!(
            mask.pieces().map(<[u32]>::len).collect::<Vec<_>>(),
            [description.seeds.len() * 1024]
        );
    }
    for (segment, limb, column) in [(2, 0, 0), (0, 1, 0), (0, 0, 2)] {
        assert_eq!(
            snapshot
                .panel(segment, Limb(limb), Column(column))
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidArgument
        );
    }
    assert!(
        snapshot.panel(2, Limb(0), Factor::Mask).is_err()
            && snapshot.panel(0, Limb(1), Factor::Mask).is_err()
    );
}

#[test]
fn an_upload_goes_on_wherever_it_broke() {
    let setting = Setting::new(&[1]);
    let bytes = setting.segment(0);
    let end = bytes.len();
    // Nothing, within the fixed header, at and around the ends of header, packed bytes and panels, all.
    for at in [
        0,
        1,
        63,
        64,
        195,
        196,
        4095,
        4096,
        4097,
        7679,
        7680,
        7681,
        8191,
        8192,
        8193,
        end - 1,
        end,
    ] {
        let store = setting.open();
        setting.begin(&store);
        let mut receiver = store.access().receive_pending(ID, 0, 0).unwrap();
        receiver.write(&bytes[..at]).unwrap();
        assert_eq!(
            (receiver.received(), receiver.announced()),
            (at as u64, end as u64)
        );
        drop(receiver);
        drop(store);

        let store = setting.open();
        assert_eq!(received(&setting.begin(&store)), [(at as u64, false)]);
        let wrong = store
            .access()
            .receive_pending(ID, 0, at as u64 + 1)
            .err()
            .unwrap();
        assert!(
            wrong.to_string().contains(&format!("Go on from byte {at}")),
            "{wrong}"
        );
        let mut receiver = store.access().receive_pending(ID, 0, at as u64).unwrap();
        receiver.write(&bytes[at..]).unwrap();
        receiver.finish().unwrap();
        assert_eq!(received(&setting.begin(&store)), [(end as u64, true)]);
        store.access().cancel_upload("a").unwrap();
        assert!(setting.files().is_empty());
    }
}

#[test]
fn a_crash_leaves_the_old_state_or_the_new_one() {
    let setting = Setting::new(&[1, 1]);
    let full = setting.segment(0).len() as u64;
    let first = "segments/11111111111111111111111111111111/00000000.seg";
    let second = "segments/11111111111111111111111111111111/00000001.seg";

    // Before finish.
    let store = setting.open();
    setting.begin(&store);
    let mut receiver = store.access().receive_pending(ID, 0, 0).unwrap();
    receiver.write(&setting.segment(0)).unwrap();
    drop((receiver, store));
    let store = setting.open();
    assert_eq!(
        received(&setting.begin(&store)),
        [(full, false), (0, false)]
    );
    assert_eq!(
        store.access().publish_pending(ID).unwrap_err().kind(),
        ErrorKind::FailedPrecondition
    );

    // After finishing one segment.
    store
        .access()
        .receive_pending(ID, 0, full)
        .unwrap()
        .finish()
        .unwrap();
    drop(store);
    let store = setting.open();
    assert_eq!(received(&setting.begin(&store)), [(full, true), (0, false)]);
    let error = store.access().publish_pending(ID).unwrap_err().to_string();
    assert!(error.contains("segment 1 is not complete"), "{error}");
    assert!(store.access().receive_pending(ID, 0, full).is_err());

    // After all segments, before publishing.
    setting.send(&store);
    drop(store);
    let store = setting.open();
    assert_eq!(
        received(&setting.begin(&store)),
        [(full, true), (full, true)]
    );
    assert!(store.access().list().unwrap().datasets.is_empty());

    // After publishing.
    store.access().publish_pending(ID).unwrap();
    drop(store);
    let store = setting.open();
    assert!(setting.begin(&store).published);
    assert_eq!(
        received(&setting.begin(&store)),
        [(full, true), (full, true)]
    );
    assert_eq!(store.access().snapshot("a").unwrap().block_count(), 2);
    assert_eq!(setting.files(), [first, second]);
}

#[test]
fn opening_sweeps_what_no_row_names() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    setting.publish(&store);
    drop(store);
    let here = setting.root().join("segments").join(ID.to_string());
    let orphan = setting.root().join("segments").join("77".repeat(16));
    let debris = setting.root().join("segments").join("78".repeat(16));
    fs::create_dir(&debris).unwrap();
    fs::write(debris.join("00000000.seg.partial"), b"left").unwrap();
    fs::create_dir(&orphan).unwrap();
    fs::write(orphan.join("00000000.seg"), b"left").unwrap();
    for name in ["00000001.seg", "00000000.seg.partial", "notes.txt"] {
        fs::write(here.join(name), b"left").unwrap();
    }
    let store = setting.open();
    assert_eq!(
        files(&here),
        ["00000000.seg", "notes.txt"].map(PathBuf::from)
    );
    // It was complete: an old catalogue may have forgotten it, so it is set aside.
    assert!(!orphan.exists() && !debris.exists());
    let kept = setting.root().join("unknown").join("77".repeat(16));
    assert_eq!(files(&kept), [PathBuf::from("00000000.seg")]);
    store.access().snapshot("a").unwrap();
}

#[test]
fn a_catalogue_restored_from_an_old_copy_loses_nothing() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    let old = setting.root().join("old");
    fs::copy(setting.root().join("catalogue.sqlite"), &old).unwrap();
    setting.publish(&store);
    drop(store);
    fs::rename(&old, setting.root().join("catalogue.sqlite")).unwrap();
    let store = setting.open();
    assert!(store.access().list().unwrap().datasets.is_empty());
    let kept = setting.root().join("unknown").join(ID.to_string());
    assert_eq!(
        fs::read(kept.join("00000000.seg")).unwrap(),
        setting.segment(0)
    );
}

#[test]
fn a_wrong_segment_is_discarded_and_can_be_sent_again() {
    let setting = Setting::new(&[1, 1]);
    let store = setting.open();
    setting.begin(&store);
    let mut altered = setting.segment(0);
    altered[5000] ^= 1;
    // An altered panel, and a sound segment at the wrong index.
    for wrong in [altered, setting.segment(1)] {
        let mut receiver = store.access().receive_pending(ID, 0, 0).unwrap();
        receiver.write(&wrong).unwrap();
        let error = receiver.finish().unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Upload(UploadError::SegmentRefused { .. })
            ),
            "{error}"
        );
        assert!(
            error.to_string().contains("Send the segment again"),
            "{error}"
        );
        assert_eq!(received(&setting.begin(&store))[0], (0, false));
    }
    setting.publish(&store);
}

#[test]
fn too_many_and_too_few_bytes_are_refused() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    setting.begin(&store);
    let mut bytes = setting.segment(0);
    bytes.push(0);
    let mut receiver = store.access().receive_pending(ID, 0, 0).unwrap();
    assert!(matches!(
        receiver.write(&bytes),
        Err(StoreError::Upload(UploadError::TooLong { .. }))
    ));
    receiver.write(&bytes[..100]).unwrap();
    let busy = store.access().receive_pending(ID, 0, 100).err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    assert!(matches!(
        receiver.finish(),
        Err(StoreError::Upload(UploadError::Incomplete {
            received: 100,
            ..
        }))
    ));
    assert_eq!(received(&setting.begin(&store)), [(100, false)]);
    assert!(matches!(
        store.access().receive_pending(ID, 1, 0),
        Err(StoreError::Upload(UploadError::NoSuchSegment { .. }))
    ));
    let other = DatasetId([9; 16]);
    assert!(matches!(
        store.access().receive_pending(other, 0, 0),
        Err(StoreError::Upload(UploadError::NoUpload { .. }))
    ));
    assert!(matches!(
        store.access().publish_pending(other),
        Err(StoreError::Upload(UploadError::NoUpload { .. }))
    ));
}

#[test]
fn a_full_disk_is_said_and_hurts_nothing_published() {
    let mut setting = Setting::new(&[1]);
    let store = setting.open();
    setting.publish(&store);
    setting.bundle = append(&setting.bundle, &[1]);
    setting.begin(&store);
    let partial = setting
        .root()
        .join("segments")
        .join(ID.to_string())
        .join("00000001.seg.partial");
    std::os::unix::fs::symlink("/dev/full", &partial).unwrap();
    let mut receiver = store.access().receive_pending(ID, 1, 0).unwrap();
    let error = receiver.write(&setting.segment(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    let text = error.to_string();
    assert!(
        text.contains("disk full") && text.contains("published datasets are unaffected"),
        "{text}"
    );
    drop(receiver);
    store
        .access()
        .snapshot("a")
        .unwrap()
        .panel(0, Limb(0), Column(0))
        .unwrap();
    fs::remove_file(&partial).unwrap();
    assert_eq!(setting.publish(&store).version, 2);
}

#[test]
fn an_append_needs_only_its_new_segments_and_shares_residents() {
    let mut setting = Setting::new(&[2]);
    let store = setting.open();
    setting.publish(&store);
    let old = store.access().snapshot("a").unwrap();
    let panel = old.panel(0, Limb(0), Column(1)).unwrap();

    // Two appends, uploaded as one.
    let first = setting.bundle.manifest().clone();
    setting.bundle = append(&append(&setting.bundle, &[1]), &[3]);
    let status = setting.begin(&store);
    assert_eq!(
        status
            .segments
            .iter()
            .map(|s| s.complete)
            .collect::<Vec<_>>(),
        [true, false, false]
    );
    setting.send(&store);
    assert_eq!(store.access().snapshot("a").unwrap().manifest().version, 1);
    assert_eq!(store.access().publish_pending(ID).unwrap().version, 3);

    let new = store.access().snapshot("a").unwrap();
    assert_eq!((old.block_count(), new.block_count()), (2, 6));
    assert!(Arc::ptr_eq(
        &panel,
        &new.panel(0, Limb(0), Column(1)).unwrap()
    ));
    assert_eq!(old.root(), first.root());
    new.panel(2, Limb(0), Column(1)).unwrap();
    assert_eq!(store.access().list().unwrap().datasets[0].version, 3);

    // The older version is no longer accepted.
    let error = store
        .access()
        .begin_upload("a", &first.encode())
        .unwrap_err()
        .to_string();
    assert!(error.contains("it is not newer"), "{error}");
}

#[test]
fn a_partial_file_that_is_too_long_is_begun_anew() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    setting.begin(&store);
    let partial = setting
        .root()
        .join("segments")
        .join(ID.to_string())
        .join("00000000.seg.partial");
    fs::write(&partial, vec![1; setting.segment(0).len() + 1]).unwrap();
    assert_eq!(received(&setting.begin(&store)), [(0, false)]);
    setting.publish(&store);
}

#[test]
fn names_and_ids_are_kept_apart() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    let manifest = setting.bundle.manifest().clone();
    let mut other = manifest.clone();
    other.dataset.0[0] ^= 1;
    for stage in ["pending", "published"] {
        setting.begin(&store);
        let taken = store
            .access()
            .begin_upload("a", &other.encode())
            .unwrap_err();
        assert!(
            matches!(
                taken,
                StoreError::Upload(UploadError::NameTaken { taken_by: ID, .. })
            ),
            "{stage}: {taken}"
        );
        let stored = store
            .access()
            .begin_upload("b", &manifest.encode())
            .unwrap_err();
        assert!(
            matches!(stored, StoreError::Upload(UploadError::StoredAs { .. })),
            "{stage}: {stored}"
        );
        setting.publish(&store);
    }
    let long = "x".repeat(101);
    for name in ["", ".a", "../b", "a/", "a/b/c", "a b", "ä", "..", &long] {
        let error = store
            .access()
            .begin_upload(name, &manifest.encode())
            .unwrap_err();
        assert!(matches!(error, StoreError::Name { .. }), "{error}");
    }
    store
        .access()
        .begin_upload(&long[1..], &other.encode())
        .unwrap();
    let refused = store.access().begin_upload("a", b"OBOROMAN").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
}

#[test]
fn an_upload_takes_in_what_was_appended_meanwhile() {
    let mut setting = Setting::new(&[1]);
    let store = setting.open();
    setting.begin(&store);
    let mut receiver = store.access().receive_pending(ID, 0, 0).unwrap();
    receiver.write(&setting.segment(0)[..100]).unwrap();
    setting.bundle = append(&setting.bundle, &[1]);
    assert_eq!(received(&setting.begin(&store)), [(100, false), (0, false)]);
    receiver.write(&setting.segment(0)[100..]).unwrap();
    receiver.finish().unwrap();
    setting.publish(&store);
    assert_eq!(store.access().list().unwrap().datasets[0].version, 2);
}

#[test]
fn snapshots_that_nobody_uses_are_forgotten_for_the_headers_of_others() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let access = store.access();
    let names = ["a", "b", "c"];
    let bundles = names.map(|name| {
        let id = DatasetId([name.as_bytes()[0]; 16]);
        let bundle = bundle_of(id, &directory.path().join(name), &one_limb(), &[1, 1]);
        send_as(&access, name, &bundle);
        access.publish_pending(id).unwrap();
        bundle
    });
    let ids = bundles.each_ref().map(|it| it.manifest().dataset);
    for name in names {
        access.snapshot(name).unwrap();
    }
    let longer = append(&bundles[2], &[1]);
    send_as(&access, "c", &longer);
    access.publish_pending(ids[2]).unwrap();
    drop(access.snapshot("c").unwrap());
    let used = access.snapshot("a").unwrap();
    let known = || {
        let namespace = store.namespace();
        let snapshots = namespace.snapshots();
        let known = ids.map(|id| snapshots.newest.contains_key(&id));
        (known, snapshots.replaced.len())
    };
    let header = used.header_bytes() / 2;
    // Two segments of a and of b each, three of c, which shares two with its older version.
    for (headers, left) in [
        (7, ([true; 3], 1)),
        (6, ([true, false, true], 0)),
        (0, ([true, false, false], 0)),
    ] {
        let namespace = store.namespace();
        namespace.common.forget_idle(headers * header);
        assert_eq!(known(), left, "{headers}");
    }
    used.panel(0, Limb(0), Column(0)).unwrap();
    let again = access.snapshot("b").unwrap();
    again.panel(0, Limb(0), Column(0)).unwrap();
}

#[test]
fn headers_of_all_owners_stay_within_their_memory() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let owners: Vec<Access> = (0..6)
        .map(|number| {
            let access = store.access_of(&format!("owner-{number}"), Roles::ALL);
            for (name, id) in [("a", 2 * number), ("b", 2 * number + 1)] {
                let id = DatasetId([id; 16]);
                let bundle = directory.path().join(id.to_string());
                let bundle = bundle_of(id, &bundle, &one_limb(), &[1, 1]);
                send_as(&access, name, &bundle);
                access.publish_pending(id).unwrap();
            }
            access
        })
        .collect();
    let headers = || store.tier().headers().used();
    let one = owners[0].snapshot("a").unwrap().header_bytes();
    store.limit_headers(3 * one);
    // Each is used only briefly.
    for access in owners.iter().chain(&owners) {
        access.snapshot("a").unwrap();
        assert!(headers() <= 3 * one);
    }
    // Two of one owner would be more than half; another owner has room, the next none, until memory is freed.
    let first = owners[0].snapshot("a").unwrap();
    let refused = owners[0].snapshot("b").unwrap_err();
    let is_busy = |it: &StoreError| {
        matches!(
            it,
            StoreError::Residency(ResidencyError::HeadersInUse { .. })
        )
    };
    assert!(is_busy(&refused), "{refused}");
    let others = [1, 2].map(|owner: usize| owners[owner].snapshot("b").unwrap());
    assert!(is_busy(&owners[3].snapshot("a").unwrap_err()));
    assert_eq!(headers(), 3 * one);
    // Open versions stay usable.
    owners[1].snapshot("b").unwrap();
    drop(first);
    owners[3].snapshot("a").unwrap();
    drop(others);
    // A version that can never fit is refused with its size.
    store.limit_headers(one - 1);
    let refused = owners[4].snapshot("b").unwrap_err().to_string();
    assert!(
        refused.contains(&one.to_string()) && refused.contains("--memory"),
        "{refused}"
    );
}

#[test]
fn a_version_that_was_queried_stays_in_reach_after_an_append() {
    let mut setting = Setting::new(&[1]);
    let store = setting.open();
    let first = setting.publish(&store);
    assert_eq!(
        store
            .access()
            .snapshot_at("a", first.root)
            .unwrap()
            .block_count(),
        1
    );
    setting.bundle = append(&setting.bundle, &[2]);
    let second = setting.publish(&store);
    assert_eq!(
        store
            .access()
            .snapshot_at("a", second.root)
            .unwrap()
            .block_count(),
        3
    );
    assert_eq!(
        store
            .access()
            .snapshot_at("a", first.root)
            .unwrap()
            .block_count(),
        1
    );
    let never = store
        .access()
        .snapshot_at("a", Digest([9; 32]))
        .unwrap_err();
    assert!(
        matches!(never, StoreError::OtherVersion { version: 2, .. }),
        "{never}"
    );
    store.access().delete_now("a").unwrap();
    assert!(matches!(
        store.access().snapshot_at("a", first.root),
        Err(StoreError::NoDataset { .. })
    ));
}

#[test]
fn only_one_version_is_uploaded_at_a_time() {
    let mut setting = Setting::new(&[1]);
    let store = setting.open();
    setting.publish(&store);
    let published = setting.bundle.manifest().clone();
    setting.bundle = append(&setting.bundle, &[1]);
    setting.begin(&store);
    let mut rival = published;
    (rival.version, rival.next_segment) = (2, 2);
    rival.segments.push(setting.bundle.manifest().segments[1]);
    rival.segments[1].digest = Digest([7; 32]);
    let error = store
        .access()
        .begin_upload("a", &rival.encode())
        .unwrap_err();
    assert!(
        matches!(error, StoreError::Upload(UploadError::OtherUpload { .. })),
        "{error}"
    );

    // Cancelling leaves the published version and stops an active receiver.
    let mut receiver = store.access().receive_pending(ID, 1, 0).unwrap();
    receiver.write(&[0; 10]).unwrap();
    store.access().cancel_upload("a").unwrap();
    assert!(matches!(
        receiver.write(&[0; 10]),
        Err(StoreError::Upload(UploadError::UploadCancelled { .. }))
    ));
    assert!(matches!(
        receiver.finish(),
        Err(StoreError::Upload(UploadError::UploadCancelled { .. }))
    ));
    assert_eq!(setting.files().len(), 1);
    assert_eq!(
        store.access().cancel_upload("a").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    store.access().begin_upload("a", &rival.encode()).unwrap();
    store.access().cancel_upload("a").unwrap();
    assert_eq!(setting.publish(&store).version, 2);
}

impl Namespace {
    /// Returns the root of the version being uploaded, or else published.
    pub(super) fn pending_root(&self, dataset: DatasetId) -> Option<Digest> {
        let catalogue = &self.state().catalogue;
        [Table::Upload, Table::Dataset].into_iter().find_map(|it| {
            let record = catalogue.by_id(it, dataset).ok().flatten()?;
            Some(stored_manifest(&record).ok()?.root())
        })
    }
}

#[test]
fn uploads_are_of_the_version_that_the_call_names() {
    let mut setting = Setting::new(&[1]);
    let store = setting.open();
    let first = setting.publish(&store);
    setting.bundle = append(&setting.bundle, &[1]);
    setting.send(&store);
    let second = setting.bundle.manifest().root();
    let third = append(&setting.bundle, &[1]).manifest().root();

    // The owner of an older copy uploads the published version: nothing of the newer version is published or lost.
    let access = store.access();
    assert_eq!(access.publish(ID, first.root).unwrap(), first);
    assert_eq!(access.describe("a").unwrap().0.version, 1);
    let other = |refused: Result<(), StoreError>| match refused.unwrap_err() {
        StoreError::Upload(UploadError::OtherVersion { root, .. }) => root,
        other => panic!("{other}"),
    };
    assert_eq!(other(access.publish(ID, third).map(drop)), third);
    for root in [first.root, third] {
        let refused = access.receive_segment(ID, root, 1, 0).map(drop);
        assert_eq!(other(refused), root);
    }
    assert_eq!(access.publish(ID, second).unwrap().version, 2);
    assert_eq!(other(access.publish(ID, first.root).map(drop)), first.root);
}

#[test]
fn a_deleted_dataset_serves_its_snapshots_and_never_comes_back() {
    let mut setting = Setting::new(&[2, 1]);
    let store = setting.open();
    setting.publish(&store);
    let snapshot = store.access().snapshot("a").unwrap();
    snapshot.panel(0, Limb(0), Column(0)).unwrap();
    let first = setting.bundle.manifest().encode();
    setting.bundle = append(&setting.bundle, &[1]);
    setting.begin(&store);
    let receiver = store.access().receive_pending(ID, 2, 0).unwrap();

    store.access().delete_now("a").unwrap();
    assert!(setting.files().is_empty());
    assert!(store.access().list().unwrap().datasets.is_empty());
    assert!(matches!(
        store.access().snapshot("a"),
        Err(StoreError::NoDataset { .. })
    ));
    assert!(matches!(
        store.access().delete_now("a"),
        Err(StoreError::NoDataset { .. })
    ));
    drop(receiver);
    // The directory has no files, yet panels never read before can be read.
    for segment in 0..2 {
        snapshot.panel(segment, Limb(0), Column(1)).unwrap();
    }
    drop(store);

    let store = setting.open();
    for name in ["a", "b"] {
        let error = store.access().begin_upload(name, &first).unwrap_err();
        assert!(
            matches!(error, StoreError::Upload(UploadError::Purged { .. })),
            "{error}"
        );
    }
}

#[test]
fn an_upload_that_was_never_published_may_begin_again_after_deletion() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    setting.send(&store);
    store.access().delete_now("a").unwrap();
    assert!(setting.files().is_empty());
    assert_eq!(received(&setting.begin(&store)), [(0, false)]);
    setting.publish(&store);
}

#[test]
fn damage_is_found_when_the_dataset_is_used() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    setting.publish(&store);
    drop(store);
    let path = setting
        .root()
        .join("segments")
        .join(ID.to_string())
        .join("00000000.seg");
    let sound = fs::read(&path).unwrap();

    let mut altered = sound.clone();
    altered[8192] ^= 1;
    fs::write(&path, &altered).unwrap();
    let store = setting.open();
    let snapshot = store.access().snapshot("a").unwrap();
    snapshot.panel(0, Limb(0), Column(0)).unwrap();
    let error = snapshot.panel(0, Limb(0), Column(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLoss);
    assert!(error.to_string().contains("limb 0, column 1"), "{error}");
    drop((snapshot, store));

    fs::remove_file(&path).unwrap();
    let store = setting.open();
    assert_eq!(store.access().list().unwrap().datasets.len(), 1);
    let error = store.access().snapshot("a").unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Format(FormatError::Damaged {
                corruption: Corruption::Missing,
                ..
            })
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("segment 0 of dataset 1111"),
        "{error}"
    );
    fs::write(&path, &sound).unwrap();
    store
        .access()
        .snapshot("a")
        .unwrap()
        .panel(0, Limb(0), Column(1))
        .unwrap();
}

#[test]
fn a_segment_of_other_parameters_is_not_taken_for_ours() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    setting.begin(&store);
    let foreign = bundle(
        &setting.directory.path().join("b.oboro"),
        &two_limbs(),
        &[1],
    );
    // A manifest with our numbers and the digest of the foreign segment.
    let mut lying = setting.bundle.manifest().clone();
    lying.dataset.0[0] ^= 1;
    lying.segments[0].digest = foreign.manifest().segments[0].digest;
    store.access().begin_upload("b", &lying.encode()).unwrap();
    let bytes = fs::read(foreign.segment_path(0)).unwrap();
    let mut receiver = store.access().receive_pending(lying.dataset, 0, 0).unwrap();
    let announced = receiver.announced() as usize;
    assert!(receiver.write(&bytes).is_err());
    receiver.write(&bytes[..announced]).unwrap();
    assert!(matches!(
        receiver.finish(),
        Err(StoreError::Upload(UploadError::SegmentRefused { .. }))
    ));
}

#[test]
fn one_process_has_the_store() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    let error = Store::open(&setting.root()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(
        error.to_string().contains("in use by another process"),
        "{error}"
    );
    // A receiver may still write, so it holds the store too.
    setting.begin(&store);
    let receiver = store.access().receive_pending(ID, 0, 0).unwrap();
    drop(store);
    assert!(Store::open(&setting.root()).is_err());
    drop(receiver);
    setting.open();
}

#[test]
fn a_catalogue_that_is_gone_older_newer_or_foreign_is_an_error() {
    let setting = Setting::new(&[1]);
    let store = setting.open();
    setting.publish(&store);
    drop(store);
    let path = setting.root().join("catalogue.sqlite");
    let sound = fs::read(&path).unwrap();
    let refusal = || Store::open(&setting.root()).err().unwrap().to_string();

    fs::remove_file(&path).unwrap();
    let gone = refusal();
    assert!(gone.contains("catalogue.sqlite is missing"), "{gone}");
    fs::write(&path, b"").unwrap();
    assert_eq!(refusal(), gone);

    fs::write(&path, &sound).unwrap();
    let of_version = |version| {
        let catalogue = rusqlite::Connection::open(&path).unwrap();
        catalogue
            .pragma_update(None, "user_version", version)
            .unwrap();
    };
    for version in [1, 2] {
        of_version(version);
        let older = refusal();
        assert!(
            older.contains(&format!("schema version {version}")),
            "{older}"
        );
        assert!(older.contains("encrypt their data again"), "{older}");
    }
    of_version(4);
    let newer = refusal();
    assert!(newer.contains("schema version 4"), "{newer}");

    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "application_id", 0)
        .unwrap();
    let foreign = refusal();
    assert!(foreign.contains("another program"), "{foreign}");

    fs::write(&path, vec![0xaa; 5000]).unwrap();
    let noise = refusal();
    assert!(noise.contains("catalogue"), "{noise}");
    assert_eq!(setting.files().len(), 1);

    fs::write(&path, &sound).unwrap();
    setting.open().access().snapshot("a").unwrap();
}

#[test]
fn no_store_is_made_in_a_dataset_of_an_owner() {
    let setting = Setting::new(&[1]);
    let bundle = setting.bundle.directory();
    let refused = Store::open(bundle).err().unwrap().to_string();
    assert!(refused.contains("owner's encrypted dataset"), "{refused}");
    assert!(!bundle.join("catalogue.sqlite").exists());
}

#[test]
fn concurrent_queries_share_panels() {
    let setting = Setting::new(&[4]);
    let store = setting.open();
    setting.publish(&store);
    let panels: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    store
                        .access()
                        .snapshot("a")
                        .unwrap()
                        .panel(0, Limb(0), Column(0))
                        .unwrap()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(panels.iter().all(|panel| Arc::ptr_eq(panel, &panels[0])));
}

#[test]
fn a_node_without_memory_for_us_is_refused_when_the_store_is_opened() {
    let setting = Setting::new(&[1]);
    let placement = Placement::on(vec![0, 1000]);
    let error = Store::open_on(&setting.root(), placement).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!setting.root().exists());
}
