//! Read-only access to a store that another process owns, on storage that both reach.
//!
//! No catalogue or lock is used. The caller names the version of a dataset by its manifest, against which everything
//! read is checked.

use crate::error::StoreError;
use crate::layout::{dataset_path, home_of, prefix_of, segment_path};
use crate::location::Location;
use crate::object::{Cache, Objects};
use oboro_format::files::{Lock, ensure_directories, exists, lock, parent, sweep};
use oboro_format::{Manifest, Segment};
use oboro_residency::{Placement, Snapshot, StoredSegment, Tier};
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

/// Number of versions that stay open, with their panels in memory.
const OPEN_SNAPSHOTS: usize = 4;
/// Maximum bytes of open segments besides panels, unless those of one version take more.
const OPEN_BYTES: u64 = 16 << 20;

/// Segments of a store that another process owns. All methods may be called from any thread.
pub struct SharedStore {
    home: PathBuf,
    objects: Option<OwnCache>,
    tier: Arc<Tier>,
    /// Open versions, the most recently used last.
    open: Mutex<VecDeque<Arc<Snapshot>>>,
}

/// Cache of objects that no other process uses.
struct OwnCache {
    cache: Arc<Cache>,
    _lock: Lock,
}

impl SharedStore {
    /// Opens the store in a directory, or in object storage with a cache exclusive to this process. A `budget` limits
    /// the bytes of ciphertext in memory, as in [`Store::open_within`](crate::Store::open_within).
    ///
    /// # Errors
    /// A placement on nodes whose memory this process may not use, an invalid URL, a cache in use.
    pub fn open(
        location: Location,
        placement: Placement,
        budget: Option<u64>,
    ) -> Result<Self, StoreError> {
        placement.check()?;
        let tier = Arc::new(Tier::new(budget, &placement)?);
        let objects = match &location {
            Location::Directory(_) => None,
            Location::Objects {
                url,
                cache,
                cache_bytes,
            } => {
                ensure_directories(cache)?;
                Some(OwnCache {
                    _lock: lock(&cache.join("lock"), cache, "directory for the cache")?,
                    cache: Arc::new(Cache::new(
                        Objects::open(url, placement.threads())?,
                        *cache_bytes,
                    )),
                })
            }
        };
        Ok(Self {
            home: location.home().into(),
            objects,
            tier,
            open: Mutex::default(),
        })
    }

    /// Pins the version of a dataset in a namespace that `manifest` describes. Opens all segments and checks their
    /// headers; panels are read on use. The most recently used few versions stay open.
    ///
    /// # Errors
    /// A segment that is missing or different.
    pub fn snapshot(
        &self,
        namespace: &str,
        name: &str,
        manifest: Manifest,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let mut open = self.open.lock();
        let is_here = |it: &Arc<Snapshot>| **it.namespace() == *namespace;
        let is_same = |it: &Arc<Snapshot>| is_here(it) && *it.manifest() == manifest;
        if let Some(index) = open.iter().position(is_same) {
            let snapshot = open.remove(index).expect("its index was found");
            open.push_back(Arc::clone(&snapshot));
            return Ok(snapshot);
        }
        let is_of_dataset =
            |it: &Arc<Snapshot>| is_here(it) && it.manifest().dataset == manifest.dataset;
        let known = open.iter().filter(|it| is_of_dataset(it)).count();
        // A version that its owner replaced is not counted on any more.
        open.retain(|it| !is_of_dataset(it) || !manifest.replaces(it.manifest()));
        let left = open.iter().filter(|it| is_of_dataset(it)).count();
        if left < known || known == 0 {
            self.forget_replaced(namespace, &manifest)?;
        }
        let older = open.iter().rfind(|it| is_of_dataset(it)).map(|it| &**it);
        let charge = self
            .tier
            .headers()
            .charge(Tier::open_bytes(&manifest, older));
        let snapshot = self.tier.open(
            namespace.into(),
            name.into(),
            manifest,
            older,
            charge,
            |manifest, index| self.segment(namespace, manifest, index),
        )?;
        let snapshot = Arc::new(snapshot);
        open.push_back(Arc::clone(&snapshot));
        // The requested version stays.
        while open.len() > OPEN_SNAPSHOTS
            || open.len() > 1 && self.tier.headers().used() > OPEN_BYTES
        {
            open.pop_front();
        }
        Ok(snapshot)
    }

    /// Removes the copies of segments that this version does not have.
    fn forget_replaced(&self, namespace: &str, manifest: &Manifest) -> Result<(), StoreError> {
        let Some(OwnCache { cache, .. }) = &self.objects else {
            return Ok(());
        };
        let directory = dataset_path(&home_of(&self.home, namespace), manifest.dataset);
        if exists(&directory)? {
            let numbers = manifest.numbers();
            cache
                .below(&prefix_of(namespace))
                .forget(manifest.dataset, &numbers);
            sweep(&directory, &numbers, &BTreeSet::new())?;
        }
        Ok(())
    }

    fn segment(
        &self,
        namespace: &str,
        manifest: &Manifest,
        index: u32,
    ) -> Result<StoredSegment, StoreError> {
        let number = manifest.segments[index as usize].number;
        let home = home_of(&self.home, namespace);
        let path = segment_path(&home, manifest.dataset, number);
        let Some(OwnCache { cache, .. }) = &self.objects else {
            let segment = Segment::open_named(&path, manifest, index)?;
            // The owner may remove the file while it is read: reads then fail without being damage.
            segment.file().let_go();
            return Ok(StoredSegment::new(segment));
        };
        ensure_directories(parent(&path))?;
        Arc::new(cache.below(&prefix_of(namespace))).open(&path, manifest, index)
    }
}

#[cfg(test)]
mod tests;
