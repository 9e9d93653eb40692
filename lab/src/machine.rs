//! What Linux reports about the machine, a process and a directory.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The processor's name, or its architecture if unnamed.
pub fn processor() -> String {
    fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| field(&text, "model name").map(str::to_owned))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The peak resident set size of a running process, in bytes.
pub fn peak_bytes(process: u32) -> io::Result<u64> {
    process_bytes(process, "VmHWM")
}

/// A byte count of a running process from `/proc/PID/status`, such as `VmRSS`.
pub fn process_bytes(process: u32, name: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    memory(&status, name).ok_or_else(|| io::Error::other(format!("/proc has no {name} of it")))
}

/// The bytes that a running process has read from disks, swapped pages included.
pub fn read_bytes(process: u32) -> io::Result<u64> {
    let account = fs::read_to_string(format!("/proc/{process}/io"))?;
    let bytes = field(&account, "read_bytes").and_then(|bytes| bytes.parse().ok());
    bytes.ok_or_else(|| io::Error::other("/proc has no count of bytes read"))
}

/// The bytes of a NUMA node that are free or reclaimable page cache; `None` if the kernel reports neither those of the
/// node nor those of the machine.
pub fn free_bytes(node: u32) -> Option<u64> {
    match fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")) {
        Ok(text) => free_bytes_in(&text, node),
        Err(_) => memory(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable"),
    }
}

fn free_bytes_in(account: &str, node: u32) -> Option<u64> {
    ["MemFree", "Active(file)", "Inactive(file)"]
        .iter()
        .map(|name| memory(account, &format!("Node {node} {name}")))
        .sum()
}

/// The bytes of all files below a directory.
pub fn bytes_below(directory: &Path) -> io::Result<u64> {
    fs::read_dir(directory)?.try_fold(0, |sum, entry| {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let bytes = if metadata.is_dir() {
            bytes_below(&entry.path())?
        } else {
            metadata.len()
        };
        Ok(sum + bytes)
    })
}

/// Whether a program of this name runs and prints its version.
pub fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    let quiet = command.arg("--version").stdout(Stdio::null());
    let ended = quiet.stdin(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}

/// The bytes in the first line `name: … kB`.
fn memory(text: &str, name: &str) -> Option<u64> {
    let kibibytes = field(text, name)?.strip_suffix(" kB")?;
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}

/// The value of the first line `name: value`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "VmHWMx:\t1 kB\nVmHWM:\t  42 kB\nmodel name\t: A: B\n";
        assert_eq!(field(text, "VmHWM"), Some("42 kB"));
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "model"), None);
    }

    #[test]
    fn a_node_can_do_without_what_files_hold() {
        let account = "Node 3 MemTotal:  900 kB\nNode 3 MemFree:   100 kB\n\
                       Node 3 Active(file):   20 kB\nNode 3 Inactive(file):   3 kB\n";
        assert_eq!(free_bytes_in(account, 3), Some(123 << 10));
        assert_eq!(free_bytes_in(account, 0), None);
    }

    #[test]
    fn a_process_has_had_memory() {
        assert!(peak_bytes(std::process::id()).unwrap() > 0);
    }

    #[test]
    fn directories_are_as_large_as_their_files() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("inner")).unwrap();
        fs::write(directory.path().join("inner/a"), [0; 5]).unwrap();
        fs::write(directory.path().join("b"), [0; 7]).unwrap();
        assert_eq!(bytes_below(directory.path()).unwrap(), 12);
    }
}
