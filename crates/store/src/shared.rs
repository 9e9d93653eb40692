//! What another process has published, on storage that this one reaches too: read, and never changed.
//!
//! There is no catalogue and no lock here. Whoever asks says by its manifest which version of a dataset is
//! meant, and everything that is read is checked against that.

use crate::directories::Directories;
use crate::error::StoreError;
use crate::files::{ensure_directories, exists, lock, parent};
use crate::location::Location;
use crate::manifest::Manifest;
use crate::objects::{Cache, Objects};
use crate::placement::Placement;
use crate::segment::Segment;
use crate::snapshot::{OpenSegment, Snapshot};
use crate::tier::Tier;
use std::collections::VecDeque;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// Versions that stay open, with what of them is in memory.
const OPEN_SNAPSHOTS: usize = 4;

/// The segments of a store that another process has. All methods may be called from any thread.
pub struct SharedStore {
    directories: Directories,
    objects: Option<OwnCache>,
    placement: Placement,
    tier: Option<Arc<Tier>>,
    /// The last used at the end.
    open: Mutex<VecDeque<Arc<Snapshot>>>,
}

/// A cache of objects that no other process has.
struct OwnCache {
    cache: Arc<Cache>,
    _lock: File,
}

impl SharedStore {
    /// The store in these directories, all that it has, in order, or in object storage, then with a cache
    /// that is this process's alone. With a `budget` there are at most so many bytes of ciphertext in
    /// memory, as in [`Store::open_within`](crate::Store::open_within).
    ///
    /// # Errors
    /// A placement on nodes that this process may not have memory on, a URL that is none, a cache in use.
    pub fn open(
        location: Location,
        placement: Placement,
        budget: Option<u64>,
    ) -> Result<Self, StoreError> {
        placement.check()?;
        let directories = location.directories();
        let tier = budget.map(|budget| Tier::new(budget, &placement, directories.count()));
        let tier = tier.transpose()?.map(Arc::new);
        let objects = match &location {
            Location::Directories(_) => None,
            Location::Objects {
                url,
                cache,
                cache_bytes,
            } => {
                ensure_directories(cache)?;
                Some(OwnCache {
                    _lock: lock(&cache.join("lock"), cache, "directory for the cache")?,
                    cache: Arc::new(Cache::new(Objects::open(url)?, *cache_bytes)),
                })
            }
        };
        Ok(Self {
            directories,
            objects,
            placement,
            tier,
            open: Mutex::default(),
        })
    }

    /// Pins the version of the dataset of this name that `manifest` describes. All its segments are opened
    /// and their headers checked; panels are read when they are used. The last few versions that were asked
    /// for stay open.
    ///
    /// # Errors
    /// A segment that is missing, or another one.
    pub fn snapshot(&self, name: &str, manifest: Manifest) -> Result<Arc<Snapshot>, StoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = open.iter().position(|it| *it.manifest() == manifest) {
            let snapshot = open.remove(place).expect("its place was found");
            open.push_back(Arc::clone(&snapshot));
            return Ok(snapshot);
        }
        let homes = Arc::new(self.placement.homes(name, manifest.dataset));
        let older = open
            .iter()
            .rfind(|it| manifest.extends(it.manifest()).is_ok());
        let mut segments = older.map_or_else(Vec::new, |older| older.segments().to_vec());
        for index in segments.len() as u32..manifest.segments.len() as u32 {
            let segment = self.segment(&manifest, index)?;
            segments.push(OpenSegment::new(segment, &homes, self.tier.as_ref())?);
        }
        let snapshot = Arc::new(Snapshot::new(name.into(), manifest, segments, homes));
        open.push_back(Arc::clone(&snapshot));
        if open.len() > OPEN_SNAPSHOTS {
            open.pop_front();
        }
        Ok(snapshot)
    }

    fn segment(&self, manifest: &Manifest, index: u32) -> Result<Segment, StoreError> {
        let count = self.directories.count();
        let mut paths = self.directories.of_segment(manifest.dataset, index, count);
        let Some(OwnCache { cache, .. }) = &self.objects else {
            // Later ones were added to the store when the segment was there already.
            while paths.len() > 1 && !exists(&paths[paths.len() - 1])? {
                paths.pop();
            }
            return Segment::open_expected(paths, manifest, index);
        };
        let path = paths.swap_remove(0);
        ensure_directories(parent(&path))?;
        Segment::open_cached(cache, path, manifest, index)
    }
}

#[cfg(test)]
mod tests;
