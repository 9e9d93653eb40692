//! A tree of small text files: `/sys`, or a copy of it.

use crate::{TopologyError, list};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Directory of such a tree.
pub struct Folder(PathBuf);

/// The most bytes of a file.
type Parse<T> = fn(&str) -> Option<T>;

impl Folder {
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub fn inner(&self, name: &str) -> Self {
        Self(self.0.join(name))
    }

    /// Reads a list of numbers; `None` if the file does not exist.
    pub fn list(&self, name: &str) -> Result<Option<BTreeSet<u32>>, TopologyError> {
        self.parsed(name, "list of numbers", list::parse)
    }

    /// Reads one number.
    pub fn number(&self, name: &str) -> Result<Option<u32>, TopologyError> {
        self.parsed(name, "number", |text| text.parse().ok())
    }

    /// Reads a number of bytes, such as `46080K`.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>, TopologyError> {
        self.parsed(name, "size", bytes)
    }

    /// Reads numbers separated by blanks.
    pub fn row(&self, name: &str) -> Result<Option<Vec<u32>>, TopologyError> {
        self.parsed(name, "row of numbers", |text| {
            text.split_whitespace()
                .map(|number| number.parse().ok())
                .collect()
        })
    }

    /// Reads a word that stands for a `T`.
    pub fn word<T: FromStr>(&self, name: &str) -> Result<Option<T>, TopologyError> {
        self.parsed(name, "known word", |text| text.parse().ok())
    }

    /// Reads the memory in a node's file `meminfo`, in bytes.
    pub fn memory_bytes(&self) -> Result<Option<u64>, TopologyError> {
        self.parsed("meminfo", "account of memory", |text| {
            let total = text.lines().find_map(|line| line.split_once("MemTotal:"))?;
            let kibibytes: u64 = total.1.trim().strip_suffix(" kB")?.parse().ok()?;
            kibibytes.checked_mul(1024)
        })
    }

    /// Lists the numbers N of the directories `prefixN` in this one, ascending; none if it does not exist.
    pub fn numbered(&self, prefix: &str) -> Result<BTreeSet<u32>, TopologyError> {
        let failed = |source| unreadable(&self.0, source);
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries.map_err(failed)?,
        };
        let mut numbers = BTreeSet::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
            numbers.extend(number.and_then(|number| number.parse::<u32>().ok()));
        }
        Ok(numbers)
    }

    fn parsed<T>(
        &self,
        name: &str,
        expected: &'static str,
        parse: Parse<T>,
    ) -> Result<Option<T>, TopologyError> {
        let path = self.0.join(name);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| unreadable(&path, source))?,
        };
        let text = text.trim();
        parse(text)
            .map(Some)
            .ok_or_else(|| TopologyError::Malformed {
                path,
                text: text.to_owned(),
                expected,
            })
    }
}

fn unreadable(path: &Path, source: io::Error) -> TopologyError {
    TopologyError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_uppercase());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("512"), Some(512));
        assert_eq!(bytes("46080K"), Some(46_080 << 10));
        assert_eq!(bytes("1M"), Some(1 << 20));
        for malformed in ["", "K", "1T", "1KK", "-1K", "99999999999999999999K"] {
            assert_eq!(bytes(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn a_missing_file_is_nothing_and_a_malformed_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::new(directory.path());
        assert_eq!(folder.number("level").unwrap(), None);
        fs::write(directory.path().join("level"), "two\n").unwrap();
        let error = folder.number("level").unwrap_err().to_string();
        assert!(
            error.contains("level holds \"two\", which is no number"),
            "{error}"
        );
    }
}
