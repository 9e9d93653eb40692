//! Server in the test's own process, and a connection to it.

use oboro_client::Connection;
use oboro_server::{GenomeOptions, Limits, Options, Policy, Server};
use std::num::NonZeroUsize;
use std::path::Path;
use tokio::sync::oneshot;

/// Server in this process, stopped when dropped.
pub struct Running {
    pub url: String,
    _stop: oneshot::Sender<()>,
    _runtime: tokio::runtime::Runtime,
}

/// Options of a server that listens on a free port.
pub fn options(data: &Path, moment_cache: u64) -> Options {
    Options {
        data: data.into(),
        listen: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        tokens: None,
        threads: two(),
        limits: Limits::default(),
        policy: Policy::default(),
        moment_cache,
        genome: GenomeOptions::default(),
        memory: None,
        pin: None,
        monitor: None,
        audit: None,
    }
}

pub fn serve(data: &Path, moment_cache: u64) -> Running {
    start(options(data, moment_cache))
}

pub fn start(options: Options) -> Running {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scheme = options.tls.as_ref().map_or("http", |_| "https");
    let server = runtime.block_on(Server::bind(options)).unwrap();
    let url = format!("{scheme}://{}", server.address());
    let (stop, stopped) = oneshot::channel();
    runtime.spawn(server.serve(async {
        // Ends when the sender is dropped, too.
        let _ = stopped.await;
    }));
    Running {
        url,
        _stop: stop,
        _runtime: runtime,
    }
}

pub fn two() -> NonZeroUsize {
    NonZeroUsize::new(2).unwrap()
}

impl Running {
    pub fn url(&self) -> &str {
        &self.url
    }
}

pub fn connect(server: &Running) -> Connection {
    connect_to(server.url())
}

pub fn connect_to(url: &str) -> Connection {
    Connection::open(&oboro_client::Options {
        url: url.to_owned(),
        ..Default::default()
    })
    .unwrap()
}
