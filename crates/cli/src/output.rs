//! Output of results, progress and failures, for people or programs.

use crate::failure::Failure;
use clap::error::ContextKind;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use oboro_client::Wait;
use oboro_format::Bundle;
use oboro_input::{escaped, escaped_lines};
use oboro_system::{sync_directory, with_mode};
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IntoInnerError, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Minimum duration of work that shows a progress bar.
const SILENT: Duration = Duration::from_secs(1);

/// `true` if output is for programs.
static FOR_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// Output format: text or JSON.
#[derive(Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    pub fn new(json: bool) -> Self {
        FOR_PROGRAMS.store(json, Ordering::Relaxed);
        Self { json }
    }

    /// Prints a result: `value` as JSON, or `text`. The caller escapes line breaks within the text; control characters
    /// are escaped here.
    pub fn result(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let mut out = BufWriter::new(io::stdout().lock());
        let written = if self.json {
            serde_json::to_writer(&mut out, value)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out))
        } else {
            write!(out, "{}", escaped_lines(&text()))
        };
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let sentence = format!(
                    "cannot write to standard output: {error}; check its target and the free space there"
                );
                Err(Failure::io(&error, sentence))
            }
            written => Ok(written?),
        }
    }

    /// Prints, in text output only, information available before the result.
    pub fn note(self, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json {
            Ok(())
        } else {
            self.result(&(), text)
        }
    }

    /// Prints an important warning for people to standard error.
    pub fn warn(self, sentence: &str) {
        if !self.json {
            // A closed standard error cannot be reported.
            let _ = writeln!(io::stderr(), "{}", escaped(sentence));
        }
    }

    /// Prints a failure to standard error.
    pub fn failure(self, failure: &Failure) {
        // A closed standard error cannot be reported.
        let _ = if self.json {
            writeln!(
                io::stderr(),
                "{}",
                serde_json::json!({ "error": failure.to_string(), "class": failure.class().name() })
            )
        } else {
            writeln!(io::stderr(), "error: {}", escaped(&failure.to_string()))
        };
    }

    /// Returns a progress bar on standard error for work counted in `unit`; it appears after a second.
    pub fn bar(self, what: &str, unit: Unit) -> Bar {
        let template = match unit {
            Unit::Bytes => "{msg} [{bar:30}] {bytes}/{total_bytes}{prefix}",
            Unit::BlockColumns => "{msg} [{bar:30}] {human_pos}/{human_len} block-columns{prefix}",
            Unit::Answers => "{msg} [{bar:30}] {human_pos}/{human_len} answers{prefix}",
        };
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(
            ProgressStyle::with_template(template)
                .expect("the template is fixed")
                .progress_chars("=> "),
        );
        bar.set_message(what.to_owned());
        Bar {
            bar,
            unit,
            begun: OnceLock::new(),
            shown: AtomicBool::new(false),
        }
    }
}

/// Reports on standard error, for people, the reason for which a call waits.
pub fn waits(wait: Wait) {
    if !FOR_PROGRAMS.load(Ordering::Relaxed) {
        // A closed standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{wait}");
    }
}

/// Prints clap's error about the arguments, or the requested help, and exits. Clap prints arguments unescaped and
/// treats control sequences as styles of its own: if an argument has any, only the kind of error is printed.
pub fn misuse(error: &clap::Error, json: bool) -> ! {
    let steers = |argument: OsString| {
        let argument = argument.to_string_lossy();
        matches!(escaped(&argument), Cow::Owned(_))
    };
    let is_help = error.exit_code() == 0;
    let steered = !is_help && std::env::args_os().any(steers);
    if is_help || (!steered && !json) {
        error.exit();
    }
    let said = if steered {
        let about = [ContextKind::InvalidArg, ContextKind::InvalidValue]
            .into_iter()
            .filter_map(|kind| error.get(kind))
            .map(|what| format!(" '{}'", escaped(&what.to_string())));
        format!("{}:{}", error.kind(), about.collect::<String>())
    } else {
        sentence(error)
    };
    // A closed standard error cannot be reported.
    let _ = if json {
        writeln!(
            io::stderr(),
            "{}",
            serde_json::json!({ "error": said, "class": "usage" })
        )
    } else {
        writeln!(
            io::stderr(),
            "error: {said}\n\nFor more information, try '--help'."
        )
    };
    std::process::exit(error.exit_code());
}

/// Returns clap's message on one line, without advice about the command line.
pub fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.split("\n\n").next().unwrap_or(&text);
    let words: Vec<&str> = said
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect();
    words.join(" ")
}

/// Unit of a progress bar.
pub enum Unit {
    Bytes,
    BlockColumns,
    Answers,
}

/// Progress bar with rate and remaining time.
pub struct Bar {
    bar: ProgressBar,
    unit: Unit,
    /// Time of the first progress, and the units done before: resumed work took no time here.
    begun: OnceLock<(Instant, u64)>,
    shown: AtomicBool,
}

impl Bar {
    /// Shows `done` of `total` units.
    pub fn set(&self, done: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        let &(begun, before) = self.begun.get_or_init(|| (Instant::now(), done));
        let elapsed = begun.elapsed();
        if elapsed > SILENT {
            let pace = pace(
                &self.unit,
                done.saturating_sub(before),
                total - done.min(total),
                elapsed,
            );
            self.bar.set_prefix(pace);
            if !self.shown.swap(true, Ordering::Relaxed) {
                // Draws nothing unless standard error is a terminal.
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
    }

    /// Changes the bar's label.
    pub fn rename(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Formats rate and remaining time: ", 5.2 MiB/s, 12 s left". The rate is the mean over all work here, which recovers
/// from a slow beginning.
fn pace(unit: &Unit, done: u64, rest: u64, elapsed: Duration) -> String {
    if done == 0 {
        return String::new();
    }
    let rate = done as f64 / elapsed.as_secs_f64();
    let left = HumanDuration(Duration::from_secs((rest as f64 / rate).ceil() as u64));
    match unit {
        Unit::Bytes => format!(", {}/s, {left:#} left", bytes(rate as u64)),
        Unit::BlockColumns | Unit::Answers => format!(", {left:#} left"),
    }
}

/// Formats a number of bytes: "1.5 MiB".
pub fn bytes(count: u64) -> String {
    HumanBytes(count).to_string()
}

/// Formats a duration: "1.25 s" or "38 ms".
pub fn seconds(duration: Duration) -> String {
    let s = duration.as_secs_f64();
    if s < 0.1 {
        format!("{:.1} ms", s * 1e3)
    } else {
        format!("{s:.2} s")
    }
}

/// Format of a result file, by its extension.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    Csv,
    #[cfg(feature = "arrow")]
    Parquet,
}

impl Form {
    /// Extensions of the formats.
    #[cfg(feature = "arrow")]
    const ENDINGS: &str = ".json, .csv or .parquet";
    #[cfg(not(feature = "arrow"))]
    const ENDINGS: &str =
        ".json or .csv (this program was built without the feature arrow, which writes Parquet)";

    /// Returns the format for this file; JSON without an extension. A name may consist of an extension only.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ending = name.rsplit_once('.').map(|(_, it)| it.to_ascii_lowercase());
        match ending.as_deref() {
            None | Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            #[cfg(feature = "arrow")]
            Some("parquet") => Ok(Self::Parquet),
            Some(_) => {
                let sentence = format!(
                    "cannot determine the format of {} from its name; use the extension {}",
                    path.display(),
                    Self::ENDINGS
                );
                Err(Failure::input(sentence))
            }
        }
    }
}

/// File that is written atomically. Prepared before the work whose result it receives, to report mistakes early.
pub struct OutputFile {
    /// Path with symbolic links resolved, which preserves the links.
    path: PathBuf,
    kind: Kind,
    /// Mode of a new file, before the umask.
    mode: u32,
}

/// Default mode.
const MODE: u32 = 0o666;

const IN_DATASET: &str = "it is in the directory of an encrypted dataset; choose another directory";

/// Returns true if this directory is, or is directly within, that of an encrypted dataset.
fn is_in_dataset(directory: &Path) -> bool {
    directory.ancestors().take(2).any(Bundle::is_at)
}

/// Returns the path of a missing file, with links to its directory resolved.
fn in_its_directory(path: &Path) -> io::Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("it names no file"))?;
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = parent.unwrap_or(Path::new(".")).canonicalize()?;
    Ok(directory.join(name))
}

enum Kind {
    /// New file, or a regular file to replace.
    Regular,
    /// Pipe or device: written directly.
    Special,
}

impl OutputFile {
    /// Checks the path. Keys and encrypted datasets are never replaced by a result.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let failed = |problem: String| {
            let sentence = format!("cannot write {}: {problem}", path.display());
            Failure::input(sentence)
        };
        let resolved = match path.canonicalize() {
            Ok(resolved) => resolved,
            // A pipe has no path of its own: /dev/stdout leads to one.
            Err(_)
                if path
                    .metadata()
                    .is_ok_and(|it| !it.is_file() && !it.is_dir()) =>
            {
                path.to_owned()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let resolved = in_its_directory(path).map_err(|error| {
                    failed(format!(
                        "its directory: {error}; create the directory first"
                    ))
                })?;
                if path.is_symlink() {
                    return Err(failed(
                        "it is a dangling symbolic link; remove it, or give the name of its target"
                            .to_owned(),
                    ));
                }
                if resolved.parent().is_some_and(is_in_dataset) {
                    return Err(failed(IN_DATASET.to_owned()));
                }
                return Ok(Self {
                    path: resolved,
                    kind: Kind::Regular,
                    mode: MODE,
                });
            }
            Err(error) => return Err(failed(format!("{error}; check the path"))),
        };
        let metadata = resolved
            .metadata()
            .map_err(|error| failed(error.to_string()))?;
        if metadata.is_dir() {
            return Err(failed(
                "it is a directory; give the name of a file".to_owned(),
            ));
        }
        if !metadata.is_file() {
            return Ok(Self {
                path: resolved,
                kind: Kind::Special,
                mode: MODE,
            });
        }
        if resolved.parent().is_some_and(is_in_dataset) {
            return Err(failed(IN_DATASET.to_owned()));
        }
        let mut start = Vec::new();
        let opened = File::open(&resolved).and_then(|file| file.take(5).read_to_end(&mut start));
        opened.map_err(|error| failed(format!("{error}; choose another name")))?;
        if start == b"OBORO" {
            return Err(failed(
                "it is a key or part of an encrypted dataset; choose another name".to_owned(),
            ));
        }
        Ok(Self {
            path: resolved,
            kind: Kind::Regular,
            mode: MODE,
        })
    }

    /// Returns true if `path` is this file.
    pub fn is(&self, path: &Path) -> bool {
        path.canonicalize()
            .or_else(|_| in_its_directory(path))
            .is_ok_and(|path| path == self.path)
    }

    /// As [`prepare`](Self::prepare), for a result with names of items, which only the owner may read. Also returns its
    /// format.
    pub fn prepare_result(path: &Path) -> Result<(Self, Form), Failure> {
        let file = Self::prepare(path)?;
        Ok((file.private(), Form::of(path)?))
    }

    /// As [`prepare`](Self::prepare), for a file that must not exist yet.
    pub fn prepare_new(path: &Path) -> Result<Self, Failure> {
        let file = Self::prepare(path)?;
        match file.kind {
            Kind::Regular if file.path.exists() => Err(Failure::input(format!(
                "{} exists already; choose another name, or remove it first",
                path.display()
            ))),
            _ => Ok(file),
        }
    }

    /// Makes the file readable by the owner only.
    #[must_use]
    pub fn private(self) -> Self {
        Self {
            mode: 0o600,
            ..self
        }
    }

    /// Writes the file: temporary name, sync, rename, sync of the directory.
    pub fn write(&self, content: &[u8]) -> Result<(), Failure> {
        self.write_with(|file| file.write_all(content))
    }

    /// As [`write`](Self::write), with content that `write` produces piece by piece.
    pub fn write_with(
        &self,
        write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let written = match self.kind {
            Kind::Special => OpenOptions::new()
                .write(true)
                .open(&self.path)
                .and_then(|file| buffered(file, write))
                .map(drop),
            Kind::Regular => self.replace(write),
        };
        written.map_err(|error| {
            let sentence = format!(
                "cannot write {}: {error}; check the directory's permissions and free space",
                self.path.display()
            );
            Failure::io(&error, sentence)
        })
    }

    fn replace(
        &self,
        write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        // Removed unless renamed.
        let prefix = format!(".{name}.");
        let file = with_mode(self.mode, tempfile::Builder::new().prefix(&prefix))
            .tempfile_in(directory)?;
        let file = buffered(file, write)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        sync_directory(directory)
    }
}

/// Writes through a buffer.
fn buffered<W: Write + Send>(
    to: W,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<W> {
    let mut to = BufWriter::new(to);
    write(&mut to)?;
    to.into_inner().map_err(IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::{Unit, pace};
    use std::time::Duration;

    #[test]
    fn a_pace_is_of_what_was_done_here() {
        let elapsed = Duration::from_secs(2);
        assert_eq!(pace(&Unit::Bytes, 0, 10, elapsed), "");
        assert_eq!(
            pace(&Unit::Bytes, 4 << 20, 20 << 20, elapsed),
            ", 2.00 MiB/s, 10s left"
        );
        // The rate, 3,309.4996 a second, is not shown.
        assert_eq!(pace(&Unit::BlockColumns, 6619, 1, elapsed), ", 1s left");
        assert_eq!(pace(&Unit::Answers, 1, 100, elapsed), ", 3m left");
    }
}
