//! Log level, from the environment.

use std::env::{self, VarError};
use thiserror::Error;

/// Environment variable with the log level.
const VARIABLE: &str = "OBORO_LOG";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Error of an `OBORO_LOG` that names no level.
#[derive(Debug, Error)]
#[error(
    "{VARIABLE} is {given:?}, which is no level of the log; set it to error, warn, info, debug or trace, or to MODULE=LEVEL for one module, separated by commas"
)]
pub struct LogLevelError {
    given: String,
}

/// Returns the directives of `OBORO_LOG` for a log filter, after the default level `info`.
///
/// # Errors
/// A directive that is neither a level nor `MODULE=LEVEL`: a filter would take it for a module and drop all other
/// lines.
pub fn log_directives() -> Result<String, LogLevelError> {
    match env::var(VARIABLE) {
        Ok(given) => directives(&given),
        Err(VarError::NotPresent) => directives(""),
        Err(VarError::NotUnicode(given)) => Err(LogLevelError {
            given: given.to_string_lossy().into_owned(),
        }),
    }
}

fn directives(given: &str) -> Result<String, LogLevelError> {
    let is_level = |word: &str| LEVELS.iter().any(|it| it.eq_ignore_ascii_case(word));
    let is_module = |word: &str| {
        let is_allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | ':' | '-');
        !word.is_empty() && word.chars().all(is_allowed)
    };
    let mut directives = "info".to_owned();
    for part in given.split(',').map(str::trim) {
        let is_valid = match part.split_once('=') {
            Some((module, level)) => is_module(module) && is_level(level),
            None => part.is_empty() || is_level(part),
        };
        if !is_valid {
            let given = given.to_owned();
            return Err(LogLevelError { given });
        }
        if !part.is_empty() {
            directives.push(',');
            directives.push_str(part);
        }
    }
    Ok(directives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_accepted_and_other_words_refused() {
        for (given, expected) in [
            ("", "info"),
            ("warn", "info,warn"),
            ("DEBUG, oboro_store=trace", "info,DEBUG,oboro_store=trace"),
        ] {
            assert_eq!(directives(given).unwrap(), expected);
        }
        for given in [
            "foo",
            "oboro",
            "info,foo",
            "oboro=loud",
            "=info",
            "a b=info",
        ] {
            let error = directives(given).unwrap_err().to_string();
            assert!(error.contains("error, warn, info"), "{error}");
        }
    }
}
