//! What clients of earlier releases say to their servers, byte for byte: this server answers as theirs did.
//!
//! `golden/transcripts` has one transcript for each release since 0.2.0, until then of the present protocol: `OBORO_RECORD=NAME`
//! writes one, with the program that it is of in `OBORO_PREVIOUS`.

use crate::common::calls::{connect, endpoint};
use crate::common::{Home, Server};
use axum::Router;
use axum::extract::State;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use oboro_protocol::PROTOCOL;
use oboro_protocol::v1::{self, count_reply::Reply};
use prost::Message;
use serde::{Deserialize, Serialize};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::transport::Channel;

/// A call and its answer: bodies in Base64, as they are on the wire.
#[derive(Debug, Serialize, Deserialize)]
struct Exchange {
    path: String,
    request: String,
    status: String,
    reply: String,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/transcripts")
}

/// Makes a call over a channel: its body as it is, and what comes back.
async fn call(mut channel: Channel, path: &str, protocol: &str, body: Bytes) -> (Bytes, String) {
    let request = http::Request::post(path)
        .version(http::Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("oboro-protocol", protocol)
        .body(Body::new(Full::new(body)))
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context))
        .await
        .unwrap();
    let response = channel.call(request).await.unwrap();
    let of_headers = response.headers().get("grpc-status").cloned();
    let collected = response.into_body().collect().await.unwrap();
    let of_trailers = collected
        .trailers()
        .and_then(|it| it.get("grpc-status").cloned());
    let status = of_trailers.or(of_headers).unwrap();
    (collected.to_bytes(), status.to_str().unwrap().to_owned())
}

/// What a recorder stands between.
#[derive(Clone)]
struct Recorder {
    server: Channel,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

/// Passes a call on and notes it.
async fn pass(
    State(recorder): State<Recorder>,
    request: axum::extract::Request,
) -> http::Response<axum::body::Body> {
    let path = request.uri().path().to_owned();
    let protocol = request.headers()["oboro-protocol"]
        .to_str()
        .unwrap()
        .to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let uri = format!("http://recorded{path}");
    let (reply, status) = call(recorder.server, &uri, &protocol, body.clone()).await;
    recorder.exchanges.lock().unwrap().push(Exchange {
        path,
        request: BASE64_STANDARD.encode(&body),
        status: status.clone(),
        reply: BASE64_STANDARD.encode(&reply),
    });
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", status.parse().unwrap());
    let body = Full::new(reply).with_trailers(std::future::ready(Some(Ok(trailers))));
    http::Response::builder()
        .header("content-type", "application/grpc")
        .body(axum::body::Body::new(body))
        .unwrap()
}

/// Writes the transcript of a release: what its client and server say in a few minutes of an owner.
fn record(release: &str, program: &Path) {
    let (owner, operator) = (Home::running(program), Home::running(program));
    let server = operator.serve("--threads 1");
    let runtime = Runtime::new().unwrap();
    let _context = runtime.enter();
    let recorder = Recorder {
        server: endpoint(&server).connect_lazy(),
        exchanges: Arc::default(),
    };
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    owner.talk_to(&format!("http://{}", listener.local_addr().unwrap()));
    let router = Router::new().fallback(pass).with_state(recorder.clone());
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let served = tonic::transport::Server::builder().add_routes(router.into());
    runtime.spawn(served.serve_with_incoming(incoming));
    owner.done("keygen");
    let baskets: Vec<Vec<u32>> = (0..60)
        .map(|row| Vec::from_iter([1, 2, 4].into_iter().take(1 + row % 3)))
        .collect();
    owner.write_fimi("rows.dat", &baskets);
    owner.json("encrypt rows.dat --format fimi --max-len 2");
    owner.json("upload rows.oboro");
    for answers in ["moments", "cells", "auto"] {
        owner.json(&format!(
            "mine rows.oboro --min-support 10% --answers {answers}"
        ));
    }
    owner.json("datasets");
    owner.json("inspect --placement rows");
    owner.run("mine rows.oboro --min-support 10% --name nothing");
    let exchanges = recorder.exchanges.lock().unwrap();
    let lines = exchanges
        .iter()
        .map(|it| serde_json::to_string(it).unwrap() + "\n");
    fs::create_dir_all(directory()).unwrap();
    let file = directory().join(format!("{release}.jsonl"));
    fs::write(file, lines.collect::<String>()).unwrap();
}

/// An answer without the time that it took to count, or that its dataset was published at.
fn timeless(path: &str, mut answer: &[u8]) -> Vec<u8> {
    let mut replies = Vec::new();
    while let Some((prefix, rest)) = answer.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
        let (message, rest) = rest.split_at(length as usize);
        replies.extend(timeless_message(path, message));
        answer = rest;
    }
    replies
}

fn timeless_message(path: &str, message: &[u8]) -> Vec<u8> {
    match path {
        "/oboro.v1.Mining/Count" => {
            let mut reply = v1::CountReply::decode(message).unwrap();
            if let Some(Reply::Done(done)) = &mut reply.reply {
                done.microseconds = 0;
            }
            reply.encode_length_delimited_to_vec()
        }
        "/oboro.v1.Mining/DescribeDataset" => {
            let mut reply = v1::DescribeDatasetReply::decode(message).unwrap();
            reply.published = 0;
            reply.encode_length_delimited_to_vec()
        }
        _ => message.to_owned(),
    }
}

/// Sends what a release's client sent; the answers must be those of its own server.
fn replay(server: &Server, transcript: &str) {
    let runtime = Runtime::new().unwrap();
    let mut calls = 0;
    for line in transcript.lines() {
        let exchange: Exchange = serde_json::from_str(line).unwrap();
        let body = BASE64_STANDARD.decode(&exchange.request).unwrap();
        let uri = format!("{}{}", server.url(), exchange.path);
        let (reply, status) = runtime.block_on(async {
            call(
                connect(server).await,
                &uri,
                &PROTOCOL.to_string(),
                body.into(),
            )
            .await
        });
        assert_eq!(status, exchange.status, "{}", exchange.path);
        let before = BASE64_STANDARD.decode(&exchange.reply).unwrap();
        let is_same = timeless(&exchange.path, &reply) == timeless(&exchange.path, &before);
        assert!(is_same, "another answer to {}", exchange.path);
        calls += 1;
    }
    assert!(calls >= 7, "{calls}");
}

#[test]
fn what_clients_of_earlier_releases_say_is_answered_as_before() {
    if let (Some(program), Ok(release)) = (env::var_os("OBORO_PREVIOUS"), env::var("OBORO_RECORD"))
    {
        record(&release, Path::new(&program));
    }
    let transcripts: Vec<_> = fs::read_dir(directory()).unwrap().collect();
    assert!(!transcripts.is_empty());
    for transcript in transcripts {
        let operator = Home::new();
        let server = operator.serve("--threads 1");
        replay(
            &server,
            &fs::read_to_string(transcript.unwrap().path()).unwrap(),
        );
    }
}
