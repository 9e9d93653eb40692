//! Shared by the end-to-end tests: directories in which the real `oboro` command runs, and servers
//! as separate processes.
//!
//! A process is killed when its handle is dropped. Tests wait for conditions only, never for a
//! fixed time, and every wait has a deadline that fails the test.

pub mod calls;
pub mod cgroup;
pub mod http;
pub mod http2;
pub mod plaintext;
pub mod proxy;
pub mod s3;

use cgroup::MemoryGroup;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The longest wait, however busy the machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until `condition` gives something.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited too long until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The command line of a server with its data in this directory, or at this URL.
fn serve(data: &str) -> String {
    format!("serve --data {data} --listen 127.0.0.1:0 --json")
}

/// The working directory of an owner or of a server's operator. Commands run in it, so their
/// arguments can be plain names.
pub struct Home {
    /// The command.
    oboro: RefCell<PathBuf>,
    directory: TempDir,
    environment: RefCell<BTreeMap<String, String>>,
}

impl Home {
    /// An empty directory.
    pub fn new() -> Self {
        Self::running(Path::new(env!("CARGO_BIN_EXE_oboro")))
    }

    /// The same for another release's command.
    pub fn running(oboro: &Path) -> Self {
        Self {
            oboro: RefCell::new(oboro.into()),
            directory: tempfile::tempdir().unwrap(),
            environment: RefCell::default(),
        }
    }

    /// A directory with a master key in `oboro.key`, the default path.
    pub fn with_key() -> Self {
        let home = Self::new();
        home.done("keygen");
        home
    }

    /// Has another release's command, or this one's, run here from now on.
    pub fn run_by(&self, oboro: &Path) {
        *self.oboro.borrow_mut() = oboro.into();
    }

    /// Makes commands use this server from now on.
    pub fn talk_to(&self, url: &str) {
        self.set("OBORO_SERVER", url);
    }

    /// Sets an environment variable for all further commands.
    pub fn set(&self, name: &str, value: &str) {
        self.environment
            .borrow_mut()
            .insert(name.to_owned(), value.to_owned());
    }

    /// Unsets an environment variable.
    pub fn unset(&self, name: &str) {
        self.environment.borrow_mut().remove(name);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Writes transactions in FIMI format.
    pub fn write_fimi(&self, name: &str, baskets: &[Vec<u32>]) {
        let line = |basket: &Vec<u32>| {
            let items: Vec<String> = basket.iter().map(u32::to_string).collect();
            items.join(" ") + "\n"
        };
        self.write(name, baskets.iter().map(line).collect::<String>());
    }

    /// Copies a file or a whole directory within this home.
    pub fn copy(&self, from: &str, to: &str) {
        copy(&self.path(from), &self.path(to));
    }

    /// Copies a file of another home.
    pub fn copy_from(&self, other: &Self, name: &str) {
        self.write(name, other.read(name));
    }

    /// Copies a file of another home, or a directory with all that is in it.
    pub fn copy_tree(&self, other: &Self, name: &str) {
        copy(&other.path(name), &self.path(name));
    }

    /// Starts `oboro` with the words of `line` as arguments.
    pub fn start(&self, line: &str) -> Process {
        let mut command = Command::new(&*self.oboro.borrow());
        command.args(line.split_whitespace());
        self.spawn(command)
    }

    /// As [`start`](Self::start), but Ctrl-C reaches it even if these tests run in the background of a shell, which keeps
    /// it from what it runs there.
    pub fn start_interruptible(&self, line: &str) -> Process {
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(&*self.oboro.borrow())
            .args(line.split_whitespace());
        self.spawn(command)
    }

    /// Starts a shell script in which `$oboro` is the command.
    pub fn start_shell(&self, script: &str) -> Process {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .env("oboro", &*self.oboro.borrow());
        self.spawn(command)
    }

    /// Starts all processes.
    fn spawn(&self, mut command: Command) -> Process {
        // Unset variables of the caller's environment that would affect the test.
        for name in [
            "CLICOLOR_FORCE",
            "COLUMNS",
            "OBORO_CA",
            "OBORO_CONFIG",
            "OBORO_KEY",
            "OBORO_KEY_COMMAND",
            "OBORO_LOG",
            "OBORO_PASSPHRASE",
            "OBORO_PASSPHRASE_COMMAND",
            "OBORO_PROFILE",
            "OBORO_RECOVERY_PASSPHRASE",
            "OBORO_RECOVERY_PASSPHRASE_COMMAND",
            "OBORO_SERVER",
            "OBORO_TOKEN_FILE",
            "ALL_PROXY",
            "HTTPS_PROXY",
            "NO_PROXY",
            "all_proxy",
            "https_proxy",
            "no_proxy",
        ] {
            command.env_remove(name);
        }
        for (name, _) in env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"OBORO_SERVE_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .env("XDG_CONFIG_HOME", self.path("config"))
            .envs(&*self.environment.borrow())
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Process {
            stdout: Collected::new(child.stdout.take().unwrap()),
            stderr: Collected::new(child.stderr.take().unwrap()),
            child,
            what: format!("{command:?}"),
        }
    }

    /// Runs a command to its end.
    pub fn run(&self, line: &str) -> Ended {
        self.start(line).ended()
    }

    /// Runs a command that must succeed without output on standard error; returns its JSON.
    pub fn json(&self, line: &str) -> Value {
        self.start(&format!("{line} --json")).json()
    }

    /// Runs a command that must succeed; returns its text output.
    pub fn done(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.stderr, "", "{ended:?}");
        ended.stdout
    }

    /// Runs a command that must be refused with one sentence and change no file; returns the
    /// sentence.
    pub fn refused(&self, line: &str) -> String {
        let before = self.listing();
        let message = self.run(line).refusal();
        assert_eq!(self.listing(), before, "{line} left something behind");
        message
    }

    /// Runs a command that must be refused because of its arguments.
    pub fn misused(&self, line: &str) -> String {
        let before = self.listing();
        let ended = self.run(line);
        ended.without_panic();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert_eq!(ended.stdout, "", "{ended:?}");
        assert_eq!(self.listing(), before, "{line} left something behind");
        ended.stderr
    }

    /// Runs commands that must be refused: one on each line, before the phrases of its message, `LINE => PHRASE … PHRASE`.
    pub fn refuses(&self, cases: impl AsRef<str>) {
        each_case(cases.as_ref(), |line| self.refused(line));
    }

    /// Runs commands that must be refused because of their arguments, as [`refuses`](Self::refuses) does.
    pub fn misuses(&self, cases: impl AsRef<str>) {
        each_case(cases.as_ref(), |line| self.misused(line));
    }

    /// Makes a token whose hash is in the file `tokens` here.
    pub fn token(&self, name: &str) -> String {
        let made = self.json(&format!("token new {name}"));
        made["token"].as_str().unwrap().to_owned()
    }

    /// Starts a server on a free port of this machine; its data are in `data`.
    pub fn serve(&self, options: &str) -> Server {
        self.serve_from("data", options)
    }

    /// The same with its data in this directory, or at this URL.
    pub fn serve_from(&self, data: &str, options: &str) -> Server {
        Server::new(self.start(&format!("{} {options}", serve(data))))
    }

    /// Starts a server with these options and no others.
    pub fn serve_with(&self, options: &str) -> Server {
        Server::new(self.start(&format!("serve {options} --json")))
    }

    /// Starts a server in a control group.
    pub fn serve_in(&self, group: &MemoryGroup, options: &str) -> Server {
        self.serve_after(&group.entering(), options)
    }

    /// Starts a server in a shell that has run another command before.
    pub fn serve_after(&self, before: &str, options: &str) -> Server {
        self.serve_under(&format!("{before} && exec"), options)
    }

    /// Starts a server in a shell, after these words.
    pub fn serve_under(&self, program: &str, options: &str) -> Server {
        let serve = serve("data");
        Server::new(self.start_shell(&format!("{program} \"$oboro\" {serve} {options}")))
    }

    /// All files and directories here, with size and modification time.
    pub fn listing(&self) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
        entries(self.directory.path())
            .into_iter()
            .map(|(path, metadata)| {
                let modified = metadata.is_file().then(|| metadata.modified().unwrap());
                let length = modified.map_or(0, |_| metadata.len());
                (path, length, modified)
            })
            .collect()
    }

    /// Every byte of every file here or below `name`, with its path.
    pub fn contents(&self, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
        files(&self.path(name))
            .into_iter()
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    }

    /// The one file below `name` with this file name.
    pub fn find(&self, name: &str, file: &str) -> PathBuf {
        let mut found: Vec<_> = files(&self.path(name))
            .into_iter()
            .filter(|path| path.file_name().is_some_and(|it| it == file))
            .collect();
        assert_eq!(found.len(), 1, "{file} below {name}: {found:?}");
        found.remove(0)
    }
}

/// An owner who has a key and uses a server, the server's operator, and the server.
pub fn parties() -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    (owner, operator, server)
}

/// Copies a file, or a directory with all that is in it.
fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let name = file.strip_prefix(from).unwrap();
        let target = if name == Path::new("") {
            to.to_owned()
        } else {
            to.join(name)
        };
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

/// Everything at or below a path: files and directories, sorted.
fn entries(path: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mut within = Vec::new();
    if metadata.is_dir() {
        within.extend(
            fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().path()),
        );
    }
    within.sort();
    [(path.to_owned(), metadata)]
        .into_iter()
        .chain(within.iter().flat_map(|entry| entries(entry)))
        .collect()
}

/// The files at or below a path, sorted.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let is_file = |(path, metadata): (PathBuf, fs::Metadata)| metadata.is_file().then_some(path);
    entries(path).into_iter().filter_map(is_file).collect()
}

/// Flips one bit of a file.
pub fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// A running `oboro`, killed when dropped.
pub struct Process {
    child: Child,
    stdout: Collected,
    stderr: Collected,
    what: String,
}

impl Process {
    /// Waits until it exits.
    pub fn ended(mut self) -> Ended {
        let what = self.what.clone();
        let status = until(&format!("{what} has ended"), || {
            self.child.try_wait().unwrap()
        });
        Ended {
            what,
            code: status.code(),
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
        }
    }

    /// Waits until it succeeds; returns its JSON.
    pub fn json(self) -> Value {
        let ended = self.ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.stderr, "", "{ended:?}");
        assert!(ended.stdout.ends_with('\n'), "{ended:?}");
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// Kills it as a power cut would (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal, such as `INT`.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

fn signal(process: u32, name: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {process}")])
        .status()
        .unwrap();
    assert!(status.success());
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a process has written to a pipe so far.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collected {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self {
            bytes,
            reader: Some(reader),
        }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// Everything, once the process has ended.
    fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.so_far()
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    #[expect(dead_code, reason = "shown by Debug")]
    what: String,
    /// The exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// It must have failed with one sentence, which names a remedy, after any waits for a busy server.
    pub fn refusal(&self) -> String {
        self.without_panic();
        assert!(self.has_failed(), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let mut said = &*self.stderr;
        while said.starts_with("the server is busy; trying again in ") {
            said = said.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let message = said
            .strip_prefix("error: ")
            .and_then(|message| message.strip_suffix('\n'))
            .unwrap_or_else(|| panic!("{self:?}"));
        assert!(!message.contains('\n'), "{self:?}");
        for excuse in ["defect of Oboro", "mistake in the calling program"] {
            assert!(!message.contains(excuse), "{self:?}");
        }
        message.to_owned()
    }

    /// Whether it ended with the exit code of a failure, whatever its class, and not of wrong usage.
    pub fn has_failed(&self) -> bool {
        matches!(self.code, Some(1 | 3..=10))
    }

    pub fn without_panic(&self) {
        for text in [&self.stdout, &self.stderr] {
            assert!(!text.contains("panicked"), "{self:?}");
            assert!(!text.contains("RUST_BACKTRACE"), "{self:?}");
        }
    }
}

/// Asserts that the message for what stands before `=>` on each line contains the phrases behind it.
#[track_caller]
pub fn each_case(cases: &str, message: impl Fn(&str) -> String) {
    for case in cases.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let (line, phrases) = case.split_once(" => ").unwrap_or((case, ""));
        let message = message(line);
        for phrase in phrases.split(" … ") {
            assert!(
                message.contains(phrase),
                "{line}: {message:?} does not say {phrase:?}"
            );
        }
    }
}

/// Asserts that a message contains all of these phrases.
#[track_caller]
pub fn says(message: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(
            message.contains(phrase),
            "{message:?} does not say {phrase:?}"
        );
    }
}

/// A server process, killed when dropped.
pub struct Server {
    process: Process,
    url: String,
    monitor: Option<SocketAddr>,
}

impl Server {
    pub fn new(mut process: Process) -> Self {
        let line = until("the server listens", || {
            let text = process.stdout.so_far();
            let ended = !process.is_running();
            assert!(!ended, "the server ended: {}", process.stderr.so_far());
            text.ends_with('\n').then_some(text)
        });
        let value: Value = serde_json::from_str(&line).unwrap();
        Self {
            process,
            url: value["listening"].as_str().unwrap().to_owned(),
            monitor: value["monitor"].as_str().map(|it| {
                let (_, address) = it.split_once("://").unwrap();
                address.parse().unwrap()
            }),
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn address(&self) -> SocketAddr {
        let (_, address) = self.url.split_once("://").unwrap();
        address.parse().unwrap()
    }

    /// Where operators look.
    pub fn monitor(&self) -> SocketAddr {
        self.monitor.unwrap()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.process.stderr.so_far()
    }

    /// Its peak resident set size.
    pub fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// What its descriptors are: paths, or kinds like `socket:[123]`.
    pub fn descriptors(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap();
        entries
            .filter_map(|it| fs::read_link(it.ok()?.path()).ok())
            .collect()
    }

    /// The bytes of it that are swapped out.
    pub fn swapped_bytes(&self) -> u64 {
        self.status_bytes("VmSwap:")
    }

    fn status_bytes(&self, field: &str) -> u64 {
        let status = format!("/proc/{}/status", self.process.child.id());
        let status = fs::read_to_string(status).unwrap();
        let bytes = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = bytes.and_then(|bytes| bytes.trim().strip_suffix(" kB"));
        kibibytes.unwrap().parse::<u64>().unwrap() << 10
    }

    /// Kills it as a power cut would (SIGKILL).
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Asks it to exit (SIGTERM).
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Waits until it exits.
    pub fn ended(self) -> Ended {
        self.process.ended()
    }
}
