//! `oboro-lab`: measures Oboro on this machine on the paths that users take, and reproduces the papers' tables.
//!
//! Data are generated from a seed, the server is the product's program in a separate process over loopback, and all
//! files are in a temporary directory that is deleted afterwards.

mod compare;
mod genome;
mod itemsets;
mod machine;
mod numa;
mod output;
mod profile;
mod read;
mod server;
mod ssd;
mod support;
mod workload;

use clap::{Parser, Subcommand};
use output::{Failure, Output};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "fcmalloc")]
#[global_allocator]
static ALLOCATOR: fcmalloc::FcMalloc = fcmalloc::FcMalloc;

/// What a bench returns.
type Outcome = Result<(), Failure>;

/// Measure Oboro on this machine.
#[derive(Parser)]
#[command(version, about, long_about = None, propagate_version = true, max_term_width = 100)]
struct Cli {
    /// Print results as JSON, one value per line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    Compare(compare::Arguments),
    Fault(ssd::fault::Arguments),
    Genome(genome::Arguments),
    Numa(numa::Arguments),
    Read(read::Arguments),
    Ssd(ssd::Arguments),
    Support(support::Arguments),
}

fn main() -> ExitCode {
    let Cli { json, bench } = Cli::parse();
    let output = Output::new(json);
    let outcome = match bench {
        Bench::Compare(arguments) => compare::run(&arguments, output),
        Bench::Fault(arguments) => ssd::fault::run(&arguments, output),
        Bench::Genome(arguments) => genome::run(&arguments, output),
        Bench::Numa(arguments) => numa::run(&arguments, output),
        Bench::Read(arguments) => read::run(&arguments, output),
        Bench::Ssd(arguments) => ssd::run(&arguments, output),
        Bench::Support(arguments) => support::run(&arguments, output),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// The number of threads.
#[derive(clap::Args)]
pub struct ThreadArguments {
    /// Threads to compute with, up to 1024 [default: as many as there are processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl ThreadArguments {
    /// The number given.
    pub fn given(&self) -> Option<u16> {
        self.threads
    }

    /// The number of threads.
    pub fn count(&self) -> NonZeroUsize {
        self.threads
            .and_then(|threads| NonZeroUsize::new(threads.into()))
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }
}

/// Runs `work` and returns its result and duration.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let done = work();
    (done, begun.elapsed())
}

/// The mean of several figures without the smallest and the largest, if there are more than two.
fn trimmed_mean(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let kept = match figures.as_slice() {
        [_, kept @ .., _] if !kept.is_empty() => kept,
        all => all,
    };
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// The median; the lower one of two.
fn median(runs: impl IntoIterator<Item = Duration>) -> Duration {
    let mut runs: Vec<Duration> = runs.into_iter().collect();
    runs.sort_unstable();
    match runs.len() {
        0 => Duration::ZERO,
        count => runs[(count - 1) / 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_bench_has_defaults_of_its_own_and_takes_them() {
        let command = Cli::command();
        let default = |bench: &str, argument: &str| {
            let bench = command.find_subcommand(bench).unwrap();
            let argument = bench.get_arguments().find(|it| it.get_id() == argument);
            argument.unwrap().get_default_values().to_vec()
        };
        for (bench, items, transactions) in [("support", "18", "1943424"), ("ssd", "30", "4800000")]
        {
            assert_eq!(default(bench, "items"), [items], "{bench}");
            assert_eq!(default(bench, "transactions"), [transactions], "{bench}");
        }
        for bench in command.get_subcommands() {
            let words = match bench.get_name() {
                "compare" => &["compare", "A", "B"][..],
                "read" => &["read", "FILE"],
                name => &[name],
            };
            let parsed = bench.clone().try_get_matches_from(words);
            parsed.unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn the_largest_and_the_smallest_do_not_count() {
        assert_eq!(trimmed_mean(vec![90.0, 4.0, 1.0, 8.0]), 6.0);
        assert_eq!(trimmed_mean(vec![5.0, 1.0, 2.0]), 2.0);
        assert_eq!(trimmed_mean(vec![7.0; 8]), 7.0);
        // Only one of equal ones is dropped.
        assert_eq!(trimmed_mean(vec![9.0, 9.0, 1.0, 1.0]), 5.0);
    }

    #[test]
    fn few_figures_all_count() {
        assert_eq!(trimmed_mean(vec![]), 0.0);
        assert_eq!(trimmed_mean(vec![3.0]), 3.0);
        assert_eq!(trimmed_mean(vec![3.0, 5.0]), 4.0);
    }
}
