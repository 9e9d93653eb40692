//! Output of results and failures, for people or programs, and result files.

use indicatif::HumanBytes;
use oboro_input::{escaped, escaped_lines};
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Text or JSON.
#[derive(Clone, Copy)]
pub struct Output {
    json: bool,
}

/// Why a bench failed: one sentence with cause and remedy.
#[derive(Debug)]
pub struct Failure(Box<dyn Error + Send + Sync>);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Failure {
    /// Whether the underlying error has this type.
    pub fn is<E: Error + 'static>(&self) -> bool {
        self.0.is::<E>()
    }
}

impl Output {
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a result: `value` as a line of JSON, or `text`.
    pub fn result(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = if self.json {
            serde_json::to_writer(&mut out, value)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out))
        } else {
            write!(out, "{}", escaped_lines(&text()))
        };
        written.and_then(|()| out.flush()).map_err(|error| {
            format!("cannot write to standard output: {error}; check where it leads").into()
        })
    }

    /// Prints a failure to standard error.
    pub fn failure(self, failure: &Failure) {
        // A closed standard error cannot be reported.
        let _ = if self.json {
            writeln!(
                io::stderr(),
                "{}",
                serde_json::json!({ "error": failure.to_string() })
            )
        } else {
            writeln!(io::stderr(), "error: {}", escaped(&failure.to_string()))
        };
    }
}

/// "1.5 MiB".
pub fn bytes(count: u64) -> String {
    HumanBytes(count).to_string()
}

/// "1.25 s" or "38 ms".
pub fn seconds(duration: Duration) -> String {
    let s = duration.as_secs_f64();
    if s < 0.1 {
        format!("{:.1} ms", s * 1e3)
    } else {
        format!("{s:.2} s")
    }
}

/// A program's error message as a sentence: Oboro's own is in JSON.
pub fn problem(said: &[u8]) -> String {
    let own: Option<serde_json::Value> = serde_json::from_slice(said).ok();
    match own.as_ref().and_then(|own| own["error"].as_str()) {
        Some(sentence) => sentence.to_owned(),
        None => String::from_utf8_lossy(said).trim().to_owned(),
    }
}

/// An output file that must not exist yet. Prepared before the work whose result it receives, so that mistakes show
/// early.
pub struct NewFile {
    path: PathBuf,
}

impl NewFile {
    /// Checks the path.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let directory = path.parent().unwrap_or(Path::new("."));
        if !directory.is_dir() {
            let path = path.display();
            return Err(format!(
                "cannot write {path}: there is no such directory; make the directory first"
            )
            .into());
        }
        if path.symlink_metadata().is_ok() {
            Err(format!(
                "{} exists already; choose another name, or remove it first",
                path.display()
            )
            .into())
        } else {
            Ok(Self { path: path.into() })
        }
    }

    /// Writes the whole content.
    pub fn write(&self, content: &[u8]) -> Result<(), Failure> {
        let create = || -> io::Result<File> {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&self.path)
        };
        let written = create().and_then(|mut file| file.write_all(content));
        written.map_err(|error| {
            let path = self.path.display();
            format!("cannot write {path}: {error}; check the free space there").into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_sentences() {
        assert_eq!(problem(b"fio: no such file\n"), "fio: no such file");
        assert_eq!(problem(br#"{"error": "too small"}"#), "too small");
    }
}
