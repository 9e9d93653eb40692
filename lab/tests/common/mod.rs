//! Directories in which the real `oboro-lab` runs, with the product's program next to it: `make test-lab` builds both.

use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The longest wait, however busy the machine.
const DEADLINE: Duration = Duration::from_secs(120);

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

/// A directory in which commands run, so that their arguments can be plain names.
pub struct Home {
    directory: TempDir,
    environment: RefCell<BTreeMap<String, String>>,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A running command.
pub struct Process(Child);

impl Home {
    /// An empty directory.
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            environment: RefCell::default(),
        }
    }

    /// Sets an environment variable for all further commands.
    pub fn set(&self, name: &str, value: &str) {
        let mut environment = self.environment.borrow_mut();
        environment.insert(name.to_owned(), value.to_owned());
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

    /// Starts `oboro-lab` with the words of `line` as arguments.
    pub fn start(&self, line: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oboro-lab"));
        // Unset variables of the caller's environment that would affect the test.
        for name in ["CLICOLOR_FORCE", "COLUMNS", "OBORO_BIN", "OBORO_LOG"] {
            command.env_remove(name);
        }
        let child = command
            .args(line.split_whitespace())
            .envs(&*self.environment.borrow())
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Process(child.unwrap())
    }

    /// Runs a command to its end.
    pub fn run(&self, line: &str) -> Ended {
        self.start(line).ended()
    }

    /// Runs a command that must succeed; returns its output.
    pub fn done(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
        ended.stdout
    }

    /// Runs a command that must be refused with one sentence and change no file; returns the sentence.
    pub fn refused(&self, line: &str) -> String {
        let before = entries(self.directory.path());
        let ended = self.run(line);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        assert_eq!(entries(self.directory.path()), before, "{line}");
        let message = ended.stderr.strip_prefix("error: ");
        let message = message.and_then(|it| it.strip_suffix('\n'));
        let message = message.filter(|it| !it.contains('\n'));
        message.unwrap_or_else(|| panic!("{ended:?}")).to_owned()
    }

    /// Runs a command that must be refused because of its arguments.
    pub fn misused(&self, line: &str) -> String {
        let before = entries(self.directory.path());
        let ended = self.run(line);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{ended:?}");
        assert_eq!(entries(self.directory.path()), before, "{line}");
        ended.stderr
    }
}

impl Process {
    /// Waits until it exits.
    pub fn ended(self) -> Ended {
        let Output {
            status,
            stdout,
            stderr,
        } = self.0.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended {
            code: status.code(),
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }

    /// Interrupts it as Ctrl-C does.
    pub fn interrupt(&self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
    }
}

/// Everything in a directory and below, with size and modification time.
fn entries(directory: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(entries(&path));
            found.push((path, 0, None));
        } else {
            found.push((path, metadata.len(), metadata.modified().ok()))
        }
    }
    found.sort();
    found
}
