//! The commands of those who run a server.

mod backup;
mod serve;
mod store;
mod token;
mod usage;

use crate::Outcome;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;
use bytesize::ByteSize;
use clap::Subcommand;
use oboro_store::Location;
use rustix::fs::Mode;
use rustix::process::umask;
use std::path::Path;

#[derive(Subcommand)]
pub enum Command {
    /// Store and count encrypted datasets for others.
    Serve(Box<serve::Arguments>),
    /// Make, list and revoke the tokens of which callers of a server must present one.
    #[command(subcommand)]
    Token(token::Command),
    /// Sum up what the owners on a server used: calls, bytes, computing, storage.
    Usage(usage::Arguments),
    /// Copy what a store has published, its genomes too, even while a server has it open.
    Backup(backup::Arguments),
    /// Look after the store of a server that is stopped.
    #[command(subcommand)]
    Store(store::Command),
}

pub fn run(command: &Command, settings: &Settings, output: Output) -> Outcome {
    // Nothing of a store, a backup or a list of tokens is for other users, wherever it is.
    umask(Mode::RWXG | Mode::RWXO);
    match command {
        Command::Serve(arguments) => serve::run(arguments, settings, output),
        Command::Token(command) => token::run(command, output),
        Command::Usage(arguments) => usage::run(arguments, output),
        Command::Backup(arguments) => backup::run(arguments, output),
        Command::Store(command) => store::run(command, output),
    }
}

/// Where a store is, given as a directory or, with a directory for its cache, as a URL.
fn location(
    data: &Path,
    cache: Option<&Path>,
    cache_size: Option<ByteSize>,
) -> Result<Location, Failure> {
    let url = data.to_str().filter(|data| data.contains("://"));
    match (url, cache) {
        (None, None) => Ok(Location::from(data)),
        (None, Some(_)) => Err(Failure::input(
            "--cache is for object storage; give its URL with --data, or leave --cache out",
        )),
        (Some(_), None) => Err(Failure::input(
            "object storage needs a directory here for uploads in progress and cached data; give one with --cache",
        )),
        (Some(url), Some(cache)) => Ok(Location::Objects {
            url: url.to_owned(),
            cache: cache.into(),
            cache_bytes: cache_size.map_or(u64::MAX, |size| size.as_u64()),
        }),
    }
}
