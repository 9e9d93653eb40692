//! Sources of the settings of `oboro serve`, by precedence: the command line, the environment, a file, the defaults.
//! All of this follows from clap's definition of the command: a new flag needs no change here.
//!
//! Entries of the file become arguments unless the command line or the environment overrides them, and are checked like
//! arguments.

use crate::command_line::{Cli, Command};
use crate::failure::Failure;
use crate::output::{misuse, sentence};
use crate::profile::{self, with_profile};
use crate::settings::file::{CHECK_CONFIG, CONFIG, File, is_of_a_run};
use crate::settings::{Setting, Settings, Source};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Command that has settings.
const SERVE: &str = "serve";

/// Words of the command line, and the flags needed before the file is read.
pub struct Words {
    words: Vec<OsString>,
    serves: bool,
    json: bool,
    profile: Option<String>,
    config: Option<PathBuf>,
}

impl Words {
    /// Takes the words of this process. Prints help or version on request, and exits.
    pub fn of_this_process() -> Self {
        let words: Vec<OsString> = env::args_os().collect();
        let seen = Cli::command().ignore_errors(true);
        let seen = seen
            .try_get_matches_from(&words)
            .unwrap_or_else(|error| misuse(&error, false));
        let serve = seen.subcommand_matches(SERVE);
        let named = serve.and_then(|serve| serve.get_one::<PathBuf>(CONFIG).cloned());
        let config = named.or_else(|| Some(env::var_os(variable(CONFIG))?.into()));
        let mut options = words.iter().take_while(|word| *word != "--");
        Self {
            serves: serve.is_some(),
            // After an error, clap reports no further flags.
            json: seen.get_flag("json") || options.any(|word| word == "--json"),
            profile: seen.get_one(profile::FLAG).cloned(),
            config: config.filter(|_| serve.is_some()),
            words,
        }
    }

    /// Returns true if results are printed as JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Returns the command and, for `oboro serve`, its settings. Exits if the command line is wrong.
    ///
    /// # Errors
    /// An error in the file or the environment.
    pub fn parse(&self) -> Result<(Command, Settings), Failure> {
        let named = |flag: &str| self.names(flag);
        let mut command = with_profile(command(), self.profile.as_deref(), named)?;
        let flags = flags(&command);
        let file = match &self.config {
            Some(path) => Some(File::read(path, &flags, |key| nearest(&command, key))?),
            None => None,
        };
        let entries = file.iter().flat_map(|file| &file.entries);
        let in_force = entries.filter(|entry| !self.overrides(&entry.key));
        let words = in_force.filter_map(|entry| entry.argument.clone());
        let words = self.words.iter().cloned().chain(words);
        let parsed = command.try_get_matches_from_mut(words).and_then(|matches| {
            let cli = Cli::from_arg_matches(&matches);
            Ok((cli.map_err(|it| it.format(&mut command))?.command, matches))
        });
        let (parsed, matches) = parsed.map_err(|error| {
            let elsewhere = self.elsewhere(&error, file.as_ref());
            elsewhere.unwrap_or_else(|| misuse(&error, self.json))
        })?;
        let is_from_file = |key: &str| {
            let entry = file.as_ref().and_then(|file| file.entry(key));
            entry.is_some() && !self.overrides(key)
        };
        let all = matches.subcommand_matches(SERVE).map(|serve| {
            let flags = flags.iter().filter(|flag| !is_of_a_run(flag));
            flags.map(|it| setting(it, serve, is_from_file)).collect()
        });
        let settings = Settings {
            file: self.config.clone(),
            all: all.unwrap_or_default(),
        };
        Ok((parsed, settings))
    }

    /// Returns true if the command line or the environment overrides an entry of the file.
    fn overrides(&self, key: &str) -> bool {
        self.names(key) || env::var_os(variable(key)).is_some()
    }

    /// Returns true if the command line contains this flag. A value cannot look like one: clap rejects values that
    /// begin with a dash, and the flags have no short names.
    fn names(&self, flag: &str) -> bool {
        self.words.iter().any(|word| {
            let word = word.as_encoded_bytes().strip_prefix(b"--");
            let rest = word.and_then(|word| word.strip_prefix(flag.as_bytes()));
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
        })
    }

    /// Converts clap's error if its cause is in the file or the environment, not on the command line.
    fn elsewhere(&self, error: &clap::Error, file: Option<&File>) -> Option<Failure> {
        let said = sentence(error);
        if error.kind() == ErrorKind::MissingRequiredArgument {
            let remedy = "add them there, to the environment or to the command line";
            return Some(file?.incomplete(&format!("{said}; {remedy}")));
        }
        let key = flag_in(error).filter(|key| !self.names(key))?;
        let variable = variable(&key);
        if self.serves && env::var_os(&variable).is_some() {
            return Some(format!("{variable}: {said}; correct it, or unset it").into());
        }
        let entry = file?.entry(&key)?;
        Some(file?.refused(entry.line, &format!("{said}; correct it there")))
    }
}

/// Returns the definition of all commands, with environment variables for the one that has settings.
fn command() -> clap::Command {
    let command = Cli::command();
    // A build without `serve` has no settings.
    if command.find_subcommand(SERVE).is_none() {
        return command;
    }
    command.mut_subcommand(SERVE, |serve| {
        serve.mut_args(|flag| {
            // A variable must not turn each start into a check.
            let long = flag.get_long().filter(|it| *it != CHECK_CONFIG);
            match long.map(variable) {
                Some(variable) => flag.env(variable).hide_env(true),
                None => flag,
            }
        })
    })
}

/// Returns the flags of the command that has settings.
fn flags(command: &clap::Command) -> Vec<Arg> {
    let serve = command.find_subcommand(SERVE);
    let flags = serve.into_iter().flat_map(clap::Command::get_arguments);
    flags
        .filter(|flag| flag.get_long().is_some())
        .cloned()
        .collect()
}

/// Returns the environment variable of a flag.
fn variable(flag: &str) -> String {
    format!("OBORO_SERVE_{}", flag.to_uppercase().replace('-', "_"))
}

fn setting(flag: &Arg, matches: &ArgMatches, is_from_file: impl Fn(&str) -> bool) -> Setting {
    let id = flag.get_id().as_str();
    let name = flag.get_long().unwrap_or(id);
    let source = match matches.value_source(id) {
        _ if is_from_file(name) => Source::File,
        Some(ValueSource::CommandLine) => Source::CommandLine,
        Some(ValueSource::EnvVariable) => Source::Environment,
        _ => Source::Default,
    };
    let value = matches.get_raw(id).and_then(|mut values| values.next());
    Setting {
        name: name.to_owned(),
        value: value.map(|value| value.to_string_lossy().into_owned()),
        source,
    }
}

/// Returns the known flag most similar to this one.
fn nearest(command: &clap::Command, flag: &str) -> Option<String> {
    let words = ["oboro", SERVE, &format!("--{flag}")];
    let error = command.clone().try_get_matches_from(words).err()?;
    match error.get(ContextKind::SuggestedArg)? {
        ContextValue::String(nearest) => Some(nearest.trim_start_matches('-').to_owned()),
        _ => None,
    }
}

/// Returns the flag to which clap's error refers.
fn flag_in(error: &clap::Error) -> Option<String> {
    let ContextValue::String(shown) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let flag = shown.strip_prefix("--")?;
    let end = flag.find([' ', '=']).unwrap_or(flag.len());
    Some(flag[..end].to_owned())
}
