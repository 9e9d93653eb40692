//! Control groups, of either version, whose processes may have so much memory and no more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A group below that of this process; removed when dropped, when no process may be in it any more.
pub struct MemoryGroup {
    directory: PathBuf,
}

impl MemoryGroup {
    /// One with so many bytes, those of the system's cache for its files included; `None`, said aloud, if
    /// this process may not make any.
    pub fn of(bytes: u64) -> Option<Self> {
        let group = Self::make(bytes);
        if group.is_none() {
            println!("skipped: this process may not make a control group that limits memory");
        }
        group
    }

    fn make(bytes: u64) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = own_group()?.join(format!("oboro-test-{}-{number}", process::id()));
        fs::create_dir(&directory).ok()?;
        let group = Self { directory };
        let limits = ["memory.limit_in_bytes", "memory.max"].map(|name| group.directory.join(name));
        let limit = limits.iter().find(|limit| limit.exists())?;
        fs::write(limit, bytes.to_string()).ok()?;
        Some(group)
    }

    /// What a shell does to be in it, with all that it starts.
    pub fn entering(&self) -> String {
        format!(
            "echo $$ > '{}'",
            self.directory.join("cgroup.procs").display()
        )
    }

    /// Whether a process is in it.
    pub fn holds(&self, process: u32) -> bool {
        let processes = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap();
        processes.lines().any(|line| line == process.to_string())
    }

    /// How many of its processes the kernel has killed for want of memory.
    pub fn kills(&self) -> u64 {
        let events = ["memory.oom_control", "memory.events"];
        let events = events.map(|name| fs::read_to_string(self.directory.join(name)));
        let mut lines = events.iter().flatten().flat_map(|text| text.lines());
        let kills = lines.find_map(|line| line.strip_prefix("oom_kill "));
        kills.unwrap().parse().unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Best effort: a group that stays is empty.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// The group of this process in the hierarchy that controls memory.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let of = |mark: &str| groups.lines().find_map(|line| line.split_once(mark));
    let (mount, group) = match of(":memory:") {
        Some((_, group)) => ("/sys/fs/cgroup/memory", group),
        None => ("/sys/fs/cgroup", of("0::")?.1),
    };
    let path = Path::new(mount).join(group.trim_start_matches('/'));
    // A namespace may hide where it is.
    path.is_dir().then_some(path)
}
