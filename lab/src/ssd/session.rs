//! One server in one setting, queried from a cold start on.

use super::device::{DirectRead, Disk};
use super::interrupt::Interrupt;
use super::limit::{Groups, Limits};
use super::sampler::{ProcessCounters, Sampler};
use super::swap::SmallPages;
use super::{LeftOut, Mode, Setting};
use crate::output::{Failure, Output, bytes, seconds};
use crate::profile::Profile;
use crate::server::{Server, oboro};
use crate::{Outcome, machine, median};
use oboro_client::Connection;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The queries that every server gets, and their data.
pub trait Workload {
    /// Publishes the data in a server's new data directory.
    fn publish(&self, store: &Path, interrupt: &Interrupt) -> Outcome;
    /// The extension of its data files.
    fn extension(&self) -> &'static str;
    /// Server options in addition to the common ones.
    fn server_options(&self, setting: &Setting) -> Vec<String>;
    /// The number of queries per pass.
    fn questions(&self) -> usize;
    /// Runs query `number`; later ones are longer.
    fn ask(&self, number: usize, connection: &Connection) -> Result<Asked, Failure>;
}

/// A query, and its cost.
pub struct Asked {
    /// The length of its itemsets or patterns.
    pub length: usize,
    pub amount: Amount,
    pub elapsed: Duration,
    /// Of that, at the server.
    pub server: Duration,
    /// The stored bytes of the data that the query needs.
    pub packed_bytes: u64,
    /// Whether the answer is right.
    pub verified: bool,
}

/// The unit and size of a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    Itemsets(usize),
    Searches(usize),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itemsets(count) => write!(f, "{count} itemsets"),
            Self::Searches(count) => write!(f, "{count} searches"),
        }
    }
}

/// Servers that get the same queries.
pub struct Sessions<'e> {
    pub workload: &'e dyn Workload,
    pub threads: NonZeroUsize,
    /// Passes after the first, which starts with a cold cache.
    pub passes: u16,
    pub interrupt: &'e Interrupt,
    pub output: Output,
}

/// Where and how a server runs.
pub struct Conditions<'c> {
    pub setting: Setting,
    pub store: &'c Path,
    /// The disk to sample.
    pub disk: Option<Disk>,
    pub limits: Limits,
    pub direct_read: Option<DirectRead>,
    /// Of the swap in use, in microseconds.
    pub fault: Option<f64>,
    /// Whether to profile one more pass.
    pub is_profiled: bool,
}

/// The measurements of one server. Times, faults and bytes are those of passes after the first unless stated otherwise.
#[derive(Clone, Serialize)]
pub struct Figures {
    bench: &'static str,
    #[serde(flatten)]
    pub setting: Setting,
    pub verified: bool,
    /// Passes after the first.
    runs: u16,
    first_pass_seconds: f64,
    /// The median.
    pub pass_seconds: f64,
    /// The median of the longest query.
    query_seconds: f64,
    by_length: Vec<LengthFigures>,
    /// During the longest query.
    pub read_bytes_per_second: f64,
    /// The packed data that it needs, over its time.
    packed_bytes_per_second: f64,
    /// Per pass, on average.
    pass_read_bytes: f64,
    major_faults: u64,
    /// Of the server, since its start.
    pub peak_resident_bytes: u64,
    /// The time of a fault without readahead, on the swap in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault_microseconds: Option<f64>,
    /// Of the disk, each second since the server began to listen, first pass included.
    queue_lengths: Vec<Option<f64>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub direct_read: Option<DirectRead>,
}

/// The queries of one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct LengthFigures {
    length: usize,
    /// The median of passes.
    seconds: f64,
    #[serde(flatten)]
    amount: Amount,
}

/// One query of a pass.
#[derive(Serialize)]
struct TimedQuery<'s> {
    bench: &'static str,
    #[serde(flatten)]
    setting: &'s Setting,
    /// 0 is the first pass.
    pass: u16,
    length: usize,
    #[serde(flatten)]
    amount: Amount,
    seconds: f64,
    server_seconds: f64,
    /// Read from disks by the server, swapped pages included.
    read_bytes: u64,
    /// The stored bytes of the data that the query needs.
    packed_bytes: u64,
    verified: bool,
}

/// Where a server spends its CPU time.
#[derive(Serialize)]
struct Profiled<'s> {
    bench: &'static str,
    #[serde(flatten)]
    setting: &'s Setting,
    #[serde(flatten)]
    profile: Profile,
}

/// The kernel killed a server in a control group.
#[derive(Debug)]
pub struct Killed;

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the kernel killed the server: it needs more memory at a time; give a larger --limit",
        )
    }
}

impl Error for Killed {}

impl Sessions<'_> {
    /// Starts a server, queries it repeatedly, and stops it.
    pub fn measure(&self, conditions: Conditions<'_>) -> Result<Figures, Failure> {
        self.interrupt.check()?;
        self.files(conditions.store)
            .and_then(|files| forget(&files))
            .map_err(|error| format!("cannot read the store anew: {error}; try again"))?;
        let groups = conditions.limits.impose()?;
        let figures =
            self.measure_in(&groups, conditions)
                .map_err(|failure| match groups.kills() {
                    0 => failure,
                    _ => Killed.into(),
                })?;
        self.output.result(&figures, || figures.text())?;
        Ok(figures)
    }

    fn measure_in(&self, groups: &Groups, conditions: Conditions<'_>) -> Result<Figures, Failure> {
        let setting = &conditions.setting;
        let small_pages = match setting.mode {
            Mode::Swap => Some(SmallPages::set()?),
            Mode::Memory | Mode::Streaming => None,
        };
        let server = Server::start_by(
            groups.command(oboro()?.as_os_str()),
            conditions.store,
            self.threads,
            &self.server_options(setting),
        )?;
        drop(small_pages);
        let guard = self.interrupt.guard(server.id());
        let process = server.id().as_raw_nonzero().get() as u32;
        let disk = conditions.disk.map(|disk| disk.name);
        let sampler = Sampler::start(process, disk, setting.clone(), self.output);
        let connection = server.connect()?;
        let first = self.pass(0, &connection, process, setting)?;
        let before = counters(process)?;
        let passes = (1..=self.passes)
            .map(|number| self.pass(number, &connection, process, setting))
            .collect::<Result<Vec<_>, _>>()?;
        let faults = counters(process)?.since(before).major_faults;
        let queue_lengths = sampler.stop()?;
        let peak_resident_bytes = server.peak_bytes()?;
        if conditions.is_profiled {
            self.profile(&connection, process, setting)?;
        }
        drop((connection, guard));
        server.stop()?;
        Ok(Figures {
            major_faults: faults,
            peak_resident_bytes,
            queue_lengths,
            fault_microseconds: conditions.fault,
            direct_read: conditions.direct_read,
            ..Figures::of(setting.clone(), &first, &passes)
        })
    }

    /// Publishes the data in a server's new data directory.
    pub fn publish(&self, store: &Path) -> Outcome {
        self.workload.publish(store, self.interrupt)
    }

    /// The workload's options, in addition to the common ones.
    fn server_options(&self, setting: &Setting) -> Vec<String> {
        // A query's slot may be released only after its answer has arrived.
        let mut options = vec!["--max-queries".to_owned(), "2".to_owned()];
        options.extend(self.workload.server_options(setting));
        options
    }

    /// The data files of a store, in order.
    pub fn files(&self, store: &Path) -> io::Result<Vec<PathBuf>> {
        files_named(store, self.workload.extension())
    }

    /// All queries, one after the other.
    fn pass<'s>(
        &self,
        number: u16,
        connection: &Connection,
        process: u32,
        setting: &'s Setting,
    ) -> Result<Vec<TimedQuery<'s>>, Failure> {
        let questions = (0..self.workload.questions()).map(|query| {
            let before = read_bytes(process)?;
            let asked = self.workload.ask(query, connection)?;
            let query = TimedQuery {
                bench: "ssd question",
                setting,
                pass: number,
                length: asked.length,
                amount: asked.amount,
                seconds: asked.elapsed.as_secs_f64(),
                server_seconds: asked.server.as_secs_f64(),
                read_bytes: read_bytes(process)?.saturating_sub(before),
                packed_bytes: asked.packed_bytes,
                verified: asked.verified,
            };
            self.output.result(&query, || query.text())?;
            Ok(query)
        });
        questions.collect()
    }

    /// Continues querying for the profiler.
    fn profile(
        &self,
        connection: &Connection,
        process: u32,
        setting: &Setting,
    ) -> Result<(), Failure> {
        let profile = Profile::of(process, || {
            for query in 0..self.workload.questions() {
                self.workload.ask(query, connection)?;
            }
            Ok(())
        });
        match profile {
            Ok(profile) => {
                let profiled = Profiled {
                    bench: "ssd profile",
                    setting,
                    profile,
                };
                let text = || profiled.profile.text(&setting.to_string());
                self.output.result(&profiled, text)
            }
            Err(because) => {
                let left_out = LeftOut::new(format!("profile of {setting}"), because);
                self.output.result(&left_out, || left_out.text())
            }
        }
    }
}

impl TimedQuery<'_> {
    fn text(&self) -> String {
        let pass = match self.pass {
            0 => "first pass".to_owned(),
            number => format!("pass {number}"),
        };
        let time = |s: f64| seconds(Duration::from_secs_f64(s));
        format!(
            "{}: {pass:<10}  {} of length {}  {:>9}, {} read\n",
            self.setting,
            self.amount,
            self.length,
            time(self.seconds),
            bytes(self.read_bytes)
        )
    }
}

impl Figures {
    /// Everything except what only the process knows.
    fn of(setting: Setting, first: &[TimedQuery<'_>], passes: &[Vec<TimedQuery<'_>>]) -> Self {
        let elapsed = |pass: &[TimedQuery<'_>]| pass.iter().map(|query| query.seconds).sum();
        let middle =
            |times: Vec<f64>| median(times.into_iter().map(Duration::from_secs_f64)).as_secs_f64();
        let by_length = first
            .iter()
            .enumerate()
            .map(|(number, query)| LengthFigures {
                length: query.length,
                seconds: middle(passes.iter().map(|pass| pass[number].seconds).collect()),
                amount: query.amount,
            });
        let longest: Vec<_> = passes.iter().filter_map(|pass| pass.last()).collect();
        let total: f64 = longest.iter().map(|query| query.seconds).sum();
        let rate = |bytes: u64| bytes as f64 / total;
        let all = || passes.iter().flatten();
        Self {
            bench: "ssd mode",
            setting,
            runs: passes.len() as u16,
            by_length: by_length.collect(),
            verified: first.iter().chain(all()).all(|query| query.verified),
            first_pass_seconds: elapsed(first),
            pass_seconds: middle(passes.iter().map(|pass| elapsed(pass)).collect()),
            query_seconds: middle(longest.iter().map(|query| query.seconds).collect()),
            read_bytes_per_second: rate(longest.iter().map(|query| query.read_bytes).sum()),
            packed_bytes_per_second: rate(longest.iter().map(|query| query.packed_bytes).sum()),
            pass_read_bytes: all().map(|query| query.read_bytes).sum::<u64>() as f64
                / passes.len() as f64,
            major_faults: 0,
            peak_resident_bytes: 0,
            fault_microseconds: None,
            queue_lengths: Vec::new(),
            direct_read: None,
        }
    }

    fn text(&self) -> String {
        let time = |s: f64| seconds(Duration::from_secs_f64(s));
        format!(
            "{}: {} a pass, {} the first; {}/s of data, {}/s read; {} resident at most\n",
            self.setting,
            time(self.pass_seconds),
            time(self.first_pass_seconds),
            bytes(self.packed_bytes_per_second as u64),
            bytes(self.read_bytes_per_second as u64),
            bytes(self.peak_resident_bytes),
        )
    }
}

/// The files of a store with this extension, in order.
fn files_named(store: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_named(&path, extension)?);
        } else if path.extension().is_some_and(|kind| kind == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Drops these files from the page cache.
fn forget(files: &[PathBuf]) -> io::Result<()> {
    for path in files {
        let file = File::open(path)?;
        // Dirty pages would stay.
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

fn counters(process: u32) -> Result<ProcessCounters, Failure> {
    ProcessCounters::of(process).ok_or_else(|| "the server has ended; its log says why".into())
}

fn read_bytes(process: u32) -> Result<u64, Failure> {
    machine::read_bytes(process)
        .map_err(|error| format!("cannot tell what the server reads: {error}; run on Linux").into())
}

#[cfg(test)]
impl Figures {
    /// Figures in which only the time matters.
    pub fn taking(setting: Setting, pass_seconds: f64) -> Self {
        Self {
            pass_seconds,
            ..Self::of(setting, &[], &[])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_warm_passes() {
        let setting = Setting::memory();
        let query = |length, seconds, read_bytes| TimedQuery {
            bench: "ssd question",
            setting: &setting,
            pass: 0,
            length,
            amount: Amount::Itemsets(1),
            seconds,
            server_seconds: seconds,
            read_bytes,
            packed_bytes: 100,
            verified: read_bytes < 1000,
        };
        let pass = |a, b, read| vec![query(1, a, 10), query(2, b, read)];
        let passes = [pass(1.0, 2.0, 20), pass(2.0, 4.0, 40), pass(3.0, 4.0, 60)];
        let figures = Figures::of(setting.clone(), &pass(9.0, 8.0, 500), &passes);
        assert_eq!(figures.first_pass_seconds, 17.0);
        assert_eq!(figures.pass_seconds, 6.0);
        assert_eq!(figures.query_seconds, 4.0);
        let of_length = |length, seconds| LengthFigures {
            length,
            seconds,
            amount: Amount::Itemsets(1),
        };
        assert_eq!(figures.by_length, [of_length(1, 2.0), of_length(2, 4.0)]);
        assert_eq!(figures.runs, 3);
        assert_eq!(figures.read_bytes_per_second, 12.0);
        assert_eq!(figures.packed_bytes_per_second, 30.0);
        assert_eq!(figures.pass_read_bytes, 50.0);
        assert!(figures.verified);
        assert!(!Figures::of(setting.clone(), &pass(9.0, 8.0, 1000), &passes).verified);
    }

    #[test]
    fn files_are_found_at_any_depth() {
        let store = tempfile::tempdir().unwrap();
        let inner = store.path().join("segments/x");
        fs::create_dir_all(&inner).unwrap();
        for file in ["1.seg", "0.seg", "note"] {
            fs::write(inner.join(file), "").unwrap();
        }
        fs::write(store.path().join("catalogue"), "").unwrap();
        let expected = [inner.join("0.seg"), inner.join("1.seg")];
        assert_eq!(files_named(store.path(), "seg").unwrap(), expected);
        forget(&expected).unwrap();
    }
}
