//! The versions of datasets that are open, by namespace.

use oboro_format::{DatasetId, Digest};
use oboro_residency::Snapshot;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Number of snapshots kept for mining runs that started before an append.
const REPLACED_SNAPSHOTS: usize = 16;

/// Open versions, whose panels stay resident.
#[derive(Default)]
pub(super) struct Snapshots {
    /// Newest snapshot of each dataset.
    pub(super) newest: HashMap<DatasetId, Arc<Snapshot>>,
    /// Names of the snapshots that are the published versions.
    current: HashMap<String, DatasetId>,
    /// Snapshots replaced by newer ones, the latest at the end. They share segments with them.
    pub(super) replaced: VecDeque<Arc<Snapshot>>,
}

/// Open versions of all namespaces, by name.
#[derive(Default)]
pub(super) struct AllSnapshots(pub(super) BTreeMap<Arc<str>, Snapshots>);

impl Snapshots {
    /// Returns the published version under this name, if it is open.
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
    pub(super) fn keep(&mut self, snapshot: Arc<Snapshot>) {
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

    /// Forgets the published version under this name.
    pub(super) fn forget_name(&mut self, name: &str) {
        self.current.remove(name);
    }

    /// Forgets the snapshots of a dataset; their current users keep them.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.newest.remove(&dataset);
        self.current.retain(|_, it| *it != dataset);
        self.replaced
            .retain(|older| older.manifest().dataset != dataset);
    }

    /// Returns the bytes of used or unused versions. Segments shared by two versions count twice.
    pub(super) fn bytes(&self, are_idle: bool) -> u64 {
        let all = self.newest.values().chain(&self.replaced);
        let meant = all.filter(|it| is_idle(it) == are_idle);
        meant.map(|it| it.header_bytes()).sum()
    }

    /// Forgets an unused version: a replaced one or else the least recently used.
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
    /// Forgets unused versions until `is_enough` returns true; returns false if it never does.
    pub(super) fn make_room(&mut self, mut is_enough: impl FnMut() -> bool) -> bool {
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
