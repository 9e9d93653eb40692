//! The program in lab/alloc/fhe, which counts with an ordinary library for homomorphic encryption.

use super::placed::Policy;
use crate::output::Failure;
use crate::workload::Workload;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The phases of a query.
const COUNTING: [&str; 4] = ["modulus_switch", "product", "add", "freeing"];

/// The program, and how much it should count.
pub struct Library {
    program: PathBuf,
    rounds: u16,
}

/// Its result.
#[derive(Debug, PartialEq)]
pub struct Counted {
    pub seconds: f64,
    /// The number of transactions counted.
    pub slots: u64,
    pub verified: bool,
}

impl Library {
    /// The program at `path`, to count `rounds` blocks on each node.
    pub fn new(path: &Path, rounds: u16) -> Result<Self, Failure> {
        if path.is_file() {
            Ok(Self {
                program: path.into(),
                rounds,
            })
        } else {
            Err(format!(
                "there is no program {}; make bench-numa builds one and gives it as --library",
                path.display()
            )
            .into())
        }
    }

    /// Runs it to count all pairs of the workload's items in some blocks, which it encrypts anew.
    pub fn count(&self, workload: &Workload, placement: Policy) -> Result<Counted, Failure> {
        let failed = |problem: String| {
            Failure::from(format!(
                "{} did not count: {problem}; make bench-numa builds and runs the right one",
                self.program.display()
            ))
        };
        let ended = Command::new(&self.program)
            .args(["--placement", &placement.to_string()])
            .args(["--columns", &workload.items.to_string()])
            .args([workload.threads.to_string(), self.rounds.to_string()])
            // The system's allocator is to be measured.
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !ended.status.success() {
            return Err(failed(format!("it ended with {}", ended.status)));
        }
        Counted::read(&ended.stdout).ok_or_else(|| failed("its report is none".to_owned()))
    }
}

impl Counted {
    /// Parses the line of JSON that the program prints.
    fn read(line: &[u8]) -> Option<Self> {
        let report: Value = serde_json::from_slice(line).ok()?;
        let phase = |name| report["phases"][name]["wall"].as_f64();
        Some(Self {
            seconds: COUNTING.into_iter().map(phase).sum::<Option<f64>>()?,
            slots: report["slots"].as_u64().filter(|&slots| slots > 0)?,
            verified: report["verified"].as_bool()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    #[test]
    fn counting_is_what_a_query_does() {
        let line = br#"{"start": 1, "phases": {
            "initial": {"wall": 100}, "first": {"wall": 100},
            "modulus_switch": {"wall": 0.5, "user": 9}, "product": {"wall": 1},
            "add": {"wall": 2}, "freeing": {"wall": 4}, "terminal": {"wall": 100}},
            "slots": 8192, "verified": true}"#;
        let expected = Counted {
            seconds: 7.5,
            slots: 8192,
            verified: true,
        };
        assert_eq!(Counted::read(line), Some(expected));
    }

    #[test]
    fn programs_that_do_not_count_are_errors() {
        let workload = Workload {
            items: 2,
            transactions: 1,
            max_len: 2,
            seed: 0,
            threads: NonZeroUsize::MIN,
        };
        let problem = |path: &Path| {
            let library = Library::new(path, 1).unwrap();
            let counted = library.count(&workload, Policy::Item);
            counted.unwrap_err().to_string()
        };
        // This test program does not support placements.
        let other = problem(&std::env::current_exe().unwrap());
        assert!(other.contains("it ended with"), "{other}");
        let no_program = tempfile::NamedTempFile::new().unwrap();
        let not_started = problem(no_program.path());
        assert!(not_started.contains("make bench-numa"), "{not_started}");
        assert!(Library::new(Path::new("/nowhere"), 1).is_err());
    }

    #[test]
    fn reports_of_other_programs_are_none() {
        assert_eq!(Counted::read(b"hello"), None);
        assert_eq!(Counted::read(br#"{"slots": 1, "verified": true}"#), None);
    }
}
