//! `oboro completions` and `oboro man`: shell completions and manual pages, generated from clap's definition.

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use clap_complete::Shell;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// What `oboro completions` takes.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// Shell to print the script for.
    shell: Shell,
}

/// What `oboro man` takes.
#[derive(clap::Args)]
pub struct ManArguments {
    /// Directory for the pages, such as ~/.local/share/man/man1.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completion script of a shell for this command.
pub fn completions(arguments: &CompletionsArguments, mut command: clap::Command) -> Outcome {
    // clap_complete panics on a failed write: generate in memory.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "oboro", &mut script);
    let mut out = io::stdout().lock();
    Ok(out.write_all(&script).and_then(|()| out.flush())?)
}

/// Writes a page for this command and each of its subcommands.
pub fn man(arguments: &ManArguments, command: clap::Command, output: Output) -> Outcome {
    let directory = &arguments.directory;
    clap_mangen::generate_to(command, directory).map_err(|error| {
        let sentence = format!(
            "cannot write manual pages to {}: {error}; give a writable directory that exists",
            directory.display()
        );
        Failure::input(sentence)
    })?;
    let shown = directory.display().to_string();
    output.result(&json!({ "directory": shown }), || {
        format!("wrote manual pages to {}\n", directory.display())
    })
}
