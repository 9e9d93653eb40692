//! Settings file: TOML without tables, whose keys are the names of flags.

use crate::failure::Failure;
use clap::Arg;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Flag that names the file.
pub const CONFIG: &str = "config";

pub const CHECK_CONFIG: &str = "check-config";
/// Flags of a single run, which the file cannot set.
const OF_A_RUN: [&str; 2] = [CONFIG, CHECK_CONFIG];

/// Parsed settings file.
pub struct File {
    path: PathBuf,
    pub entries: Vec<Entry>,
}

/// Setting in the file.
pub struct Entry {
    pub key: String,
    pub line: usize,
    /// Equivalent command-line argument; `None` for a flag that is off.
    pub argument: Option<OsString>,
}

impl File {
    /// Reads a file with settings of `flags`; `nearest` returns the closest known flag to an unknown one.
    ///
    /// # Errors
    /// Invalid TOML, unknown or repeated keys, and values other than strings, numbers or, for a flag without a value,
    /// booleans. The values themselves are checked later, like those of the command line.
    pub fn read(
        path: &Path,
        flags: &[Arg],
        nearest: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            format!(
                "cannot read the configuration in {}: {error}; check the path given with --config, and its permissions",
                path.display()
            )
        })?;
        let mut file = Self {
            path: path.to_owned(),
            entries: Vec::new(),
        };
        let line = |offset: usize| 1 + text[..offset].matches('\n').count();
        let table = DeTable::parse(&text).map_err(|error| {
            let line = line(error.span().map_or(0, |span| span.start));
            file.refused(line, &format!("{}; correct it there", error.message()))
        })?;
        for (key, value) in table.get_ref() {
            let line = line(key.span().start);
            let key: &str = key.get_ref();
            let mut known = flags.iter().filter(|flag| !is_of_a_run(flag));
            let argument = match known.find(|flag| flag.get_long() == Some(key)) {
                Some(flag) => argument(flag, key, value.get_ref()),
                None => Err(unknown(key, nearest(key))),
            };
            file.entries.push(Entry {
                key: key.to_owned(),
                line,
                argument: argument.map_err(|reason| file.refused(line, &reason))?,
            });
        }
        Ok(file)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns the error of a line.
    pub fn refused(&self, line: usize, reason: &str) -> Failure {
        format!("{}, line {line}: {reason}", self.path.display()).into()
    }

    /// Returns the error of the whole file.
    pub fn incomplete(&self, reason: &str) -> Failure {
        format!("{}: {reason}", self.path.display()).into()
    }
}

fn unknown(key: &str, nearest: Option<String>) -> String {
    match nearest {
        Some(nearest) => format!("unknown setting {key:?}; did you mean {nearest:?}?"),
        None => format!(
            "unknown setting {key:?}; settings are named like the flags in `oboro serve --help`, without leading \
             dashes and outside of tables"
        ),
    }
}

/// Returns the command-line argument that is equivalent to an entry.
fn argument(flag: &Arg, key: &str, value: &DeValue) -> Result<Option<OsString>, String> {
    if !flag.get_action().takes_values() {
        return match value {
            DeValue::Boolean(on) => Ok(on.then(|| format!("--{key}").into())),
            other => Err(format!(
                "{key} has a value of type {}; give true or false",
                other.type_str()
            )),
        };
    }
    let value = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_err(|error| format!("{key}: {error}; give a smaller number"))?
            .to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        other => {
            return Err(format!(
                "{key} has a value of type {}; give a string or a number",
                other.type_str()
            ));
        }
    };
    Ok(Some(format!("--{key}={value}").into()))
}

/// Returns true if a flag concerns a single run, and the file cannot set it.
pub fn is_of_a_run(flag: &Arg) -> bool {
    flag.get_long().is_some_and(|it| OF_A_RUN.contains(&it))
}
