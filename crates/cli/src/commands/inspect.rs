//! `oboro inspect`: describes a key file, a dataset directory, a segment, or a server's placement.

use crate::arguments::{KeyFrom, PassphraseArguments, ServerArguments};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, bytes};
use oboro_client::{NodePages, Placement};
use oboro_dataset::Dataset;
use oboro_format::{Bundle, Segment};
use oboro_input::HowRead;
use oboro_rlwe::{KeyCheck, NORM_LIMIT, PEAK_LIMIT, PLAINTEXT_PEAK_LIMIT};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Arguments {
    /// Key file, dataset directory or segment file.
    #[arg(value_name = "PATH", required_unless_present = "placement")]
    path: Option<PathBuf>,
    /// Show the NUMA nodes of a server that have the resident panels of this dataset, as its kernel reports.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "key", "key_command", "verify"])]
    placement: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
    /// Key of the dataset, to show the facts that only the owner knows.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Run this shell command and take its output as the bytes of that key file.
    #[arg(long, value_name = "COMMAND", conflicts_with = "key")]
    key_command: Option<String>,
    #[command(flatten)]
    passphrase: PassphraseArguments,
    /// Read all data and verify them against their digests.
    #[arg(long)]
    verify: bool,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let value = match (&arguments.path, &arguments.placement) {
        (Some(path), _) if path.is_dir() => bundle(arguments, path)?,
        (Some(path), _) if begins_with(path, b"OBOROKEY")? => key(arguments, path)?,
        (Some(path), _) => segment(arguments, path)?,
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            placement(&arguments.server.connect()?.placement(name)?)
        }
    };
    output.result(&value, || text(&value))
}

fn placement(placement: &Placement) -> Value {
    let pages = placement.nodes.iter().map(|node| node.pages);
    let pages = pages.fold(0, u64::saturating_add);
    let node = |node: &NodePages| json!({ "node": node.node, "pages": node.pages, "intended_pages": node.intended_pages });
    json!({
        "kind": "placement",
        "policy": placement.policy,
        "panels": placement.panels,
        "resident_panels": placement.resident_panels,
        "pages": pages,
        "misplaced_pages": placement.misplaced_pages,
        "misplaced_share": placement.misplaced_pages as f64 / pages.max(1) as f64,
        "nodes": placement.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

fn begins_with(path: &Path, magic: &[u8]) -> Result<bool, Failure> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(magic.len() as u64).read_to_end(&mut start))
        .map_err(|error| {
            let sentence = format!("cannot read {}: {error}; check the path", path.display());
            Failure::io(&error, sentence)
        })?;
    Ok(start == magic)
}

fn key(arguments: &Arguments, path: &Path) -> Result<Value, Failure> {
    let key = arguments.passphrase.open(&KeyFrom::File(path.into()))?;
    Ok(json!({ "kind": "key file", "key_check": key.check().to_string() }))
}

fn segment(arguments: &Arguments, path: &Path) -> Result<Value, Failure> {
    let segment = Segment::open(path)?;
    if arguments.verify {
        segment.verify()?;
    }
    let description = segment.description();
    Ok(json!({
        "kind": "segment",
        "dataset": description.dataset.to_string(),
        "number": description.number,
        "first_block": description.first_block,
        "blocks": segment.blocks(),
        "columns": description.columns,
        "degree": description.parameters.degree(),
        "limbs": description.parameters.limb_moduli().iter().map(|q| q.value()).collect::<Vec<_>>(),
        "plaintext_modulus": description.parameters.plaintext_modulus(),
        "bytes": segment.entry().bytes,
        "digest": segment.digest().to_string(),
        "verified": arguments.verify,
    }))
}

fn bundle(arguments: &Arguments, path: &Path) -> Result<Value, Failure> {
    let bundle = Bundle::open(path)?;
    if arguments.verify {
        bundle.verify()?;
    }
    let manifest = bundle.manifest();
    let hex = |bytes: [u8; 16]| KeyCheck(bytes).to_string();
    let segment = |s: &oboro_format::SegmentEntry| json!({ "number": s.number, "digest": s.digest.to_string(), "first_block": s.first_block, "blocks": s.blocks, "bytes": s.bytes });
    let mut value = json!({
        "kind": "dataset",
        "dataset": manifest.dataset.to_string(),
        "key_check": hex(manifest.key_check),
        "generation": hex(manifest.generation),
        "version": manifest.version,
        "root": manifest.root().to_string(),
        "columns": manifest.columns,
        "row_id_bytes": manifest.row_id_bytes,
        "blocks": manifest.block_count(),
        "max_len": manifest.max_len,
        "degree": manifest.parameters.degree(),
        "limbs": manifest.parameters.limb_moduli().iter().map(|q| q.value()).collect::<Vec<_>>(),
        "plaintext_modulus": manifest.parameters.plaintext_modulus(),
        "stored_bytes": manifest.segment_bytes(),
        "segments": manifest.segments.iter().map(segment).collect::<Vec<_>>(),
        "verified": arguments.verify,
    });
    let command = arguments.key_command.as_deref();
    if let Some(key) = KeyFrom::one_of(arguments.key.as_deref(), command, "--key-command") {
        let dataset = Dataset::open(path, &arguments.passphrase.open(&key)?)?;
        let record = dataset.record();
        value["transactions"] = json!(record.transactions);
        value["items"] = json!(record.names);
        value["min_item_support"] = json!(record.min_item_support);
        value["read"] = json!(record.read);
        value["trust"] = json!(dataset.trust()?);
        value["noise"] = json!({
            "norm": record.noise_norm, "norm_limit": NORM_LIMIT, "peak": record.noise_peak, "peak_limit": PEAK_LIMIT,
            "plaintext_peak": record.noise_plaintext_peak, "plaintext_peak_limit": PLAINTEXT_PEAK_LIMIT,
        });
    }
    Ok(value)
}

/// Formats the JSON as text, one fact a line.
fn text(value: &Value) -> String {
    let mut text = String::new();
    for (key, fact) in value.as_object().into_iter().flatten() {
        let name = key.replace('_', " ");
        let _ = match (key.as_str(), fact) {
            ("bytes" | "stored_bytes", Value::Number(count)) => {
                writeln!(text, "{name:>18}  {}", bytes(count.as_u64().unwrap_or(0)))
            }
            (_, Value::String(plain)) => writeln!(text, "{name:>18}  {plain}"),
            ("items", Value::Array(items)) => writeln!(
                text,
                "{name:>18}  {} (names in column order with --json)",
                items.len()
            ),
            ("read", Value::Object(_)) => match HowRead::deserialize(fact) {
                Ok(how) => writeln!(text, "{name:>18}  {how}"),
                Err(_) => Ok(()),
            },
            ("segments", Value::Array(segments)) => {
                writeln!(text, "{name:>18}  {}", segments.len())
            }
            ("policy", Value::Null) => {
                writeln!(
                    text,
                    "{name:>18}  none: the server has one node, or may not place memory"
                )
            }
            ("misplaced_share", Value::Number(share)) => {
                let percent = 100.0 * share.as_f64().unwrap_or(0.0);
                writeln!(text, "{name:>18}  {percent:.2} %")
            }
            ("nodes", Value::Array(nodes)) => nodes.iter().try_for_each(|node| {
                let name = format!("node {}", node["node"]);
                writeln!(
                    text,
                    "{name:>18}  {} pages, {} intended",
                    node["pages"], node["intended_pages"]
                )
            }),
            _ => writeln!(text, "{name:>18}  {fact}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_no_machine_has_are_shown_and_not_added_beyond_bounds() {
        let node = |node| NodePages {
            node,
            pages: u64::MAX,
            intended_pages: 0,
        };
        let shown = placement(&Placement {
            policy: None,
            nodes: vec![node(0), node(1)],
            misplaced_pages: u64::MAX,
            resident_panels: 1,
            panels: 1,
        });
        assert_eq!(shown["pages"], u64::MAX);
        assert_eq!(shown["misplaced_share"], 1.0);
        let text = text(&shown);
        assert!(text.contains("none: the server has one node"), "{text}");
    }
}
