//! `oboro genome`: an operator's genomes, and a client's searches in them.

#[cfg(feature = "serve")]
mod collections;
mod description;
mod listing;
#[cfg(feature = "serve")]
mod plaintext;
mod search;

use crate::failure::Outcome;
use crate::output::Output;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// List the panels and references of a server or a data directory.
    List(listing::ListArguments),
    /// Search a panel for haplotypes that match an encrypted query.
    Query(search::QueryArguments),
    /// Search a reference for an encrypted pattern, on either strand.
    Find(search::FindArguments),
    #[cfg(feature = "serve")]
    #[command(flatten)]
    Collections(collections::Command),
}

pub fn run(command: &Command, output: Output) -> Outcome {
    match command {
        Command::List(arguments) => listing::list(arguments, output),
        Command::Query(arguments) => search::query(arguments, output),
        Command::Find(arguments) => search::find(arguments, output),
        #[cfg(feature = "serve")]
        Command::Collections(command) => collections::run(command, output),
    }
}
