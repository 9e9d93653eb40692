//! Readiness of the server, condition by condition.
//!
//! Conditions are probed in the background, which makes queries cheap and never blocks them: storage that does not
//! answer is a failed condition.

use super::process;
use crate::writes::Writes;
use oboro_edge::Audit;
use oboro_store::Store;
use parking_lot::Mutex;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, interval};

/// Interval between probes of storage.
const PROBE: Duration = Duration::from_secs(10);
/// Timeout of a probe, after which the condition fails until it ends.
const PATIENCE: Duration = Duration::from_secs(15);
/// Tolerated lag of the clock behind an earlier reading or write.
const BEHIND: Duration = Duration::from_secs(3600);

/// Condition of readiness, with the problem if it does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) name: &'static str,
    pub(crate) problem: Option<String>,
}

/// State of a server's conditions.
pub(crate) struct Readiness {
    writes: Arc<Writes>,
    audit: Option<Arc<Audit>>,
    stopping: AtomicBool,
    storage: Mutex<Probe>,
    /// Latest time at which data were written, or that was read from the clock.
    latest: Mutex<SystemTime>,
}

#[derive(Default)]
struct Probe {
    /// Start of the probe in progress.
    since: Option<Instant>,
    problem: Option<String>,
}

impl Readiness {
    /// Creates the state of a server with its data in `home`, before any probe.
    pub(crate) fn new(home: &Path, writes: &Arc<Writes>, audit: Option<Arc<Audit>>) -> Self {
        let written = fs::metadata(home).and_then(|it| it.modified());
        Self {
            writes: Arc::clone(writes),
            audit,
            stopping: AtomicBool::new(false),
            storage: Mutex::default(),
            latest: Mutex::new(written.unwrap_or(SystemTime::UNIX_EPOCH)),
        }
    }

    /// Marks the server as about to stop.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Probes storage periodically; never returns.
    pub(crate) async fn watch(&self, store: &Store) {
        let mut ticks = interval(PROBE);
        loop {
            ticks.tick().await;
            self.storage.lock().since = Some(Instant::now());
            let store = store.clone();
            let probed = tokio::task::spawn_blocking(move || store.probe()).await;
            *self.storage.lock() = Probe {
                since: None,
                problem: match probed {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.without_paths()),
                    Err(_) => Some("the probe of storage ended abnormally".to_owned()),
                },
            };
        }
    }

    /// Returns all conditions, as last probed.
    pub(crate) fn conditions(&self) -> [Condition; 6] {
        let condition = |name, problem| Condition { name, problem };
        let stopping = self.stopping.load(Ordering::Relaxed);
        let stopping = stopping.then(|| "the server is about to stop".to_owned());
        let writes = (!self.writes.succeed())
            .then(|| "the disk takes no writes; what is published is answered".to_owned());
        [
            condition("serving", stopping),
            condition("disk", writes),
            condition(
                "audit",
                self.audit.as_ref().and_then(|it| audit_problem(it)),
            ),
            condition("descriptors", descriptors()),
            condition("storage", self.storage.lock().problem()),
            condition("clock", self.clock(SystemTime::now())),
        ]
    }

    /// Checks that the clock did not go back: expired tokens and certificates would be valid again.
    fn clock(&self, now: SystemTime) -> Option<String> {
        let mut latest = self.latest.lock();
        *latest = (*latest).max(now);
        let behind = latest.duration_since(now).unwrap_or_default();
        (behind > BEHIND).then(|| {
            format!(
                "the clock is {} minutes behind what was written or seen before; set it right",
                behind.as_secs() / 60
            )
        })
    }
}

impl Probe {
    fn problem(&self) -> Option<String> {
        let waited = self.since.map(|it| it.elapsed()).unwrap_or_default();
        if waited > PATIENCE {
            return Some(format!(
                "storage has not answered for {} s",
                waited.as_secs()
            ));
        }
        self.problem.clone()
    }
}

fn audit_problem(audit: &Audit) -> Option<String> {
    let problem = audit.problem()?;
    Some(format!(
        "the audit log cannot be written: {problem}; calls are refused until it can"
    ))
}

fn descriptors() -> Option<String> {
    let (open, most) = process::descriptors()?;
    let most = most?;
    (open > most - most / 20).then(|| {
        format!("{open} of {most} descriptors are open; raise the limit on open files (ulimit -n)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readiness() -> Readiness {
        let writes = Arc::new(Writes::new(Path::new("/nowhere")));
        Readiness::new(Path::new("/nowhere"), &writes, None)
    }

    #[test]
    fn a_clock_that_goes_back_is_a_problem_until_it_is_right() {
        let readiness = readiness();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert_eq!(readiness.clock(now), None);
        assert_eq!(readiness.clock(now - BEHIND), None);
        let behind = readiness.clock(now - BEHIND - Duration::from_secs(120));
        assert!(
            behind
                .unwrap()
                .starts_with("the clock is 62 minutes behind")
        );
        assert_eq!(readiness.clock(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn storage_that_hangs_is_a_problem_before_it_fails() {
        let readiness = readiness();
        let storage = || {
            let conditions = readiness.conditions().into_iter();
            conditions
                .filter(|it| it.name == "storage")
                .find_map(|it| it.problem)
        };
        readiness.storage.lock().since = Some(Instant::now());
        tokio::time::advance(PATIENCE).await;
        assert_eq!(storage(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(storage().unwrap(), "storage has not answered for 16 s");
    }
}
