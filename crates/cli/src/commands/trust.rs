//! `oboro trust`: shows and resets the trust in a dataset's server.

use crate::arguments::KeyArguments;
use crate::failure::Outcome;
use crate::output::Output;
use oboro_client::utc;
use oboro_dataset::{Dataset, Trust};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show whether unverified answers of the server were used, and whether one was false.
    Show(Arguments),
    /// Allow queries after unverified answers or a false one, and show what the server may have learned.
    Reset(Arguments),
}

#[derive(clap::Args)]
pub struct Arguments {
    /// Dataset directory.
    #[arg(value_name = "DIR")]
    bundle: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

pub fn run(command: &Command, output: Output) -> Outcome {
    let (Command::Show(arguments) | Command::Reset(arguments)) = command;
    let dataset = Dataset::open(&arguments.bundle, &arguments.key.load()?)?;
    let before = dataset.trust()?;
    let is_undecided = before.failure.is_some() || before.relied_on.is_some_and(|it| !it.decided);
    let reset = matches!(command, Command::Reset(_)) && is_undecided;
    if reset {
        dataset.reset_trust()?;
    }
    let value = json!({
        "directory": arguments.bundle,
        "relied_on": before.relied_on.map(|it| json!({
            "time": utc(it.unix_seconds),
            "version": it.version,
            "decided": it.decided || reset,
        })),
        "failure": before.failure.as_ref().map(|it| json!({ "time": utc(it.unix_seconds), "what": it.what })),
        "reset": reset,
    });
    output.result(&value, || text(&before, is_undecided, reset))
}

fn text(trust: &Trust, is_undecided: bool, reset: bool) -> String {
    let mut text = match &trust.relied_on {
        None => "no unverified answers were used\n".to_owned(),
        Some(it) => format!(
            "unverified answers were used (--trust-server), the last on {} about version {}\n\
             If the server lied in them, it may have learned from later queries:\n\
             - transactions and columns of version {} and earlier ones;\n\
             - secrets of the columns of these versions, which decrypt all data encrypted with them, erasures\n  \
             included; later appends and `oboro rotate` use other secrets.\n\
             The results of these runs may be wrong. If the server lied, stop using this dataset: encrypt the data\n\
             again as another dataset.\n",
            utc(it.unix_seconds),
            it.version,
            it.version,
        ),
    };
    match &trust.failure {
        None => text.push_str("no answer was found false\n"),
        Some(failure) => {
            let when = utc(failure.unix_seconds);
            text.push_str(&format!("a false answer on {when}: {}\n", failure.what));
        }
    }
    text.push_str(match (is_undecided, reset) {
        (false, _) => "queries to the server are allowed\n",
        (true, true) => "queries to the server are allowed again\n",
        (true, false) => "queries to the server are refused until `oboro trust reset`\n",
    });
    text
}
