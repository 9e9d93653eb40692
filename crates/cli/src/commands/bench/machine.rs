//! What Linux tells about the machine, a process and a directory.

use std::fs;
use std::io;
use std::path::Path;

/// The processor's name, or its architecture where it has none.
pub fn processor() -> String {
    fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| field(&text, "model name").map(str::to_owned))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The largest resident set, in bytes, that a running process has had.
pub fn peak_bytes(process: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    field(&status, "VmHWM")
        .and_then(|value| value.strip_suffix(" kB")?.parse::<u64>().ok())
        .map(|kibibytes| kibibytes << 10)
        .ok_or_else(|| io::Error::other("/proc tells no peak of its memory"))
}

/// The bytes of all files below a directory.
pub fn bytes_below(directory: &Path) -> io::Result<u64> {
    fs::read_dir(directory)?.try_fold(0, |sum, entry| {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let bytes = match metadata.is_dir() {
            true => bytes_below(&entry.path())?,
            false => metadata.len(),
        };
        Ok(sum + bytes)
    })
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
