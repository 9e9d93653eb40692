//! The location of ciphertext or swap: a directory or a block device; and its direct read rate.

use super::limit::Limits;
use crate::machine::runs;
use crate::output::problem;
use bytesize::ByteSize;
use serde::Serialize;
use serde_json::Value;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fmt, fs};

/// The queue depth of fio and `oboro-lab read`.
const DEPTH: usize = 32;
/// How long they read, from the beginning again if necessary.
const SECONDS: u16 = 3;

/// As given on the command line: `PATH`, a directory or a block device, optionally followed by `=SIZE`, which limits
/// reads of its disk to that many bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub path: PathBuf,
    /// Emulates a slower device.
    pub reads_per_second: Option<u64>,
}

impl std::str::FromStr for Device {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let rate = |(path, rate): (&str, &str)| {
            let rate: ByteSize = rate.parse().ok()?;
            Some((path.to_owned(), Some(rate.as_u64())))
        };
        let (path, reads_per_second) = match given.rsplit_once('=').and_then(rate) {
            Some((_, Some(0))) => {
                return Err("a device that reads nothing measures nothing".to_owned());
            }
            Some(with_rate) => with_rate,
            None => (given.to_owned(), None),
        };
        Ok(Self {
            path: path.into(),
            reads_per_second,
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Device {
    /// Without a limit.
    pub fn in_directory(path: &Path) -> Self {
        Self {
            path: path.into(),
            reads_per_second: None,
        }
    }

    pub fn is_block_device(&self) -> bool {
        let metadata = fs::metadata(&self.path);
        metadata.is_ok_and(|metadata| metadata.file_type().is_block_device())
    }

    /// The disk that it is, or that it is on; none for file systems without one, such as tmpfs.
    pub fn disk(&self) -> Option<Disk> {
        Disk::under(&self.path)
    }

    /// The read limit for a process.
    pub fn limits(&self) -> Result<Limits, String> {
        let reads_per_second = match self.reads_per_second {
            None => None,
            Some(rate) => match self.disk() {
                Some(disk) => Some((disk.number, rate)),
                None => return Err(format!("{self} is on no disk to throttle")),
            },
        };
        Ok(Limits {
            memory: None,
            reads_per_second,
        })
    }
}

/// A whole disk, not a partition.
#[derive(Debug, PartialEq)]
pub struct Disk {
    /// As in `/proc/diskstats`.
    pub name: String,
    /// `MAJOR:MINOR`.
    pub number: String,
}

impl Disk {
    /// The disk of a block device, or the one that a file is on.
    fn under(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let number = if metadata.file_type().is_block_device() {
            metadata.st_rdev()
        } else {
            metadata.st_dev()
        };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        Self::of(&fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?)
    }

    /// From its directory in sysfs, or that of a partition.
    fn of(directory: &Path) -> Option<Self> {
        let whole = if directory.join("partition").exists() {
            directory.parent()?
        } else {
            directory
        };
        Some(Self {
            name: whole.file_name()?.to_str()?.to_owned(),
            number: fs::read_to_string(whole.join("dev"))
                .ok()?
                .trim()
                .to_owned(),
        })
    }
}

/// The rate of sequential reads past the page cache.
#[derive(Clone, Copy, Serialize)]
pub struct DirectRead {
    #[serde(rename = "direct_read_bytes_per_second")]
    pub bytes_per_second: f64,
    #[serde(rename = "direct_read_source")]
    pub source: Source,
}

/// The program that measured it.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Fio,
    /// `oboro-lab read`.
    Own,
}

impl DirectRead {
    /// Reads files one after the other, at most at the device's emulated rate.
    pub fn measure(device: &Device, files: &[PathBuf]) -> Result<Self, String> {
        let groups = device.limits()?.impose()?;
        let failed = |problem| format!("reading {device} directly is not possible: {problem}");
        let source = if runs("fio") {
            Source::Fio
        } else {
            Source::Own
        };
        let this = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = match source {
            Source::Fio => fio(groups.command("fio".as_ref()), files),
            Source::Own => own(groups.command(this.as_os_str()), files),
        };
        let ended = command.stdin(Stdio::null()).output();
        let ended = ended.map_err(|error| failed(error.to_string()))?;
        let rate = source.rate(&ended.stdout);
        Ok(Self {
            bytes_per_second: rate
                .filter(|_| ended.status.success())
                .ok_or_else(|| failed(problem(&ended.stderr)))?,
            source,
        })
    }
}

fn fio(mut command: Command, files: &[PathBuf]) -> Command {
    // A colon separates names.
    let names: Vec<_> = files
        .iter()
        .map(|file| file.to_string_lossy().replace(':', "\\:"))
        .collect();
    command
        .args(["--name=direct", "--readonly", "--rw=read", "--direct=1"])
        .args(["--bs=1M", "--ioengine=libaio", "--output-format=json"])
        .args(["--file_service_type=sequential", "--time_based"])
        .arg(format!("--iodepth={DEPTH}"))
        .arg(format!("--runtime={SECONDS}"))
        .arg(format!("--filename={}", names.join(":")));
    command
}

fn own(mut command: Command, files: &[PathBuf]) -> Command {
    command
        .args(["read", "--json"])
        .args(["--depth", &DEPTH.to_string()])
        .args(["--seconds", &SECONDS.to_string()])
        .args(files);
    command
}

impl Source {
    /// Bytes per second, from the program's report.
    fn rate(self, report: &[u8]) -> Option<f64> {
        let report: Value = serde_json::from_slice(report).ok()?;
        let rate = match self {
            Self::Fio => &report["jobs"][0]["read"]["bw_bytes"],
            Self::Own => &report["bytes_per_second"],
        };
        rate.as_f64().filter(|&rate| rate > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(given: &str) -> (PathBuf, Option<u64>) {
        let device: Device = given.parse().unwrap();
        (device.path, device.reads_per_second)
    }

    #[test]
    fn devices_may_be_made_slower() {
        assert_eq!(device("/mnt/ssd"), ("/mnt/ssd".into(), None));
        assert_eq!(
            device("/mnt/ssd=200MB"),
            ("/mnt/ssd".into(), Some(200_000_000))
        );
        assert_eq!(device("/mnt/a=b"), ("/mnt/a=b".into(), None));
        assert_eq!(device("/mnt/a=b=1KiB"), ("/mnt/a=b".into(), Some(1024)));
        assert!("/mnt/ssd=0".parse::<Device>().is_err());
    }

    #[test]
    fn the_disk_below_a_directory_is_throttled() {
        let directory = tempfile::tempdir().unwrap();
        let given = format!("{}=1MB", directory.path().display());
        let device: Device = given.parse().unwrap();
        match device.disk() {
            None => assert!(device.limits().unwrap_err().contains("no disk")),
            Some(disk) => assert_eq!(
                device.limits().unwrap().reads_per_second,
                Some((disk.number, 1_000_000))
            ),
        }
    }

    #[test]
    fn partitions_belong_to_disks() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("vda");
        let partition = disk.join("vda1");
        fs::create_dir_all(&partition).unwrap();
        fs::write(disk.join("dev"), "254:0\n").unwrap();
        fs::write(partition.join("dev"), "254:1\n").unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        let expected = Disk {
            name: "vda".to_owned(),
            number: "254:0".to_owned(),
        };
        assert_eq!(Disk::of(&disk).as_ref(), Some(&expected));
        assert_eq!(Disk::of(&partition), Some(expected));
        assert_eq!(Disk::of(sys.path()), None);
    }

    #[test]
    fn rates_are_those_that_programs_report() {
        let fio = br#"{"jobs": [{"read": {"bw_bytes": 5, "bw": 6}}]}"#;
        assert_eq!(Source::Fio.rate(fio), Some(5.0));
        let own = br#"{"bytes_per_second": 2.5}"#;
        assert_eq!(Source::Own.rate(own), Some(2.5));
        assert_eq!(Source::Own.rate(fio), None);
        assert_eq!(Source::Fio.rate(b"fio: no such file"), None);
    }
}
