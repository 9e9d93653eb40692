//! Store: upload, publication, listing, pinning and deletion of datasets, in namespaces.
//!
//! The catalogue defines what exists; files are created before the row that names them and removed after it. A crash at
//! any point therefore leaves the old or the new state. Files that no row names are swept when the store is opened. One
//! process at a time opens a store.

use crate::error::StoreError;
use crate::layout::CATALOGUE;
use crate::location::Location;
use common::Common;
use directory::check_is_no_other;
use namespace::Namespace;
use namespaces::Namespaces;
use oboro_format::DEFAULT_NAMESPACE;
use oboro_format::Roles;
use oboro_format::files::{ensure_directories, io_error};
use oboro_residency::Placement;
#[cfg(test)]
use oboro_residency::Tier;
use std::fs;
use std::path::Path;
use std::sync::Arc;

mod access;
mod backend;
mod backup;
mod common;
#[cfg(all(test, target_os = "linux"))]
mod crashes;
#[cfg(all(test, target_os = "linux"))]
mod damage;
mod datasets;
#[cfg(test)]
mod descriptors;
mod directory;
#[cfg(all(test, target_os = "linux"))]
mod failures;
mod grants;
mod identity;
mod import;
mod local;
mod namespace;
mod namespaces;
mod open_versions;
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
mod stored_manifest;
mod sweep;
#[cfg(test)]
mod tests;

pub use access::{Access, ResolvedName, VisibleNamespace};
pub use backup::{BackupSize, backup, backup_with};
pub use grants::Grant;
pub use namespaces::namespaces_in;
pub use policy::{Policy, Quota};
pub use receiver::SegmentReceiver;
pub use recovery::{Recovery, RecoveryReceiver};
pub use reports::{
    CacheState, DeletedInfo, Listing, PublishedVersion, SegmentProgress, StoreState, UploadInfo,
    UploadStatus, Usage,
};
pub use scrub::{Scrub, ScrubbedPart};

/// Store of encrypted datasets, in a directory or in object storage. Its namespaces are isolated: each has its own
/// catalogue, files and lock. All methods may be called from any thread.
#[derive(Clone)]
pub struct Store {
    namespaces: Arc<Namespaces>,
}

impl Store {
    /// Opens the store in a directory, creating an empty one if it does not exist, and sweeps the leftovers of a crash.
    ///
    /// # Errors
    ///
    /// A store that another process has open, a directory with other content, a catalogue that is damaged or of another
    /// version, a disk that fails.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_on(directory, Placement::default())
    }

    /// As [`open`](Self::open), for any location, with ciphertext in memory placed as requested.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), or a node whose memory this process may not use.
    pub fn open_on(
        location: impl Into<Location>,
        placement: Placement,
    ) -> Result<Self, StoreError> {
        Self::open_with(location.into(), placement, None)
    }

    /// As [`open_on`](Self::open_on), with at most `budget` bytes of ciphertext in memory, an equal share on each node
    /// that datasets are placed on. Read buffers take up to [`read_buffers`](Location::read_buffers) bytes in addition.
    pub fn open_within(
        location: impl Into<Location>,
        budget: u64,
        placement: Placement,
    ) -> Result<Self, StoreError> {
        Self::open_with(location.into(), placement, Some(budget))
    }

    /// Returns the number of segment objects that no catalogue named when their namespaces were opened. They belong to
    /// other servers' uploads, or are newer than a catalogue restored from an old copy. They stay.
    pub fn unnamed_objects(&self) -> usize {
        let unnamed = |it: &Arc<Namespace>| it.backend.unnamed();
        self.namespaces.opened().iter().map(unnamed).sum()
    }

    fn open_with(
        location: Location,
        placement: Placement,
        budget: Option<u64>,
    ) -> Result<Self, StoreError> {
        placement.check()?;
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

    /// Changes the quotas and the retention times.
    pub fn set_policy(&self, policy: Policy) {
        *self.namespaces.common().policy.write() = policy;
    }

    /// Returns access with all roles in the default namespace.
    pub fn access(&self) -> Access {
        self.access_of(DEFAULT_NAMESPACE, Roles::ALL)
    }

    /// Returns access for a caller's namespace with these roles, including what others granted to it. The name is not
    /// checked: authentication is the server's task.
    pub fn access_of(&self, namespace: &str, roles: Roles) -> Access {
        Access::new(Arc::clone(&self.namespaces), namespace.into(), roles)
    }

    /// Returns the state of memory and cache, without access to disk or object storage.
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

    /// Checks that object storage, or the disk of the directory, responds. Blocks.
    ///
    /// # Errors
    /// Storage that does not respond, or refuses.
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

    /// Returns the bytes that each namespace of this directory stores, without those that cannot be read.
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

    /// Purges deleted datasets after their retention time, and cancels stalled uploads, in all namespaces of this
    /// directory; `now` is in seconds since 1970. Returns the numbers of both, and the errors.
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
