//! `oboro-lab ssd`

mod amount;
mod device;
pub mod fault;
mod genomes;
mod interrupt;
mod limit;
mod mining;
mod sampler;
mod session;
mod swap;

use super::machine;
use super::workload::{Shape, temporary_directory};
use crate::Outcome;
use crate::output::{Failure, Output, bytes, seconds};
use amount::Amount;
use bytesize::ByteSize;
use clap::ValueEnum;
use device::{Device, DirectRead, Source};
use genomes::{Genomes, HaplotypePanel};
use interrupt::Interrupt;
use limit::Limits;
use mining::Mining;
use serde::Serialize;
use session::{Conditions, Figures, Killed, Sessions, Workload};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use swap::{PageCluster, Swap};

/// The papers' memory limits.
const PAPER_LIMITS: [Amount; 3] = [
    Amount::Bytes(200_000_000),
    Amount::Bytes(400_000_000),
    Amount::Bytes(600_000_000),
];
const QUARTER: Amount = Amount::Percent(25.0);
/// Linux's default, and no swap readahead.
const PAGE_CLUSTERS: [u8; 2] = [3, 0];
/// Room for the measurement of faults.
const LEAST_SWAP: u64 = 128 << 20;

/// Mine or search data larger than memory: all of it in memory, swapped by the kernel, and streamed by Oboro.
///
/// Quest transactions that give about 1 GB of ciphertext, in the shape of the papers' experiment, are encrypted and
/// uploaded to a server process of this command. Then servers are mined one after the other, each from a cold start:
/// one with unlimited memory; for each --device and --limit one in a control group with that limit and swap on that
/// device, with --page-cluster 3 and again with 0; and one in such a group with --memory, which reads from that device.
/// Every second the disk's queue and the server's memory, faults and CPU time are sampled. Every support is compared
/// with plaintext.
///
/// With --workload genome a synthetic panel of about 1 GB is searched at random sites instead, with patterns of 16, 64
/// and 256 symbols. In memory and with swap all these windows of the panel are kept prepared; a server that streams
/// reads them from the device on demand.
///
/// Swap and control groups need root. What is not possible here is skipped, and reported. Ctrl-C undoes everything
/// first. Files are in the system's temporary directory, which TMPDIR changes, and in --device: twice the ciphertext,
/// and on each device, in turn, two and a half times as much for swap and once more for data.
///
/// With --json every sample and figure is one line and the summary the last; lab/FIELDS.md explains the fields.
#[derive(clap::Args)]
pub struct Arguments {
    /// The computation.
    #[arg(long, value_enum, default_value_t = Kind::Mining)]
    workload: Kind,
    /// A quarter of the needed memory as the only limit, and two passes: takes minutes.
    #[arg(long)]
    quick: bool,
    /// A directory on the disk to measure, or a block device that mkswap has prepared, for swap only. With =SIZE, at
    /// most that many bytes are read from the disk per second. May be repeated to measure several [default: the
    /// temporary directory].
    #[arg(long, value_name = "PATH[=SIZE]")]
    device: Vec<Device>,
    /// A server's memory limit, or a share of what the in-memory server needs; may be repeated, the last one is for the
    /// summary [default: 0.2, 0.4 and 0.6 GB and 25%, for genomes 25%].
    #[arg(long, value_name = "SIZE|N%")]
    limit: Vec<Amount>,
    /// What to measure in addition to memory; may be repeated [default: both].
    #[arg(long, value_enum)]
    mode: Vec<Mode>,
    /// Swap readahead, the logarithm of the pages; may be repeated [default: 3, as in Linux, and 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=9))]
    page_cluster: Vec<u8>,
    /// Make the data for mining in this new directory, for --prepared, and measure nothing.
    #[arg(long, value_name = "DIR", conflicts_with = "prepared")]
    prepare: Option<PathBuf>,
    /// Take the data that --prepare has made for mining, on a faster machine for example.
    #[arg(long, value_name = "DIR")]
    prepared: Option<PathBuf>,
    /// What a server of these data needs in memory, known from another run: it is not measured again.
    #[arg(long, value_name = "SIZE")]
    needed: Option<ByteSize>,
    #[command(flatten)]
    shape: Shape<30, 4_800_000>,
    /// Rows of the panel [default: 200000, or 100000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    haplotypes: Option<u32>,
    /// Columns of the panel [default: 40000, or 10000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sites: Option<u32>,
    /// The number of patterns of each length.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    positions: u16,
    /// Passes over the data after the first one [default: 3, or 2 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Counting all itemsets, length by length.
    Mining,
    /// Searching a panel of genomes, by the length of patterns.
    Genome,
}

/// The data larger than memory.
#[derive(Serialize)]
#[serde(untagged)]
enum Data {
    Mining {
        items: u32,
        transactions: u64,
        max_len: usize,
        seed: u64,
    },
    Genome(HaplotypePanel),
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mining {
                items,
                transactions,
                max_len,
                ..
            } => write!(
                f,
                "{transactions} transactions × {items} items, itemsets up to length {max_len}"
            ),
            Self::Genome(panel) => write!(
                f,
                "{} haplotypes × {} sites, searched at {} positions for each length",
                panel.haplotypes, panel.sites, panel.positions
            ),
        }
    }
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let directory = temporary_directory()?;
    match arguments.workload {
        Kind::Mining => {
            let workload = arguments.shape.workload();
            if let Some(prepare) = &arguments.prepare {
                return Mining::prepare(&workload, prepare, &store_in(prepare), &interrupt);
            }
            let mining = match &arguments.prepared {
                Some(prepared) => Mining::prepared(&workload, prepared)?,
                None => Mining::new(&workload, directory.path())?,
            };
            let data = Data::Mining {
                items: workload.items,
                transactions: workload.transactions,
                max_len: workload.max_len,
                seed: workload.seed,
            };
            measure(
                arguments,
                &mining,
                data,
                directory.path(),
                &interrupt,
                output,
            )
        }
        Kind::Genome => {
            if arguments.prepare.is_some() || arguments.prepared.is_some() {
                return Err("data are prepared for mining only; leave --prepare out".into());
            }
            let panel = arguments.panel();
            panel.check()?;
            let genomes = Genomes::new(panel, &directory.path().join("made"))?;
            let data = Data::Genome(genomes.panel());
            measure(
                arguments,
                &genomes,
                data,
                directory.path(),
                &interrupt,
                output,
            )
        }
    }
}

/// The server's data directory, in one that has all the data.
fn store_in(directory: &Path) -> PathBuf {
    directory.join("store")
}

/// Measures all settings, with files in the directory `base`.
fn measure(
    arguments: &Arguments,
    workload: &dyn Workload,
    data: Data,
    base: &Path,
    interrupt: &Interrupt,
    output: Output,
) -> Outcome {
    let experiment = Experiment {
        arguments,
        sessions: Sessions {
            workload,
            threads: arguments.shape.workload().threads,
            passes: arguments.passes(),
            interrupt,
            output,
        },
        base,
        store: store_in(arguments.prepared.as_deref().unwrap_or(base)),
    };
    let measured = experiment.measure();
    // Report the interrupt rather than a broken connection.
    interrupt.check()?;
    let summary = Summary::new(data, &experiment, measured?)?;
    output.result(&summary, || summary.text())?;
    if summary.verified {
        Ok(())
    } else {
        Err("answers differ from those of the plaintext; this is a defect of Oboro, please report it with the command".into())
    }
}

/// The limits of one server, and where data beyond its memory are.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Setting {
    mode: Mode,
    #[serde(skip_serializing_if = "String::is_empty")]
    device: String,
    /// The read limit of an emulated slower device.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_reads_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_cluster: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// Unlimited memory.
    #[value(skip)]
    Memory,
    /// The kernel swaps pages to a disk and back.
    Swap,
    /// `oboro serve --memory`
    Streaming,
}

impl Setting {
    /// All in memory, whatever it was loaded from.
    fn memory() -> Self {
        Self {
            mode: Mode::Memory,
            device: String::new(),
            device_reads_per_second: None,
            limit_bytes: None,
            page_cluster: None,
        }
    }

    fn on(device: &Device, mode: Mode, limit: Option<u64>) -> Self {
        Self {
            mode,
            device: device.to_string(),
            device_reads_per_second: device.reads_per_second,
            limit_bytes: limit,
            page_cluster: None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mode {
            Mode::Memory => "all in memory",
            Mode::Swap => "swap",
            Mode::Streaming => "streaming",
        })?;
        if let Some(limit) = self.limit_bytes {
            write!(f, ", {} of memory", bytes(limit))?;
        }
        if let Some(cluster) = self.page_cluster {
            write!(f, ", page-cluster {cluster}")?;
        }
        if self.mode != Mode::Memory {
            write!(f, ", {}", self.device)?;
        }
        if let Some(rate) = self.device_reads_per_second {
            write!(f, " (emulated: {} a second)", bytes(rate))?;
        }
        Ok(())
    }
}

/// A measurement that is not possible here.
#[derive(Clone, Serialize)]
struct LeftOut {
    bench: &'static str,
    left_out: String,
    because: String,
    #[serde(flatten)]
    server: Option<WithoutFigures>,
}

/// A server that refused, failed or was killed.
#[derive(Clone, Serialize)]
struct WithoutFigures {
    #[serde(flatten)]
    setting: Setting,
    /// By the kernel, out of memory.
    killed: bool,
}

impl LeftOut {
    fn new(left_out: String, because: String) -> Self {
        Self {
            bench: "ssd left out",
            left_out,
            because,
            server: None,
        }
    }

    fn server(setting: Setting, failure: &Failure) -> Self {
        let killed = failure.is::<Killed>();
        Self {
            server: Some(WithoutFigures {
                setting: setting.clone(),
                killed,
            }),
            ..Self::new(setting.to_string(), failure.to_string())
        }
    }

    fn text(&self) -> String {
        format!("left out: {}: {}\n", self.left_out, self.because)
    }
}

/// The data on a server, to be queried in all settings.
struct Experiment<'e> {
    arguments: &'e Arguments,
    sessions: Sessions<'e>,
    /// The temporary directory.
    base: &'e Path,
    /// The store, in `base` or with the prepared data.
    store: PathBuf,
}

/// All figures, and reasons for missing ones.
struct Measured {
    needed_bytes: u64,
    /// The last one is for the summary.
    limits: Vec<u64>,
    modes: Vec<Figures>,
    left_out: Vec<LeftOut>,
}

impl Experiment<'_> {
    fn measure(&self) -> Result<Measured, Failure> {
        if self.arguments.prepared.is_none() {
            self.sessions.publish(&self.store)?;
        }
        let (needed_bytes, modes) = match self.arguments.needed {
            Some(known) => (known.as_u64(), Vec::new()),
            None => {
                let memory = self.memory()?;
                (memory.peak_resident_bytes, vec![memory])
            }
        };
        let mut measured = Measured {
            needed_bytes,
            limits: self.arguments.limits(needed_bytes),
            modes,
            left_out: Vec::new(),
        };
        let devices = if self.arguments.device.is_empty() {
            vec![Device::in_directory(&std::env::temp_dir())]
        } else {
            self.arguments.device.clone()
        };
        for device in &devices {
            if self.arguments.measures(Mode::Swap) {
                self.swap(device, &mut measured)?;
            }
            if self.arguments.measures(Mode::Streaming) {
                self.stream(device, &mut measured)?;
            }
        }
        Ok(measured)
    }

    /// Without a limit.
    fn memory(&self) -> Result<Figures, Failure> {
        self.sessions.measure(Conditions {
            setting: Setting::memory(),
            store: &self.store,
            disk: Device::in_directory(self.base).disk(),
            limits: Limits::default(),
            direct_read: None,
            fault: None,
            is_profiled: true,
        })
    }

    /// With each limit, swapped by the kernel.
    fn swap(&self, device: &Device, measured: &mut Measured) -> Outcome {
        let setting = Setting::on(device, Mode::Swap, None);
        // Resident pages may keep their swap slots for a while.
        let bytes = LEAST_SWAP.max(2 * measured.needed_bytes);
        let swap = match Swap::on(device, bytes, self.sessions.interrupt) {
            Ok(swap) => swap,
            Err(because) => return self.leave_out(setting.to_string(), because, measured),
        };
        self.sessions.output.result(&swap, || swap.text())?;
        let fault = match fault::measure(device) {
            Ok(microseconds) => Some(microseconds),
            Err(because) => {
                self.leave_out(format!("time of a fault on {device}"), because, measured)?;
                None
            }
        };
        for limit in measured.limits.clone() {
            for page_cluster in self.arguments.page_clusters() {
                let setting = Setting {
                    limit_bytes: Some(limit),
                    page_cluster: Some(page_cluster),
                    ..setting.clone()
                };
                let figures = || {
                    let _set = PageCluster::set(page_cluster)?;
                    self.sessions.measure(Conditions {
                        setting: setting.clone(),
                        store: &self.store,
                        disk: device.disk(),
                        limits: Limits {
                            memory: Some(limit),
                            ..device.limits()?
                        },
                        direct_read: None,
                        fault,
                        is_profiled: measured.is_for_summary(limit),
                    })
                };
                let figures = figures();
                self.keep(figures, setting, measured)?;
            }
        }
        Ok(())
    }

    /// With each limit, from a store on the device.
    fn stream(&self, device: &Device, measured: &mut Measured) -> Outcome {
        let setting = Setting::on(device, Mode::Streaming, None);
        if device.is_block_device() {
            let because = "it is a block device; give a directory to stream from".to_owned();
            return self.leave_out(setting.to_string(), because, measured);
        }
        let mut directory = tempfile::Builder::new();
        let directory = match directory.prefix("oboro-bench-").tempdir_in(&device.path) {
            Ok(directory) => directory,
            Err(error) => return self.leave_out(setting.to_string(), error.to_string(), measured),
        };
        let store = directory.path().join("store");
        self.sessions.publish(&store)?;
        for limit in measured.limits.clone() {
            let setting = Setting {
                limit_bytes: Some(limit),
                ..setting.clone()
            };
            let direct_read = match DirectRead::measure(device, &self.sessions.files(&store)?) {
                Ok(direct_read) => Some(direct_read),
                Err(because) => {
                    self.leave_out(
                        format!("direct reading before {setting}"),
                        because,
                        measured,
                    )?;
                    None
                }
            };
            let figures = self.limits(device, &setting, measured).and_then(|limits| {
                self.sessions.measure(Conditions {
                    setting: setting.clone(),
                    store: &store,
                    disk: device.disk(),
                    limits,
                    direct_read,
                    fault: None,
                    is_profiled: measured.is_for_summary(limit),
                })
            });
            self.keep(figures, setting, measured)?;
        }
        Ok(())
    }

    /// The limits of a streaming server. It must stay within its memory by itself if no control group limits it.
    fn limits(
        &self,
        device: &Device,
        setting: &Setting,
        measured: &mut Measured,
    ) -> Result<Limits, Failure> {
        let free = device.limits()?;
        let held = Limits {
            memory: setting.limit_bytes,
            ..free.clone()
        };
        match held.impose() {
            Ok(_) => Ok(held),
            Err(because) => {
                self.leave_out(format!("control group of {setting}"), because, measured)?;
                Ok(free)
            }
        }
    }

    /// Records figures, or a note that they are missing.
    fn keep(
        &self,
        figures: Result<Figures, Failure>,
        setting: Setting,
        measured: &mut Measured,
    ) -> Outcome {
        self.sessions.interrupt.check()?;
        match figures {
            Ok(figures) => measured.modes.push(figures),
            Err(failure) => self.note(LeftOut::server(setting, &failure), measured)?,
        }
        Ok(())
    }

    fn leave_out(&self, what: String, because: String, measured: &mut Measured) -> Outcome {
        self.note(LeftOut::new(what, because), measured)
    }

    fn note(&self, note: LeftOut, measured: &mut Measured) -> Outcome {
        self.sessions.output.result(&note, || note.text())?;
        measured.left_out.push(note);
        Ok(())
    }
}

impl Arguments {
    fn passes(&self) -> u16 {
        let default = if self.quick { 2 } else { 3 };
        self.runs.unwrap_or(default)
    }

    fn panel(&self) -> HaplotypePanel {
        let (haplotypes, sites) = if self.quick {
            (100_000, 10_000)
        } else {
            (200_000, 40_000)
        };
        HaplotypePanel {
            haplotypes: self.haplotypes.unwrap_or(haplotypes),
            sites: self.sites.unwrap_or(sites),
            positions: self.positions,
            seed: self.shape.workload().seed,
        }
    }

    /// In bytes, the one for the summary last.
    fn limits(&self, needed_bytes: u64) -> Vec<u64> {
        let papers = self.workload == Kind::Mining && !self.quick;
        let amounts = match (self.limit.as_slice(), papers) {
            ([], false) => vec![QUARTER],
            ([], true) => PAPER_LIMITS.into_iter().chain([QUARTER]).collect(),
            (given, _) => given.to_vec(),
        };
        let bytes = |amount: Amount| amount.bytes(needed_bytes);
        amounts.into_iter().map(bytes).collect()
    }

    fn page_clusters(&self) -> Vec<u8> {
        match self.page_cluster.as_slice() {
            [] => PAGE_CLUSTERS.to_vec(),
            given => given.to_vec(),
        }
    }

    fn measures(&self, mode: Mode) -> bool {
        self.mode.is_empty() || self.mode.contains(&mode)
    }
}

impl Measured {
    fn is_for_summary(&self, limit: u64) -> bool {
        self.limits.last() == Some(&limit)
    }

    /// Those of the first device with the last limit; for swap, the faster ones.
    fn for_summary(&self, mode: Mode) -> Option<&Figures> {
        let figures = |figures: &&Figures| {
            let limit = figures.setting.limit_bytes;
            figures.setting.mode == mode && limit.is_none_or(|limit| self.is_for_summary(limit))
        };
        let first = self.modes.iter().find(figures)?;
        self.modes
            .iter()
            .filter(figures)
            .filter(|other| other.setting.is_on_device_of(&first.setting))
            .min_by(|a, b| a.pass_seconds.total_cmp(&b.pass_seconds))
    }
}

impl Setting {
    fn is_on_device_of(&self, other: &Self) -> bool {
        let device = |setting: &Self| (setting.device.clone(), setting.device_reads_per_second);
        device(self) == device(other)
    }
}

/// The final report: the first device with the last limit, then all measurements.
#[derive(Serialize)]
struct Summary {
    bench: &'static str,
    workload: Kind,
    quick: bool,
    #[serde(flatten)]
    data: Data,
    runs: u16,
    threads: usize,
    cpu: String,
    /// All files of a server.
    stored_bytes: u64,
    /// The peak memory of the in-memory server, measured or given.
    needed_bytes: u64,
    /// Whether all answers of all passes equal the plaintext's.
    verified: bool,
    budget_bytes: u64,
    /// For the streaming server.
    peak_resident_bytes: Option<u64>,
    /// The rate of streaming, relative to direct reads of the device.
    bandwidth_share: Option<f64>,
    direct_read_bytes_per_second: Option<f64>,
    direct_read_source: Option<Source>,
    /// The duration of a pass with swap over that with streaming.
    speedup_over_swap: Option<f64>,
    /// The duration of a pass with swap over that in memory.
    swap_over_memory: Option<f64>,
    /// The duration of a pass with streaming over that in memory.
    streaming_over_memory: Option<f64>,
    modes: Vec<Figures>,
    left_out: Vec<LeftOut>,
}

impl Summary {
    fn new(data: Data, experiment: &Experiment<'_>, measured: Measured) -> Result<Self, Failure> {
        let arguments = experiment.arguments;
        let stored_bytes = machine::bytes_below(&experiment.store)
            .map_err(|error| format!("cannot tell the size of the store: {error}; try again"))?;
        let [memory, swap, streaming] =
            [Mode::Memory, Mode::Swap, Mode::Streaming].map(|mode| measured.for_summary(mode));
        let ratio = |slow: Option<&Figures>, fast: Option<&Figures>| {
            Some(slow?.pass_seconds / fast?.pass_seconds)
        };
        let direct_read = streaming.and_then(|figures| figures.direct_read);
        let share = |(streaming, direct): (&Figures, DirectRead)| {
            streaming.read_bytes_per_second / direct.bytes_per_second
        };
        Ok(Self {
            bench: "ssd",
            workload: arguments.workload,
            quick: arguments.quick,
            data,
            runs: arguments.passes(),
            threads: experiment.sessions.threads.get(),
            cpu: machine::processor(),
            stored_bytes,
            needed_bytes: measured.needed_bytes,
            verified: measured.modes.iter().all(|figures| figures.verified),
            budget_bytes: measured.limits.last().copied().unwrap_or_default(),
            peak_resident_bytes: streaming.map(|figures| figures.peak_resident_bytes),
            bandwidth_share: streaming.zip(direct_read).map(share),
            direct_read_bytes_per_second: direct_read.map(|read| read.bytes_per_second),
            direct_read_source: direct_read.map(|read| read.source),
            speedup_over_swap: ratio(swap, streaming),
            swap_over_memory: ratio(swap, memory),
            streaming_over_memory: ratio(streaming, memory),
            modes: measured.modes,
            left_out: measured.left_out,
        })
    }

    fn text(&self) -> String {
        let time = |s: f64| seconds(Duration::from_secs_f64(s));
        let verdict = if self.verified {
            "all answers equal the plaintext's"
        } else {
            "answers DIFFER from the plaintext's"
        };
        let mut text = format!(
            "\n{}, {} threads on {}\n\
             {} stored, {} of memory needed\n{verdict}\n\n",
            self.data,
            self.threads,
            self.cpu,
            bytes(self.stored_bytes),
            bytes(self.needed_bytes),
        );
        let mut modes = self.modes.iter();
        let in_memory = modes.find(|figures| figures.setting.mode == Mode::Memory);
        for figures in &self.modes {
            let slowdown = in_memory.map_or(String::new(), |memory| {
                format!("{:.1} ×", figures.pass_seconds / memory.pass_seconds)
            });
            text += &format!(
                "{:>9} a pass  {slowdown:>8}  {}\n",
                time(figures.pass_seconds),
                figures.setting
            );
        }
        for server in self.left_out.iter().filter_map(|note| note.server.as_ref()) {
            let end = if server.killed { "killed" } else { "failed" };
            text += &format!("{end:>9}                   {}\n", server.setting);
        }
        text += &format!("\nwith {} of memory\n", bytes(self.budget_bytes));
        if let Some(share) = self.bandwidth_share {
            let percent = 100.0 * share;
            text += &format!("streaming reads {percent:.0} % of what the device does directly\n");
        }
        if let Some(speedup) = self.speedup_over_swap {
            text += &format!("streaming is {speedup:.1} times as fast as swap\n");
        }
        if let Some(peak) = self.peak_resident_bytes {
            text += &format!("streaming had {} resident at most\n", bytes(peak));
        }
        for note in &self.left_out {
            text += &note.text();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(line: &str) -> Arguments {
        Command::parse_from(std::iter::once("ssd").chain(line.split_whitespace())).arguments
    }

    #[test]
    fn the_last_limit_is_that_of_the_summary() {
        let limits = |line| arguments(line).limits(4000);
        assert_eq!(limits("--quick"), [1000]);
        assert_eq!(limits("--workload genome"), [1000]);
        assert_eq!(limits(""), [200_000_000, 400_000_000, 600_000_000, 1000]);
        assert_eq!(limits("--quick --limit 2KB --limit 75%"), [2000, 3000]);
    }

    #[test]
    fn both_modes_are_measured_unless_one_is_chosen() {
        let measured = |line| {
            let modes = [Mode::Swap, Mode::Streaming];
            modes.map(|mode| arguments(line).measures(mode))
        };
        assert_eq!(measured(""), [true, true]);
        assert_eq!(measured("--mode streaming"), [false, true]);
        assert_eq!(measured("--mode swap --mode streaming"), [true, true]);
    }

    #[test]
    fn servers_without_figures_are_distinguished() {
        let setting = Setting {
            mode: Mode::Swap,
            limit_bytes: Some(5),
            ..Setting::memory()
        };
        let row_of = |failure: Failure| {
            let note = serde_json::to_value(LeftOut::server(setting.clone(), &failure)).unwrap();
            ["mode", "limit_bytes", "killed"].map(|field| note[field].to_string())
        };
        assert_eq!(row_of(Killed.into()), ["\"swap\"", "5", "true"]);
        assert_eq!(row_of("full".into()), ["\"swap\"", "5", "false"]);
        let note = LeftOut::new("profile".to_owned(), "no perf".to_owned());
        let note = serde_json::to_value(note).unwrap();
        assert_eq!(note.as_object().unwrap().len(), 3, "{note}");
    }

    fn figures(mode: Mode, device: &str, limit: u64, pass_seconds: f64) -> Figures {
        let setting = Setting {
            mode,
            device: device.to_owned(),
            limit_bytes: (mode != Mode::Memory).then_some(limit),
            ..Setting::memory()
        };
        Figures::taking(setting, pass_seconds)
    }

    #[test]
    fn the_summary_is_about_the_first_device_and_the_better_swap() {
        let measured = Measured {
            needed_bytes: 0,
            limits: vec![1, 2],
            modes: vec![
                figures(Mode::Memory, "", 0, 1.0),
                figures(Mode::Swap, "a", 1, 2.0),
                figures(Mode::Swap, "a", 2, 9.0),
                figures(Mode::Swap, "a", 2, 7.0),
                figures(Mode::Swap, "b", 2, 3.0),
            ],
            left_out: Vec::new(),
        };
        let seconds = |mode| Some(measured.for_summary(mode)?.pass_seconds);
        assert_eq!(seconds(Mode::Memory), Some(1.0));
        assert_eq!(seconds(Mode::Swap), Some(7.0));
        assert_eq!(seconds(Mode::Streaming), None);
    }

    #[test]
    fn settings_tell_what_matters() {
        let device: Device = "/mnt/ssd=200KiB".parse().unwrap();
        let setting = Setting {
            page_cluster: Some(3),
            ..Setting::on(&device, Mode::Swap, Some(2 << 20))
        };
        assert_eq!(
            setting.to_string(),
            "swap, 2.00 MiB of memory, page-cluster 3, /mnt/ssd (emulated: 200.00 KiB a second)"
        );
        assert_eq!(Setting::memory().to_string(), "all in memory");
    }
}
