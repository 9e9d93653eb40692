//! `oboro datasets` and `oboro delete`

use crate::Outcome;
use crate::arguments::ServerArguments;
use crate::output::{Output, bytes};
use oboro_client::Listing;
use oboro_mining::escaped;
use serde_json::json;
use std::fmt::Write;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(clap::Args)]
pub struct DeleteArguments {
    /// The dataset's name on the server.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

pub fn list(arguments: &Arguments, output: Output) -> Outcome {
    let Listing { datasets, damaged } = arguments.server.connect()?.datasets()?;
    let sound = datasets.iter().map(|d| {
        json!({
            "name": d.name,
            "dataset": d.dataset.to_string(),
            "version": d.version,
            "root": d.root.to_string(),
            "columns": d.columns,
            "blocks": d.blocks,
            "degree": d.parameters.degree(),
            "limbs": d.parameters.limb_count(),
            "max_len": d.max_len,
            "stored_bytes": d.stored_bytes,
        })
    });
    let unsound = damaged.iter().map(|problem| json!({ "damaged": problem }));
    let value: Vec<_> = sound.chain(unsound).collect();
    output.result(&value, || {
        if value.is_empty() {
            return "no datasets\n".to_owned();
        }
        let names: Vec<_> = datasets.iter().map(|d| escaped(&d.name)).collect();
        let width = names
            .iter()
            .map(|name| name.len())
            .max()
            .unwrap_or(0)
            .max(4);
        let mut text = format!(
            "{:width$}  version  columns  blocks × slots  max len  stored\n",
            "name"
        );
        for (d, name) in datasets.iter().zip(&names) {
            let slots = format!("{} × {}", d.blocks, d.parameters.degree());
            let _ = writeln!(
                text,
                "{name:width$}  {:>7}  {:>7}  {:>14}  {:>7}  {}",
                d.version,
                d.columns,
                slots,
                d.max_len,
                bytes(d.stored_bytes)
            );
        }
        for problem in &damaged {
            let _ = writeln!(text, "damaged: {problem}");
        }
        text
    })
}

pub fn delete(arguments: &DeleteArguments, output: Output) -> Outcome {
    arguments.server.connect()?.delete(&arguments.name)?;
    output.result(&json!({ "name": arguments.name, "deleted": true }), || {
        format!("deleted {}\n", arguments.name)
    })
}
