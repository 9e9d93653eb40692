//! Quotas of namespaces, and retention times.

use std::time::Duration;

/// Quota of one namespace; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all datasets, including deleted but restorable ones.
    pub bytes: Option<u64>,
    /// Number of datasets, published or being uploaded.
    pub datasets: Option<u64>,
    /// Number of unfinished uploads.
    pub uploads: Option<u64>,
}

/// Quotas and retention times of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Time for which deleted datasets can be restored; zero for not at all.
    pub keep_deleted: Duration,
    /// Time after which a stalled upload is cancelled.
    pub keep_uploads: Duration,
    /// Quota of each namespace.
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
