//! Swap on a chosen device during a measurement, and its readahead setting.

use super::device::Device;
use super::interrupt::Interrupt;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// The highest: other swap areas are used only once this one is full.
const PRIORITY: &str = "32767";

/// Swap that is on until dropped. Existing swap areas stay on.
#[derive(Serialize)]
pub struct Swap {
    bench: &'static str,
    #[serde(rename = "swap")]
    path: PathBuf,
    /// Swap areas in use with lower priority.
    #[serde(rename = "other_swaps")]
    others: Vec<String>,
    #[serde(skip)]
    is_on: bool,
    #[serde(skip)]
    is_file: bool,
}

impl Swap {
    /// On the device itself, if mkswap has prepared it, or in a new file of `bytes` bytes in its directory; or says why
    /// that is impossible.
    pub fn on(device: &Device, bytes: u64, interrupt: &Interrupt) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("swap can be turned on by root only".to_owned());
        }
        let is_file = !device.is_block_device();
        let path = if is_file {
            let name = format!("oboro-bench-{}.swap", std::process::id());
            device.path.join(name)
        } else {
            device.path.clone()
        };
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let others = fs::read_to_string("/proc/swaps").unwrap_or_default();
        // Removes the file on every return path.
        let mut swap = Self {
            bench: "ssd swap",
            path,
            others: paths(&others),
            is_on: false,
            is_file,
        };
        if is_file {
            write(&swap.path, bytes, interrupt)
                .map_err(|error| format!("no swap file can be written ({error})"))?;
            run("mkswap", &[], &swap.path)?;
        }
        run("swapon", &["--priority", PRIORITY], &swap.path)?;
        swap.is_on = true;
        Ok(swap)
    }
}

impl Swap {
    pub fn text(&self) -> String {
        let others = match self.others.as_slice() {
            [] => String::new(),
            others => format!("; {} once it is full", others.join(", ")),
        };
        format!("swapping to {}{others}\n", self.path.display())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let off = !self.is_on || run("swapoff", &[], &self.path).is_ok();
        if off && self.is_file {
            // A file that could not be written may not exist.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The first column of `/proc/swaps` below its heading.
fn paths(swaps: &str) -> Vec<String> {
    let lines = swaps.lines().skip(1);
    let path = |line: &str| line.split_whitespace().next().map(str::to_owned);
    lines.filter_map(path).collect()
}

/// Writes no zeros, for which a file system may leave holes.
fn write(path: &Path, bytes: u64, interrupt: &Interrupt) -> Result<(), String> {
    const PIECE: usize = 4 << 20;
    let piece = vec![0xA5; PIECE];
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.map_err(|error| error.to_string())?;
    for _ in 0..bytes.div_ceil(PIECE as u64) {
        interrupt.check()?;
        file.write_all(&piece).map_err(|error| error.to_string())?;
    }
    file.sync_all().map_err(|error| error.to_string())
}

fn run(program: &str, options: &[&str], path: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    let ended = command
        .args(options)
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program} does not run ({error}); install util-linux"))?;
    if ended.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned())
    }
}

/// The setting of swap readahead (the logarithm of the pages), restored when dropped.
pub struct PageCluster {
    before: String,
    /// Locked: the setting is global, and only one bench may change it at a time.
    _file: File,
}

impl PageCluster {
    pub fn set(log2_pages: u8) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{PAGE_CLUSTER} cannot be set ({error})");
        let file = File::open(PAGE_CLUSTER).map_err(failed)?;
        file.lock().map_err(failed)?;
        let before = fs::read_to_string(PAGE_CLUSTER).map_err(failed)?;
        fs::write(PAGE_CLUSTER, log2_pages.to_string()).map_err(failed)?;
        Ok(Self {
            before,
            _file: file,
        })
    }
}

impl Drop for PageCluster {
    fn drop(&mut self) {
        // The setting was writable before.
        let _ = fs::write(PAGE_CLUSTER, &self.before);
    }
}

/// Programs started while it exists get no huge pages.
///
/// Huge pages of which some parts are always in use are never swapped out: with a sixth of the memory that they need,
/// servers on huge pages leave the kernel nothing to swap, and are killed.
pub struct SmallPages {
    were_set: bool,
}

impl SmallPages {
    pub fn set() -> Result<Self, String> {
        let failed = |error| format!("huge pages cannot be forbidden ({error})");
        let were_set = transparent_huge_pages_are_disabled().map_err(failed)?;
        disable_transparent_huge_pages(true).map_err(failed)?;
        Ok(Self { were_set })
    }
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        // It could be set, so it can be restored.
        let _ = disable_transparent_huge_pages(self.were_set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_are_known_by_their_paths() {
        let swaps = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                     /swap.img                               file\t\t4194300\t\t0\t\t-2\n\
                     /dev/zram0                              partition\t8\t\t0\t\t100\n";
        assert_eq!(paths(swaps), ["/swap.img", "/dev/zram0"]);
        assert_eq!(paths("Filename\tType\n"), Vec::<String>::new());
    }

    #[test]
    fn programs_started_meanwhile_have_small_pages() {
        let huge_pages = || {
            let output = Command::new("cat")
                .arg("/proc/self/status")
                .output()
                .unwrap();
            let output = String::from_utf8(output.stdout).unwrap();
            let line = output.lines().find(|line| line.starts_with("THP_enabled"));
            line.and_then(|line| line.split_whitespace().last().map(str::to_owned))
        };
        let before = huge_pages();
        let small_pages = SmallPages::set().unwrap();
        assert_ne!(huge_pages().as_deref(), Some("1"));
        drop(small_pages);
        assert_eq!(huge_pages(), before);
    }

    #[test]
    fn swap_files_have_no_holes() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("swap");
        write(&path, 5 << 20, &Interrupt::default()).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), 8 << 20);
        assert!(metadata.blocks() * 512 >= 8 << 20);
        assert!(
            write(&path, 1, &Interrupt::default()).is_err(),
            "it is there"
        );
    }

    #[test]
    fn refusals_tell_what_the_program_said() {
        let refusal = run("ls", &[], Path::new("/no such file")).unwrap_err();
        assert!(refusal.contains("no such file"), "{refusal}");
        let unknown = run("no-such-program", &[], Path::new("/")).unwrap_err();
        assert!(unknown.contains("util-linux"), "{unknown}");
    }
}
