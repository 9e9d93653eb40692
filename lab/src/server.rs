//! A server in a separate process on loopback: the product's program.

use crate::output::{Failure, problem};
use crate::{machine, timed};
use bytesize::ByteSize;
use oboro_client::{Connection, Options};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A running server, killed when dropped.
pub struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts a server on a free port, with its datasets in `data`, and with a memory limit if it should stream. Its
    /// messages go to standard error.
    pub fn start(
        data: &Path,
        threads: NonZeroUsize,
        memory: Option<ByteSize>,
    ) -> Result<Self, Failure> {
        let within = |memory: ByteSize| vec!["--memory".to_owned(), memory.as_u64().to_string()];
        let options = memory.map(within).unwrap_or_default();
        Self::start_by(Command::new(oboro()?), data, threads, &options)
    }

    /// Starts a server with these `options`, through a `command` that runs [`oboro`].
    pub fn start_by(
        mut command: Command,
        data: &Path,
        threads: NonZeroUsize,
        options: &[String],
    ) -> Result<Self, Failure> {
        command
            .args(["serve", "--json", "--listen", "127.0.0.1:0"])
            .arg("--data")
            .arg(data)
            .args(["--threads", &threads.to_string()])
            .args(["--moment-cache", "0"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if std::env::var_os("OBORO_LOG").is_none() {
            command.env("OBORO_LOG", "warn");
        }
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let said = child
            .stderr
            .take()
            .map(|log| thread::spawn(|| pass_on(log)));
        let mut server = Self {
            child,
            url: String::new(),
        };
        let mut line = String::new();
        if let Some(stdout) = server.child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(|error| failed(error.to_string()))?;
        }
        server.url = serde_json::from_str::<Value>(&line)
            .ok()
            .and_then(|value| value["listening"].as_str().map(str::to_owned))
            .unwrap_or_default();
        if server.url.is_empty() {
            // It has closed its output, and ends.
            let _ = server.child.wait();
            let last = said.and_then(|said| said.join().ok()).unwrap_or_default();
            return Err(match problem(&last).as_str() {
                "" => failed("it ended before it listened".to_owned()),
                reason => format!("the server refused to start: {reason}").into(),
            });
        }
        Ok(server)
    }

    /// Opens a connection to it.
    pub fn connect(&self) -> Result<Connection, Failure> {
        Ok(Connection::open(&Options {
            url: self.url.clone(),
            ..Options::default()
        })?)
    }

    /// Its process id.
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Its peak resident set size, in bytes.
    pub fn peak_bytes(&self) -> Result<u64, Failure> {
        let peak = machine::peak_bytes(self.child.id())
            .map_err(|error| format!("cannot tell the server's memory: {error}; run on Linux"))?;
        Ok(peak)
    }

    /// Asks it to exit and waits; returns how long that took.
    pub fn stop(mut self) -> Result<Duration, Failure> {
        let (ended, took) = timed(|| {
            kill_process(self.id(), Signal::TERM)?;
            self.child.wait()
        });
        match ended {
            Ok(status) if status.success() => Ok(took),
            Ok(status) => Err(format!("the server ended with {status}; its log says why").into()),
            Err(error) => Err(format!("cannot stop the server: {error}; end it by hand").into()),
        }
    }
}

/// The product's program: OBORO_BIN, or the one next to this one, from the same build.
pub fn oboro() -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os("OBORO_BIN") {
        return Ok(given.into());
    }
    let this = std::env::current_exe().map_err(|error| failed(format!("this program: {error}")))?;
    let beside = this.with_file_name("oboro");
    if beside.is_file() {
        Ok(beside)
    } else {
        Err(format!(
            "there is no {}; build it with `make build`, or say in OBORO_BIN where it is",
            beside.display()
        )
        .into())
    }
}

/// Copies the server's messages to standard error; returns the last one.
fn pass_on(log: ChildStderr) -> Vec<u8> {
    let mut last = Vec::new();
    let mut lines = BufReader::new(log).split(b'\n');
    while let Some(Ok(line)) = lines.next() {
        last = line;
        // A closed standard error cannot be reported.
        let _ = io::stderr().write_all(&[&last[..], b"\n"].concat());
    }
    last
}

fn failed(problem: String) -> Failure {
    format!(
        "cannot start the server to measure: {problem}; check the space in the temporary directory"
    )
    .into()
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has exited already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a program in place of the server.
    fn start(script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]);
        let started = Server::start_by(command, Path::new("/"), NonZeroUsize::MIN, &[]);
        started.err().unwrap().to_string()
    }

    #[test]
    fn a_server_that_refuses_says_why() {
        let refusal = start(r#"echo warning >&2; echo '{"error": "give --memory 30 MB"}' >&2"#);
        assert_eq!(refusal, "the server refused to start: give --memory 30 MB");
        assert!(start("true").contains("before it listened"));
    }
}
