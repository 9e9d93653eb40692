//! `oboro datasets`, `oboro delete` and `oboro undelete`: datasets on a server.

use crate::arguments::ServerArguments;
use crate::failure::Outcome;
use crate::output::{Output, bytes};
use oboro_client::{DeletedDataset, Listing, UnfinishedUpload, utc};
use oboro_input::escaped;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// List deleted datasets that can be undeleted.
    #[arg(long, conflicts_with = "uploads")]
    deleted: bool,
    /// List unfinished uploads.
    #[arg(long)]
    uploads: bool,
}

#[derive(clap::Args)]
pub struct DeleteArguments {
    /// Name of the dataset on the server.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    server: ServerArguments,
    /// Skip the confirmation.
    #[arg(long)]
    yes: bool,
    /// Delete permanently and free the space at once, even if the dataset was deleted before.
    #[arg(long)]
    now: bool,
}

#[derive(clap::Args)]
pub struct UndeleteArguments {
    /// Name that the dataset had on the server, or its id if several had that name.
    #[arg(value_name = "NAME|ID")]
    name: String,
    #[command(flatten)]
    server: ServerArguments,
    /// New name of the dataset [default: the old one].
    #[arg(long = "as", value_name = "NAME")]
    new_name: Option<String>,
}

pub fn list(arguments: &Arguments, output: Output) -> Outcome {
    if arguments.deleted || arguments.uploads {
        let unpublished = arguments.server.connect()?.unpublished()?;
        return if arguments.deleted {
            deleted(&unpublished.deleted, output)
        } else {
            uploads(&unpublished.uploads, output)
        };
    }
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

fn deleted(deleted: &[DeletedDataset], output: Output) -> Outcome {
    let value = deleted.iter().map(|it| {
        json!({
            "name": it.name,
            "dataset": it.dataset.to_string(),
            "stored_bytes": it.stored_bytes,
            "deleted": moment(it.deleted),
            "until": moment(it.until),
        })
    });
    let value: Vec<_> = value.collect();
    output.result(&value, || {
        let mut text = String::new();
        for it in deleted {
            let _ = writeln!(
                text,
                "{}  {}  {}, deleted {}, can be undeleted until {}",
                escaped(&it.name),
                it.dataset,
                bytes(it.stored_bytes),
                moment(it.deleted),
                moment(it.until)
            );
        }
        or_none(text, "no deleted datasets")
    })
}

fn uploads(uploads: &[UnfinishedUpload], output: Output) -> Outcome {
    let value = uploads.iter().map(|it| {
        json!({
            "name": it.name,
            "dataset": it.dataset.to_string(),
            "received_bytes": it.received_bytes,
            "total_bytes": it.total_bytes,
            "until": moment(it.until),
        })
    });
    let value: Vec<_> = value.collect();
    output.result(&value, || {
        let mut text = String::new();
        for it in uploads {
            let _ = writeln!(
                text,
                "{}  {}  {} of {}, cancelled at {} unless resumed",
                escaped(&it.name),
                it.dataset,
                bytes(it.received_bytes),
                bytes(it.total_bytes),
                moment(it.until)
            );
        }
        or_none(text, "no unfinished uploads")
    })
}

fn or_none(text: String, none: &str) -> String {
    if text.is_empty() {
        format!("{none}\n")
    } else {
        text
    }
}

/// Formats a time from a server.
fn moment(unix_seconds: i64) -> String {
    utc(u64::try_from(unix_seconds).unwrap_or(0))
}

pub fn delete(arguments: &DeleteArguments, output: Output) -> Outcome {
    let DeleteArguments {
        name,
        server,
        yes,
        now,
    } = arguments;
    if !yes {
        let question = if *now {
            format!("delete {} permanently? [y/N] ", escaped(name))
        } else {
            format!("delete {}? [y/N] ", escaped(name))
        };
        confirm(&question)?;
    }
    server.connect()?.delete(name, *now)?;
    let value = json!({ "name": name, "deleted": true, "for_ever": now });
    output.result(&value, || {
        let name = escaped(name);
        if *now {
            format!("deleted {name} permanently\n")
        } else {
            format!(
                "deleted {name}; `oboro undelete` brings it back while the server keeps it (`oboro datasets --deleted`)\n"
            )
        }
    })
}

pub fn undelete(arguments: &UndeleteArguments, output: Output) -> Outcome {
    let UndeleteArguments {
        name,
        server,
        new_name,
    } = arguments;
    let dataset = server.connect()?.undelete(name, new_name.as_deref())?;
    let value =
        json!({ "name": new_name.as_deref().unwrap_or(name), "dataset": dataset.to_string() });
    let now = new_name.as_deref().unwrap_or(name);
    output.result(&value, || format!("brought {} back\n", escaped(now)))
}

/// Asks for confirmation on the terminal.
///
/// # Errors
/// Any answer but yes, or no terminal.
fn confirm(question: &str) -> Outcome {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(
            "this needs confirmation, and standard input is not a terminal; confirm with --yes"
                .into(),
        );
    }
    std::io::stderr().write_all(question.as_bytes())?;
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut input.lock(), &mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err("nothing was deleted".into()),
    }
}
