//! Whether the disk of the store takes writes: what the health service says of it, and how it is found out again.
//!
//! Questions about published data need no write, so they are answered meanwhile; what writes tries, and fails with the
//! cause. A failed write has the disk tried with a small file, and again every few seconds until it takes one.

use crate::blocking::blocking;
use oboro_format::files::try_writing;
use oboro_format::{ErrorKind, FormatError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The name under which the health service tells it.
pub(crate) const WRITES: &str = "oboro.v1.Mining/writes";

/// The time until a disk that took no write is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Whether writes into a directory succeed, as far as it is known.
pub(crate) struct Writes {
    home: PathBuf,
    succeed: watch::Sender<bool>,
}

impl Writes {
    /// Of the data directory `home`: they succeed until one fails.
    pub(crate) fn new(home: &Path) -> Self {
        Self {
            home: home.into(),
            succeed: watch::Sender::new(true),
        }
    }

    /// Whether they do.
    pub(crate) fn succeed(&self) -> bool {
        *self.succeed.borrow()
    }

    /// A call failed in this way: if it may have been the disk, looks whether that takes writes. Blocks.
    pub(crate) fn after(&self, failure: ErrorKind) {
        let may_be_the_disk = matches!(
            failure,
            ErrorKind::DiskFull | ErrorKind::Unavailable | ErrorKind::Internal
        );
        // Else it is looked at in turn.
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

    /// Has the health service say what is known, and looks again while writes fail. Does not end.
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
                // The sender lives as long as this does.
                let _ = succeed.changed().await;
            } else {
                tokio::time::sleep(AGAIN).await;
                let writes = Arc::clone(&self);
                // If that fails, it is tried again the next time.
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
