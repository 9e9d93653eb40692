//! Data sources of metrics, readiness and the status page.

use super::readiness::Readiness;
use crate::cache::MomentCache;
use crate::call_limits::CallLimits;
use crate::calls::CallTimes;
use crate::genome::Genomes;
use crate::health::Watches;
use crate::limits::Admission;
use crate::memory::PlanMemory;
use crate::metering::{Meter, Used};
use crate::pool::Queue;
use crate::scrubbing::Scrubs;
use oboro_edge::{Authentication, Certificates, Connections};
use oboro_store::Store;
use parking_lot::Mutex;
use rustix::fs::{StatVfs, statvfs};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Parts of a server that monitoring reads.
pub(crate) struct Sources {
    pub(crate) home: PathBuf,
    pub(crate) store: Store,
    pub(crate) connections: Arc<Connections>,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) call_limits: Arc<CallLimits>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) watches: Watches,
    pub(crate) queue: Arc<Queue>,
    pub(crate) threads: usize,
    pub(crate) budget: Arc<PlanMemory>,
    pub(crate) moments: Arc<MomentCache>,
    pub(crate) genomes: Genomes,
    pub(crate) meter: Arc<Meter>,
    pub(crate) tls: Option<Arc<Certificates>>,
    pub(crate) readiness: Arc<Readiness>,
    /// Bytes that each namespace stores, as of the last minute.
    pub(crate) stored: Mutex<Vec<(Arc<str>, u64)>>,
    /// Samples of use within the last minute.
    pub(crate) samples: Mutex<VecDeque<Sample>>,
    pub(crate) scrubs: Arc<Scrubs>,
    pub(crate) times: CallTimes,
    /// `true` to include metrics by namespace.
    pub(crate) by_namespace: bool,
}

/// Space of a file system, in bytes.
pub(crate) struct Space {
    pub(crate) free: u64,
    pub(crate) all: u64,
}

/// Total use of each namespace at a time.
type Sample = (Instant, Vec<(Arc<str>, Used)>);

/// Use within a period.
pub(crate) struct Use {
    pub(crate) time: Duration,
    pub(crate) used: Used,
}

/// Interval between samples, in seconds.
pub(super) const SAMPLE: u32 = 10;
const MINUTE: u32 = 60;

impl Sources {
    /// Returns the space of the file system with the data; `None` if it is not reported.
    pub(crate) fn space(&self) -> Option<Space> {
        let StatVfs {
            f_bavail,
            f_blocks,
            f_frsize,
            ..
        } = statvfs(&self.home).ok()?;
        Some(Space {
            free: f_bavail * f_frsize,
            all: f_blocks * f_frsize,
        })
    }

    /// Returns the use by the selected namespaces in the last minute, or since the server started.
    pub(crate) fn recent(&self, is_seen: impl Fn(&str) -> bool) -> Use {
        let sum = |used: &[(Arc<str>, Used)]| {
            let seen = used.iter().filter(|it| is_seen(&it.0));
            seen.fold(Used::default(), |sum, it| sum + it.1)
        };
        let samples = self.samples.lock();
        let before = samples.front();
        let since = before.map_or(Instant::now(), |it| it.0);
        Use {
            time: since.elapsed(),
            used: sum(&self.meter.used()) - before.map(|it| sum(&it.1)).unwrap_or_default(),
        }
    }

    /// Samples the use, from which that of the last minute is computed.
    pub(super) fn sample(&self) {
        let mut samples = self.samples.lock();
        if samples.len() > (MINUTE / SAMPLE) as usize {
            samples.pop_front();
        }
        samples.push_back((Instant::now(), self.meter.used()));
    }
}
