//! What all namespaces of a store share.

use super::open_versions::AllSnapshots;
use super::policy::Policy;
use crate::cache_marker::check_is_no_cache;
use crate::error::StoreError;
use crate::location::Location;
use crate::object::{Cache, Objects};
use crate::store_id::StoreId;
use oboro_format::files::{Lock, lock};
use oboro_residency::Placement;
use oboro_residency::Tier;
use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::sync::Arc;

/// State shared by all namespaces of a store.
pub(super) struct Common {
    pub(super) home: PathBuf,
    pub(super) id: StoreId,
    /// Ciphertext in memory.
    pub(super) tier: Arc<Tier>,
    /// Objects in the namespaces, if the directory is a cache.
    pub(super) objects: Option<Arc<Cache>>,
    pub(super) policy: RwLock<Policy>,
    /// Open snapshots. Locked after the state of a namespace, if both are.
    pub(super) snapshots: Mutex<AllSnapshots>,
    /// Lock of the store, held as long as anything may still write.
    _lock: Lock,
}

impl Common {
    /// Opens and locks the directory, or the cache of objects. `alternative` completes the error if another process
    /// holds it.
    pub(super) fn open(
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
            tier,
            objects,
            policy: RwLock::default(),
            snapshots: Mutex::default(),
            _lock: lock,
        })
    }
}
