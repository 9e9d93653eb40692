//! Memory of open segments: headers, and a cell for each panel that may be loaded.
//!
//! A segment is charged from before it is opened until it is closed. Callers make room before they open one.

use crate::panel::Panel;
use oboro_format::{Manifest, SegmentHeader};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// Panel, if it is in memory.
pub(super) type PanelCell = RwLock<Option<Arc<Panel>>>;

/// Bytes of an open segment besides its header and its cells.
const FIXED: u64 = 1 << 10;

/// Returns the bytes that the `index`-th segment of `manifest` takes while open.
pub(crate) fn open_bytes(manifest: &Manifest, index: u32) -> u64 {
    let factors = u64::from(manifest.columns) + 1;
    let cells = manifest.parameters.limb_count() as u64 * factors;
    let cell = size_of::<PanelCell>() as u64;
    SegmentHeader::bytes_of(manifest, index) + cells * cell + FIXED
}

/// Budget of open segments.
#[derive(Debug)]
pub struct Headers(Mutex<Bytes>);

#[derive(Debug)]
struct Bytes {
    most: u64,
    used: u64,
}

/// Bytes charged for open segments, returned when dropped.
#[derive(Debug)]
pub struct HeaderCharge {
    headers: Arc<Headers>,
    bytes: u64,
}

impl Headers {
    /// Creates an unlimited budget.
    pub(super) fn new() -> Arc<Self> {
        let (most, used) = (u64::MAX, 0);
        Arc::new(Self(Mutex::new(Bytes { most, used })))
    }

    /// Limits future reservations.
    pub fn set_limit(&self, most: u64) {
        self.0.lock().most = most;
    }

    /// Returns the limit.
    pub fn limit(&self) -> u64 {
        self.0.lock().most
    }

    /// Returns the bytes charged.
    pub fn used(&self) -> u64 {
        self.0.lock().used
    }

    /// Reserves bytes; `None` if too few are free.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<HeaderCharge> {
        let mut budget = self.0.lock();
        let used = budget.used.checked_add(bytes)?;
        if used > budget.most {
            return None;
        }
        budget.used = used;
        let headers = Arc::clone(self);
        Some(HeaderCharge { headers, bytes })
    }

    /// Charges bytes regardless of the limit.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> HeaderCharge {
        self.0.lock().used += bytes;
        let headers = Arc::clone(self);
        HeaderCharge { headers, bytes }
    }
}

impl HeaderCharge {
    /// Splits off some of the bytes, at most all.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let headers = Arc::clone(&self.headers);
        Self { headers, bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for HeaderCharge {
    fn drop(&mut self) {
        self.headers.0.lock().used -= self.bytes;
    }
}
