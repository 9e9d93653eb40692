//! The ordinary library for homomorphic encryption: lab/bench/numa_library.py, which counts pairs with SEAL.

use super::paper;
use super::placed::Policy;
use crate::output::Failure;
use crate::workload::Workload;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How the library is used, and the counterpart in the paper.
#[derive(Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    /// As the program calls it.
    argument: &'static str,
    uses_fcmalloc: bool,
    pub paper: paper::Counting,
}

/// As the paper uses an unmodified library: a new ciphertext for every product and every sum.
const ORDINARY: Way = Way {
    name: "SEAL, system malloc",
    argument: "temporaries",
    uses_fcmalloc: false,
    paper: paper::ORDINARY,
};
/// As the paper proposes: sums in place, and an allocator that honours the placement.
const PROPOSED: Way = Way {
    name: "SEAL in place, fcmalloc",
    argument: "destinations",
    uses_fcmalloc: true,
    paper: paper::PROPOSED,
};
pub const WAYS: [Way; 2] = [ORDINARY, PROPOSED];

/// The program, with its first arguments.
pub struct Library {
    command: Vec<OsString>,
    fcmalloc: Option<PathBuf>,
}

/// Its result.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Counted {
    /// Of products, sums and freeing, scaled to all transactions.
    pub seconds: f64,
    /// The part of the transactions that was counted.
    pub measured_fraction: f64,
    /// Of two ciphertexts, in all transactions.
    pub products: u64,
    /// The part of the bytes made while encrypting that lie on the node that reads them, as the kernel reports it.
    pub near_share: Option<f64>,
    pub verified: bool,
}

impl Library {
    /// A program that exists, and fcmalloc as a shared library.
    pub fn new(command: &[OsString], fcmalloc: Option<&Path>) -> Result<Self, Failure> {
        let paths = command.iter().map(Path::new).chain(fcmalloc);
        match paths.into_iter().find(|path| !path.is_file()) {
            None => Ok(Self {
                command: command.to_vec(),
                fcmalloc: fcmalloc.map(Path::to_owned),
            }),
            Some(missing) => Err(format!(
                "there is no file {}; make bench-numa makes it and gives it as --library or --fcmalloc",
                missing.display()
            )
            .into()),
        }
    }

    /// The ways in which it can be used.
    pub fn ways(&self) -> impl Iterator<Item = Way> {
        let has_fcmalloc = self.fcmalloc.is_some();
        WAYS.into_iter()
            .filter(move |way| has_fcmalloc || !way.uses_fcmalloc)
    }

    /// Runs it to count all pairs of the workload's items, which it encrypts anew.
    pub fn count(
        &self,
        way: Way,
        workload: &Workload,
        placement: Policy,
    ) -> Result<Counted, Failure> {
        let program = Path::new(&self.command[0]).display();
        let failed = |problem: String| {
            Failure::from(format!(
                "{program} did not count: {problem}; make bench-numa runs the right program"
            ))
        };
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .args(["--way", way.argument])
            .args(["--placement", &placement.to_string()])
            .args(["--items", &workload.items.to_string()])
            .args(["--transactions", &workload.transactions.to_string()])
            .args(["--threads", &workload.threads.to_string()])
            // The allocator is the program's to choose.
            .env_remove("LD_PRELOAD");
        if let Some(fcmalloc) = self.fcmalloc.as_ref().filter(|_| way.uses_fcmalloc) {
            command.arg("--preload").arg(fcmalloc);
        }
        let ended = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !ended.status.success() {
            return Err(failed(format!("it ended with {}", ended.status)));
        }
        let counted: Counted = serde_json::from_slice(&ended.stdout)
            .map_err(|error| failed(format!("its report is none ({error})")))?;
        let is_part = counted.measured_fraction > 0.0 && counted.measured_fraction <= 1.0;
        if is_part && counted.seconds > 0.0 {
            Ok(counted)
        } else {
            Err(failed("it reports that it counted nothing".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::num::NonZeroUsize;

    const WORKLOAD: Workload = Workload {
        items: 2,
        transactions: 1,
        max_len: 2,
        seed: 0,
        threads: NonZeroUsize::MIN,
    };

    /// What comes of a shell script as the program.
    fn counted(script: &str) -> Result<Counted, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program");
        fs::write(&file, script).unwrap();
        let library = Library::new(&["/bin/sh".into(), file.into_os_string()], None).unwrap();
        let counted = library.count(ORDINARY, &WORKLOAD, Policy::Item);
        counted.map_err(|error| error.to_string())
    }

    #[test]
    fn a_report_is_read() {
        let report = r#"echo '{"seconds": 7.5, "measured_fraction": 0.5, "products": 3, "near_share": null, "verified": true}'"#;
        let expected = Counted {
            seconds: 7.5,
            measured_fraction: 0.5,
            products: 3,
            near_share: None,
            verified: true,
        };
        assert_eq!(counted(report), Ok(expected));
    }

    #[test]
    fn programs_that_do_not_count_are_errors() {
        let problem = |script| counted(script).unwrap_err();
        assert!(problem("exit 3").contains("it ended with exit status: 3"));
        assert!(problem("echo hello").contains("its report is none"));
        let nothing =
            r#"echo '{"seconds": 0, "measured_fraction": 0, "products": 0, "verified": true}'"#;
        assert!(problem(nothing).contains("counted nothing"));
    }

    #[test]
    fn what_is_not_there_is_said_before_anything_runs() {
        let here = std::env::current_exe().unwrap();
        let nowhere = Path::new("/nowhere");
        for (program, fcmalloc) in [(nowhere, None), (here.as_path(), Some(nowhere))] {
            let made = Library::new(&[program.into()], fcmalloc);
            let error = made.err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("make bench-numa")));
        }
    }
}
