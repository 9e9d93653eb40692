//! Tracks whether the store's disk accepts writes, and probes until it recovers.
//!
//! Queries on published data need no write and are answered meanwhile; calls that write fail with the cause. After a
//! failed write the disk is probed with a small file, then every few seconds until a probe succeeds.

use crate::blocking::blocking;
use oboro_format::files::try_writing;
use oboro_format::{ErrorKind, FormatError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Service name under which the health service reports it.
pub(crate) const WRITES: &str = "oboro.v1.Mining/writes";

/// Delay until a disk that failed a write is probed again.
const AGAIN: Duration = Duration::from_secs(2);

/// Write state of a directory, as last observed.
pub(crate) struct Writes {
    home: PathBuf,
    succeed: watch::Sender<bool>,
}

impl Writes {
    /// Creates the state of the data directory `home`; writes are assumed to succeed until one fails.
    pub(crate) fn new(home: &Path) -> Self {
        Self {
            home: home.into(),
            succeed: watch::Sender::new(true),
        }
    }

    /// Returns true if writes succeed.
    pub(crate) fn succeed(&self) -> bool {
        *self.succeed.borrow()
    }

    /// Probes the disk after a failed call, unless the kind of failure rules the disk out. Blocks.
    pub(crate) fn after(&self, failure: ErrorKind) {
        let may_be_the_disk = matches!(
            failure,
            ErrorKind::DiskFull | ErrorKind::Unavailable | ErrorKind::Internal
        );
        // Otherwise `report` probes it.
        if may_be_the_disk && self.succeed() {
            self.look();
        }
    }

    fn look(&self) {
        let tried = try_writing(&self.home);
        if let Err(FormatError::TooManyFiles { .. }) = tried {
            return;
        }
        let changed = self.succeed.send_if_modified(|succeed| {
            let before = std::mem::replace(succeed, tried.is_ok());
            before != *succeed
        });
        match tried {
            Err(error) if changed => {
                tracing::error!(%error, "the disk takes no writes; questions about what is published are answered");
            }
            Ok(()) if changed => tracing::info!("the disk takes writes again"),
            _ => {}
        }
    }

    /// Reports the state to the health service, and probes while writes fail; never returns.
    pub(crate) async fn report(self: Arc<Self>, health: HealthReporter) {
        let mut succeed = self.succeed.subscribe();
        loop {
            let status = if *succeed.borrow_and_update() {
                ServingStatus::Serving
            } else {
                ServingStatus::NotServing
            };
            health.set_service_status(WRITES, status).await;
            if status == ServingStatus::Serving {
                // The sender lives as long as `self`.
                let _ = succeed.changed().await;
            } else {
                tokio::time::sleep(AGAIN).await;
                let writes = Arc::clone(&self);
                // A failed probe is repeated the next time.
                let _ = blocking(move || {
                    writes.look();
                    Ok(())
                })
                .await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn failures_have_the_disk_tried_and_only_it_counts() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        fs::create_dir(&home).unwrap();
        let writes = Writes::new(&home);
        writes.after(ErrorKind::Unavailable);
        assert!(writes.succeed() && fs::read_dir(&home).unwrap().next().is_none());
        fs::remove_dir(&home).unwrap();
        writes.after(ErrorKind::NotFound);
        assert!(writes.succeed());
        writes.after(ErrorKind::Internal);
        assert!(!writes.succeed());
        fs::create_dir(&home).unwrap();
        writes.look();
        assert!(writes.succeed());
    }
}
