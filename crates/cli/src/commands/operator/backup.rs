//! `oboro backup`: copies a store.

use crate::failure::Outcome;
use crate::output::{Output, Unit, bytes};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of a store, as given to `oboro serve --data`, or an earlier backup.
    #[arg(value_name = "DIR")]
    store: PathBuf,
    /// Directory for the copy, which must not exist yet.
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let bar = output.bar("copying", Unit::Bytes);
    let copied = oboro_server::backup(&arguments.store, &arguments.target, &|done, total| {
        bar.set(done, total)
    });
    bar.finish();
    let copied = copied?;
    let value = json!({
        "target": arguments.target.display().to_string(),
        "datasets": copied.store.datasets,
        "segments": copied.store.segments,
        "collections": copied.collections,
        "bytes": copied.bytes,
    });
    output.result(&value, || {
        format!(
            "copied {} datasets, {} segments, {} collections of genomes, {} to {}\n",
            copied.store.datasets,
            copied.store.segments,
            copied.collections,
            bytes(copied.bytes),
            arguments.target.display()
        )
    })
}
