//! Control groups, version 1 or 2, with a memory limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A child of this process's group; removed when dropped, when it must have no processes left.
pub struct MemoryGroup {
    directory: PathBuf,
}

impl MemoryGroup {
    /// A group limited to `bytes`, page cache of its files included; `None`, with a message, if this process may not
    /// create any.
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

    /// The shell command that enters it, with all processes started afterwards.
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

    /// The number of its processes that the kernel's OOM killer ended.
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
        // Best effort: a group that remains is empty.
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
    // A namespace may hide its path.
    path.is_dir().then_some(path)
}
