//! Metrics of the process, under their standard Prometheus names.

use super::exposition::Families;
use rustix::io::Errno;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::fs;
use std::sync::LazyLock;
use std::time::SystemTime;

/// Start time of the process: that of the first access, during startup.
static STARTED: LazyLock<f64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0.0, |it| it.as_secs_f64())
});

/// Records the start time of the process.
pub(super) fn started() {
    LazyLock::force(&STARTED);
}

/// Returns the number of open descriptors and their limit; `None` where the system does not report them.
pub(super) fn descriptors() -> Option<(u64, Option<u64>)> {
    let most = getrlimit(Resource::Nofile).current;
    let open = match fs::read_dir("/proc/self/fd") {
        // One of them is that of the directory.
        Ok(open) => (open.count() as u64).saturating_sub(1),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => most?,
        Err(_) => return None,
    };
    Some((open, most))
}

/// Returns the bytes of virtual and resident memory.
fn memory() -> Option<[u64; 2]> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split(' ').map(|it| it.parse::<u64>());
    let mut bytes = || Some(pages.next()?.ok()? * page_size() as u64);
    Some([bytes()?, bytes()?])
}

pub(super) fn tell(families: &mut Families<'_>) -> fmt::Result {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let metric = (
        "process_cpu_seconds",
        "Time of all threads, in user and system mode",
    );
    families.counter(metric, cpu)?;
    let metric = (
        "process_start_time_seconds",
        "When the process started, in seconds since 1970",
    );
    families.gauge(metric, *STARTED)?;
    if let Some([address_space, resident]) = memory() {
        let metric = ("process_virtual_memory_bytes", "Address space");
        families.gauge(metric, address_space)?;
        let metric = ("process_resident_memory_bytes", "Memory");
        families.gauge(metric, resident)?;
    }
    if let Some((open, most)) = descriptors() {
        families.gauge(("process_open_fds", "Open descriptors"), open)?;
        let most = most.map_or(f64::INFINITY, |it| it as f64);
        families.gauge(
            ("process_max_fds", "The most descriptors that there may be"),
            most,
        )?;
    }
    Ok(())
}
