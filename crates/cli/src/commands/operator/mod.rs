//! Commands for operators of a server.

mod backup;
mod location;
mod serve;
mod token;

use crate::failure::Outcome;
use crate::output::Output;
use crate::settings::Settings;
use clap::Subcommand;
use rustix::fs::Mode;
use rustix::process::umask;

#[derive(Subcommand)]
pub enum Command {
    /// Run a server that stores encrypted datasets and counts in them.
    Serve(Box<serve::Arguments>),
    /// Create, list and revoke access tokens for callers of a server.
    #[command(subcommand)]
    Token(token::Command),
    /// Back up the published datasets and genomes of a store, even while a server has it open.
    Backup(backup::Arguments),
}

pub fn run(command: &Command, settings: &Settings, output: Output) -> Outcome {
    // Stores, backups and token files are private, whatever their location.
    umask(Mode::RWXG | Mode::RWXO);
    match command {
        Command::Serve(arguments) => serve::run(arguments, settings, output),
        Command::Token(command) => token::run(command, output),
        Command::Backup(arguments) => backup::run(arguments, output),
    }
}
