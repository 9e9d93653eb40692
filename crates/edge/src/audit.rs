//! Audit log: one line of JSON for each admitted call, with caller, dataset and outcome.
//!
//! A dedicated thread writes, which keeps a slow disk from delaying calls. No call is admitted while lines cannot be
//! written or too many are queued. The log rotates by size, and other programs may rename it. It never holds content of
//! datasets. [Quotas](quota) keep one name from filling it.

mod quota;

use crate::clients::Client;
use crate::refusal::{RETRY_SOON, busy, unavailable};
use oboro_format::DatasetId;
use oboro_format::FormatError;
use oboro_format::files::{io_error, parent};
use oboro_format::wording::{AUDIT_LOG, AUDIT_LOG_KEEP};
use parking_lot::{Condvar, Mutex};
use quota::Quotas;
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tonic::{Code, Status};

/// Maximum number of queued lines; beyond it no call is admitted.
const MOST_WAITING: usize = 4096;
/// Recommended total size in bytes; with less, the quota of one name is soon used up.
const USUAL_KEPT: u64 = 64 << 20;
/// Delay before a failed write is retried.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval at which summed-up calls are flushed.
const LOOK: Duration = Duration::from_secs(60);

/// Errors of an audit log that cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum AuditError {
    #[error(
        "{} has something else in it than an audit log, which lines would be added to; name another file with {AUDIT_LOG}",
        path.display()
    )]
    NoLog { path: PathBuf },
    #[error(
        "{} is in the directory of the store, where only the store has files; name another file with {AUDIT_LOG}",
        path.display()
    )]
    InStore { path: PathBuf },
    #[error(transparent)]
    File(#[from] FormatError),
}

/// Location and retention of the audit log.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// File that lines are appended to.
    pub path: PathBuf,
    /// Maximum size of the file in bytes; it is renamed before it grows beyond.
    pub bytes: u64,
    /// Number of renamed files to keep: `PATH.1`, the latest, to `PATH.N`.
    pub keep: u32,
}

impl AuditOptions {
    /// Returns the maximum size in bytes of all files together.
    fn kept(&self) -> u64 {
        self.bytes.saturating_mul(u64::from(self.keep) + 1)
    }

    /// Checks, without writing, that the file is an audit log or could be created. `home` is the directory of the
    /// store, which must not contain other files.
    ///
    /// # Errors
    /// A missing directory, a directory inside the store, a file with other content.
    pub fn check(&self, home: &Path) -> Result<(), AuditError> {
        let directory = parent(&self.path);
        let found = fs::canonicalize(directory);
        let found = found.map_err(io_error("find the directory", directory))?;
        if fs::canonicalize(home).is_ok_and(|home| found.starts_with(home)) {
            let path = self.path.clone();
            return Err(AuditError::InStore { path });
        }
        match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => {
                let error = ErrorKind::IsADirectory.into();
                Err(io_error("write", &self.path)(error).into())
            }
            Ok(metadata) if !metadata.is_file() => self.is_no_log(),
            Ok(metadata) if metadata.len() == 0 => Ok(()),
            Ok(_) => {
                let mut first = [0];
                let read = File::open(&self.path).and_then(|mut it| it.read_exact(&mut first));
                read.map_err(io_error("read", &self.path))?;
                if first == *b"{" {
                    Ok(())
                } else {
                    self.is_no_log()
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io_error("look at", &self.path)(error).into()),
        }
    }

    fn is_no_log(&self) -> Result<(), AuditError> {
        let path = self.path.clone();
        Err(AuditError::NoLog { path })
    }
}

/// Maximum bytes of a recorded name: names of datasets are shorter, but callers may send any.
const NAME_BYTES: usize = 256;

/// Facts about a call, collected while it is handled. Its line is written when the last clone is dropped: the work of a
/// call may outlive its caller.
#[derive(Debug, Clone, Default)]
pub struct Subject(Arc<AuditRecord>);

/// Facts about a call, and the log that its line goes to.
#[derive(Debug, Default)]
struct AuditRecord {
    known: Mutex<Known>,
    line: Mutex<Option<(Arc<Audit>, CallOutcome)>>,
}

impl Drop for AuditRecord {
    fn drop(&mut self) {
        if let Some((audit, ended)) = self.line.get_mut().take() {
            audit.write(self.known.get_mut(), &ended);
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    caller: Option<String>,
    credential: Option<(&'static str, String)>,
    peer: Option<SocketAddr>,
    name: Option<String>,
    dataset: Option<DatasetId>,
    detail: Option<Value>,
    /// Outcome of the call's work at the store.
    work: Option<Code>,
}

impl Subject {
    /// Records the caller, its credential and its address.
    pub fn set_caller(
        &self,
        client: &Client,
        credential: Option<(&'static str, String)>,
        peer: Option<SocketAddr>,
    ) {
        let mut known = self.0.known.lock();
        known.caller = caller_of(client).map(str::to_owned);
        known.credential = credential;
        known.peer = peer;
    }

    /// Records the name that the caller uses for the dataset.
    pub fn set_name(&self, name: &str) {
        tracing::debug!(name, "is about");
        if !name.is_empty() {
            let mut ends = (0..=NAME_BYTES.min(name.len())).rev();
            let end = ends.find(|&at| name.is_char_boundary(at)).unwrap_or(0);
            let kept = &name[..end];
            let cut = if kept == name { "" } else { "…" };
            self.0.known.lock().name = Some(format!("{kept}{cut}"));
        }
    }

    /// Sets the dataset.
    pub fn set_dataset(&self, dataset: DatasetId) {
        self.0.known.lock().dataset = Some(dataset);
    }

    /// Records further arguments of the call.
    pub fn set_detail(&self, detail: Value) {
        self.0.known.lock().detail = Some(detail);
    }

    /// Records how the work of the call ended, possibly after its caller has disconnected.
    pub fn set_work(&self, work: Code) {
        self.0.known.lock().work = Some(work);
    }

    /// Schedules the call's line, which is written once its work has ended, too.
    pub fn end(&self, audit: &Arc<Audit>, ended: CallOutcome) {
        *self.0.line.lock() = Some((Arc::clone(audit), ended));
    }
}

/// Returns a client's name in the log; `None` on a server without authentication.
fn caller_of(client: &Client) -> Option<&str> {
    match client {
        Client::Named(name) => Some(name),
        Client::Connected(_) => None,
    }
}

/// Outcome of a call.
#[derive(Debug)]
pub struct CallOutcome {
    /// Number of the request.
    pub request: String,
    /// Name of the call.
    pub call: &'static str,
    /// Status code.
    pub outcome: Code,
    /// Duration.
    pub time: Duration,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    request: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    call: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a Value>,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<String>,
    milliseconds: u64,
}

/// Open audit log.
pub struct Audit {
    lines: Option<Sender<String>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    quotas: Mutex<Quotas>,
    waiting: AtomicUsize,
    /// Error that keeps the next line from being written.
    problem: Mutex<Option<String>>,
    /// `true` once no more lines will follow.
    closing: Mutex<bool>,
    closed: Condvar,
}

impl Audit {
    /// Opens the log, creating it if it does not exist; `home` is the directory of the store.
    ///
    /// # Errors
    /// Errors of [`AuditOptions::check`]; a file that cannot be opened or written.
    pub fn open(options: AuditOptions, home: &Path) -> Result<Self, AuditError> {
        options.check(home)?;
        if options.kept() < USUAL_KEPT {
            tracing::warn!(
                kept_bytes = options.kept(),
                "the audit log keeps little, so a name that changes much is soon refused; raise {AUDIT_LOG_KEEP}"
            );
        }
        let state = Arc::new(State {
            quotas: Mutex::new(Quotas::new(options.kept())),
            waiting: AtomicUsize::new(0),
            problem: Mutex::default(),
            closing: Mutex::default(),
            closed: Condvar::new(),
        });
        let mut file = RotatingFile::open(options)?;
        let (lines, received) = channel();
        let of_thread = Arc::clone(&state);
        let thread = thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || write_all(&received, &mut file, &of_thread));
        Ok(Self {
            lines: Some(lines),
            state,
            thread: Some(thread.map_err(io_error("start the thread of", Path::new("audit log")))?),
        })
    }

    /// Refuses a call that could not be logged.
    ///
    /// # Errors
    /// The log cannot be written, or the client has used up its quota of changes.
    pub fn check(&self, client: &Client, call: &str) -> Result<(), Status> {
        if self.problem().is_some() {
            return Err(unavailable(
                "this server cannot write its audit log and therefore accepts no calls; try again later, or tell its operator",
                RETRY_SOON,
            ));
        }
        if !quota::is_change(call) {
            return Ok(());
        }
        let checked = self
            .state
            .quotas
            .lock()
            .check(caller_of(client), Instant::now());
        checked.map_err(|wait| {
            let seconds = wait.as_secs().max(1);
            busy(
                format!(
                    "this client has made more changes than this server keeps in its audit log of one; try again in {seconds} s, or ask its operator to raise {AUDIT_LOG_KEEP}"
                ),
                wait,
            )
        })
    }

    /// Returns the reason why lines cannot be written, or not as fast as they arrive.
    pub fn problem(&self) -> Option<String> {
        let waiting = self.state.waiting.load(Ordering::Relaxed);
        let problem = self.state.problem.lock().clone();
        problem.or_else(|| {
            (waiting > MOST_WAITING).then(|| format!("{waiting} lines wait to be written"))
        })
    }

    /// Queues the line of a call.
    fn write(&self, known: &Known, ended: &CallOutcome) {
        let credential = |kind| {
            let found = known.credential.as_ref().filter(|it| it.0 == kind);
            found.map(|it| &*it.1)
        };
        let line = Line {
            time: OffsetDateTime::now_utc()
                .format(&Rfc3339)
                .unwrap_or_default(),
            request: &ended.request,
            caller: known.caller.as_deref(),
            token: credential("token"),
            certificate: credential("certificate"),
            address: known.peer.map(|it| it.to_string()),
            call: ended.call,
            name: known.name.as_deref(),
            dataset: known.dataset.map(|it| it.to_string()),
            detail: known.detail.as_ref(),
            outcome: format!("{:?}", ended.outcome),
            // Otherwise it equals the outcome.
            work: known
                .work
                .filter(|_| ended.outcome == Code::Cancelled)
                .map(|it| format!("{it:?}")),
            milliseconds: u64::try_from(ended.time.as_millis()).unwrap_or(u64::MAX),
        };
        let line = serde_json::to_string(&line).expect("strings and numbers are JSON") + "\n";
        let is_written = self.state.quotas.lock().count(
            known.caller.as_deref(),
            (ended.call, ended.outcome),
            known.name.as_deref(),
            line.len(),
            Instant::now(),
        );
        if !is_written {
            return;
        }
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        let lines = self.lines.as_ref().expect("there until it is dropped");
        lines.send(line).expect("the thread ends after this");
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.lines = None;
        *self.state.closing.lock() = true;
        self.state.closed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes lines until the channel closes, retrying failed writes until then.
fn write_all(lines: &Receiver<String>, file: &mut RotatingFile, state: &State) {
    let mut looked = Instant::now();
    loop {
        let (line, is_end) = match lines.recv_timeout(LOOK) {
            Ok(line) => (Some(line), false),
            Err(RecvTimeoutError::Timeout) => (None, false),
            Err(RecvTimeoutError::Disconnected) => (None, true),
        };
        state
            .waiting
            .fetch_sub(line.iter().len(), Ordering::Relaxed);
        let now = Instant::now();
        let mut all: VecDeque<String> = line.into_iter().collect();
        if is_end || now - looked >= LOOK {
            looked = now;
            all.extend(state.quotas.lock().due(now, is_end));
        }
        if !add_all(all, lines, file, state) || is_end {
            return;
        }
    }
}

/// Writes these lines; returns `false` if the channel is closed and they cannot be written.
fn add_all(
    mut all: VecDeque<String>,
    lines: &Receiver<String>,
    file: &mut RotatingFile,
    state: &State,
) -> bool {
    while let Some(line) = all.front() {
        while let Err(error) = file.add(line) {
            let mut closing = state.closing.lock();
            if *closing {
                tracing::error!(%error, "the audit log cannot be written; what it lacks follows");
                let summed = state.quotas.lock().due(Instant::now(), true);
                let lost = all.drain(..).chain(lines.try_iter()).chain(summed);
                lost.for_each(|line| tracing::error!(line, "missing from the audit log"));
                return false;
            }
            if state.problem.lock().replace(error.to_string()).is_none() {
                tracing::error!(%error, "the audit log cannot be written; no call is begun until it can");
            }
            state.closed.wait_for(&mut closing, AGAIN);
        }
        if state.problem.lock().take().is_some() {
            tracing::info!("the audit log is written again");
        }
        all.pop_front();
    }
    true
}

/// File that is renamed when it is full.
struct RotatingFile {
    options: AuditOptions,
    file: File,
    bytes: u64,
}

impl RotatingFile {
    fn open(options: AuditOptions) -> Result<Self, FormatError> {
        let (file, bytes) = open(&options.path)?;
        Ok(Self {
            options,
            file,
            bytes,
        })
    }

    fn add(&mut self, line: &str) -> Result<(), FormatError> {
        let path = &self.options.path;
        if !is_at(&self.file, path) {
            (self.file, self.bytes) = open(path)?;
        }
        // Another program may have truncated it.
        self.bytes = self.file.metadata().map_or(self.bytes, |it| it.len());
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.options.bytes {
            self.rotate()?;
        }
        let path = &self.options.path;
        let written = self.file.write_all(line.as_bytes());
        if let Err(error) = written {
            // Remove the partial line now; otherwise the next `open` does.
            let _ = self.file.set_len(self.bytes);
            return Err(io_error("write", path)(error));
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Renames the file and its predecessors.
    fn rotate(&mut self) -> Result<(), FormatError> {
        let path = &self.options.path;
        self.file.sync_all().map_err(io_error("write", path))?;
        let keep = self.options.keep;
        for number in (0..keep).rev() {
            let from = if number == 0 {
                path.clone()
            } else {
                numbered(path, number)
            };
            match fs::rename(&from, numbered(path, number + 1)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(io_error("rename", &from)(error));
                }
                _ => {}
            }
        }
        if keep == 0 {
            fs::remove_file(path).map_err(io_error("remove", path))?;
        }
        (self.file, self.bytes) = open(path)?;
        Ok(())
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Opens a file for appending and returns its length. Removes a partial line that a crash left.
fn open(path: &Path) -> Result<(File, u64), FormatError> {
    let mut options = OpenOptions::new();
    let options = options.read(true).append(true).create(true);
    let opened = options.mode(0o600).open(path);
    let mut file = opened.map_err(io_error("open", path))?;
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(FormatError::Locked {
            path: path.into(),
            what: "file for the audit log".to_owned(),
        });
    }
    let length = whole_lines(&mut file).and_then(|length| {
        file.set_len(length)?;
        Ok(length)
    });
    Ok((file, length.map_err(io_error("read", path))?))
}

/// The length of a file up to the end of its last whole line.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    const MOST: u64 = 4096;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(MOST);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(MOST).read_to_end(&mut tail)?;
    let last = tail.iter().rposition(|&byte| byte == b'\n');
    Ok(last.map_or(start, |at| start + at as u64 + 1))
}

/// Returns true if `path` still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (here, there) = (
        file.metadata().map(identity),
        fs::metadata(path).map(identity),
    );
    here.ok()
        .zip(there.ok())
        .is_some_and(|(here, there)| here == there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;
    use tempfile::TempDir;

    fn options(directory: &TempDir, bytes: u64) -> AuditOptions {
        AuditOptions {
            path: directory.path().join("audit.jsonl"),
            bytes,
            keep: 2,
        }
    }

    fn open_audit(options: &AuditOptions) -> Result<Audit, AuditError> {
        Audit::open(options.clone(), Path::new("/nowhere"))
    }

    #[test]
    fn a_file_of_something_else_is_refused_unchanged() {
        let directory = TempDir::new().unwrap();
        let options = options(&directory, 1 << 20);
        for content in [
            "ward:owner:0f3a\n",
            "-----BEGIN PRIVATE KEY-----\n",
            "\n{}\n",
        ] {
            fs::write(&options.path, content).unwrap();
            let refused = open_audit(&options).unwrap_err();
            assert!(matches!(refused, AuditError::NoLog { .. }), "{refused}");
            assert_eq!(fs::read_to_string(&options.path).unwrap(), content);
        }
        fs::remove_file(&options.path).unwrap();
        let refused = Audit::open(options.clone(), directory.path()).unwrap_err();
        assert!(matches!(refused, AuditError::InStore { .. }), "{refused}");
        assert!(!options.path.exists());
    }

    fn ended(request: &str) -> CallOutcome {
        CallOutcome {
            request: request.to_owned(),
            call: "DeleteDataset",
            outcome: Code::Ok,
            time: Duration::from_millis(7),
        }
    }

    #[test]
    fn a_line_says_who_did_what_to_which_dataset() {
        let directory = TempDir::new().unwrap();
        let options = options(&directory, 1 << 20);
        // Partial line left by a crash.
        fs::write(&options.path, "{}\n{\"time\":").unwrap();
        let readable = Permissions::from_mode(0o640);
        fs::set_permissions(&options.path, readable).unwrap();
        let audit = Arc::new(open_audit(&options).unwrap());
        let subject = Subject::default();
        let alice = Client::Named("alice".into());
        let token = Some(("token", "0f3a".to_owned()));
        subject.set_caller(&alice, token, Some("192.0.2.1:9".parse().unwrap()));
        subject.set_name("bob/rows");
        subject.set_dataset(DatasetId([7; 16]));
        let work = subject.clone();
        subject.end(&audit, ended("ab-1"));
        drop(subject);
        assert_eq!(
            fs::read_to_string(&options.path).unwrap(),
            "{}\n",
            "its work goes on"
        );
        drop(work);
        drop(audit);
        let text = fs::read_to_string(&options.path).unwrap();
        let line: Value = serde_json::from_str(text.strip_prefix("{}\n").unwrap()).unwrap();
        let said = |key: &str| line[key].as_str().unwrap();
        assert_eq!((said("caller"), said("token")), ("alice", "0f3a"));
        assert_eq!((said("call"), said("name")), ("DeleteDataset", "bob/rows"));
        assert_eq!(said("dataset"), "07".repeat(16));
        assert_eq!((said("request"), said("outcome")), ("ab-1", "Ok"));
        assert_eq!(said("address"), "192.0.2.1:9");
        assert_eq!(line["milliseconds"], 7);
        let mode = fs::metadata(&options.path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o640, "it was there before");
    }

    #[test]
    fn callers_make_no_lines_long() {
        let subject = Subject::default();
        subject.set_name(&"é\u{1}".repeat(1 << 20));
        assert!(subject.0.known.lock().name.as_ref().unwrap().len() < NAME_BYTES + 4);
    }

    #[test]
    fn full_files_are_renamed_and_the_oldest_go() {
        let directory = TempDir::new().unwrap();
        let options = options(&directory, 10);
        let mut file = RotatingFile::open(options.clone()).unwrap();
        for number in 0..9 {
            file.add(&format!("line {number}\n")).unwrap();
        }
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(read(&options.path), "line 8\n");
        assert_eq!(read(&numbered(&options.path, 1)), "line 7\n");
        assert_eq!(read(&numbered(&options.path, 2)), "line 6\n");
        assert!(!numbered(&options.path, 3).exists());
        // Another server cannot open it; other programs may rename or truncate it.
        assert!(matches!(
            RotatingFile::open(options.clone()),
            Err(FormatError::Locked { .. })
        ));
        fs::write(&options.path, "").unwrap();
        file.add("line 8\n").unwrap();
        assert_eq!(read(&options.path), "line 8\n");
        fs::rename(&options.path, directory.path().join("elsewhere")).unwrap();
        file.add("line 9\n").unwrap();
        assert_eq!(read(&options.path), "line 9\n");
        assert_eq!(fs::metadata(&options.path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn nothing_is_begun_while_lines_cannot_be_written() {
        let directory = TempDir::new().unwrap();
        let options = options(&directory, 1 << 20);
        let audit = open_audit(&options).unwrap();
        let alice = Client::Named("alice".into());
        audit.check(&alice, "Count").unwrap();
        fs::remove_file(&options.path).unwrap();
        fs::create_dir(&options.path).unwrap();
        audit.write(&Known::default(), &ended("1"));
        until(|| audit.problem().is_some());
        let refused = audit.check(&alice, "Count").unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(audit.problem().unwrap().contains("directory"));
        fs::remove_dir(&options.path).unwrap();
        until(|| audit.problem().is_none());
        drop(audit);
        let text = fs::read_to_string(&options.path).unwrap();
        assert!(text.contains("\"request\":\"1\""), "{text}");
    }

    #[test]
    fn a_log_that_cannot_be_written_keeps_no_server_from_ending() {
        let directory = TempDir::new().unwrap();
        let options = options(&directory, 1 << 20);
        let audit = open_audit(&options).unwrap();
        fs::remove_file(&options.path).unwrap();
        fs::create_dir(&options.path).unwrap();
        audit.write(&Known::default(), &ended("1"));
        until(|| audit.problem().is_some());
        drop(audit);
    }

    #[test]
    fn one_name_has_its_part_of_the_log() {
        let directory = TempDir::new().unwrap();
        let options = AuditOptions {
            bytes: 4096,
            keep: 15,
            ..options(&directory, 0)
        };
        let audit = open_audit(&options).unwrap();
        let of = |caller: &str| Known {
            caller: Some(caller.to_owned()),
            ..Known::default()
        };
        let call = |caller: &str, call| {
            let ended = CallOutcome { call, ..ended("1") };
            audit.write(&of(caller), &ended);
        };
        call("alice", "DeleteDataset");
        for _ in 0..1000 {
            call("greedy", "Count");
        }
        let greedy = Client::Named("greedy".into());
        let mut changes = 0;
        while audit.check(&greedy, "GrantAccess").is_ok() {
            call("greedy", "GrantAccess");
            changes += 1;
        }
        let refused = audit.check(&greedy, "GrantAccess").unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        audit.check(&greedy, "Count").unwrap();
        audit
            .check(&Client::Named("alice".into()), "GrantAccess")
            .unwrap();
        drop(audit);
        let numbered = (1..=15).rev().map(|number| numbered(&options.path, number));
        let files = numbered.chain([options.path.clone()]);
        let text: String = files.filter_map(|it| fs::read_to_string(it).ok()).collect();
        assert!(text.len() < 8192, "{}", text.len());
        assert!(text.contains("\"alice\""));
        let lines = || {
            text.lines()
                .map(|it| serde_json::from_str::<Value>(it).unwrap())
        };
        assert_eq!(
            lines().filter(|it| it["call"] == "GrantAccess").count(),
            changes
        );
        let counts = lines().filter(|it| it["call"] == "Count").count() as u64;
        let last = lines().next_back().unwrap();
        assert_eq!(
            counts + last["summed"]["Count"]["Ok"].as_u64().unwrap(),
            1000
        );
    }

    fn until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !condition() {
            assert!(Instant::now() < deadline, "waited too long");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
