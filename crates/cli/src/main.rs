//! The `oboro` command: a thin layer over the libraries.
//!
//! Results go to standard output (as text, or JSON with `--json`), progress and errors to standard error. Exit codes: 0
//! for success, 2 for wrong usage, others by the class of the failure (`failure`).

mod allocator;
mod arguments;
mod command_line;
mod commands;
mod failure;
mod interrupt;
mod output;
mod profile;
mod results;
mod secret_command;
// Only `serve` has settings.
#[cfg_attr(not(feature = "serve"), allow(dead_code))]
mod settings;
mod terminal;
#[cfg(test)]
mod tests;
mod words;

use clap::CommandFactory;
use command_line::{Cli, Command};
use failure::Outcome;
use output::Output;
use settings::Settings;
use std::process::ExitCode;
use words::Words;

fn main() -> ExitCode {
    interrupt::outlive_file_limits();
    let words = Words::of_this_process();
    let output = Output::new(words.json());
    let parsed = words.parse();
    match parsed.and_then(|(command, settings)| run(command, &settings, output)) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that stops early (`oboro rules … | head`) is not a failure.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit_code()
        }
    }
}

#[cfg_attr(not(feature = "serve"), allow(unused_variables))]
fn run(command: Command, settings: &Settings, output: Output) -> Outcome {
    match command {
        Command::Keygen(arguments) => commands::keygen::run(&arguments, output),
        Command::Generate(arguments) => commands::generate::run(&arguments, output),
        Command::Plan(arguments) => commands::plan::run(&arguments, output),
        Command::Encrypt(arguments) => commands::encrypt::run(&arguments, output),
        Command::Compact(arguments) => commands::rewriting::compact(&arguments, output),
        Command::Erase(arguments) => commands::rewriting::erase(&arguments, output),
        Command::Rotate(arguments) => commands::rewriting::rotate(&arguments, output),
        Command::Upload(arguments) => commands::upload::run(&arguments, output),
        Command::Recover(arguments) => commands::recover::run(&arguments, output),
        Command::Mine(arguments) => commands::mine::run(&arguments, output),
        Command::Count(arguments) => commands::count::run(&arguments, output),
        Command::Pairs(arguments) => commands::pairs::run(&arguments, output),
        Command::Trust(command) => commands::trust::run(&command, output),
        Command::RowIds(arguments) => commands::row_ids::run(&arguments, output),
        Command::Rules(arguments) => commands::rules::run(&arguments, output),
        Command::Report(arguments) => commands::report::run(&arguments, output),
        Command::Datasets(arguments) => commands::datasets::list(&arguments, output),
        Command::Delete(arguments) => commands::datasets::delete(&arguments, output),
        Command::Undelete(arguments) => commands::datasets::undelete(&arguments, output),
        Command::Access(command) => commands::access::run(&command, output),
        Command::Queries(arguments) => commands::queries::run(&arguments, output),
        Command::Inspect(arguments) => commands::inspect::run(&arguments, output),
        Command::Scrub(arguments) => commands::scrub::run(&arguments, output),
        Command::Genome(command) => commands::genome::run(&command, output),
        #[cfg(feature = "serve")]
        Command::Operator(command) => commands::operator::run(&command, settings, output),
        Command::Completions(arguments) => commands::shell::completions(&arguments, Cli::command()),
        Command::Man(arguments) => commands::shell::man(&arguments, Cli::command(), output),
    }
}
