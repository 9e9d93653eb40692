//! `oboro backup`

use crate::Outcome;
use crate::output::{Output, Unit, bytes};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// The directory of a store, as given to `oboro serve --data`, or an earlier backup.
    #[arg(value_name = "DIR")]
    store: PathBuf,
    /// Where to write the copy; must not exist yet.
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let bar = output.bar("copying", Unit::Bytes);
    let copied = oboro_store::backup(&arguments.store, &arguments.target, &|done, total| {
        bar.set(done, total)
    });
    bar.finish();
    let copied = copied?;
    let value = json!({
        "target": arguments.target.display().to_string(),
        "datasets": copied.datasets,
        "segments": copied.segments,
        "bytes": copied.bytes,
    });
    output.result(&value, || {
        format!(
            "copied {} datasets, {} segments, {} to {}\n",
            copied.datasets,
            copied.segments,
            bytes(copied.bytes),
            arguments.target.display()
        )
    })
}
