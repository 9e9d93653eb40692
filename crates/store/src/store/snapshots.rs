//! The versions of datasets that are open: their panels stay resident, and questions about them need neither disk nor
//! object storage.

use super::*;

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
    pub(super) fn keep(&mut self, snapshot: Arc<Snapshot>, idle_bytes: u64) {
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
    pub(super) fn forget_idle(&mut self, most: u64) {
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
}
