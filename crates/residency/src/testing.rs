//! Helpers of this crate's tests, besides the datasets of the format's tests.

use crate::{Placement, ResidencyError, Snapshot, StoredSegment, Tier};
use oboro_format::{Bundle, Manifest};
use std::path::Path;
use std::sync::Arc;

pub(crate) use oboro_format::testing::*;

/// Opens the version in a bundle, which may extend an older one.
pub(crate) fn open_version(
    tier: &Arc<Tier>,
    bundle: &Bundle,
    older: Option<&Snapshot>,
) -> Result<Snapshot, ResidencyError> {
    let manifest = bundle.manifest().clone();
    let charge = tier.headers().charge(Tier::open_bytes(&manifest, older));
    let open = |_: &Manifest, index| Ok(StoredSegment::new(bundle.open_segment(index)?));
    tier.open("".into(), "a".into(), manifest, older, charge, open)
}

/// Opens the only version in a bundle, with ciphertext in memory limited and placed in this way.
pub(crate) fn snapshot(
    bundle: &Bundle,
    budget: Option<u64>,
    placement: &Placement,
) -> Result<Snapshot, ResidencyError> {
    open_version(&Arc::new(Tier::new(budget, placement)?), bundle, None)
}

/// Returns the kernel's numbers of four real nodes; `None`, with a message, if this machine has fewer.
pub(crate) fn four_nodes() -> Option<[u32; 4]> {
    let nodes = [0, 1, 2, 3];
    let online = |node| Path::new(&format!("/sys/devices/system/node/node{node}")).exists();
    let all = nodes.into_iter().all(online);
    if !all {
        println!(
            "skipped: this machine has fewer than four NUMA nodes; `make test-numa` emulates them"
        );
    }
    all.then_some(nodes)
}
