//! `oboro upload`: sends a dataset directory to a server.

use crate::arguments::{RecoveryPassphraseArguments, ServerArguments, dataset_name};
use crate::failure::Outcome;
use crate::output::{Output, Unit, bytes, seconds};
use oboro_client::keep_record;
use oboro_format::Bundle;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro upload baskets.oboro --server https://mine.example:7171 --token-file token"
)]
pub struct Arguments {
    /// Dataset directory created by `oboro encrypt`.
    #[arg(value_name = "DIR")]
    bundle: PathBuf,
    /// Name on the server [default: the directory's, without .oboro].
    #[arg(long)]
    name: Option<String>,
    /// Cancel the unfinished upload of that name.
    #[arg(long)]
    cancel: bool,
    /// Keep a recovery copy at the server, sealed under a passphrase: `oboro recover` recreates a lost DIR from it,
    /// without ciphertext. Later uploads of DIR do the same.
    #[arg(long, conflicts_with_all = ["cancel", "no_keep_record"])]
    keep_record: bool,
    /// Stop keeping the recovery copy. The server removes it when the next version is published.
    #[arg(long, conflicts_with = "cancel")]
    no_keep_record: bool,
    #[command(flatten)]
    recovery: RecoveryPassphraseArguments,
    #[command(flatten)]
    server: ServerArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let name = dataset_name(arguments.name.as_ref(), &arguments.bundle)?;
    let connection = arguments.server.connect()?;
    if arguments.cancel {
        connection.cancel_upload(&name)?;
        return output.result(&json!({ "name": name, "cancelled": true }), || {
            format!("cancelled the unfinished upload of {name}\n")
        });
    }
    let bundle = Bundle::open(&arguments.bundle)?;
    if arguments.no_keep_record {
        bundle.set_keeps_record(false)?;
    }
    let keeps = arguments.keep_record || bundle.keeps_record()?;
    // Prompt first: the upload should end without waiting for the user.
    let questions = ["Passphrase for the record at the server: ", "Once more: "];
    let passphrase = keeps
        .then(|| arguments.recovery.passphrase(&questions))
        .transpose()?;
    let begun = Instant::now();
    let bar = output.bar("uploading", Unit::Bytes);
    let uploaded = oboro_client::upload(&connection, &bundle, &name, &|done, total| {
        bar.set(done, total)
    });
    bar.finish();
    let uploaded = uploaded?;
    let elapsed = begun.elapsed();
    let kept = passphrase
        .map(|passphrase| keep_record(&connection, &bundle, &name, &passphrase))
        .transpose()?;
    if kept.is_some() && arguments.keep_record {
        bundle.set_keeps_record(true)?;
    }
    let root = bundle.manifest().root();
    let mut value = json!({
        "name": name,
        "dataset": bundle.manifest().dataset.to_string(),
        "version": uploaded.version,
        "root": root.to_string(),
        "sent_bytes": uploaded.sent_bytes,
        "total_bytes": uploaded.total_bytes,
        "upload_seconds": elapsed.as_secs_f64(),
    });
    if let Some(kept) = kept {
        value["record_bytes"] = json!(kept);
    }
    output.result(&value, || {
        let mut text = format!(
            "uploaded {name}, version {}: sent {} of {} in {}\n",
            uploaded.version,
            bytes(uploaded.sent_bytes),
            bytes(uploaded.total_bytes),
            seconds(elapsed)
        );
        if let Some(kept) = kept {
            text += &format!(
                "the server keeps its record, sealed ({})\nnote for `oboro recover {name} --root`: version {}, root {root}\n",
                bytes(kept),
                uploaded.version
            );
        }
        text
    })
}
