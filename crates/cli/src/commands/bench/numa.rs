//! `oboro bench numa`

mod add_array;
mod arrays;
mod paper;

use super::machine;
use crate::Outcome;
use crate::output::Output;
use add_array::Figures;
use oboro_machine::Topology;
use serde::Serialize;
use std::time::Duration;

/// Measure what the distance between cores and memory costs on this machine.
///
/// Algorithm 1 of the paper on NUMA, add_array, adds two arrays of 64-bit integers into a third, with
/// strides and caches emptied, in three cases: the third array near the core that runs and the others
/// on other nodes (OCR, the owner-computes rule), all on other nodes (worst), and all near (best). Its
/// Tables 3-1 to 3-3 are printed beside the paper's own figures. On a machine with one node the three
/// cases coincide, which is said, and what differs between them is chance.
///
/// With --json every row is one line and the summary the last; docs/performance.md explains the fields.
#[derive(clap::Args)]
pub struct Arguments {
    /// Arrays of at most a million integers and three loops: seconds instead of minutes.
    #[arg(long)]
    quick: bool,
    /// The loops that a figure is the mean of, if --seconds leaves time for them [default: 10, or 3
    /// with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    loops: Option<u16>,
    /// No figure begins another loop after so many seconds.
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u16,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let topology = Topology::of_this_machine();
    let summary = Summary {
        bench: "numa",
        cpu: machine::processor(),
        nodes: topology.nodes().len(),
        add_array: add_array::measure(&topology, arguments, output)?,
        verified: false,
    };
    let summary = Summary {
        verified: summary.add_array.verified(),
        ..summary
    };
    output.result(&summary, || summary.text())?;
    match summary.verified {
        true => Ok(()),
        false => Err("sums differ from those of the integers; this is a defect of Oboro, please report it with the command".into()),
    }
}

/// What is reported at the end.
#[derive(Serialize)]
struct Summary {
    bench: &'static str,
    cpu: String,
    /// NUMA nodes with a core that this process may use.
    nodes: usize,
    /// Whether every sum of every figure is right.
    verified: bool,
    add_array: Figures,
}

impl Summary {
    fn text(&self) -> String {
        let verdict = match self.verified {
            true => "all sums are right",
            false => "sums are WRONG",
        };
        format!(
            "\n{} node(s) on {}\n{verdict}\n{}",
            self.nodes,
            self.cpu,
            self.add_array.text()
        )
    }
}

impl Arguments {
    /// The elements of the largest arrays.
    fn most_elements(&self) -> usize {
        match self.quick {
            true => 1_000_000,
            false => 100_000_000,
        }
    }

    fn loops(&self) -> u16 {
        let default = if self.quick { 3 } else { 10 };
        self.loops.unwrap_or(default)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}
