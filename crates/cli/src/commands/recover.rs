//! `oboro recover`: recreates a lost dataset directory from the record kept at the server.

use crate::arguments::{KeyArguments, RecoveryPassphraseArguments, ServerArguments};
use crate::failure::Outcome;
use crate::output::Output;
use oboro_client::{Recovery, RecoveryCopy};
use oboro_format::Digest;
use oboro_input::escaped;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// Name of the dataset on the server.
    #[arg(value_name = "NAME")]
    name: String,
    /// Dataset directory to create.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Root noted at the last upload. Without it, a rollback of the whole server to an earlier state goes unnoticed.
    #[arg(long, value_name = "ROOT")]
    root: Option<Digest>,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    recovery: RecoveryPassphraseArguments,
    #[command(flatten)]
    server: ServerArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let Arguments {
        name, out, root, ..
    } = arguments;
    let master = arguments.key.load()?;
    let question = ["Passphrase of the record at the server: "];
    let recovery = Recovery {
        passphrase: &arguments.recovery.passphrase(&question)?,
        master: &master,
        root: *root,
    };
    let copy = RecoveryCopy::fetch(arguments.server.connect()?, name)?;
    let dataset = recovery.recover(&copy, out)?;
    let (manifest, record) = (dataset.manifest(), dataset.record());
    let value = json!({
        "name": name,
        "directory": out,
        "dataset": manifest.dataset.to_string(),
        "version": manifest.version,
        "root": manifest.root().to_string(),
        "root_checked": root.is_some(),
        "transactions": record.transactions,
        "items": record.names.len(),
        "ciphertext": false,
    });
    output.result(&value, || {
        let checked = match root {
            Some(_) => "the root that you noted",
            None => "which you should compare with your notes",
        };
        format!(
            "recovered {}, version {}, as {}: {} transactions, {} items\nroot {}, {checked}\n\
             It has no ciphertext. It can be mined, appended to and uploaded to this server; it cannot be compacted, \
             erased from, rotated, given new items or uploaded to another server.\n\
             It lacks notes made since that upload: if the server was trusted (--trust-server) or answered \
             falsely since, trust none of its answers.\n",
            escaped(name),
            manifest.version,
            escaped(&out.display().to_string()),
            record.transactions,
            record.names.len(),
            manifest.root(),
        )
    })
}
