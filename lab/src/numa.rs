//! `oboro-lab numa`

mod add_array;
mod arrays;
mod bgv;
mod counting;
mod flush;
mod genome;
mod library;
mod nodes;
mod paper;
mod placed;
mod products;
mod supports;
mod tasks;
mod traffic;

use super::machine;
use super::workload::Workload;
use crate::output::{Failure, Output};
use crate::{Outcome, ThreadArguments};
use library::Library;
use oboro_arena::Topology;
use oboro_input::QuestParameters;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Measure what the distance between cores and memory costs on this machine.
///
/// Algorithm 1 of the paper on NUMA, add_array, adds two arrays of 64-bit integers into a third, with strides and
/// flushed caches, in three cases: the third array near the running core and the others on other nodes (OCR, the
/// owner-computes rule), all on other nodes (worst), and all near (best). Its Tables 3-1 to 3-3 are printed next to the
/// paper's own figures. On a machine with one node the three cases coincide, which is noted, and differences between
/// them are noise.
///
/// Table 6-3 is the time for counting all pairs of 18 items in 1,943,424 transactions with ciphertext placed by item,
/// by transaction or at random: with Oboro's engine, encrypted anew each time, and, if --library names its program,
/// with an ordinary library for homomorphic encryption.
///
/// The other parts: the bytes that each of --nodes nodes, which may be simulated, reads from each when the engine
/// counts; what the paper's caching and pruning save; its rules for tasks, on and off, in a program that multiplies
/// ciphertexts; and genome search, with windows and queries placed on nodes.
///
/// With --json every row is one line and the summary the last; lab/FIELDS.md explains the fields.
#[derive(clap::Args)]
pub struct Arguments {
    /// Small arrays and data and three runs of everything: seconds instead of minutes.
    #[arg(long)]
    quick: bool,
    /// The loops averaged for a figure of add_array, if --seconds allows [default: 10, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    loops: Option<u16>,
    /// The time after which no figure of add_array begins another loop, in seconds.
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u16,
    /// The runs averaged for a figure of counting, tasks and genome search, without the shortest and the longest if there
    /// are more than two [default: 8, for tasks 3, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// The program that counts with an ordinary library, lab/bench/numa_library.py, and the Python to run it with, for
    /// its rows of Table 6-3.
    #[arg(long, value_name = "PROGRAM", num_args = 1..)]
    library: Vec<OsString>,
    /// fcmalloc as a shared library, for the ordinary library's rows with it.
    #[arg(long, value_name = "FILE", requires = "library")]
    fcmalloc: Option<PathBuf>,
    /// The directory of mushroom.dat.gz, chess.dat.gz and retail.dat.gz, whose products are counted if they are there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The parts to run [default: all].
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    part: Vec<Part>,
    /// The nodes between which traffic is counted [default: those of this machine, or 4 if it has one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    nodes: Option<u16>,
    #[command(flatten)]
    threads: ThreadArguments,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Traffic,
    AddArray,
    Counting,
    Products,
    Tasks,
    Genome,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let topology = Topology::of_this_machine();
    let library = arguments.library()?;
    let is_asked = |part| arguments.part.is_empty() || arguments.part.contains(&part);
    let traffic = is_asked(Part::Traffic).then(|| traffic::measure(&topology, arguments, output));
    let traffic = traffic.transpose()?;
    let products =
        is_asked(Part::Products).then(|| products::measure(arguments.data.as_deref(), output));
    let products = products.transpose()?;
    let tasks = is_asked(Part::Tasks).then(|| tasks::measure(&topology, arguments, output));
    let tasks = tasks.transpose()?;
    let genome = is_asked(Part::Genome).then(|| genome::measure(&topology, arguments, output));
    let genome = genome.transpose()?;
    let add_array =
        is_asked(Part::AddArray).then(|| add_array::measure(&topology, arguments, output));
    let add_array = add_array.transpose()?;
    let counting = is_asked(Part::Counting)
        .then(|| counting::measure(&topology, arguments, library.as_ref(), output));
    let counting = counting.transpose()?;
    let verdicts = [
        tasks.as_ref().map(tasks::Figures::verified),
        genome.as_ref().map(genome::Figures::verified),
        add_array.as_ref().map(add_array::Figures::verified),
        counting.as_ref().map(counting::Figures::verified),
    ];
    let summary = Summary {
        bench: "numa",
        cpu: machine::processor(),
        nodes: topology.nodes().len(),
        verified: verdicts.into_iter().flatten().all(|verified| verified),
        traffic,
        products,
        tasks,
        genome,
        add_array,
        counting,
    };
    output.result(&summary, || summary.text())?;
    if summary.verified {
        Ok(())
    } else {
        Err("sums or supports differ from those of the plaintext; this is a defect of Oboro, or of the library if only its rows are not verified: please report it with the command".into())
    }
}

/// The final report.
#[derive(Serialize)]
struct Summary {
    bench: &'static str,
    cpu: String,
    /// NUMA nodes with a core that this process may use.
    nodes: usize,
    /// Whether every sum and every support is right.
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<Vec<traffic::Row>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    products: Option<Vec<products::Level>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<tasks::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    genome: Option<genome::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    add_array: Option<add_array::Figures>,
    #[serde(rename = "table_6_3", skip_serializing_if = "Option::is_none")]
    counting: Option<counting::Figures>,
}

impl Summary {
    fn text(&self) -> String {
        let verdict = if self.verified {
            "all sums and supports are right"
        } else {
            "sums or supports are WRONG"
        };
        format!(
            "\n{} node(s) on {}\n{verdict}\n{}{}",
            self.nodes,
            self.cpu,
            self.add_array
                .as_ref()
                .map_or(String::new(), add_array::Figures::text),
            self.counting
                .as_ref()
                .map_or(String::new(), counting::Figures::text),
        )
    }
}

impl Arguments {
    /// The number of elements of the largest arrays.
    fn most_elements(&self) -> usize {
        if self.quick { 1_000_000 } else { 100_000_000 }
    }

    fn loops(&self) -> u16 {
        let default = if self.quick { 3 } else { 10 };
        self.loops.unwrap_or(default)
    }

    fn runs(&self) -> u16 {
        let default = if self.quick { 3 } else { 8 };
        self.runs.unwrap_or(default)
    }

    /// The workload of Table 6-3.
    fn workload(&self) -> Workload {
        let (items, transactions) = if self.quick {
            // A whole sample, in which the work is as large for each pair as in the paper's data.
            (paper::ITEMS, 114_688)
        } else {
            (paper::ITEMS, paper::TRANSACTIONS)
        };
        Workload {
            items,
            transactions,
            max_len: 2,
            seed: QuestParameters::default().seed,
            threads: self.threads.count(),
        }
    }

    /// The runs of the program with the paper's rules, which has eighteen cases.
    fn task_runs(&self) -> u16 {
        self.runs.unwrap_or(3)
    }

    fn library(&self) -> Result<Option<Library>, Failure> {
        let is_given = !self.library.is_empty();
        let library = is_given.then(|| Library::new(&self.library, self.fcmalloc.as_deref()));
        library.transpose()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}
