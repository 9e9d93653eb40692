//! Retention: purges deleted datasets after their period, and stalled uploads. After a jump of the clock nothing is
//! purged for a day, in which an operator can correct it.

use oboro_format::FormatError;
use oboro_format::files::{Durability, io_error, replace};
use oboro_store::Store;
use parking_lot::Mutex;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::{Instant, interval};

/// Interval between purges.
const INTERVAL: Duration = Duration::from_secs(600);
/// Largest jump of the clock that is accepted. A server that was stopped for longer also waits.
const LARGEST_JUMP: Duration = Duration::from_secs(24 * 60 * 60);
/// Uptime after a jump during which nothing is purged.
const HOLD: Duration = Duration::from_secs(24 * 60 * 60);
/// File in the store's directory with the last accepted time: seconds since 1970 (UTC), in decimal.
const FILE: &str = "clock";

/// System clock, compared with the monotonic clock and with the end of the last run.
struct Clock {
    path: PathBuf,
    /// Last accepted time, and the monotonic time at which it was read.
    seen: Option<(i64, Instant)>,
    held_until: Option<Instant>,
}

impl Clock {
    /// Reads the last accepted time of this store.
    ///
    /// # Errors
    /// A file that cannot be read.
    fn open(home: &Path, at: Instant) -> Result<Self, FormatError> {
        let path = home.join(FILE);
        let seen = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().ok(),
            Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => None,
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        Ok(Self {
            path,
            seen: seen.map(|seen| (seen, at)),
            held_until: None,
        })
    }

    /// Returns true if data due at `now`, in seconds since 1970, may be purged.
    fn is_believed(&mut self, now: i64, at: Instant) -> bool {
        if let Some(until) = self.held_until {
            if at < until {
                return false;
            }
            self.held_until = None;
        } else {
            // Without a file, the last run of the store is unknown.
            let expected = self.seen.map_or(0, |(seen, since)| {
                seen.saturating_add((at - since).as_secs().cast_signed())
            });
            let ahead = now.saturating_sub(expected);
            if ahead > LARGEST_JUMP.as_secs().cast_signed() {
                self.held_until = Some(at + HOLD);
                let days = ahead / (24 * 60 * 60);
                if self.seen.is_some() {
                    tracing::warn!(
                        days,
                        "the clock is ahead of the last time at which this store was served; nothing that was deleted is removed for a day; if the clock is wrong, set it and restart the server"
                    );
                }
                return false;
            }
        }
        self.seen = Some((now, at));
        true
    }

    /// Records the last accepted time for the next run.
    ///
    /// # Errors
    /// A disk that fails.
    fn record(&self) -> Result<(), FormatError> {
        let Some((seen, _)) = self.seen else {
            return Ok(());
        };
        replace(&self.path, seen.to_string().as_bytes(), Durability::Durable)
    }
}

/// Purges data that are due, periodically.
pub(crate) async fn expire(store: Store, home: &Path) {
    let clock = match Clock::open(home, Instant::now()) {
        Ok(clock) => Arc::new(Mutex::new(clock)),
        Err(error) => {
            tracing::error!(%error, "nothing that was deleted is removed, since it is unknown when the store was last served");
            return std::future::pending().await;
        }
    };
    let mut ticks = interval(INTERVAL);
    loop {
        ticks.tick().await;
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let (store, clock) = (store.clone(), Arc::clone(&clock));
        let look = move || look(&store, &mut clock.lock(), now);
        let _ = tokio::task::spawn_blocking(look).await;
    }
}

/// Purges data that are due now, unless the clock has jumped.
fn look(store: &Store, clock: &mut Clock, now: i64) {
    if !clock.is_believed(now, Instant::now()) {
        return;
    }
    let (purged, cancelled, failed) = store.expire(now);
    if purged > 0 || cancelled > 0 {
        tracing::info!(
            purged,
            cancelled,
            "removed deleted datasets and uploads that stood still"
        );
    }
    for error in failed {
        tracing::error!(%error, "storage");
    }
    if let Err(error) = clock.record() {
        tracing::error!(%error, "storage");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const DAY: i64 = 24 * 60 * 60;
    const NOW: i64 = 1_700_000_000;

    fn after(begun: Instant, days: i64) -> Instant {
        begun + Duration::from_secs((days * DAY).cast_unsigned())
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_not_believed_for_a_day_of_running() {
        let directory = TempDir::new().unwrap();
        let begun = Instant::now();
        let open = || Clock::open(directory.path(), begun).unwrap();
        // Nothing is known at first.
        let mut clock = open();
        assert!(!clock.is_believed(NOW, begun));
        clock.record().unwrap();
        assert!(clock.is_believed(NOW + DAY, after(begun, 1)));
        clock.record().unwrap();
        // The next run begins within a day.
        let mut clock = open();
        assert!(clock.is_believed(NOW + 2 * DAY, begun));
        // The clock jumps while the server runs.
        assert!(!clock.is_believed(NOW + 5 * DAY, after(begun, 1)));
        clock.record().unwrap();
        // A restart accepts it no earlier.
        let mut clock = open();
        let years = 3650 * DAY;
        assert!(!clock.is_believed(NOW + years, begun));
        assert!(!clock.is_believed(NOW + years, begun + Duration::from_secs(3600)));
        // The clock was corrected.
        let mut clock = open();
        assert!(clock.is_believed(NOW + 3 * DAY, begun));
        // A server that runs for a day with it accepts it.
        let mut clock = open();
        assert!(!clock.is_believed(NOW + years, begun));
        assert!(clock.is_believed(NOW + years + DAY, after(begun, 1)));
        assert!(clock.is_believed(NOW + years + 2 * DAY, after(begun, 2)));
    }
}
