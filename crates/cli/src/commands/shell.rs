//! `oboro completions` and `oboro man`: what a shell and `man` know of the command, made from clap's definition.

use crate::failure::Failure;
use crate::output::Output;
use crate::{Cli, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// What `oboro completions` takes.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// What `oboro man` takes.
#[derive(clap::Args)]
pub struct ManArguments {
    /// The directory to write the pages to, such as ~/.local/share/man/man1.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completion script of a shell.
pub fn completions(arguments: &CompletionsArguments) -> Outcome {
    // clap_complete panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "oboro", &mut script);
    let mut out = io::stdout().lock();
    Ok(out.write_all(&script).and_then(|()| out.flush())?)
}

/// Writes a page for each command.
pub fn man(arguments: &ManArguments, output: Output) -> Outcome {
    let directory = &arguments.directory;
    clap_mangen::generate_to(Cli::command(), directory).map_err(|error| {
        let sentence = format!(
            "cannot write manual pages to {}: {error}; give a directory that is there and may be written to",
            directory.display()
        );
        Failure::input(sentence)
    })?;
    let shown = directory.display().to_string();
    output.result(&json!({ "directory": shown }), || {
        format!("wrote manual pages to {}\n", directory.display())
    })
}
