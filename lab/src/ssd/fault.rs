//! `oboro-lab fault`: what a page costs that was swapped out, on the swap in use.
//!
//! The unit of every figure with swap: a device whose latency is below this floor of the machine cannot be distinguished.

use super::device::Device;
use super::limit::Limits;
use super::sampler::ProcessCounters;
use super::swap::{PageCluster, SmallPages};
use crate::output::{Failure, Output, problem};
use crate::{Outcome, timed};
use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use serde::Serialize;
use serde_json::Value;
use std::hint::black_box;
use std::process::Stdio;

const PAGE: usize = 4096;
/// The data, and the memory for them while it is measured.
const MEBIBYTES: u32 = 64;
const LIMIT: u64 = 24 << 20;

/// Touch pages in random order that the kernel has swapped out, and time the faults.
///
/// Fills memory with data that do not compress, then reads a byte of one page after another. Without a control group that
/// limits its memory nothing is swapped: `oboro-lab ssd` runs it in one for every device.
#[derive(clap::Args)]
pub struct Arguments {
    /// The data, in MiB.
    #[arg(long, value_name = "N", default_value_t = MEBIBYTES, value_parser = clap::value_parser!(u32).range(1..))]
    mebibytes: u32,
    /// Pages to touch.
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..))]
    pages: u32,
}

/// The report.
#[derive(Serialize)]
struct Summary {
    bench: &'static str,
    pages: u32,
    faults: u64,
    seconds: f64,
    /// None without faults.
    fault_microseconds: Option<f64>,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut data = vec![0; (arguments.mebibytes as usize) << 20];
    random.fill_bytes(&mut data);
    let faults = || -> Result<u64, Failure> {
        let counters = ProcessCounters::of(std::process::id());
        Ok(counters
            .ok_or("/proc has no faults; run on Linux")?
            .major_faults)
    };
    let before = faults()?;
    let (_, took) = timed(|| {
        for _ in 0..arguments.pages {
            black_box(data[random.random_range(0..data.len() / PAGE) * PAGE]);
        }
    });
    let faults = faults()? - before;
    let summary = Summary {
        bench: "fault",
        pages: arguments.pages,
        faults,
        seconds: took.as_secs_f64(),
        fault_microseconds: (faults > 0).then(|| took.as_secs_f64() * 1e6 / faults as f64),
    };
    output.result(&summary, || match summary.fault_microseconds {
        Some(time) => format!("{time:.1} µs a fault, {faults} faults\n"),
        None => "nothing was swapped; limit the memory\n".to_owned(),
    })
}

/// The microseconds of a fault without readahead, on the swap that is on; or why they cannot be measured.
pub fn measure(device: &Device) -> Result<f64, String> {
    let _cluster = PageCluster::set(0)?;
    let limits = Limits {
        memory: Some(LIMIT),
        ..device.limits()?
    };
    let groups = limits.impose()?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = groups.command(this.as_os_str());
    let small_pages = SmallPages::set()?;
    let ended = command
        .args(["fault", "--json"])
        .stdin(Stdio::null())
        .output();
    drop(small_pages);
    let ended = ended.map_err(|error| error.to_string())?;
    if !ended.status.success() {
        return Err(problem(&ended.stderr));
    }
    let report: Option<Value> = serde_json::from_slice(&ended.stdout).ok();
    report
        .and_then(|report| report["fault_microseconds"].as_f64())
        .ok_or_else(|| "nothing was swapped".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_limited_has_no_faults_to_time() {
        let arguments = Arguments {
            mebibytes: 1,
            pages: 10,
        };
        run(&arguments, Output::new(true)).unwrap();
    }
}
