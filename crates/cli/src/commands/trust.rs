//! `oboro trust`

use crate::Outcome;
use crate::arguments::KeyArguments;
use crate::output::Output;
use oboro_client::utc;
use oboro_mining::{Dataset, Trust};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show whether unverified answers of the server were used, and whether one was found to be
    /// false.
    Show(Arguments),
    /// Decide to ask again after an answer was found to be false.
    Reset(Arguments),
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The dataset directory.
    #[arg(value_name = "DIR")]
    bundle: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

pub fn run(command: &Command, output: Output) -> Outcome {
    let (Command::Show(arguments) | Command::Reset(arguments)) = command;
    let dataset = Dataset::open(&arguments.bundle, &arguments.key.load()?)?;
    let before = dataset.trust()?;
    let reset = matches!(command, Command::Reset(_)) && before.failure.is_some();
    if reset {
        dataset.reset_trust()?;
    }
    let value = json!({
        "directory": arguments.bundle,
        "relied_on": before.relied_on,
        "failure": before.failure.as_ref().map(|it| json!({ "time": utc(it.unix_seconds), "what": it.what })),
        "reset": reset,
    });
    output.result(&value, || text(&before, reset))
}

fn text(trust: &Trust, reset: bool) -> String {
    let relied = if trust.relied_on {
        "the server was trusted at least once (--trust-server)"
    } else {
        "no answer was ever relied on that nothing verified"
    };
    let failure = match &trust.failure {
        None => "no answer was found to be false".to_owned(),
        Some(failure) => {
            let decided = if reset {
                "; from now on the server is asked again"
            } else {
                "; nothing is asked until `oboro trust reset`"
            };
            format!("{}: {}{decided}", utc(failure.unix_seconds), failure.what)
        }
    };
    format!("{relied}\n{failure}\n")
}
