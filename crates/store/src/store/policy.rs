//! What a store keeps of each namespace, and for how long.

use std::time::Duration;

/// What one namespace may hold; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all datasets, deleted ones that can be brought back included.
    pub bytes: Option<u64>,
    /// Datasets, published or being uploaded.
    pub datasets: Option<u64>,
    /// Unfinished uploads.
    pub uploads: Option<u64>,
}

/// What a store keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long deleted datasets can be brought back; zero: not at all.
    pub keep_deleted: Duration,
    /// How long an upload may stand still before it is cancelled.
    pub keep_uploads: Duration,
    /// What each namespace may hold.
    pub quota: Quota,
}

impl Default for Policy {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            keep_deleted: 7 * day,
            keep_uploads: 7 * day,
            quota: Quota::default(),
        }
    }
}
