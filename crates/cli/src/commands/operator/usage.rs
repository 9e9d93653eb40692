//! `oboro usage`: what the owners on a server used, for bills.

use crate::failure::Outcome;
use crate::output::{Output, bytes};
use oboro_mining::escaped;
use oboro_server::{OwnerUsage, usage};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// The directory that `oboro serve --data` has, or --cache; the server may be running.
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// One month, as 2026-11 [default: all].
    #[arg(long, value_name = "MONTH")]
    month: Option<String>,
}

const HOUR: f64 = 3600.0;

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let all = usage(&arguments.data, arguments.month.as_deref())?;
    let value: Vec<Value> = all
        .iter()
        .map(|(owner, it)| described(owner, *it))
        .collect();
    output.result(&value, || {
        if all.is_empty() {
            return "nothing was used, or not written yet: servers write once an hour and when they end\n".to_owned();
        }
        let mut text = String::new();
        for (owner, it) in &all {
            let _ = writeln!(
                text,
                "{}: {} calls, {} received, {} sent, {:.3} h of computing, {:.3} GiB·h stored",
                escaped(owner),
                it.used.calls,
                bytes(it.used.received_bytes),
                bytes(it.used.sent_bytes),
                compute_hours(*it),
                stored_byte_hours(*it) / f64::from(1 << 30)
            );
        }
        text
    })
}

fn compute_hours(usage: OwnerUsage) -> f64 {
    usage.used.compute_microseconds as f64 / 1e6 / HOUR
}

fn stored_byte_hours(usage: OwnerUsage) -> f64 {
    usage.stored_byte_seconds as f64 / HOUR
}

fn described(owner: &str, usage: OwnerUsage) -> Value {
    json!({
        "owner": owner,
        "calls": usage.used.calls,
        "received_bytes": usage.used.received_bytes,
        "sent_bytes": usage.used.sent_bytes,
        "compute_seconds": usage.used.compute_microseconds as f64 / 1e6,
        "stored_byte_hours": stored_byte_hours(usage),
    })
}
