//! A process's CPU profile, recorded by `perf`.

use super::machine::runs;
use crate::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The least recording time: `perf` takes a moment to start and needs some samples.
const WATCHED: Duration = Duration::from_secs(2);

/// Samples per second and processor.
const FREQUENCY: &str = "499";
/// Functions below this share are omitted, in percent.
const LEAST: f64 = 0.5;

/// `perf`, recording a process.
struct Profiler {
    directory: TempDir,
    recording: Child,
    counting: Child,
}

/// Shares of the CPU time, the largest first.
#[derive(Serialize)]
pub struct Profile {
    /// `None` if the processor has no counters.
    instructions_per_cycle: Option<f64>,
    libraries: Vec<Share>,
    functions: Vec<Share>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Share {
    library: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    share: f64,
}

impl Profile {
    /// Profiles a process while `work` is repeated, or says why it cannot.
    pub fn of(process: u32, mut work: impl FnMut() -> Outcome) -> Result<Self, String> {
        let profiler = Profiler::start(process)?;
        let begun = Instant::now();
        while begun.elapsed() < WATCHED {
            work().map_err(|failure| failure.to_string())?;
        }
        profiler.finish()
    }
}

impl Profile {
    /// The share of those functions, of at least half a percent each, whose names are as asked for.
    pub fn share_of(&self, is_asked_for: impl Fn(&str) -> bool) -> f64 {
        let named = |share: &&Share| share.function.as_deref().is_some_and(&is_asked_for);
        self.functions
            .iter()
            .filter(named)
            .map(|function| function.share)
            .sum()
    }
}

impl Profiler {
    fn start(process: u32) -> Result<Self, String> {
        if !runs("perf") {
            return Err("perf does not run here (Debian: linux-perf)".to_owned());
        }
        let failed = |error: std::io::Error| format!("perf cannot be started ({error})");
        let directory = tempfile::tempdir().map_err(failed)?;
        let perf = |part: &str, file: &Path| {
            let mut command = Command::new("perf");
            command
                .args([part, "-p", &process.to_string(), "-o"])
                .arg(file);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(Stdio::piped());
            command
        };
        let recording = perf("record", &samples(&directory))
            .args(["-q", "-F", FREQUENCY])
            .spawn()
            .map_err(failed)?;
        let counting = perf("stat", &counts(&directory))
            .args(["-x", ",", "-e", "instructions,cycles"])
            .spawn()
            .map_err(failed)?;
        Ok(Self {
            directory,
            recording,
            counting,
        })
    }

    fn finish(self) -> Result<Profile, String> {
        let Self {
            directory,
            recording,
            counting,
        } = self;
        let (recorded, _) = (end(recording), end(counting));
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "--sort", "dso,symbol", "-t", ";", "-i"]);
        let report = command.arg(samples(&directory)).stdin(Stdio::null());
        let functions = match report.output() {
            Ok(report) => shares(&String::from_utf8_lossy(&report.stdout)),
            Err(_) => Vec::new(),
        };
        if functions.is_empty() {
            let said = recorded.map(|ended| String::from_utf8_lossy(&ended.stderr).into_owned());
            let said = said.unwrap_or_default();
            return Err(format!("perf saw nothing: {}", said.trim()));
        }
        let counts = std::fs::read_to_string(counts(&directory)).unwrap_or_default();
        Ok(Profile {
            instructions_per_cycle: instructions_per_cycle(&counts),
            libraries: by_library(&functions),
            functions: functions
                .into_iter()
                .filter(|function| function.share * 100.0 >= LEAST)
                .collect(),
        })
    }
}

fn samples(directory: &TempDir) -> PathBuf {
    directory.path().join("samples")
}

fn counts(directory: &TempDir) -> PathBuf {
    directory.path().join("counts")
}

/// Interrupts perf, which then writes its data.
fn end(perf: Child) -> Option<Output> {
    // It may have exited already; it has not been waited for.
    let _ = kill_process(Pid::from_child(&perf), Signal::INT);
    perf.wait_with_output().ok()
}

/// The lines `12.5% ;library ;[.] function ;…` of a report.
fn shares(report: &str) -> Vec<Share> {
    let share = |line: &str| {
        let mut fields = line.split(';').map(str::trim);
        let percent: f64 = fields.next()?.strip_suffix('%')?.parse().ok()?;
        let library = fields.next()?.to_owned();
        let function = fields.next()?;
        let function = function.split_once("] ").map_or(function, |(_, name)| name);
        Some(Share {
            library,
            function: Some(function.to_owned()),
            share: percent / 100.0,
        })
    };
    report.lines().filter_map(share).collect()
}

fn by_library(functions: &[Share]) -> Vec<Share> {
    let mut libraries: Vec<Share> = Vec::new();
    for function in functions {
        let known = libraries
            .iter_mut()
            .find(|library| library.library == function.library);
        match known {
            Some(library) => library.share += function.share,
            None => libraries.push(Share {
                function: None,
                ..function.clone()
            }),
        }
    }
    libraries.sort_by(|a, b| b.share.total_cmp(&a.share));
    libraries
}

/// Parses lines `count,unit,event,…`.
fn instructions_per_cycle(counts: &str) -> Option<f64> {
    let count = |event: &str| {
        let mut lines = counts.lines().map(|line| line.split(','));
        lines.find_map(|mut fields| {
            let count: f64 = fields.next()?.parse().ok()?;
            // The event may carry the privilege level: cycles, or cycles:u.
            let name = fields.nth(1)?.split(':').next()?;
            (name == event).then_some(count)
        })
    };
    Some(count("instructions")? / count("cycles").filter(|&cycles| cycles > 0.0)?)
}

impl Profile {
    /// Formats the shares of `whose` time.
    pub fn text(&self, whose: &str) -> String {
        let ratio = self.instructions_per_cycle;
        let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let mut text = format!("profile  {whose}: {ratio} instructions per cycle\n");
        for function in self.functions.iter().take(8) {
            let name = function.function.as_deref().unwrap_or_default();
            let percent = 100.0 * function.share;
            text += &format!("{percent:>6.1} %  {}  {name}\n", function.library);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(library: &str, function: &str, share: f64) -> Share {
        Share {
            library: library.to_owned(),
            function: Some(function.to_owned()),
            share,
        }
    }

    #[test]
    fn functions_and_libraries_have_their_shares() {
        let report = "# Overhead;Shared Object ;Symbol\n#\n 50.00% ;oboro  ;[.] ring::dot ;- -\n\
                      \x2025.00% ;[kernel.kallsyms] ;[k] copy  ;- -\n 12.50%;oboro;[.] hash\n";
        let functions = shares(report);
        let expected = [
            function("oboro", "ring::dot", 0.5),
            function("[kernel.kallsyms]", "copy", 0.25),
            function("oboro", "hash", 0.125),
        ];
        assert_eq!(functions, expected);
        let libraries: Vec<_> = by_library(&functions)
            .into_iter()
            .map(|library| (library.library, library.share))
            .collect();
        let expected = [
            ("oboro".to_owned(), 0.625),
            ("[kernel.kallsyms]".to_owned(), 0.25),
        ];
        assert_eq!(libraries, expected);
        let profile = Profile {
            instructions_per_cycle: None,
            libraries: Vec::new(),
            functions,
        };
        assert_eq!(profile.share_of(|name| name.starts_with("ring::")), 0.5);
    }

    #[test]
    fn processors_may_count_or_not() {
        let counted = "# started\n\n300,,instructions:u,1,100.00\n100,,cycles:u,1,100.00\n";
        assert_eq!(instructions_per_cycle(counted), Some(3.0));
        let uncounted = "<not supported>,,instructions,0\n<not supported>,,cycles,0\n";
        assert_eq!(instructions_per_cycle(uncounted), None);
    }
}
