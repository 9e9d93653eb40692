//! Profiles: named settings of the client's commands, in a file of the user. They replace defaults: the command line
//! and the environment take precedence.

use crate::failure::Failure;
use oboro_system::others_can_write;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Flag that selects a profile.
pub const FLAG: &str = "profile";

/// Group of settings. A flag or a variable of one of them overrides all that a profile has of the group.
struct Choice {
    flags: &'static [&'static str],
    variables: &'static [&'static str],
}

/// Settings of one server, which are ignored if the user names another one.
const OF_THE_SERVER: [&str; 4] = ["token-file", "ca", "client-cert", "client-key"];

const CHOICES: [Choice; 7] = [
    Choice {
        flags: &["server"],
        variables: &["OBORO_SERVER"],
    },
    Choice {
        flags: &["token-file"],
        variables: &["OBORO_TOKEN_FILE"],
    },
    Choice {
        flags: &["ca"],
        variables: &["OBORO_CA"],
    },
    Choice {
        flags: &["client-cert", "client-key"],
        variables: &[],
    },
    Choice {
        flags: &["key", "key-command"],
        variables: &["OBORO_KEY", "OBORO_KEY_COMMAND"],
    },
    Choice {
        flags: &["passphrase-file", "passphrase-command"],
        variables: &["OBORO_PASSPHRASE", "OBORO_PASSPHRASE_COMMAND"],
    },
    Choice {
        flags: &["recovery-passphrase-file", "recovery-passphrase-command"],
        variables: &[
            "OBORO_RECOVERY_PASSPHRASE",
            "OBORO_RECOVERY_PASSPHRASE_COMMAND",
        ],
    },
];

/// Settings that are not paths.
const NO_PATHS: [&str; 4] = [
    "server",
    "key-command",
    "passphrase-command",
    "recovery-passphrase-command",
];

/// Content of the file.
#[derive(Default)]
struct Config {
    /// Profile of commands that name none.
    default: Option<String>,
    profiles: BTreeMap<String, BTreeMap<String, String>>,
}

impl Config {
    /// Parses the file; an error has its offset and its cause.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            (start, error.message().to_owned())
        })?;
        let mut config = Self::default();
        for (key, value) in table.get_ref() {
            match &**key.get_ref() {
                "default" => config.default = Some(string(value)?),
                "profile" => {
                    for (name, settings) in entries(value)? {
                        let settings = entries(settings)?.iter();
                        let settings = settings
                            .map(|(flag, value)| Ok((flag.get_ref().to_string(), string(value)?)));
                        let settings = settings.collect::<Result<_, _>>()?;
                        config.profiles.insert(name.get_ref().to_string(), settings);
                    }
                }
                other => {
                    let known = "the file has default and tables [profile.NAME]";
                    let unknown = format!("unknown setting {other:?}; {known}");
                    return Err((key.span().start, unknown));
                }
            }
        }
        Ok(config)
    }
}

fn string(value: &Spanned<DeValue<'_>>) -> Result<String, (usize, String)> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        other => Err((
            value.span().start,
            format!("expected a string, not: {}", other.type_str()),
        )),
    }
}

fn entries<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Result<&'a DeTable<'i>, (usize, String)> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        other => Err((
            value.span().start,
            format!("expected a table, not: {}", other.type_str()),
        )),
    }
}

/// Sets the defaults of a command from a profile: the one named `name`, that of the environment, or the file's default.
/// Flags for which `named` returns true keep their values.
///
/// # Errors
/// An unknown profile, unknown settings, a file that others can write.
pub fn with_profile(
    command: clap::Command,
    name: Option<&str>,
    named: impl Fn(&str) -> bool,
) -> Result<clap::Command, Failure> {
    // A profile named on the command line takes precedence over the environment.
    let is_meant = name.is_some();
    let from_environment = env::var(variable(FLAG)).ok().filter(|it| !it.is_empty());
    let name = name.map(str::to_owned).or(from_environment);
    let Some(settings) = settings(name)? else {
        return Ok(command);
    };
    let is_given = |choice: &Choice| {
        choice.flags.iter().any(|flag| named(flag))
            || (!is_meant && (choice.variables.iter()).any(|it| env::var_os(it).is_some()))
    };
    let is_elsewhere = is_given(&CHOICES[0]);
    let is_overridden = |flag: &str| {
        let mut choices = CHOICES.iter();
        let choice = choices.find(|choice| choice.flags.contains(&flag));
        choice.is_some_and(is_given) || (is_elsewhere && OF_THE_SERVER.contains(&flag))
    };
    let defaults = settings.into_iter();
    let defaults = defaults.filter(|(flag, _)| !is_overridden(flag));
    Ok(with_defaults(command, &defaults.collect()))
}

fn with_defaults(command: clap::Command, defaults: &BTreeMap<String, String>) -> clap::Command {
    // Without a server, `scrub` checks a directory.
    if command.get_name() == "scrub" {
        return command;
    }
    // Public information is shown without a prompt for a passphrase.
    let needs_no_key = command.get_name() == "inspect";
    let command = command.mut_args(|flag| {
        let long = flag.get_long();
        let long = long.filter(|it| !(needs_no_key && it.starts_with("key")));
        match long.and_then(|it| defaults.get(it)) {
            Some(value) => flag
                .env(None::<&str>)
                .default_value(value.clone())
                .hide_default_value(true),
            None => flag,
        }
    });
    command.mut_subcommands(|command| with_defaults(command, defaults))
}

/// Returns the settings of a profile, with relative paths resolved against the file; `None` without a profile.
fn settings(name: Option<String>) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let refused = |sentence: String| Failure::input(sentence);
    let Some(path) = path() else {
        return match name {
            Some(name) => Err(refused(format!(
                "cannot locate the file with profile {name:?}; set OBORO_CONFIG to its path, or set HOME"
            ))),
            None => Ok(None),
        };
    };
    let shown = path.display();
    let (text, metadata) = match fs::read_to_string(&path).and_then(|it| Ok((it, path.metadata()?)))
    {
        Ok(read) => read,
        // A dangling link is an error: its target may have settings.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && name.is_none() && !path.is_symlink() =>
        {
            return Ok(None);
        }
        Err(error) => {
            return Err(refused(format!(
                "cannot read the profiles in {shown}: {error}; check HOME, or set OBORO_CONFIG to another file"
            )));
        }
    };
    if others_can_write(&metadata) {
        return Err(refused(format!(
            "others can write {shown} and add commands to it; run chmod go-w on it, and check its contents"
        )));
    }
    let config = Config::parse(&text).map_err(|(start, problem)| {
        let line = 1 + text[..start].matches('\n').count();
        refused(format!("{shown}, line {line}: {problem}; correct it there"))
    })?;
    let Some(name) = name.or(config.default) else {
        return Ok(None);
    };
    let Some(mut settings) = config.profiles.get(&name).cloned() else {
        let known: Vec<_> = config.profiles.keys().map(String::as_str).collect();
        return Err(refused(format!(
            "unknown profile {name:?}; {shown} has {}",
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        )));
    };
    let known: Vec<_> = CHOICES.iter().flat_map(|it| it.flags).copied().collect();
    if settings.contains_key("client-cert") != settings.contains_key("client-key") {
        return Err(refused(format!(
            "{shown}: profile {name:?} has only one of client-cert and client-key; add the other"
        )));
    }
    for (flag, value) in &mut settings {
        if !known.contains(&flag.as_str()) {
            return Err(refused(format!(
                "{shown}: profile {name:?} has the unknown setting {flag:?}; profiles have {}",
                known.join(", ")
            )));
        }
        if OF_THE_SERVER.contains(&flag.as_str()) && !config.profiles[&name].contains_key("server")
        {
            return Err(refused(format!(
                "{shown}: profile {name:?} has {flag:?} without a server; add server to it"
            )));
        }
        if !NO_PATHS.contains(&flag.as_str()) && value != "-" {
            *value = resolved(value, &path).to_string_lossy().into_owned();
        }
    }
    Ok(Some(settings))
}

/// Resolves a path that begins with `~/`, or is relative to the file.
fn resolved(value: &str, config: &Path) -> PathBuf {
    match (value.strip_prefix("~/"), home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => config.parent().unwrap_or(Path::new("")).join(value),
    }
}

/// Returns the user's home directory, if the environment has it.
fn home() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    let home = env::var_os(name).map(PathBuf::from);
    home.filter(|it| it.is_absolute())
}

/// Returns the path of the file: `OBORO_CONFIG`, or `oboro/config.toml` in the user's configuration directory.
fn path() -> Option<PathBuf> {
    let given = |name| env::var_os(name).filter(|it| !it.is_empty());
    if let Some(path) = given("OBORO_CONFIG") {
        return Some(path.into());
    }
    let own = if cfg!(windows) {
        "APPDATA"
    } else {
        "XDG_CONFIG_HOME"
    };
    // Ignore a relative path, as the XDG specification requires: anyone may own the current directory.
    let folder = given(own).map(PathBuf::from).filter(|it| it.is_absolute());
    let folder = folder.or_else(|| Some(home()?.join(".config")))?;
    Some(folder.join("oboro").join("config.toml"))
}

fn variable(flag: &str) -> String {
    format!("OBORO_{}", flag.to_uppercase())
}
