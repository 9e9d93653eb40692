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
    /// Use the server and keys of this profile of the configuration file, in place of its default profile [env:
    /// OBORO_PROFILE].
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
    /// Estimate the cost of encrypting and mining, and explain it.
    Plan(commands::plan::Arguments),
    /// Encrypt transactions into a dataset directory, or append to one.
    Encrypt(commands::encrypt::Arguments),
    /// Merge the blocks of many small appends into as few as possible; upload afterwards.
    Compact(commands::rewriting::CompactArguments),
    /// Erase transactions by their row ids; the next upload erases them from the server.
    Erase(commands::rewriting::EraseArguments),
    /// Rotate the key: encrypt a dataset again under another one; upload afterwards.
    Rotate(commands::rewriting::RotateArguments),
    /// Upload a dataset directory to a server; run again to resume.
    Upload(commands::upload::Arguments),
    /// Recreate a lost dataset directory, without ciphertext, from the record kept at the server.
    Recover(commands::recover::Arguments),
    /// Find the frequent itemsets of an uploaded dataset.
    Mine(Box<commands::mine::Arguments>),
    /// Count given itemsets of an uploaded dataset.
    Count(commands::count::Arguments),
    /// Count the pairs of one item with every other item of an uploaded dataset.
    Pairs(commands::pairs::Arguments),
    /// Show whether a dataset's server was trusted or answered falsely; allow queries to it again.
    #[command(subcommand)]
    Trust(commands::trust::Command),
    /// List the row ids of an uploaded dataset, and the slots of the rows.
    RowIds(commands::row_ids::Arguments),
    /// Generate association rules from mined itemsets.
    Rules(commands::rules::Arguments),
    /// Write an HTML page about mined itemsets and their rules.
    Report(commands::report::Arguments),
    /// List the datasets on a server.
    Datasets(commands::datasets::Arguments),
    /// Delete a dataset from a server, which keeps it for some time for `oboro undelete`.
    Delete(commands::datasets::DeleteArguments),
    /// Undelete a dataset.
    Undelete(commands::datasets::UndeleteArguments),
    /// Grant other callers of a server access to your datasets and collections.
    #[command(subcommand)]
    Access(commands::access::Command),
    /// List the queries in progress on a server, and end them.
    #[command(args_conflicts_with_subcommands = true)]
    Queries(commands::queries::Arguments),
    /// Show the contents of a key file, dataset directory or segment, or the placement of a dataset in the memory of a
    /// server.
    Inspect(commands::inspect::Arguments),
    /// Verify the data of a store or a server, genomes included, against their digests.
    Scrub(commands::scrub::Arguments),
    /// Search genomes on a server with encrypted queries.
    #[command(subcommand)]
    Genome(commands::genome::Command),
    #[cfg(feature = "serve")]
    #[command(flatten)]
    Operator(commands::operator::Command),
    /// Print the completion script of a shell.
    Completions(commands::shell::CompletionsArguments),
    /// Write a manual page for each command.
    Man(commands::shell::ManArguments),
}
