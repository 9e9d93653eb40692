//! The versions of datasets that are open, by namespace.

use crate::snapshot::Snapshot;
use oboro_format::{DatasetId, Digest};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Snapshots kept for mining runs that started before an append.
const REPLACED_SNAPSHOTS: usize = 16;

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
pub(super) struct AllSnapshots(pub(super) BTreeMap<Arc<str>, Snapshots>);

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
    pub(super) fn bytes(&self, are_idle: bool) -> u64 {
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
