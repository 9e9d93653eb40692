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
    /// Store and count encrypted datasets for others.
    Serve(Box<serve::Arguments>),
    /// Make, list and revoke the tokens of which callers of a server must present one.
    #[command(subcommand)]
    Token(token::Command),
    /// Copy what a store has published, its genomes too, even while a server has it open.
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
