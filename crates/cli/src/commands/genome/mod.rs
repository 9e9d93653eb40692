//! `oboro genome`: managing an operator's genomes, and a client's searches in them.

mod collections;
mod search;

use crate::Outcome;
use crate::output::Output;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Load a panel from phased VCF or aligned FASTA, or a reference from FASTA; a server may be running.
    Load(collections::LoadArguments),
    /// Generate a synthetic panel and load it.
    Generate(collections::GenerateArguments),
    /// List the panels and references of a server or a data directory.
    List(collections::ListArguments),
    /// Show a piece of one haplotype of a panel in a data directory.
    Show(collections::ShowArguments),
    /// Remove a panel or a reference from a data directory.
    Remove(collections::RemoveArguments),
    /// Give clients a new budget of searches.
    Reset(collections::ResetArguments),
    /// Say whether the counts of searches were restored from a backup, and go on from them.
    Budget(collections::BudgetArguments),
    /// Ask whether some haplotype of a panel matches a query that the server cannot read.
    Query(search::QueryArguments),
    /// Ask whether a pattern that the server cannot read occurs in a reference, on either strand.
    Find(search::FindArguments),
}

pub fn run(command: &Command, output: Output) -> Outcome {
    match command {
        Command::Load(arguments) => collections::load(arguments, output),
        Command::Generate(arguments) => collections::generate(arguments, output),
        Command::List(arguments) => collections::list(arguments, output),
        Command::Show(arguments) => collections::show(arguments, output),
        Command::Remove(arguments) => collections::remove(arguments, output),
        Command::Reset(arguments) => collections::reset(arguments, output),
        Command::Budget(arguments) => collections::budget(arguments, output),
        Command::Query(arguments) => search::query(arguments, output),
        Command::Find(arguments) => search::find(arguments, output),
    }
}
