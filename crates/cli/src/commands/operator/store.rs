//! `oboro store`: the store of a server that is stopped.

use super::location::location;
use crate::failure::Outcome;
use crate::output::Output;
use oboro_store::{Upgraded, undo_upgrade, upgrade};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Bring the store of an earlier Oboro to the version of this one, or back.
    Upgrade(Arguments),
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The directory of the store, or its URL, as given to `oboro serve --data`.
    #[arg(value_name = "DIR|URL")]
    store: PathBuf,
    /// With object storage, the directory of the cache.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Only see whether it would go well; change nothing.
    #[arg(long, conflicts_with = "undo")]
    dry_run: bool,
    /// Go back to what the store was before its upgrade, which is refused if anything was changed since.
    #[arg(long)]
    undo: bool,
}

pub fn run(command: &Command, output: Output) -> Outcome {
    let Command::Upgrade(arguments) = command;
    let location = location(&arguments.store, arguments.cache.as_deref(), None)?;
    if arguments.undo {
        let undone = undo_upgrade(&location)?;
        let text = format!(
            "the catalogue is of version {} again, as before the upgrade\n",
            undone.to
        );
        return output.result(&value(&undone, true), || text);
    }
    match upgrade(&location, arguments.dry_run)? {
        None => output.result(&json!({ "changed": false }), || {
            "the store is of this version; nothing was changed\n".to_owned()
        }),
        Some(it) if arguments.dry_run => output.result(&value(&it, false), || {
            format!(
                "the upgrade would succeed: the catalogue from version {} to {}\n",
                it.from, it.to
            )
        }),
        Some(it) => output.result(&value(&it, true), || {
            format!(
                "upgraded the catalogue from version {} to {}; the old one is kept as {}, and `oboro store upgrade --undo` restores it\n",
                it.from, it.to, it.kept
            )
        }),
    }
}

fn value(upgraded: &Upgraded, changed: bool) -> serde_json::Value {
    json!({
        "changed": changed,
        "from": upgraded.from,
        "to": upgraded.to,
        "kept": upgraded.kept,
    })
}
