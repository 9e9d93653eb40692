//! Open versions of datasets: their panels stay resident, and queries on them need neither disk nor object storage.
//!
//! The memory of open segments is bounded for all namespaces together. Beyond it, unused versions are closed: those of
//! the namespace with most of them first.

use super::common::Common;
use super::namespace::Namespace;
use super::open_versions::Snapshots;
use crate::error::StoreError;
use oboro_format::Manifest;
use oboro_residency::{HeaderCharge, ResidencyError, Snapshot, Tier};
use parking_lot::{MappedMutexGuard, MutexGuard};
use std::sync::Arc;

/// Maximum bytes of unused versions.
const IDLE_BYTES: u64 = 64 << 20;

impl Common {
    /// Forgets unused versions until open ones take at most `most` bytes, or all others are in use.
    pub(super) fn forget_idle(&self, most: u64) {
        let headers = self.tier.headers();
        let mut all = self.snapshots.lock();
        all.make_room(|| headers.used() <= most);
    }
}

impl Namespace {
    /// Returns the open versions of this namespace.
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

    /// Reserves the memory of a version's segments that an older open version lacks.
    ///
    /// # Errors
    /// More than the server has, or than is left while others are in use. One owner with several datasets in use gets
    /// at most half.
    pub(super) fn reserve_open(
        &self,
        manifest: &Manifest,
        older: Option<&Snapshot>,
    ) -> Result<HeaderCharge, StoreError> {
        let needed = Tier::open_bytes(manifest, older);
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
