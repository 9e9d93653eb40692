//! The server's side: datasets being uploaded, published, listed, pinned and deleted, in namespaces.
//!
//! The catalogue says what exists; files come before the row that names them and go after it. So a crash at any point
//! leaves the old state or the new one, and files that no row names are swept when the store is opened. One process at
//! a time opens a store.

use crate::catalogue::{Catalogue, Change, Entry, Record, Table};
use crate::error::{CatalogueError, StoreError, UploadError};
use crate::location::{
    CATALOGUE, DEFAULT_NAMESPACE, Location, NAMESPACES, SEGMENTS, dataset_path, home_of, prefix_of,
    segment_path,
};
use crate::placement::Placement;
use crate::residency::Tier;
use crate::snapshot::{Snapshot, segments_of};
use crate::source::StoredSegment;
use crate::source::object::{Cache, Objects};
use oboro_format::files::{
    Lock, ensure_directories, ensure_directory, exists, io_error, lock, names, partial_path,
    remove_if_there, rename_durably, sweep, sync_directory,
};
use oboro_format::{
    Corruption, DatasetId, DatasetInfo, Digest, FormatError, Manifest, Roles, Segment,
    forget_cached,
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use remote::{Remote, check_is_no_cache};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::iter;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use namespaces::Namespaces;

pub use access::{Access, Resolved, Visible};
pub use backup::{BackedUp, backup, backup_with};
pub use grants::Grant;
pub use namespaces::namespaces_in;
pub use scrub::{Scrub, ScrubbedPart};

/// The most characters of a dataset's name.
pub const MAX_NAME_CHARS: usize = 100;

/// Bytes set aside so that a full disk can still take the changes of the catalogue that free space.
const RESERVE_BYTES: usize = 256 << 10;

/// Snapshots kept for mining runs that started before an append.
const REPLACED_SNAPSHOTS: usize = 16;

/// Where headers of segments of a namespace take more bytes than this, snapshots that nobody uses are forgotten.
const HEADER_BYTES: u64 = 64 << 20;

/// Where an upload stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadStatus {
    /// The dataset being uploaded.
    pub dataset: DatasetId,
    /// One entry for each segment that the manifest names.
    pub segments: Vec<SegmentProgress>,
    /// This very version is published; nothing is left to do.
    pub published: bool,
}

/// Where the upload of one segment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentProgress {
    /// The segment's index in the manifest.
    pub index: u32,
    /// The length of its file.
    pub bytes_total: u64,
    /// How many of these bytes have arrived: where to continue.
    pub bytes_received: u64,
    /// All bytes have arrived and agree with the manifest.
    pub complete: bool,
}

/// What has been published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The dataset.
    pub dataset: DatasetId,
    /// The version of the dataset.
    pub version: u64,
    /// Its root hash, for the owner to compare.
    pub root: Digest,
    /// The roots of the versions before it, if this call rewrote what they have: nothing of them may be kept.
    pub rewrote: Vec<Digest>,
}

/// What a store holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// The published datasets, by name.
    pub datasets: Vec<DatasetInfo>,
    /// Those of which the catalogue knows no more than this.
    pub damaged: Vec<StoreError>,
}

/// A deleted dataset that can be brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedInfo {
    /// The name it was stored under.
    pub name: String,
    /// Its id.
    pub dataset: DatasetId,
    /// The bytes of its segment files.
    pub stored_bytes: u64,
    /// When it was deleted, and when it goes for ever: seconds since the beginning of 1970.
    pub deleted: i64,
    /// When it goes for ever.
    pub until: i64,
}

/// An unfinished upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadInfo {
    /// The name it is to be stored under.
    pub name: String,
    /// Its id.
    pub dataset: DatasetId,
    /// Bytes of its segments that are here, and of all.
    pub received_bytes: u64,
    /// Bytes of all its segments.
    pub total_bytes: u64,
    /// When it is cancelled if nobody goes on with it: seconds since the beginning of 1970.
    pub until: i64,
}

/// What a namespace holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Published datasets.
    pub datasets: u64,
    /// Unfinished uploads.
    pub uploads: u64,
    /// Deleted datasets that can be brought back.
    pub deleted: u64,
    /// Bytes of all of these.
    pub bytes: u64,
}

/// What one namespace may hold; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all datasets, deleted ones that can be brought back included.
    pub bytes: Option<u64>,
    /// Datasets, published or being uploaded.
    pub datasets: Option<u64>,
    /// Unfinished uploads.
    pub uploads: Option<u64>,
}

/// What a store keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long deleted datasets can be brought back; zero: not at all.
    pub keep_deleted: Duration,
    /// How long an upload may stand still before it is cancelled.
    pub keep_uploads: Duration,
    /// What each namespace may hold.
    pub quota: Quota,
}

impl Default for Policy {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            keep_deleted: 7 * day,
            keep_uploads: 7 * day,
            quota: Quota::default(),
        }
    }
}

/// Encrypted datasets in a directory, or in object storage, in namespaces that know nothing of each other: each has a
/// catalogue, files and a lock of its own. All methods may be called from any thread.
#[derive(Clone)]
pub struct Store {
    namespaces: Arc<Namespaces>,
}

/// What all namespaces of a store share.
struct Common {
    home: PathBuf,
    placement: Placement,
    /// Ciphertext in memory.
    tier: Arc<Tier>,
    /// If the directory is a cache: what namespaces are below.
    objects: Option<Arc<Cache>>,
    policy: RwLock<Policy>,
    /// How many namespaces are open: they share what idle snapshots may take.
    opened: AtomicU64,
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
    /// Locked before `snapshots`, if both are.
    state: Mutex<State>,
    snapshots: Mutex<Snapshots>,
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

/// Versions that are open: keeps their panels resident.
#[derive(Default)]
struct Snapshots {
    /// The newest snapshot taken of each dataset.
    newest: HashMap<DatasetId, Arc<Snapshot>>,
    /// The names of those that are the published versions.
    current: HashMap<String, DatasetId>,
    /// Snapshots that newer ones replaced, the last at the end. They share their segments.
    replaced: VecDeque<Arc<Snapshot>>,
}

impl Snapshots {
    /// The published version under this name, if it is open.
    fn current(&self, name: &str) -> Option<Arc<Snapshot>> {
        self.newest(*self.current.get(name)?)
    }

    fn newest(&self, dataset: DatasetId) -> Option<Arc<Snapshot>> {
        let newest = self.newest.get(&dataset)?;
        newest.touch();
        Some(Arc::clone(newest))
    }

    fn replaced(&self, dataset: DatasetId, root: Digest) -> Option<Arc<Snapshot>> {
        let is_meant =
            |older: &&Arc<Snapshot>| older.root() == root && older.manifest().dataset == dataset;
        self.replaced.iter().find(is_meant).cloned()
    }

    /// Keeps the snapshot of a published version.
    fn keep(&mut self, snapshot: Arc<Snapshot>, idle_bytes: u64) {
        let dataset = snapshot.manifest().dataset;
        self.current.insert(snapshot.name().to_owned(), dataset);
        let older = self.newest.insert(dataset, Arc::clone(&snapshot));
        if let Some(older) = older.filter(|older| !Arc::ptr_eq(older, &snapshot)) {
            self.replaced.push_back(older);
            if self.replaced.len() > REPLACED_SNAPSHOTS {
                self.replaced.pop_front();
            }
        }
        self.forget_idle(idle_bytes);
    }

    /// Forgets snapshots that nobody uses, versions that were replaced first and then the least recently used, until
    /// headers of the rest take at most `most` bytes.
    fn forget_idle(&mut self, most: u64) {
        let kept = self.newest.values().chain(&self.replaced);
        let mut bytes: u64 = kept.map(|it| it.header_bytes()).sum();
        let is_idle = |it: &Arc<Snapshot>| Arc::strong_count(it) == 1;
        self.replaced.retain(|it| {
            let stays = bytes <= most || !is_idle(it);
            bytes -= if stays { 0 } else { it.header_bytes() };
            stays
        });
        let idle = self.newest.iter().filter(|(_, it)| is_idle(it));
        let mut idle: Vec<_> = idle.map(|(id, it)| (it.used(), *id)).collect();
        idle.sort_unstable();
        for (_, id) in idle {
            if bytes <= most {
                return;
            }
            bytes -= self.newest.remove(&id).map_or(0, |it| it.header_bytes());
        }
    }

    /// Forgets which version is published under this name.
    fn forget_name(&mut self, name: &str) {
        self.current.remove(name);
    }

    /// Forgets the snapshots of a dataset; those who have one keep it.
    fn forget(&mut self, dataset: DatasetId) {
        self.newest.remove(&dataset);
        self.current.retain(|_, it| *it != dataset);
        self.replaced
            .retain(|older| older.manifest().dataset != dataset);
    }
}

impl Namespace {
    /// Opens a namespace as it is.
    fn open(common: &Arc<Common>, name: Arc<str>) -> Result<Self, StoreError> {
        let home = home_of(&common.home, &name);
        ensure_directories(&home)?;
        let (remote, catalogue) = match &common.objects {
            None => {
                check_is_no_cache(&home)?;
                has_catalogue(&home)?;
                (None, Catalogue::open(&home.join(CATALOGUE))?)
            }
            Some(cache) => {
                let cache = cache.below(&prefix_of(&name));
                let (remote, catalogue) = Remote::open(cache, &home)?;
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
            state: Mutex::new(State {
                catalogue,
                receiving: HashMap::new(),
                touched: HashMap::new(),
                outdated: HashSet::new(),
            }),
            snapshots: Mutex::default(),
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
        self.home.join("reserve")
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
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('.')
    {
        Ok(())
    } else {
        Err(StoreError::Name {
            given: name.chars().take(2 * MAX_NAME_CHARS).collect(),
        })
    }
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
    /// Bytes of headers that idle snapshots of one namespace may take.
    fn idle_bytes(&self) -> u64 {
        HEADER_BYTES / self.opened.load(Ordering::Relaxed).max(1)
    }

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
                Some(Arc::new(Cache::new(objects, *cache_bytes)))
            }
        };
        Ok(Self {
            home: home.into(),
            placement,
            tier,
            objects,
            policy: RwLock::default(),
            opened: AtomicU64::new(0),
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
    fn stop_receiving(&self, dataset: DatasetId) {
        for ((id, _), cancelled) in &self.receiving {
            if *id == dataset {
                cancelled.store(true, Ordering::Release);
            }
        }
    }
}

/// Receives the bytes of one segment. Dropped before [`finish`](Self::finish), it keeps what arrived, so that the
/// upload can be resumed.
pub struct SegmentReceiver {
    namespace: Arc<Namespace>,
    manifest: Manifest,
    index: u32,
    announced: u64,
    received: u64,
    /// Its path now, and once it is complete.
    partial: PathBuf,
    path: PathBuf,
    cancelled: Arc<AtomicBool>,
}

impl SegmentReceiver {
    /// How many of the segment's bytes have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many bytes the segment has.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    /// Appends what arrived; refuses, as a whole, what would exceed the segment.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let dataset = self.manifest.dataset;
        self.check_cancelled()?;
        if bytes.len() as u64 > self.announced - self.received {
            return Err(UploadError::TooLong {
                dataset,
                index: self.index,
                announced: self.announced,
            }
            .into());
        }
        let file = self.open()?;
        if let Err(error) = file.write_all_at(bytes, self.received) {
            self.take_back(&file);
            return Err(io_error("write", &self.partial)(error).into());
        }
        self.received += bytes.len() as u64;
        Ok(())
    }

    /// The partial file, for the time of one write: uploads that wait for their clients have no descriptors.
    fn open(&self) -> Result<File, StoreError> {
        let opened = OpenOptions::new().write(true).open(&self.partial);
        opened.map_err(|error| match self.check_cancelled() {
            // Who cancels it removes the file.
            Err(cancelled) => cancelled,
            Ok(()) => io_error("open", &self.partial)(error).into(),
        })
    }

    /// Best effort: the rest of a broken write would only be found at the end.
    fn take_back(&self, file: &File) {
        let written = file.metadata();
        if written.is_ok_and(|it| it.len() > self.received) {
            let _ = file.set_len(self.received);
        }
    }

    /// Checks all that arrived against the manifest and makes the segment complete and
    /// durable. A segment that does not agree is discarded.
    pub fn finish(self) -> Result<(), StoreError> {
        let (dataset, index) = (self.manifest.dataset, self.index);
        let number = self.number();
        self.check_cancelled()?;
        if self.received != self.announced {
            return Err(UploadError::Incomplete {
                dataset,
                index,
                received: self.received,
                announced: self.announced,
            }
            .into());
        }
        if let Err(error) = self.open()?.sync_all() {
            // The bytes may be lost although they can still be read, and a later sync may succeed without them: none of
            // them counts, even where the disk does not let them be removed now.
            self.namespace.unsound.lock().insert(self.partial.clone());
            self.namespace.remove_unsound(&self.partial)?;
            return Err(io_error("sync", &self.partial)(error).into());
        }
        let verified = Segment::open_named(&self.partial, &self.manifest, index)
            .and_then(|segment| segment.verify())
            .map_err(StoreError::from)
            .and_then(|()| self.put_object());
        // From here on nothing may cancel the upload.
        let mut state = self.namespace.state();
        state.touched.insert(dataset, now());
        if let Err(cancelled) = self.check_cancelled() {
            self.take_back_object();
            return Err(cancelled);
        }
        match verified {
            Ok(()) => {
                rename_durably(&self.partial, &self.path)?;
                if let Some(remote) = &self.namespace.remote {
                    remote.cache.add(dataset, number, self.path.clone());
                }
                Ok(())
            }
            Err(StoreError::Format(FormatError::Damaged {
                subject,
                corruption,
                ..
            })) => {
                remove_if_there(&self.partial)?;
                Err(UploadError::SegmentRefused {
                    dataset,
                    index,
                    damaged: subject,
                    corruption,
                }
                .into())
            }
            Err(other) => Err(other),
        }
    }

    /// Writes the segment's object, if the store is in object storage.
    fn put_object(&self) -> Result<(), StoreError> {
        let Some(remote) = &self.namespace.remote else {
            return Ok(());
        };
        let file = File::open(&self.partial).map_err(io_error("open", &self.partial))?;
        remote.put_segment(self.manifest.dataset, self.number(), file)
    }

    /// Removes what [`put_object`](Self::put_object) has written.
    fn take_back_object(&self) {
        if let Some(remote) = &self.namespace.remote {
            remote.take_back_segment(self.manifest.dataset, self.number());
        }
    }

    fn number(&self) -> u32 {
        self.manifest.segments[self.index as usize].number
    }

    fn check_cancelled(&self) -> Result<(), StoreError> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(UploadError::UploadCancelled {
                dataset: self.manifest.dataset,
            }
            .into());
        }
        Ok(())
    }
}

impl Drop for SegmentReceiver {
    fn drop(&mut self) {
        self.namespace
            .state()
            .receiving
            .remove(&(self.manifest.dataset, self.number()));
    }
}

/// The length of a file, `None` if it does not exist.
fn length(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("look at", path)(error).into()),
    }
}

/// Whether there is a complete segment in a dataset's directory.
fn holds_segments(directory: &Path) -> Result<bool, StoreError> {
    Ok(names(directory)?.iter().any(|name| name.ends_with(".seg")))
}

/// Whether a dataset's directory holds more than a deletion or a cancelled upload leaves, although the catalogue has no
/// row of it: one restored from an old copy does not know newer datasets.
fn is_forgotten(state: &State, id: DatasetId, directory: &Path) -> Result<bool, StoreError> {
    let catalogue = &state.catalogue;
    let mut all = Table::ALL.into_iter();
    let is_absent = |table| Ok::<_, StoreError>(catalogue.by_id(table, id)?.is_none());
    Ok(all.try_fold(true, |absent, table| {
        Ok::<_, StoreError>(absent && is_absent(table)?)
    })? && !catalogue.is_purged(id)?
        && holds_segments(directory)?)
}

/// Whether there is a catalogue. Datasets without one are an error: sweeping would remove them.
fn has_catalogue(directory: &Path) -> Result<bool, StoreError> {
    match length(&directory.join(CATALOGUE))? {
        Some(1..) => Ok(true),
        _ if holds_anything(&directory.join(SEGMENTS))? => Err(CatalogueError::Missing {
            path: directory.into(),
        }
        .into()),
        _ => Ok(false),
    }
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

/// Moves the files of a dataset that the catalogue does not know to a directory from which nothing is ever removed.
fn set_aside(home: &Path, id: DatasetId) -> Result<(), StoreError> {
    let unknown = home.join("unknown");
    ensure_directory(&unknown)?;
    let from = dataset_path(home, id);
    // The same dataset may have been forgotten before.
    let earlier = (1..).map(|number| unknown.join(format!("{id}.{number}")));
    let mut names = iter::once(unknown.join(id.to_string())).chain(earlier);
    let to = names
        .find(|name| !name.exists())
        .expect("numbers do not end");
    fs::rename(&from, &to).map_err(io_error("set aside", &from))?;
    sync_directory(&unknown)?;
    Ok(sync_directory(&home.join(SEGMENTS))?)
}

fn holds_anything(directory: &Path) -> Result<bool, StoreError> {
    Ok(names(directory)?
        .iter()
        .any(|name| name.parse::<DatasetId>().is_ok()))
}

/// Removes every file that no row of the catalogue names, and the objects of what was deleted.
fn sweep_all(namespace: &mut Namespace) -> Result<(), StoreError> {
    let state = namespace.state.get_mut();
    let is_cache = namespace.remote.is_some();
    sweep_files(state, &namespace.home, is_cache)?;
    let Some(remote) = &mut namespace.remote else {
        return Ok(());
    };
    remote.sweep(&state.catalogue)?;
    let datasets = namespace.home.join(SEGMENTS);
    for name in names(&datasets)? {
        if let Ok(id) = name.parse() {
            take_into_cache(remote, id, &datasets.join(name))?;
        }
    }
    Ok(())
}

/// Tells the cache about the files of a dataset that are left from before.
fn take_into_cache(remote: &Remote, id: DatasetId, directory: &Path) -> Result<(), StoreError> {
    for name in names(directory)? {
        let number = name.strip_suffix(".seg").map(str::parse);
        if let Some(Ok(number)) = number {
            remote.cache.add(id, number, directory.join(name));
        }
    }
    Ok(())
}

/// Removes every file that no row of the catalogue names.
fn sweep_files(state: &State, home: &Path, is_cache: bool) -> Result<(), StoreError> {
    let datasets = home.join(SEGMENTS);
    for name in names(&datasets)? {
        let Ok(id) = name.parse::<DatasetId>() else {
            continue;
        };
        let directory = datasets.join(&name);
        let published = state.catalogue.by_id(Table::Dataset, id)?;
        // One that was deleted is kept as one that is published.
        let published = match published {
            None => state.catalogue.by_id(Table::Deleted, id)?,
            published => published,
        };
        let pending = state.catalogue.by_id(Table::Upload, id)?;
        if published.is_none() && pending.is_none() {
            // What only the catalogue forgot must not be lost.
            if !is_cache && is_forgotten(state, id, &directory)? {
                set_aside(home, id)?
            } else {
                remove_dataset(&directory)?
            }
            continue;
        }
        // Where a manifest is damaged nothing is removed: that dataset reports it when used.
        let numbers = |record: Option<Record>| {
            record.map_or(Ok(BTreeSet::new()), |record| {
                stored_manifest(&record).map(|manifest| manifest.numbers())
            })
        };
        if let (Ok(published), Ok(pending)) = (numbers(published), numbers(pending)) {
            sweep(&directory, &published, &(&pending - &published))?;
        }
    }
    Ok(())
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
mod import;
mod namespaces;
mod remote;
mod rewritten;
#[cfg(all(test, target_os = "linux"))]
mod script;
mod scrub;
#[cfg(test)]
mod tests;
