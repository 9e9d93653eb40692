//! The `oboro` command: a thin layer over the libraries.
//!
//! Results go to standard output (as text, or JSON with `--json`), progress and errors to standard
//! error. Exit codes: 0 done, 2 wrong usage, others by the class of the failure (`failure`).

mod allocator;
mod arguments;
mod commands;
mod failure;
mod interrupt;
#[cfg(test)]
mod narrowing;
mod output;
mod profile;
mod results;
mod secret_command;
// Of all commands, `serve` has settings.
#[cfg_attr(not(feature = "serve"), allow(dead_code))]
mod settings;
mod terminal;

use clap::{Parser, Subcommand};
use failure::Failure;
use output::Output;
use settings::{Settings, Words};
use std::process::ExitCode;

/// Mine encrypted data on a machine that never sees it.
#[derive(Parser)]
#[command(version, about, long_about = None, propagate_version = true, max_term_width = 100)]
struct Cli {
    /// Print results as JSON, for programs.
    #[arg(long, global = true)]
    json: bool,
    /// Use the server and keys of this profile in your configuration file, not of its default one [env: OBORO_PROFILE].
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create the master key that everything is encrypted under.
    Keygen(commands::keygen::Arguments),
    /// Generate synthetic transactions in the manner of IBM's Quest generator.
    Generate(commands::generate::Arguments),
    /// Show what encrypting and mining would cost, and why.
    Plan(commands::plan::Arguments),
    /// Encrypt transactions into a dataset directory, or append to one.
    Encrypt(commands::encrypt::Arguments),
    /// Put the transactions of many small appends into as few blocks as there can be; then upload.
    Compact(commands::rewriting::CompactArguments),
    /// Erase transactions, found by their row ids; then upload, which erases them from the server.
    Erase(commands::rewriting::EraseArguments),
    /// Change the key: encrypt a dataset again under another one; then upload.
    Rotate(commands::rewriting::RotateArguments),
    /// Send a dataset directory to a server; run again to resume.
    Upload(commands::upload::Arguments),
    /// Make a lost dataset directory again, without ciphertext, of the record kept at the server.
    Recover(commands::recover::Arguments),
    /// Find the frequent itemsets of an uploaded dataset.
    Mine(Box<commands::mine::Arguments>),
    /// Count itemsets of an uploaded dataset that you name.
    Count(commands::count::Arguments),
    /// Count the pairs of one item with each other item of an uploaded dataset.
    Pairs(commands::pairs::Arguments),
    /// Show whether a dataset's server was trusted or answered falsely; have it asked again.
    #[command(subcommand)]
    Trust(commands::trust::Command),
    /// List the row ids of an uploaded dataset, and the slots in which the rows are stored.
    RowIds(commands::row_ids::Arguments),
    /// Generate association rules from mined itemsets.
    Rules(commands::rules::Arguments),
    /// Make a page about mined itemsets and their rules that any browser shows.
    Report(commands::report::Arguments),
    /// List the datasets on a server.
    Datasets(commands::datasets::Arguments),
    /// Delete a dataset from a server, which keeps it for some time in case it is wanted back.
    Delete(commands::datasets::DeleteArguments),
    /// Bring back a dataset that was deleted.
    Undelete(commands::datasets::UndeleteArguments),
    /// Let other callers of a server use what you have there.
    #[command(subcommand)]
    Access(commands::access::Command),
    /// List what a server computes at the moment, and end it.
    #[command(args_conflicts_with_subcommands = true)]
    Queries(commands::queries::Arguments),
    /// Show what a key file, dataset directory or segment holds, or where a server holds a dataset
    /// in memory.
    Inspect(commands::inspect::Arguments),
    /// Check what a store or a server holds, genomes included, against its digests.
    Scrub(commands::scrub::Arguments),
    /// Search genomes on a server with queries that it cannot read.
    #[command(subcommand)]
    Genome(commands::genome::Command),
    #[cfg(feature = "serve")]
    #[command(flatten)]
    Operator(commands::operator::Command),
    /// Print the script that completes this command in a shell.
    Completions(commands::shell::CompletionsArguments),
    /// Write a manual page for each command.
    Man(commands::shell::ManArguments),
}

fn main() -> ExitCode {
    interrupt::outlive_file_limits();
    let words = Words::of_this_process();
    let output = Output::new(words.json());
    let parsed = words.parse();
    match parsed.and_then(|(command, settings)| run(command, &settings, output)) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that stops early (`oboro rules … | head`) is no failure.
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
        Command::Completions(arguments) => commands::shell::completions(&arguments),
        Command::Man(arguments) => commands::shell::man(&arguments, output),
    }
}

/// What a command returns.
type Outcome = Result<(), Failure>;
