//! `oboro-lab numa`

mod add_array;
mod arrays;
mod counting;
mod flush;
mod library;
mod paper;
mod placed;
mod supports;
mod traffic;

use super::machine;
use super::workload::Workload;
use crate::output::{Failure, Output};
use crate::{Outcome, ThreadArguments};
use library::Library;
use oboro_arena::Topology;
use oboro_mining::QuestParameters;
use serde::Serialize;
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
/// Before that, the engine counts synthetic residues on --nodes nodes, which may be simulated, and the bytes that each
/// node reads from each are reported.
///
/// With --json every row is one line and the summary the last; docs/performance.md explains the fields.
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
    /// The runs averaged for a figure of Table 6-3, without the shortest and the longest [default: 8, or 3 with
    /// --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..))]
    runs: Option<u16>,
    /// The program in lab/alloc/fhe, for the ordinary library's rows of Table 6-3.
    #[arg(long, value_name = "PROGRAM")]
    library: Option<PathBuf>,
    /// The nodes between which traffic is counted [default: those of this machine, or 4 if it has one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    nodes: Option<u16>,
    #[command(flatten)]
    threads: ThreadArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let topology = Topology::of_this_machine();
    let library = arguments.library()?;
    let traffic = traffic::measure(&topology, arguments, output)?;
    let add_array = add_array::measure(&topology, arguments, output)?;
    let counting = counting::measure(&topology, arguments, library.as_ref(), output)?;
    let summary = Summary {
        bench: "numa",
        cpu: machine::processor(),
        nodes: topology.nodes().len(),
        verified: add_array.verified() && counting.verified(),
        traffic,
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
    traffic: Vec<traffic::Row>,
    add_array: add_array::Figures,
    #[serde(rename = "table_6_3")]
    counting: counting::Figures,
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
            self.add_array.text(),
            self.counting.text(),
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
            (6, 20_000)
        } else {
            (18, 1_943_424)
        };
        Workload {
            items,
            transactions,
            max_len: 2,
            seed: QuestParameters::default().seed,
            threads: self.threads.count(),
        }
    }

    /// It counts few blocks, since each takes half a second on two cores.
    fn library(&self) -> Result<Option<Library>, Failure> {
        let rounds = if self.quick { 1 } else { 4 };
        let program = self.library.as_deref();
        program.map(|path| Library::new(path, rounds)).transpose()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}
