//! `oboro backup`

use crate::Outcome;
use crate::output::{Output, Unit, bytes};
use oboro_store::Directories;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// The directory, or directories, of a store, as given to `oboro serve --data`, or an earlier backup.
    #[arg(
        value_name = "DIR[,DIR...]",
        required = true,
        num_args = 1,
        value_delimiter = ','
    )]
    store: Vec<PathBuf>,
    /// Where the copy is made, in one directory. Nothing may be there.
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let bar = output.bar("copying", Unit::Bytes);
    let store = Directories::new(arguments.store.clone())?;
    let copied = oboro_store::backup(store, &arguments.target, &|done, total| {
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
