//! The server's side: datasets being uploaded, published, listed, pinned and deleted, in namespaces.
//!
//! The catalogue says what exists; files come before the row that names them and go after it. So a crash at any point
//! leaves the old state or the new one, and files that no row names are swept when the store is opened. One process at
//! a time opens a store.

use crate::catalogue::{Catalogue, Change, Entry, Record, Table};
use crate::error::{CatalogueError, QuotaKind, StoreError, UploadError};
use crate::location::{
    CATALOGUE, DEFAULT_NAMESPACE, Location, NAMESPACES, SEGMENTS, dataset_path, home_of, prefix_of,
    segment_path,
};
use crate::placement::Placement;
use crate::residency::{Residency, Tier};
use crate::snapshot::{Snapshot, segments_of};
use crate::source::StoredSegment;
use crate::source::object::{Cache, Objects, Requested};
use oboro_format::files::{
    Lock, ensure_directories, ensure_directory, exists, if_there, io_error, length_if_there, lock,
    names, partial_path, read_if_there, remove_if_there, rename_durably, sweep, sync_directory,
};
use oboro_format::{
    Corruption, DatasetId, DatasetInfo, Digest, FormatError, MAX_NAME_CHARS, Manifest, Roles,
    Segment, forget_cached, is_caller, is_name,
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use remote::Remote;
pub(crate) use remote::{check_is_cache, check_is_no_cache};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::iter;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use namespaces::Namespaces;
use recovery::RECOVERY;
use snapshots::AllSnapshots;
use sweep::{is_forgotten, sweep_all};

pub use access::{Access, Resolved, Visible};
pub use backup::{BackedUp, backup, backup_with};
pub use grants::Grant;
pub(crate) use identity::{CatalogueIdentity, StoreId};
pub use namespaces::namespaces_in;
pub use policy::{Policy, Quota};
pub use receiver::SegmentReceiver;
pub use recovery::{Recovery, RecoveryReceiver};
pub use reports::{
    CacheState, DeletedInfo, Listing, Published, SegmentProgress, StoreState, UploadInfo,
    UploadStatus, Usage,
};
pub use scrub::{Scrub, ScrubbedPart};
pub use upgrade::{Upgraded, undo_upgrade, upgrade};

/// The file of them.
const RESERVE: &str = "reserve";
/// The directory of datasets that the catalogue does not know.
const UNKNOWN: &str = "unknown";
/// Bytes set aside so that a full disk can still take the changes of the catalogue that free space.
const RESERVE_BYTES: usize = 256 << 10;

/// Encrypted datasets in a directory, or in object storage, in namespaces that know nothing of each other: each has a
/// catalogue, files and a lock of its own. All methods may be called from any thread.
#[derive(Clone)]
pub struct Store {
    namespaces: Arc<Namespaces>,
}

/// What all namespaces of a store share.
struct Common {
    home: PathBuf,
    id: StoreId,
    placement: Placement,
    /// Ciphertext in memory.
    tier: Arc<Tier>,
    /// If the directory is a cache: what namespaces are below.
    objects: Option<Arc<Cache>>,
    policy: RwLock<Policy>,
    /// Locked after the state of a namespace, if both are.
    snapshots: Mutex<AllSnapshots>,
    /// Held as long as anything may still write.
    _lock: Lock,
}

/// The datasets of one namespace.
struct Namespace {
    name: Arc<str>,
    home: PathBuf,
    common: Arc<Common>,
    /// If the directory is a cache.
    remote: Option<Remote>,
    /// Files of segments being received of which bytes may be lost, although they can still be read.
    unsound: Mutex<HashSet<PathBuf>>,
    /// Datasets of which recovery copies are being received.
    keeping: Mutex<HashSet<DatasetId>>,
    state: Mutex<State>,
}

struct State {
    catalogue: Catalogue,
    /// Segments being received, by number, and whether their upload was cancelled since.
    receiving: HashMap<(DatasetId, u32), Arc<AtomicBool>>,
    /// When segments of an upload were last completed, in seconds since the beginning of 1970.
    touched: HashMap<DatasetId, i64>,
    /// Datasets that were restored from a copy older than a rewriting.
    outdated: HashSet<DatasetId>,
}

impl Namespace {
    /// Opens a namespace as it is.
    fn open(common: &Arc<Common>, name: Arc<str>) -> Result<Self, StoreError> {
        let home = home_of(&common.home, &name);
        let identity = CatalogueIdentity::new(common.id, &name);
        ensure_directories(&home)?;
        let (remote, catalogue) = match &common.objects {
            None => {
                check_is_no_cache(&home)?;
                has_catalogue(&home)?;
                (None, Catalogue::open(&home.join(CATALOGUE), &identity)?)
            }
            Some(cache) => {
                let cache = cache.below(&prefix_of(&name));
                let (remote, catalogue) = Remote::open(cache, &home, &identity)?;
                (Some(remote), catalogue)
            }
        };
        Ok(Self::with(common, name, remote, catalogue))
    }

    fn with(
        common: &Arc<Common>,
        name: Arc<str>,
        remote: Option<Remote>,
        catalogue: Catalogue,
    ) -> Self {
        Self {
            home: home_of(&common.home, &name),
            name,
            common: Arc::clone(common),
            remote,
            unsound: Mutex::default(),
            keeping: Mutex::default(),
            state: Mutex::new(State {
                catalogue,
                receiving: HashMap::new(),
                touched: HashMap::new(),
                outdated: HashSet::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread cannot leave the state half-changed: SQLite rolls back, and the maps change in
        // single steps.
        self.state.lock()
    }

    fn catalogue(&self) -> PathBuf {
        self.home.join(CATALOGUE)
    }

    /// The file of a segment, whose name means that it is complete.
    fn segment(&self, manifest: &Manifest, index: u32) -> PathBuf {
        let entry = &manifest.segments[index as usize];
        segment_path(&self.home, manifest.dataset, entry.number)
    }

    /// Opens the segment that `manifest` names as its `index`-th.
    fn open_segment(&self, manifest: &Manifest, index: u32) -> Result<StoredSegment, StoreError> {
        let path = self.segment(manifest, index);
        match &self.remote {
            None => Ok(StoredSegment::new(Segment::open_named(
                &path, manifest, index,
            )?)),
            Some(remote) => {
                self.ensure_dataset(manifest.dataset)?;
                remote.cache.open(&path, manifest, index)
            }
        }
    }

    /// Changes what is published: in object storage first, if the store is there.
    fn make(&self, catalogue: &mut Catalogue, change: Change<'_>) -> Result<(), StoreError> {
        if let Some(remote) = &self.remote {
            remote.write(catalogue, Some(change))?;
        }
        catalogue.make(change)
    }

    /// Removes everything about a dataset's segments except their files, and except what is `published`.
    fn remove_objects(&self, dataset: DatasetId, published: &BTreeSet<u32>) {
        if let Some(remote) = &self.remote {
            remote.remove_segments(dataset, published);
        }
    }

    fn reserve(&self) -> PathBuf {
        self.home.join(RESERVE)
    }

    /// The offset at which an upload can resume a partial file. A file longer than the segment is not part of it.
    fn usable_length(&self, partial: &Path, announced: u64) -> Result<u64, StoreError> {
        if self.unsound.lock().contains(partial) {
            return Ok(0);
        }
        let length = length(partial)?.unwrap_or(0);
        Ok(if length <= announced { length } else { 0 })
    }

    /// Removes a partial file that is not part of its segment.
    fn remove_unsound(&self, partial: &Path) -> Result<(), StoreError> {
        remove_if_there(partial)?;
        self.unsound.lock().remove(partial);
        Ok(())
    }

    /// The directory of a dataset.
    fn dataset(&self, id: DatasetId) -> PathBuf {
        dataset_path(&self.home, id)
    }

    /// Creates the directory of a dataset unless it exists.
    fn ensure_dataset(&self, id: DatasetId) -> Result<(), StoreError> {
        Ok(ensure_directory(&self.dataset(id))?)
    }

    /// Removes the files of a dataset's segments except these, by number.
    fn sweep(&self, id: DatasetId, published: &BTreeSet<u32>) -> Result<(), StoreError> {
        let directory = self.dataset(id);
        if exists(&directory)? {
            sweep(&directory, published, &BTreeSet::new())?;
        }
        Ok(())
    }

    /// Segments of a dataset except these, by number, are about to be removed: those in use can still be read, as far as
    /// descriptors suffice.
    fn keep_readable(&self, id: DatasetId, stay: &BTreeSet<u32>) {
        self.common.tier.keep_readable(&self.dataset(id), stay);
    }

    fn remove_dataset(&self, id: DatasetId) -> Result<(), StoreError> {
        remove_dataset(&self.dataset(id))
    }

    /// Sets the reserve aside unless that was done, if there is space for it.
    fn fill_reserve(&self) {
        let path = self.reserve();
        if !matches!(length(&path), Ok(Some(length)) if length == RESERVE_BYTES as u64) {
            // Data that a compressing file system cannot shrink.
            let mut bytes = vec![0; RESERVE_BYTES];
            blake3::Hasher::new().finalize_xof().fill(&mut bytes);
            let _ = fs::write(path, bytes);
        }
    }

    /// Makes a change of the catalogue after which space will be freed, even if none is free now.
    fn change_to_free(
        &self,
        catalogue: &mut Catalogue,
        change: impl Fn(&mut Catalogue) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match change(catalogue) {
            Err(StoreError::Format(FormatError::DiskFull { .. })) => {
                remove_if_there(&self.reserve())?;
                change(catalogue)
            }
            changed => changed,
        }
    }
}

/// Decodes a manifest that the catalogue holds.
fn stored_manifest(record: &Record) -> Result<Manifest, StoreError> {
    let damaged = |corruption| -> StoreError {
        FormatError::Damaged {
            subject: format!(
                "the catalogue's manifest of dataset {} ({:?})",
                record.id, record.name
            ),
            path: None,
            corruption,
        }
        .into()
    };
    match Manifest::decode(&record.manifest) {
        Ok(manifest) if manifest.dataset == record.id => Ok(manifest),
        Ok(_) => Err(damaged(Corruption::Unexpected)),
        Err(FormatError::Damaged { corruption, .. }) => Err(damaged(corruption)),
        Err(other) => Err(other.into()),
    }
}

fn check_name(name: &str) -> Result<(), StoreError> {
    if is_name(name) {
        return Ok(());
    }
    let given = name.chars().take(2 * MAX_NAME_CHARS).collect();
    Err(StoreError::Name { given })
}

impl Store {
    /// Opens the store in a directory, creating an empty one if there is none, and sweeps what a crash may have left.
    ///
    /// # Errors
    ///
    /// Another process that has it open, a directory of something else, a catalogue that is damaged or of another
    /// version, a disk that fails.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_on(directory, Placement::default())
    }

    /// The same, with ciphertext in memory placed as requested.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), or a node whose memory this process may not use.
    pub fn open_on(
        location: impl Into<Location>,
        placement: Placement,
    ) -> Result<Self, StoreError> {
        placement.check()?;
        Self::open_with(location.into(), placement, None)
    }

    /// The same with at most `budget` bytes of ciphertext in memory, an equal share on each node that
    /// datasets are placed on. Buffers for reading take up to [`read_buffers`](Location::read_buffers)
    /// bytes besides.
    pub fn open_within(
        location: impl Into<Location>,
        budget: u64,
        placement: Placement,
    ) -> Result<Self, StoreError> {
        let location = location.into();
        placement.check()?;
        Self::open_with(location, placement, Some(budget))
    }

    /// How many segments' objects in object storage no catalogue named when the namespaces that are open were opened:
    /// those of other servers' uploads, or newer than a catalogue that was restored from an old copy. They stay.
    pub fn unnamed_objects(&self) -> usize {
        let unnamed = |it: &Arc<Namespace>| it.remote.as_ref().map_or(0, |remote| remote.unnamed);
        self.namespaces.opened().iter().map(unnamed).sum()
    }

    fn open_with(
        location: Location,
        placement: Placement,
        budget: Option<u64>,
    ) -> Result<Self, StoreError> {
        check_is_no_other(location.home())?;
        ensure_directories(location.home())?;
        let alternative = "directory for the store";
        let common = Common::open(&location, placement, budget, alternative)?;
        Ok(Self {
            namespaces: Arc::new(Namespaces::open(common)?),
        })
    }

    #[cfg(test)]
    pub(crate) fn tier(&self) -> &Arc<Tier> {
        &self.namespaces.common().tier
    }

    #[cfg(test)]
    fn namespace(&self) -> Arc<Namespace> {
        self.namespaces.get(DEFAULT_NAMESPACE).unwrap()
    }

    /// Limits the memory of open segments besides panels: headers, mostly.
    pub fn limit_headers(&self, bytes: u64) {
        self.namespaces.common().tier.headers().set_limit(bytes);
    }

    /// Changes what is kept, and for how long.
    pub fn set_policy(&self, policy: Policy) {
        *self.namespaces.common().policy.write() = policy;
    }

    /// Everything that somebody may do who has all roles in the default namespace.
    pub fn access(&self) -> Access {
        self.access_of(DEFAULT_NAMESPACE, Roles::ALL)
    }

    /// Everything that the callers of a namespace may do who have these roles, there and where they were granted.
    /// The name is not checked: it is the server's business who has which.
    pub fn access_of(&self, namespace: &str, roles: Roles) -> Access {
        Access::new(Arc::clone(&self.namespaces), namespace.into(), roles)
    }

    /// What there is in memory and in the cache. Neither disk nor object storage is asked.
    pub fn state(&self) -> StoreState {
        let common = self.namespaces.common();
        let cache = common.objects.as_ref().map(|cache| {
            let (bytes, limit) = cache.bytes();
            CacheState {
                bytes,
                limit,
                requested: cache.objects().requested(),
            }
        });
        StoreState {
            residency: common.tier.residency(),
            cache,
        }
    }

    /// Sees whether object storage, or the disk of the directory, answers. Blocks.
    ///
    /// # Errors
    /// It does not, or refuses.
    pub fn probe(&self) -> Result<(), StoreError> {
        let common = self.namespaces.common();
        match &common.objects {
            Some(cache) => {
                let objects = cache.objects();
                let probed = objects.probe(CATALOGUE);
                probed.map_err(|error| objects.failed(CATALOGUE, &error))
            }
            None => {
                let path = common.home.join(CATALOGUE);
                let found = fs::metadata(&path).map(drop);
                Ok(found.map_err(io_error("look at", &path))?)
            }
        }
    }

    /// Bytes that each namespace of this directory stores. What cannot be read is left out.
    pub fn stored(&self) -> Vec<(Arc<str>, u64)> {
        let bytes = |name: Arc<str>| {
            let namespace = self.namespaces.get(&name).ok()?;
            let usage = namespace.usage().ok()?;
            Some((name, usage.bytes))
        };
        self.namespaces
            .names()
            .into_iter()
            .filter_map(bytes)
            .collect()
    }

    /// Removes what was deleted long enough ago, and cancels uploads that nobody goes on with, in all namespaces of
    /// this directory; `now` is in seconds since the beginning of 1970. Returns how many of each, and what failed.
    pub fn expire(&self, now: i64) -> (usize, usize, Vec<StoreError>) {
        let (mut purged, mut cancelled, mut failed) = (0, 0, Vec::new());
        for name in self.namespaces.names() {
            let expired = self.namespaces.get(&name).and_then(|it| it.expire(now));
            match expired {
                Ok((deleted, uploads)) => {
                    purged += deleted;
                    cancelled += uploads;
                }
                Err(error) => failed.push(error),
            }
        }
        (purged, cancelled, failed)
    }
}

impl Common {
    /// Takes the directory, or the cache of objects. `alternative` names what else to choose if another process has it.
    fn open(
        location: &Location,
        placement: Placement,
        budget: Option<u64>,
        alternative: &str,
    ) -> Result<Self, StoreError> {
        let tier = Arc::new(Tier::new(budget, &placement)?);
        let home = location.home();
        let lock = lock(&home.join("lock"), home, alternative)?;
        let objects = match location {
            Location::Directory(_) => {
                check_is_no_cache(home)?;
                None
            }
            Location::Objects {
                url, cache_bytes, ..
            } => {
                let objects = Objects::open(url, placement.threads())?;
                objects.check_conditions()?;
                Some(Arc::new(Cache::new(objects, *cache_bytes)))
            }
        };
        Ok(Self {
            home: home.into(),
            id: StoreId::of(home, objects.as_ref().map(|it| it.objects()))?,
            placement,
            tier,
            objects,
            policy: RwLock::default(),
            snapshots: Mutex::default(),
            _lock: lock,
        })
    }
}

/// Seconds since the beginning of 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before that is wrong: then nothing expires.
    now.map_or(0, |it| it.as_secs().cast_signed())
}

impl State {
    /// Returns the record of a published dataset.
    ///
    /// # Errors
    /// No such dataset, a name that no dataset can have, a catalogue that fails.
    fn published(&self, name: &str) -> Result<Record, StoreError> {
        check_name(name)?;
        let record = self.catalogue.by_name(Table::Dataset, name)?;
        record.ok_or_else(|| StoreError::NoDataset { name: name.into() })
    }

    fn stop_receiving(&self, dataset: DatasetId) {
        for ((id, _), cancelled) in &self.receiving {
            if *id == dataset {
                cancelled.store(true, Ordering::Release);
            }
        }
    }
}

/// The length of a file, `None` if it does not exist.
fn length(path: &Path) -> Result<Option<u64>, StoreError> {
    Ok(length_if_there(path)?)
}

/// Whether there is a catalogue. A directory that had one is an error without it: sweeping would remove what is there, and
/// deleted datasets could be uploaded again.
fn has_catalogue(directory: &Path) -> Result<bool, StoreError> {
    match length(&directory.join(CATALOGUE))? {
        Some(1..) => Ok(true),
        _ if had_catalogue(directory)? => Err(CatalogueError::Missing {
            path: directory.into(),
        }
        .into()),
        _ => Ok(false),
    }
}

/// Whether a namespace was opened in a directory: its catalogue comes before everything else but notes, which operators
/// copy. The directory of an owner's dataset has segments as well.
fn had_catalogue(directory: &Path) -> Result<bool, StoreError> {
    let later = [SEGMENTS, RECOVERY, UNKNOWN, RESERVE];
    let mut later = later.into_iter().map(|name| exists(&directory.join(name)));
    Ok(!exists(&directory.join("head"))?
        && later.try_fold(false, |any, it| Ok::<_, FormatError>(any | it?))?)
}

/// Refuses an owner's dataset, and a list of several directories, which earlier programs took.
fn check_is_no_other(directory: &Path) -> Result<(), StoreError> {
    if has_catalogue(directory)? {
        return Ok(());
    }
    let path = || directory.into();
    if directory.join("head").exists() {
        return Err(StoreError::IsBundle { path: path() });
    }
    let mut listed = directory.to_str().unwrap_or_default().split(',');
    let is_store = |listed| Path::new(listed).join(CATALOGUE).exists();
    if !directory.exists() && listed.any(is_store) {
        return Err(StoreError::IsList { path: path() });
    }
    Ok(())
}

/// Refuses a directory that is not a store's.
fn check_is_store(directory: &Path) -> Result<(), StoreError> {
    check_is_no_cache(directory)?;
    check_is_no_other(directory)?;
    if has_catalogue(directory)? {
        Ok(())
    } else {
        Err(StoreError::NoStore {
            path: directory.into(),
        })
    }
}

fn remove_dataset(directory: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", directory)(error).into())
        }
        _ => Ok(()),
    }
}

mod access;
mod backup;
#[cfg(all(test, target_os = "linux"))]
mod crashes;
#[cfg(all(test, target_os = "linux"))]
mod damage;
mod datasets;
#[cfg(test)]
mod descriptors;
#[cfg(all(test, target_os = "linux"))]
mod failures;
mod grants;
mod identity;
mod import;
mod namespaces;
mod policy;
mod receiver;
mod recovery;
mod remote;
mod reports;
mod rewritten;
#[cfg(all(test, target_os = "linux"))]
mod script;
mod scrub;
mod snapshots;
mod sweep;
#[cfg(test)]
mod tests;
mod upgrade;
