//! The server's side: datasets being uploaded, published, listed, pinned and deleted, in namespaces.
//!
//! The catalogue says what exists; files come before the row that names them and go after it. So a crash at any point
//! leaves the old state or the new one, and files that no row names are swept when the store is opened. One process at
//! a time opens a store.

use crate::error::StoreError;
use crate::layout::{CATALOGUE, DEFAULT_NAMESPACE};
use crate::location::Location;
use crate::placement::Placement;
#[cfg(test)]
use crate::residency::Tier;
use common::Common;
use directory::check_is_no_other;
use namespace::Namespace;
use namespaces::Namespaces;
use oboro_format::Roles;
use oboro_format::files::{ensure_directories, io_error};
use std::fs;
use std::path::Path;
use std::sync::Arc;

mod access;
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

pub use access::{Access, Resolved, Visible};
pub use backup::{BackedUp, backup, backup_with};
pub use grants::Grant;
pub use namespaces::namespaces_in;
pub use policy::{Policy, Quota};
pub use receiver::SegmentReceiver;
pub use recovery::{Recovery, RecoveryReceiver};
pub use reports::{
    CacheState, DeletedInfo, Listing, Published, SegmentProgress, StoreState, UploadInfo,
    UploadStatus, Usage,
};
pub use scrub::{Scrub, ScrubbedPart};

/// Encrypted datasets in a directory, or in object storage, in namespaces that know nothing of each other: each has a
/// catalogue, files and a lock of its own. All methods may be called from any thread.
#[derive(Clone)]
pub struct Store {
    namespaces: Arc<Namespaces>,
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
