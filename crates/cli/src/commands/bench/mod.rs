//! `oboro bench`: what Oboro takes on this machine, measured on the paths that users take.
//!
//! Data are made from a seed, the server is a process of its own over loopback, and everything
//! lies in a temporary directory that goes away with the measurement.

mod itemsets;
mod machine;
mod numa;
mod server;
mod support;
mod workload;

use crate::Outcome;
use crate::output::Output;
use clap::Subcommand;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    Numa(numa::Arguments),
    Support(support::Arguments),
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    match &arguments.benchmark {
        Benchmark::Numa(arguments) => numa::run(arguments, output),
        Benchmark::Support(arguments) => support::run(arguments, output),
    }
}

/// What `work` returns and how long it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let done = work();
    (done, begun.elapsed())
}

/// The middle of what several runs took; the lower one of two.
fn median(runs: impl IntoIterator<Item = Duration>) -> Duration {
    let mut runs: Vec<Duration> = runs.into_iter().collect();
    runs.sort_unstable();
    match runs.len() {
        0 => Duration::ZERO,
        count => runs[(count - 1) / 2],
    }
}
