//! `oboro bench`: what Oboro takes on this machine, measured on the paths that users take.
//!
//! Data are made from a seed, the server is a process of its own over loopback, and everything
//! lies in a temporary directory that goes away with the measurement.

mod genome;
mod itemsets;
mod machine;
mod numa;
mod profile;
mod read;
mod server;
mod ssd;
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
    Genome(genome::Arguments),
    Numa(numa::Arguments),
    Read(read::Arguments),
    Ssd(ssd::Arguments),
    Support(support::Arguments),
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    match &arguments.benchmark {
        Benchmark::Genome(arguments) => genome::run(arguments, output),
        Benchmark::Numa(arguments) => numa::run(arguments, output),
        Benchmark::Read(arguments) => read::run(arguments, output),
        Benchmark::Ssd(arguments) => ssd::run(arguments, output),
        Benchmark::Support(arguments) => support::run(arguments, output),
    }
}

/// What `work` returns and how long it took.
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

/// The middle of what several runs took; the lower one of two.
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
    use clap::{Args, Command};

    #[test]
    fn every_bench_has_defaults_of_its_own_and_takes_them() {
        let command = Arguments::augment_args(Command::new("bench"));
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
                "read" => &["read", "FILE"][..],
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
        // Only one of equal ones.
        assert_eq!(trimmed_mean(vec![9.0, 9.0, 1.0, 1.0]), 5.0);
    }

    #[test]
    fn few_figures_all_count() {
        assert_eq!(trimmed_mean(vec![]), 0.0);
        assert_eq!(trimmed_mean(vec![3.0]), 3.0);
        assert_eq!(trimmed_mean(vec![3.0, 5.0]), 4.0);
    }
}
