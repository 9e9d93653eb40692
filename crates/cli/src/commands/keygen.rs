//! `oboro keygen`: creates a master key.

use crate::arguments::PassphraseArguments;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::terminal::{agreed, prompt};
use oboro_rlwe::{MasterKey, Passphrase};
use oboro_system::{is_pipe, unbuffered_stdout};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro keygen\n  oboro keygen --key ward.key --passphrase-file passphrase"
)]
pub struct Arguments {
    /// Key file to create; an existing one is never replaced. With -, its bytes go to standard output, which must be a
    /// pipe to a command that stores them.
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
    if arguments.key == Path::new("-") {
        return print(&key, passphrase.as_ref());
    }
    key.save(&arguments.key, passphrase.as_ref())?;
    let value = json!({ "key": arguments.key, "key_check": key.check().to_string(), "passphrase": passphrase.is_some() });
    output.result(&value, || {
        let protection = if passphrase.is_some() { "under your passphrase" } else { "without a passphrase" };
        format!(
            "wrote {} ({protection}), key {}\nKeep a copy in a safe place: without it, the data that it encrypts are lost.\n",
            arguments.key.display(),
            key.check()
        )
    })
}

/// Writes the bytes of a key file to standard output, and information about the key to standard error.
///
/// # Errors
/// Standard output other than a pipe: a terminal would show the key, and a file would have the shell's mode.
fn print(key: &MasterKey, passphrase: Option<&Passphrase>) -> Outcome {
    // Bypass the buffer of standard output, which is not wiped.
    let mut out = unbuffered_stdout()?;
    if !is_pipe(&out)? {
        return Err(Failure::input(
            "standard output is not a pipe, and a key must not be printed or be readable by others; pipe it into the command that stores it, or give a file with --key",
        ));
    }
    let bytes = key.to_file_bytes(passphrase)?;
    out.write_all(&bytes[..])?;
    // The key is written even if this message cannot be.
    let _ = writeln!(
        io::stderr(),
        "wrote key {} to standard output; check that it was stored before you encrypt with it",
        key.check()
    );
    Ok(())
}

impl Arguments {
    fn passphrase(&self) -> Result<Option<Passphrase>, Failure> {
        if let Some(given) = self.source.given()? {
            return Ok(Some(given));
        }
        if !self.passphrase {
            return Ok(None);
        }
        let no_terminal = "cannot prompt for a passphrase without a terminal; give --passphrase-file or OBORO_PASSPHRASE, or --passphrase-command";
        let questions = ["New passphrase: ", "Once more: "];
        let asked = prompt(&questions)?.ok_or(no_terminal)?;
        let passphrase = agreed(asked)
            .ok_or("the passphrases differ or are empty; nothing was written, try again")?;
        Ok(Some(passphrase))
    }
}
