//! `oboro upload`

use crate::Outcome;
use crate::arguments::{ServerArguments, dataset_name};
use crate::output::{Output, Unit, bytes, seconds};
use oboro_format::Bundle;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Arguments {
    /// The dataset directory created by `oboro encrypt`.
    #[arg(value_name = "DIR")]
    bundle: PathBuf,
    /// The name on the server [default: the directory's, without .oboro].
    #[arg(long)]
    name: Option<String>,
    /// Cancel an unfinished upload of that name instead.
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let name = dataset_name(arguments.name.as_ref(), &arguments.bundle)?;
    let connection = arguments.server.connect()?;
    if arguments.cancel {
        connection.cancel_upload(&name)?;
        return output.result(&json!({ "name": name, "cancelled": true }), || {
            format!("gave up the unfinished upload of {name}\n")
        });
    }
    let bundle = Bundle::open(&arguments.bundle)?;
    let begun = Instant::now();
    let bar = output.bar("uploading", Unit::Bytes);
    let uploaded = oboro_client::upload(&connection, &bundle, &name, &|done, total| {
        bar.set(done, total)
    });
    bar.finish();
    let uploaded = uploaded?;
    let elapsed = begun.elapsed();
    let value = json!({
        "name": name,
        "dataset": bundle.manifest().dataset.to_string(),
        "version": uploaded.version,
        "root": bundle.manifest().root().to_string(),
        "sent_bytes": uploaded.sent_bytes,
        "total_bytes": uploaded.total_bytes,
        "upload_seconds": elapsed.as_secs_f64(),
    });
    output.result(&value, || {
        format!(
            "uploaded {name}, version {}: sent {} of {} in {}\n",
            uploaded.version,
            bytes(uploaded.sent_bytes),
            bytes(uploaded.total_bytes),
            seconds(elapsed)
        )
    })
}
