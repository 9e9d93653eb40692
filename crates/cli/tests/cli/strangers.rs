//! Callers that nobody let in: connections that do nothing, messages that are too long, wrong tokens, health watches. None
//! of them keeps an owner out.

use crate::common::{Home, Server, says, until};
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::{PROTOCOL, PROTOCOL_KEY, v1};
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// An owner with a token for a server that was started with these options.
fn scene(options: &str) -> (Home, Home, Server) {
    let (owner, operator) = (Home::new(), Home::new());
    owner.write("token", operator.token("ward"));
    let server = operator.serve(&format!("--tokens tokens {options}"));
    owner.talk_to(server.url());
    (owner, operator, server)
}

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
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
    let targets = descriptors.filter_map(|it| fs::read_link(it.unwrap().path()).ok());
    targets
        .filter(|it| it.to_str().is_some_and(|it| it.starts_with("socket:")))
        .count()
}

#[test]
fn connections_that_do_nothing_keep_nobody_out() {
    let limits = "--max-connections 20 --max-connections-per-address 15 --handshake-timeout 600";
    let (owner, _operator, server) = scene(limits);
    let silent: Vec<_> = (0..300)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    owner.json("datasets --token-file token");
    // The oldest ones were closed for newer ones.
    until("the table is within its limit", || {
        let open = silent.iter().filter(|it| !is_closed(it)).count();
        (open <= 15).then_some(())
    });
    assert!(sockets(&server) <= 20 + 5);
    owner.json("datasets --token-file token");
}

#[test]
fn who_does_not_call_in_time_is_disconnected() {
    let (owner, _operator, server) = scene("--handshake-timeout 1");
    let silent = TcpStream::connect(server.address()).unwrap();
    until("it is closed", || is_closed(&silent).then_some(()));
    owner.json("datasets --token-file token");
}

fn channel(runtime: &Runtime, server: &Server) -> Channel {
    let channel = Channel::from_shared(server.url().to_owned()).unwrap();
    runtime.block_on(channel.connect()).unwrap()
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert(PROTOCOL_KEY, PROTOCOL.into());
    metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

#[test]
fn calls_that_carry_a_name_have_short_messages() {
    let (owner, _operator, server) = scene("");
    let token = String::from_utf8(owner.read("token")).unwrap();
    let runtime = Runtime::new().unwrap();
    let mut client = MiningClient::new(channel(&runtime, &server));
    let name = "n".repeat(100 << 10);
    let delete = with_token(
        v1::DeleteDatasetRequest {
            name,
            at_once: true,
        },
        &token,
    );
    let refused = runtime.block_on(client.delete_dataset(delete)).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    says(refused.message(), &["up to 65536 bytes"]);
}

#[test]
fn right_tokens_are_let_in_after_many_wrong_ones() {
    let (owner, _operator, server) = scene("");
    let runtime = Runtime::new().unwrap();
    let mut client = MiningClient::new(channel(&runtime, &server));
    for _ in 0..12 {
        let list = with_token(v1::ListDatasetsRequest::default(), "oboro_0");
        let refused = runtime.block_on(client.list_datasets(list)).unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    owner.json("datasets --token-file token");
}

#[test]
fn health_watches_are_limited() {
    let (owner, _operator, server) = scene("");
    let runtime = Runtime::new().unwrap();
    let mut watches = Vec::new();
    let mut refused = 0;
    runtime.block_on(async {
        for _ in 0..18 {
            let channel = Channel::from_shared(server.url().to_owned()).unwrap();
            let mut client = HealthClient::new(channel.connect().await.unwrap());
            for _ in 0..60 {
                match client.watch(HealthCheckRequest::default()).await {
                    Ok(watch) => watches.push(watch.into_inner()),
                    Err(status) => {
                        assert_eq!(status.code(), Code::ResourceExhausted);
                        refused += 1;
                    }
                }
            }
        }
    });
    assert_eq!((watches.len(), refused), (1024, 18 * 60 - 1024));
    owner.json("datasets --token-file token");
    // A probe is answered.
    let mut probe = HealthClient::new(channel(&runtime, &server));
    let health = runtime.block_on(probe.check(HealthCheckRequest::default()));
    assert!(health.is_ok());
    drop(watches);
    until("places are free again", || {
        let mut client = HealthClient::new(channel(&runtime, &server));
        runtime
            .block_on(client.watch(HealthCheckRequest::default()))
            .ok()
    });
}
