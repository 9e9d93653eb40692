//! Command line: clap's definition of all commands and their arguments.

use crate::commands;
use clap::{Parser, Subcommand};

/// Mine encrypted data on a machine that never sees it.
#[derive(Parser)]
#[command(version, about, long_about = None, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// Print results as JSON, for programs.
    #[arg(long, global = true)]
    json: bool,
    /// Use the server and keys of this profile in your configuration file, not of its default one [env: OBORO_PROFILE].
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
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
