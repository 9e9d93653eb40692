//! Recovery copies, from which owners continue a dataset whose directory they lost (docs/formats.md).
//!
//! A copy is a file in `recovery/`, or an object, named by the dataset's id. At most one exists, of the published
//! version: publishing another version removes it, to leave nothing of erased data. Its version and digest are readable
//! here, the rest is opaque.

use super::backend::{Content, StoredCopy};
use super::directory::{length, remove_dataset};
use super::namespace::Namespace;
use super::stored_manifest::stored_manifest;
use crate::catalogue::Catalogue;
use crate::error::{QuotaKind, StoreError, UploadError};
use crate::layout::{RECOVERY, recovery_path};
use oboro_format::files::{
    Durability, ensure_directory, io_error, names, partial_path, remove_if_there, replace,
    sync_directory,
};
use oboro_format::{
    Corruption, DatasetId, FormatError, Manifest, RecoveryHead, check_recovery,
    check_recovery_length,
};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

fn damaged(id: DatasetId, path: Option<PathBuf>, corruption: Corruption) -> StoreError {
    FormatError::Damaged {
        subject: format!("the recovery copy of dataset {id}"),
        path,
        corruption,
    }
    .into()
}

/// Checked copy that is being read.
pub struct Recovery {
    head: RecoveryHead,
    bytes: u64,
    content: Box<dyn Content>,
}

impl Recovery {
    /// Returns the version of the copy.
    pub fn head(&self) -> &RecoveryHead {
        &self.head
    }

    /// Returns its length in bytes.
    pub fn length(&self) -> u64 {
        self.bytes
    }
}

impl Read for Recovery {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.content.read(buffer)
    }
}

/// Copies the recovery copies of these versions to a backup. Copies of another version are newer, and left out.
///
/// # Errors
/// A damaged copy, a disk that fails.
pub(super) fn copy_recoveries(
    from: &Path,
    to: &Path,
    published: &[Manifest],
) -> Result<(), StoreError> {
    remove_dataset(&to.join(RECOVERY))?;
    for manifest in published {
        let (id, path) = (manifest.dataset, recovery_path(from, manifest.dataset));
        if length(&path)?.is_none() {
            continue;
        }
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        let checked = check_recovery(&bytes[..], bytes.len() as u64);
        let head = checked.map_err(io_error("read", &path))?;
        let head = head.map_err(|it| damaged(id, Some(path), it))?;
        if head == RecoveryHead::of(manifest) {
            ensure_directory(&to.join(RECOVERY))?;
            replace(&recovery_path(to, id), &bytes, Durability::Durable)?;
            sync_directory(&to.join(RECOVERY))?;
        }
    }
    Ok(())
}

impl Namespace {
    fn recovery_path(&self, id: DatasetId) -> PathBuf {
        recovery_path(&self.home, id)
    }

    /// Begins to receive a copy of this many bytes for the published dataset of this name.
    ///
    /// # Errors
    /// No such dataset, an invalid length, another copy in progress, a quota, a disk that fails.
    pub(super) fn keep_recovery(
        self: &Arc<Self>,
        name: &str,
        announced: u64,
    ) -> Result<RecoveryReceiver, StoreError> {
        let head = self.published_head(name)?;
        let dataset = head.dataset;
        if let Err(corruption) = check_recovery_length(announced) {
            return Err(UploadError::RecoveryRefused {
                dataset,
                corruption,
            }
            .into());
        }
        self.check_recovery_quota(dataset, announced)?;
        if !self.keeping.lock().insert(dataset) {
            return Err(UploadError::RecoveryBusy { dataset }.into());
        }
        // From here on dropping it undoes everything.
        let receiver = RecoveryReceiver {
            partial: partial_path(&self.recovery_path(dataset)),
            namespace: Arc::clone(self),
            name: name.to_owned(),
            dataset,
            announced,
            received: 0,
        };
        ensure_directory(&self.home.join(RECOVERY))?;
        let created = File::create(&receiver.partial);
        created.map_err(io_error("create", &receiver.partial))?;
        Ok(receiver)
    }

    /// Returns the published version of a dataset.
    fn published_head(&self, name: &str) -> Result<RecoveryHead, StoreError> {
        let state = self.state();
        let record = state.published(name)?;
        let manifest = stored_manifest(&record)?;
        if state.outdated.contains(&record.id) {
            self.check_is_served(&manifest, name)?;
        }
        Ok(RecoveryHead::of(&manifest))
    }

    fn check_recovery_quota(&self, id: DatasetId, bytes: u64) -> Result<(), StoreError> {
        let Some(most) = self.common.policy.read().quota.bytes else {
            return Ok(());
        };
        let datasets = self.state().catalogue.bytes()?;
        let others = self.backend.recovery_bytes(Some(id))? + self.note_bytes()?;
        if datasets.saturating_add(others).saturating_add(bytes) > most {
            return Err(StoreError::Quota {
                quota: QuotaKind::Bytes,
                most,
            });
        }
        Ok(())
    }

    /// Returns the copy of a dataset.
    ///
    /// # Errors
    /// No such dataset, no copy of its published version, a damaged copy, a disk that fails.
    pub(super) fn recovery(&self, name: &str) -> Result<Recovery, StoreError> {
        let published = self.published_head(name)?;
        let found = self.open_recovery(published.dataset)?;
        // A copy of another version is a leftover.
        let found = found.filter(|it| it.head == published);
        found.ok_or_else(|| StoreError::NoRecovery { name: name.into() })
    }

    /// Returns a dataset's copy, checked; `None` if it does not exist.
    ///
    /// # Errors
    /// A damaged copy, a disk that fails, objects out of reach.
    pub(super) fn open_recovery(&self, id: DatasetId) -> Result<Option<Recovery>, StoreError> {
        let Some(copy) = self.backend.recovery(id)? else {
            return Ok(None);
        };
        let StoredCopy {
            path,
            bytes,
            mut content,
        } = copy;
        let at = || path.clone().unwrap_or_default();
        let head = check_recovery(&mut content, bytes).map_err(io_error("read", &at()))?;
        let head = match head {
            Ok(head) if head.dataset != id => Err(Corruption::Unexpected),
            checked => checked,
        };
        content.rewind().map_err(io_error("read", &at()))?;
        Ok(Some(Recovery {
            head: head.map_err(|it| damaged(id, path, it))?,
            bytes,
            content,
        }))
    }

    /// Removes a copy of a version other than this one, which is published now.
    ///
    /// # Errors
    /// A disk that fails, objects out of reach.
    pub(super) fn remove_old_recovery(&self, published: &Manifest) -> Result<(), StoreError> {
        let id = published.dataset;
        let is_of_it = match self.open_recovery(id) {
            Ok(None) => return Ok(()),
            Ok(Some(copy)) => copy.head == RecoveryHead::of(published),
            // The version of a damaged copy is unknown.
            Err(StoreError::Format(FormatError::Damaged { .. })) => false,
            Err(other) => return Err(other),
        };
        if is_of_it {
            return Ok(());
        }
        self.remove_recovery(id)
    }

    /// Removes a dataset's copy, if it exists.
    ///
    /// # Errors
    /// A disk that fails, objects out of reach.
    pub(super) fn remove_recovery(&self, id: DatasetId) -> Result<(), StoreError> {
        self.backend.remove_recovery(id)
    }
}

/// Removes copies of purged datasets, and partial copies that a crash left.
///
/// # Errors
/// A disk that fails.
pub(super) fn sweep_recoveries(home: &Path, catalogue: &Catalogue) -> Result<(), StoreError> {
    let directory = home.join(RECOVERY);
    for name in names(&directory)? {
        // Copies of datasets that only the catalogue forgot must not be lost.
        let is_left = match name.parse() {
            Ok(id) => catalogue.is_purged(id)?,
            Err(_) => name.ends_with(".partial"),
        };
        if is_left {
            remove_if_there(&directory.join(name))?;
        }
    }
    Ok(())
}

/// Receiver of a copy. Dropped before [`finish`](Self::finish), it leaves nothing, and the previous copy stays.
pub struct RecoveryReceiver {
    namespace: Arc<Namespace>,
    name: String,
    dataset: DatasetId,
    announced: u64,
    received: u64,
    partial: PathBuf,
}

impl RecoveryReceiver {
    /// Returns the dataset of the copy.
    pub fn dataset(&self) -> DatasetId {
        self.dataset
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// More bytes than announced, a disk that fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.len() as u64 > self.announced - self.received {
            return Err(self.other_length(self.received.saturating_add(bytes.len() as u64)));
        }
        let file = OpenOptions::new().write(true).open(&self.partial);
        file.and_then(|file| file.write_all_at(bytes, self.received))
            .map_err(io_error("write", &self.partial))?;
        self.received += bytes.len() as u64;
        Ok(())
    }

    fn other_length(&self, received: u64) -> StoreError {
        UploadError::RecoveryLength {
            dataset: self.dataset,
            announced: self.announced,
            received,
        }
        .into()
    }

    /// Checks the copy, and replaces the previous one, durably.
    ///
    /// # Errors
    /// Fewer bytes than announced, a copy that is damaged or not of the published version, a quota, a disk that fails.
    pub fn finish(self) -> Result<(), StoreError> {
        if self.received != self.announced {
            return Err(self.other_length(self.received));
        }
        let dataset = self.dataset;
        let file = File::open(&self.partial).map_err(io_error("open", &self.partial))?;
        let checked = check_recovery(&file, self.announced);
        let head = checked
            .map_err(io_error("read", &self.partial))?
            .map_err(|corruption| UploadError::RecoveryRefused {
                dataset,
                corruption,
            })?;
        self.check_is_published(&head)?;
        self.namespace
            .check_recovery_quota(dataset, self.announced)?;
        file.sync_all().map_err(io_error("sync", &self.partial))?;
        // The lock is not held meanwhile: a concurrent publication of another version removes it.
        let backend = &self.namespace.backend;
        backend.put_recovery(dataset, &self.partial, self.announced)?;
        self.check_is_published(&head)
            .or_else(|error| backend.remove_recovery(dataset).and(Err(error)))
    }

    fn check_is_published(&self, head: &RecoveryHead) -> Result<(), StoreError> {
        let published = self.namespace.published_head(&self.name)?;
        if *head == published {
            return Ok(());
        }
        Err(UploadError::OtherRecovery {
            dataset: self.dataset,
            version: published.version,
        }
        .into())
    }
}

impl Drop for RecoveryReceiver {
    fn drop(&mut self) {
        // Best effort: the next opening removes leftovers.
        let _ = remove_if_there(&self.partial);
        self.namespace.keeping.lock().remove(&self.dataset);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::super::backup::backup;
    use super::super::policy::Policy;
    use super::*;
    use crate::location::Location;
    use crate::store::policy::Quota;
    use crate::testing::{ID, append, bundle, one_limb, rewrite, send};
    use oboro_faults::{Disk, EIO, Failure, Image, replay, scratch};
    use oboro_format::{Bundle, encode_recovery};
    use oboro_residency::Placement;

    /// Returns a copy of a bundle.
    fn copy(bundle: &Bundle, fill: u8) -> Vec<u8> {
        let head = RecoveryHead::of(bundle.manifest());
        let sealed = vec![fill; 2 * 4096 - head.encode().len() - 32];
        encode_recovery(&head, &sealed)
    }

    fn keep(store: &Store, copy: &[u8]) -> Result<(), StoreError> {
        let mut receiver = store.access().keep_recovery("a", copy.len() as u64)?;
        for chunk in copy.chunks(3000) {
            receiver.write(chunk)?;
        }
        receiver.finish()
    }

    fn kept(store: &Store) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        let mut copy = store.access().recovery("a")?;
        copy.read_to_end(&mut bytes).unwrap();
        assert_eq!(copy.length(), bytes.len() as u64);
        Ok(bytes)
    }

    /// Creates a store and a bundle in a directory, with one version published.
    fn published(directory: &Path) -> (Store, Bundle) {
        let first = bundle(&directory.join("bundle"), &one_limb(), &[1, 2]);
        let store = Store::open(&directory.join("store")).unwrap();
        send(&store, &first);
        store.access().publish_pending(ID).unwrap();
        (store, first)
    }

    fn publish(store: &Store, bundle: &Bundle) {
        send(store, bundle);
        store.access().publish_pending(ID).unwrap();
    }

    fn is_none(kept: Result<Vec<u8>, StoreError>) -> bool {
        matches!(kept, Err(StoreError::NoRecovery { .. }))
    }

    #[test]
    fn a_copy_is_of_the_published_version_and_goes_with_it() {
        let directory = scratch();
        let (store, first) = published(directory.path());
        assert!(is_none(kept(&store)));
        keep(&store, &copy(&first, 1)).unwrap();
        keep(&store, &copy(&first, 2)).unwrap();
        assert_eq!(kept(&store).unwrap(), copy(&first, 2));
        // Publishing again changes nothing; another version invalidates it.
        store.access().publish_pending(ID).unwrap();
        assert_eq!(kept(&store).unwrap(), copy(&first, 2));
        let second = append(&first, &[3]);
        publish(&store, &second);
        assert!(is_none(kept(&store)));
        let refused = keep(&store, &copy(&first, 1)).unwrap_err();
        assert!(
            matches!(
                refused,
                StoreError::Upload(UploadError::OtherRecovery { version: 2, .. })
            ),
            "{refused}"
        );
        assert!(is_none(kept(&store)));
        keep(&store, &copy(&second, 1)).unwrap();
        let third = rewrite(&second, 1, &[]);
        publish(&store, &third);
        let directory = directory.path().join("store").join(RECOVERY);
        assert_eq!(names(&directory).unwrap(), [""; 0]);
        // A deleted dataset keeps it, a purged one does not.
        keep(&store, &copy(&third, 1)).unwrap();
        store.access().delete("a").unwrap();
        assert!(matches!(kept(&store), Err(StoreError::NoDataset { .. })));
        store.access().undelete("a", None).unwrap();
        assert_eq!(kept(&store).unwrap(), copy(&third, 1));
        store.access().delete_now("a").unwrap();
        assert_eq!(names(&directory).unwrap(), [""; 0]);
    }

    #[test]
    fn a_restored_backup_does_not_bring_back_the_copy_of_what_was_rewritten() {
        let directory = scratch();
        let path = |name: &str| directory.path().join(name);
        let (store, first) = published(directory.path());
        keep(&store, &copy(&first, 1)).unwrap();
        drop(store);
        let backup = Image::read(&path("store"));
        let store = Store::open(&path("store")).unwrap();
        publish(&store, &rewrite(&first, 1, &[]));
        drop(store);
        for name in ["with", "without"] {
            fs::create_dir(path(name)).unwrap();
            backup.write(&path(name));
        }
        fs::create_dir(path("with/rewritten")).unwrap();
        Image::read(&path("store/rewritten")).write(&path("with/rewritten"));
        drop(Store::open(&path("with")).unwrap());
        assert_eq!(names(&path("with").join(RECOVERY)).unwrap(), [""; 0]);
        // Without the notes nothing reveals that.
        let store = Store::open(&path("without")).unwrap();
        assert_eq!(kept(&store).unwrap(), copy(&first, 1));
    }

    #[test]
    fn what_is_no_copy_is_refused_and_leaves_the_one_before() {
        let directory = scratch();
        let (store, first) = published(directory.path());
        let good = copy(&first, 1);
        keep(&store, &good).unwrap();
        let mut altered = copy(&first, 2);
        altered[100] ^= 1;
        let foreign = RecoveryHead {
            dataset: DatasetId([9; 16]),
            ..RecoveryHead::of(first.manifest())
        };
        let foreign = encode_recovery(&foreign, &[0; 4096 - 100]);
        assert_eq!(foreign.len(), 4096);
        for bad in [&altered[..], &foreign, &good[..4096], &good[..100], &[]] {
            keep(&store, bad).unwrap_err();
            assert_eq!(kept(&store).unwrap(), good);
        }
        // Lengths other than announced.
        let begin = |bytes| store.access().keep_recovery("a", bytes);
        let mut receiver = begin(4096).unwrap();
        assert!(receiver.write(&good).is_err());
        assert!(receiver.finish().is_err());
        let large = begin(4096 + oboro_format::MAX_RECOVERY_BYTES);
        assert!(large.is_err());
        // One at a time.
        let receiver = begin(8192).unwrap();
        let busy = begin(8192).err().unwrap();
        assert_eq!(busy.kind(), oboro_format::ErrorKind::Busy);
        drop(receiver);
        keep(&store, &copy(&first, 3)).unwrap();
        let all = names(&directory.path().join("store").join(RECOVERY)).unwrap();
        assert_eq!(all, [ID.to_string()]);
    }

    #[test]
    fn copies_count() {
        let directory = scratch();
        let (store, first) = published(directory.path());
        let before = store.access().usage().unwrap().bytes;
        let limit = |bytes| {
            store.set_policy(Policy {
                quota: Quota {
                    bytes: Some(bytes),
                    ..Quota::default()
                },
                ..Policy::default()
            });
        };
        limit(before + 8191);
        let refused = keep(&store, &copy(&first, 1)).unwrap_err();
        assert_eq!(refused.kind(), oboro_format::ErrorKind::Quota);
        limit(before + 8192);
        keep(&store, &copy(&first, 1)).unwrap();
        // Replaces the previous copy.
        keep(&store, &copy(&first, 2)).unwrap();
        assert_eq!(store.access().usage().unwrap().bytes, before + 8192);
    }

    #[test]
    fn a_disk_that_fails_leaves_the_old_copy_or_the_new_one() {
        for at in 0.. {
            let owner = scratch();
            let disk = Disk::new();
            let first = bundle(&owner.path().join("bundle"), &one_limb(), &[1]);
            let store = Store::open(&disk.path().join("store")).unwrap();
            publish(&store, &first);
            let (old, new) = (copy(&first, 1), copy(&first, 2));
            keep(&store, &old).unwrap();
            disk.fail(Failure::Once { at, errno: EIO });
            let made = keep(&store, &new);
            disk.mend();
            if made.is_ok() && disk.attempts() < at {
                break;
            }
            let found = kept(&store).unwrap();
            assert!(found == new || made.is_err() && found == old, "{at}");
            keep(&store, &new).unwrap();
            drop(store);
            let store = Store::open(&disk.path().join("store")).unwrap();
            assert_eq!(kept(&store).unwrap(), new, "{at}");
        }
    }

    #[test]
    fn a_power_cut_leaves_the_copy_that_was_acknowledged_or_the_next() {
        let (owner, disk) = (scratch(), Disk::new());
        let first = bundle(&owner.path().join("bundle"), &one_limb(), &[1]);
        let copies = [copy(&first, 1), copy(&first, 2)];
        let store = Store::open(&disk.path().join("store")).unwrap();
        publish(&store, &first);
        disk.acknowledge();
        for copy in &copies {
            keep(&store, copy).unwrap();
            disk.acknowledge();
        }
        drop(store);
        replay(&disk.record(), |disk, cut| {
            if cut.acknowledged == 0 {
                return;
            }
            let store = Store::open(&disk.join("store")).unwrap();
            let found = kept(&store);
            let after = cut.acknowledged + usize::from(cut.under_way);
            let is_expected = match &found {
                Ok(found) => [cut.acknowledged, after]
                    .iter()
                    .any(|&it| it > 1 && *found == copies[it - 2]),
                Err(_) => cut.acknowledged == 1 && is_none(found),
            };
            assert!(is_expected, "{cut:?}");
        });
    }

    #[test]
    fn damage_is_found_by_scrubs_and_backups() {
        let directory = scratch();
        let (store, first) = published(directory.path());
        keep(&store, &copy(&first, 1)).unwrap();
        let (home, backed_up) = (
            directory.path().join("store"),
            directory.path().join("copy"),
        );
        let scrub = || {
            let mut scrub = store.access().scrub(None).unwrap();
            let mut found = Vec::new();
            while let Some(part) = scrub.next_part().unwrap() {
                found.extend(part.damage);
            }
            assert_eq!(scrub.scrubbed().bytes, scrub.total_bytes());
            found
        };
        assert_eq!(scrub(), []);
        backup(&home, &backed_up, &|_, _| {}).unwrap();
        let restored = Store::open(&backed_up).unwrap();
        assert_eq!(kept(&restored).unwrap(), copy(&first, 1));
        let path = home.join(RECOVERY).join(ID.to_string());
        let mut bytes = fs::read(&path).unwrap();
        bytes[500] ^= 1;
        fs::write(&path, bytes).unwrap();
        let [damage] = &scrub()[..] else { panic!() };
        assert!(damage.problem.contains("recovery copy"), "{damage:?}");
        assert_eq!(damage.path.as_ref(), Some(&path));
        assert_eq!(
            kept(&store).unwrap_err().kind(),
            oboro_format::ErrorKind::DataLoss
        );
        backup(&home, &directory.path().join("other"), &|_, _| {}).unwrap_err();
    }

    #[test]
    fn objects_keep_copies_too() {
        let directory = scratch();
        let objects = directory.path().join("objects");
        fs::create_dir(&objects).unwrap();
        let location = |cache: &str| Location::Objects {
            url: format!("file://{}", objects.display()),
            cache: directory.path().join(cache),
            cache_bytes: u64::MAX,
        };
        let open = |cache: &str| Store::open_on(location(cache), Placement::default()).unwrap();
        let first = bundle(&directory.path().join("bundle"), &one_limb(), &[1, 2]);
        let store = open("one");
        publish(&store, &first);
        let empty = store.access().usage().unwrap().bytes;
        keep(&store, &copy(&first, 1)).unwrap();
        drop(store);
        // A server with an empty directory serves it, and counts it.
        let store = open("two");
        assert_eq!(kept(&store).unwrap(), copy(&first, 1));
        assert_eq!(store.access().usage().unwrap().bytes, empty + 8192);
        publish(&store, &rewrite(&first, 1, &[]));
        assert!(is_none(kept(&store)));
        let second = Bundle::open(&directory.path().join("bundle")).unwrap();
        keep(&store, &copy(&second, 1)).unwrap();
        store.access().delete_now("a").unwrap();
        let left = crate::testing::files(&objects);
        let left = left.iter().any(|it| it.starts_with(RECOVERY));
        assert!(!left);
    }
}
