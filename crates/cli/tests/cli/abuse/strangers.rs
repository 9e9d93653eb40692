//! Callers without a token: connections that do nothing, wrong tokens, health watches; and callers that were let in and
//! flood the log. None of them keeps an owner out.

use super::{Scene, scaled};
use crate::common::calls::connect;
use crate::common::http2::Connection;
use crate::common::{Server, until};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Instant;
use tokio::runtime::Runtime;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Whether the other end has closed a connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn sockets(server: &Server) -> usize {
    let descriptors = server.descriptors();
    let sockets = descriptors.iter().filter_map(|it| it.to_str());
    sockets.filter(|it| it.starts_with("socket:")).count()
}

#[test]
fn idle_connections_do_not_block_others() {
    let limits = "--max-connections 20 --max-connections-per-address 15 --handshake-timeout 600";
    let scene = Scene::new(limits);
    let silent: Vec<_> = (0..scaled(2_000, 300))
        .map(|_| TcpStream::connect(scene.server.address()).unwrap())
        .collect();
    scene.answers();
    // The oldest ones were closed for newer ones.
    until("the table is within its limit", || {
        let open = silent.iter().filter(|it| !is_closed(it)).count();
        (open <= 15).then_some(())
    });
    assert!(sockets(&scene.server) <= 20 + 5);
    scene.holds(20, 0);
}

#[test]
fn who_does_not_call_in_time_is_disconnected() {
    let scene = Scene::new("--handshake-timeout 1");
    let silent = TcpStream::connect(scene.server.address()).unwrap();
    until("it is closed", || is_closed(&silent).then_some(()));
    scene.answers();
}

#[test]
fn right_tokens_are_let_in_among_many_wrong_ones() {
    let scene = Scene::new("");
    let (guesses, each) = (scaled(14_500, 145), 60);
    let mut guessing = Vec::new();
    for _ in (0..guesses).step_by(each) {
        let mut connection = Connection::to(&scene.server, 0);
        for guess in 0..each {
            let token = format!("oboro_{guess:064}");
            connection.ask("/oboro.v1.Mining/ListDatasets", &token, &[]);
        }
        guessing.push(connection);
    }
    // The first ones are refused at once, all others wait for that.
    until("some were refused", || {
        let refused: usize = guessing.iter().map(Connection::answered).sum();
        (refused >= 10).then_some(())
    });
    scene.holds(guessing.len(), 0);
    drop(guessing);
    scene.holds(guesses, 0);
}

#[test]
fn who_makes_calls_without_end_does_not_fill_the_log() {
    let scene = Scene::new("--max-calls-per-second 10");
    let (token, since) = (scene.tenant("flood"), Instant::now());
    let unknown = format!("/oboro.v1.Mining/{}", "x".repeat(2000));
    for path in [
        "/oboro.v1.Mining/ListDatasets",
        &unknown,
        "/oboro.v1.Genome/SearchGenome",
        "/not/known",
    ] {
        let mut connection = Connection::to(&scene.server, 1 << 20);
        connection.flood(path, &token, scaled(100_000, 0));
    }
    // Those within the caller's rate were begun: a burst, and ten each second since.
    scene.holds(4, 50 + 10 * (1 + since.elapsed().as_secs() as usize));
}

#[test]
fn health_watches_are_limited() {
    let scene = Scene::new("");
    let runtime = Runtime::new().unwrap();
    let watching = scaled(100_000, 1080);
    let (mut watches, mut refused) = (Vec::new(), 0);
    let clients: Vec<_> = (0..20)
        .map(|_| HealthClient::new(runtime.block_on(connect(&scene.server))))
        .collect();
    runtime.block_on(async {
        for client in clients.iter().cycle().take(watching) {
            let mut client = client.clone();
            match client.watch(HealthCheckRequest::default()).await {
                Ok(watch) => watches.push(watch.into_inner()),
                Err(status) => {
                    assert_eq!(status.code(), Code::ResourceExhausted);
                    refused += 1;
                }
            }
        }
    });
    assert_eq!((watches.len(), refused), (1024, watching - 1024));
    // A probe is answered.
    let mut probe = HealthClient::new(runtime.block_on(connect(&scene.server)));
    let health = runtime.block_on(probe.check(HealthCheckRequest::default()));
    assert!(health.is_ok());
    scene.holds(21, 0);
    drop(watches);
    until("places are free again", || {
        let mut client = HealthClient::new(runtime.block_on(connect(&scene.server)));
        runtime
            .block_on(client.watch(HealthCheckRequest::default()))
            .ok()
    });
}
