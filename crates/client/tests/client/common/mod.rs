//! Server in the test's own process, and a connection to it.

use oboro_client::Connection;
use oboro_server::{Limits, Policy, Server};
use std::num::NonZeroUsize;
use std::path::Path;
use tokio::sync::oneshot;

/// Server in this process, stopped when dropped.
pub struct Running {
    pub url: String,
    _stop: oneshot::Sender<()>,
    _runtime: tokio::runtime::Runtime,
}

pub fn serve(data: &Path, moment_cache: u64) -> Running {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = oboro_server::Options {
        data: data.into(),
        listen: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        tokens: None,
        threads: two(),
        limits: Limits::default(),
        policy: Policy::default(),
        moment_cache,
        genome: oboro_server::GenomeOptions::default(),
        memory: None,
        pin: None,
        monitor: None,
        audit: None,
    };
    let server = runtime.block_on(Server::bind(options)).unwrap();
    let url = format!("http://{}", server.address());
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
