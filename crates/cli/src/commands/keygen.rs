//! `oboro keygen`

use crate::Outcome;
use crate::arguments::{PassphraseArguments, prompt};
use crate::output::{Failure, Output};
use oboro_rlwe::{MasterKey, Passphrase};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// The key file to create; an existing one is never replaced.
    #[arg(
        long,
        value_name = "FILE",
        env = "OBORO_KEY",
        hide_env_values = true,
        default_value = "oboro.key"
    )]
    key: PathBuf,
    /// Protect the key by a passphrase, asked for at the prompt unless given.
    #[arg(long)]
    passphrase: bool,
    #[command(flatten)]
    source: PassphraseArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let passphrase = arguments.passphrase()?;
    let key = MasterKey::generate()
        .map_err(|error| format!("the operating system gave no randomness ({error}); try again"))?;
    key.save(&arguments.key, passphrase.as_ref())?;
    let value = json!({ "key": arguments.key, "key_check": key.check().to_string(), "passphrase": passphrase.is_some() });
    output.result(&value, || {
        let protection = if passphrase.is_some() { "under your passphrase" } else { "without a passphrase" };
        format!(
            "wrote {} ({protection}), key {}\nKeep a copy in a safe place: without it, what it encrypts is lost.\n",
            arguments.key.display(),
            key.check()
        )
    })
}

impl Arguments {
    fn passphrase(&self) -> Result<Option<Passphrase>, Failure> {
        if let Some(given) = self.source.given()? {
            return Ok(Some(given));
        }
        if !self.passphrase {
            return Ok(None);
        }
        let no_terminal = "there is no terminal to ask for a passphrase at; give --passphrase-file or OBORO_PASSPHRASE";
        let first = prompt("New passphrase: ").ok_or(no_terminal)?;
        let second = prompt("Once more: ").ok_or(no_terminal)?;
        if *first == *second && !first.is_empty() {
            Ok(Some(first))
        } else {
            Err("the passphrases differ or are empty; nothing was written, try again".into())
        }
    }
}
