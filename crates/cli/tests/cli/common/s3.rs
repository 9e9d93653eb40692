//! An S3 server on this machine, as a separate process.

use super::{Home, until};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{env, fs};
use tempfile::TempDir;

const BUCKET: &str = "bucket";
const KEY: &str = "oboro-tests";
const SECRET: &str = "of no value";

/// versitygw, which keeps each object as a file. Killed when dropped.
pub struct S3 {
    program: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    process: Option<Child>,
}

impl S3 {
    /// Starts it with an empty bucket; `None`, with a message, if the program is not installed.
    pub fn start() -> Option<Self> {
        let Some(program) = env::var_os("OBORO_S3_SERVER") else {
            println!("skipped: there is no S3 server here; make test-s3 builds one, with Go");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("objects").join(BUCKET)).unwrap();
        fs::create_dir(directory.path().join("attributes")).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = Self {
            program: program.into(),
            directory,
            address: free.local_addr().unwrap(),
            process: None,
        };
        drop(free);
        server.resume();
        Some(server)
    }

    /// Restarts it with the same data and address.
    pub fn resume(&mut self) {
        let process = Command::new(&self.program)
            .args(["--access", KEY, "--secret", SECRET, "--quiet"])
            .args(["--port", &self.address.to_string()])
            .args(["posix", "--sidecar"])
            .arg(self.directory.path().join("attributes"))
            .arg(self.directory.path().join("objects"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.unwrap());
        until("the S3 server listens", || {
            TcpStream::connect(self.address).ok()
        });
    }

    /// Kills it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Configures commands run here to use the server.
    pub fn known_to(&self, home: &Home) {
        home.set("AWS_ENDPOINT_URL", &format!("http://{}", self.address));
        home.set("AWS_ALLOW_HTTP", "true");
        home.set("AWS_ACCESS_KEY_ID", KEY);
        home.set("AWS_SECRET_ACCESS_KEY", SECRET);
        home.set("AWS_REGION", "us-east-1");
    }

    /// The URL of a prefix.
    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/some/prefix")
    }

    /// The directory that has the objects of the prefix as files.
    pub fn objects(&self) -> PathBuf {
        let objects = self.directory.path().join("objects");
        objects.join(BUCKET).join("some/prefix")
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.stop();
    }
}
