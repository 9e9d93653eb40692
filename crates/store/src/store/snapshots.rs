//! The versions of datasets that are open: their panels stay resident, and questions about them need neither disk nor
//! object storage.
//!
//! What open segments take in memory is bounded for all namespaces together. Where it would be more, versions that nobody
//! uses are closed: those of the namespace that has most of them first.

use super::*;
use crate::error::ResidencyError;
use crate::residency::{HeaderCharge, open_bytes};
use parking_lot::{MappedMutexGuard, MutexGuard};

/// Snapshots kept for mining runs that started before an append.
const REPLACED_SNAPSHOTS: usize = 16;

/// What versions that nobody uses take at most.
const IDLE_BYTES: u64 = 64 << 20;

/// Versions that are open: keeps their panels resident.
#[derive(Default)]
pub(super) struct Snapshots {
    /// The newest snapshot taken of each dataset.
    pub(super) newest: HashMap<DatasetId, Arc<Snapshot>>,
    /// The names of those that are the published versions.
    current: HashMap<String, DatasetId>,
    /// Snapshots that newer ones replaced, the last at the end. They share their segments.
    pub(super) replaced: VecDeque<Arc<Snapshot>>,
}

/// The open versions of all namespaces, by name.
#[derive(Default)]
pub(super) struct AllSnapshots(BTreeMap<Arc<str>, Snapshots>);

impl Snapshots {
    /// The published version under this name, if it is open.
    pub(super) fn current(&self, name: &str) -> Option<Arc<Snapshot>> {
        self.newest(*self.current.get(name)?)
    }

    pub(super) fn newest(&self, dataset: DatasetId) -> Option<Arc<Snapshot>> {
        let newest = self.newest.get(&dataset)?;
        newest.touch();
        Some(Arc::clone(newest))
    }

    pub(super) fn replaced(&self, dataset: DatasetId, root: Digest) -> Option<Arc<Snapshot>> {
        let is_meant =
            |older: &&Arc<Snapshot>| older.root() == root && older.manifest().dataset == dataset;
        self.replaced.iter().find(is_meant).cloned()
    }

    /// Keeps the snapshot of a published version.
    fn keep(&mut self, snapshot: Arc<Snapshot>) {
        let dataset = snapshot.manifest().dataset;
        self.current.insert(snapshot.name().to_owned(), dataset);
        let older = self.newest.insert(dataset, Arc::clone(&snapshot));
        if let Some(older) = older.filter(|older| !Arc::ptr_eq(older, &snapshot)) {
            self.replaced.push_back(older);
            if self.replaced.len() > REPLACED_SNAPSHOTS {
                self.replaced.pop_front();
            }
        }
    }

    /// Forgets which version is published under this name.
    pub(super) fn forget_name(&mut self, name: &str) {
        self.current.remove(name);
    }

    /// Forgets the snapshots of a dataset; those who have one keep it.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.newest.remove(&dataset);
        self.current.retain(|_, it| *it != dataset);
        self.replaced
            .retain(|older| older.manifest().dataset != dataset);
    }

    /// Bytes of versions, of those that somebody uses or of those that nobody does. What two versions share counts twice.
    fn bytes(&self, are_idle: bool) -> u64 {
        let all = self.newest.values().chain(&self.replaced);
        let meant = all.filter(|it| is_idle(it) == are_idle);
        meant.map(|it| it.header_bytes()).sum()
    }

    /// Forgets a version that nobody uses: one that was replaced, or else the least recently used.
    fn forget_one(&mut self) -> bool {
        if let Some(at) = self.replaced.iter().position(is_idle) {
            self.replaced.remove(at);
            return true;
        }
        let idle = self.newest.iter().filter(|(_, it)| is_idle(it));
        let oldest = idle.min_by_key(|(_, it)| it.used()).map(|(id, _)| *id);
        oldest.is_some_and(|id| self.newest.remove(&id).is_some())
    }
}

fn is_idle(snapshot: &Arc<Snapshot>) -> bool {
    Arc::strong_count(snapshot) == 1
}

impl AllSnapshots {
    /// Forgets versions that nobody uses until there is room; whether there is.
    fn make_room(&mut self, mut is_enough: impl FnMut() -> bool) -> bool {
        loop {
            if is_enough() {
                return true;
            }
            let most = self.0.values_mut().max_by_key(|it| it.bytes(true));
            if !most.is_some_and(Snapshots::forget_one) {
                return false;
            }
        }
    }
}

impl Common {
    /// Forgets versions that nobody uses until what is open takes at most `most` bytes, or all else is in use.
    pub(super) fn forget_idle(&self, most: u64) {
        let headers = self.tier.headers();
        let mut all = self.snapshots.lock();
        all.make_room(|| headers.used() <= most);
    }
}

impl Namespace {
    /// The open versions of this namespace.
    pub(super) fn snapshots(&self) -> MappedMutexGuard<'_, Snapshots> {
        MutexGuard::map(self.common.snapshots.lock(), |all| {
            all.0.entry(Arc::clone(&self.name)).or_default()
        })
    }

    /// Keeps the snapshot of a published version.
    pub(super) fn keep_open(&self, snapshot: &Arc<Snapshot>) {
        self.snapshots().keep(Arc::clone(snapshot));
        let limit = self.common.tier.headers().limit();
        self.common.forget_idle(limit.min(IDLE_BYTES));
    }

    /// Reserves the memory of the segments that a version of a dataset has and an older open one does not.
    ///
    /// # Errors
    /// More than the server has, or than it has left while others are in use: one owner with several datasets in use has at
    /// most half.
    pub(super) fn reserve_open(
        &self,
        manifest: &Manifest,
        older: Option<&Snapshot>,
    ) -> Result<HeaderCharge, StoreError> {
        let of_older = |it: &Snapshot| it.manifest().digests();
        let there = older.map(of_older).unwrap_or_default();
        let opened = (0..).zip(&manifest.segments);
        let opened = opened.filter(|(_, it)| there.get(&it.number) != Some(&it.digest));
        let needed = opened.map(|(index, _)| open_bytes(manifest, index)).sum();
        let headers = self.common.tier.headers();
        let limit = headers.limit();
        if needed > limit {
            return Err(ResidencyError::Headers { needed, limit }.into());
        }
        let mut all = self.common.snapshots.lock();
        let used = all.0.get(&self.name).map_or(0, |it| it.bytes(false));
        let mut charge = None;
        if used == 0 || used.saturating_add(needed) <= limit / 2 {
            all.make_room(|| {
                charge = headers.reserve(needed);
                charge.is_some()
            });
        }
        charge.ok_or_else(|| ResidencyError::HeadersInUse { limit }.into())
    }
}
