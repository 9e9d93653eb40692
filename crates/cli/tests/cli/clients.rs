//! Several clients of one server: fair sharing, limits, privacy from each other, other protocol
//! versions and the health service. Raw calls play clients that behave differently from `oboro`.

use crate::common::calls::connect;
use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says};
use oboro_protocol::v1::count_reply::Reply;
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::{PROTOCOL, PROTOCOL_KEY, v1};
use oboro_ring::Blocks;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::metadata::MetadataMap;
use tonic::server::NamedService;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Adds metadata to every call.
#[derive(Clone)]
struct Headers(MetadataMap);

impl tonic::service::Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        *request.metadata_mut() = self.0.clone();
        Ok(request)
    }
}

type Raw = MiningClient<InterceptedService<Channel, Headers>>;

fn raw(runtime: &Runtime, server: &Server, headers: &[(&'static str, &str)]) -> Raw {
    let mut metadata = MetadataMap::new();
    for (key, value) in headers {
        metadata.insert(*key, value.parse().unwrap());
    }
    MiningClient::with_interceptor(runtime.block_on(connect(server)), Headers(metadata))
        .max_decoding_message_size(1 << 28)
}

/// A caller of the current protocol with a token.
fn bearer(runtime: &Runtime, server: &Server, token: &str) -> Raw {
    let (protocol, token) = (PROTOCOL.to_string(), format!("Bearer {token}"));
    raw(
        runtime,
        server,
        &[(PROTOCOL_KEY, &protocol), ("authorization", &token)],
    )
}

/// A query for all itemsets of a length in a dataset.
async fn question(client: &mut Raw, name: &str, length: usize) -> v1::CountRequest {
    let listed = client
        .list_datasets(v1::ListDatasetsRequest::default())
        .await;
    let datasets = listed.unwrap().into_inner().datasets;
    let dataset = datasets.into_iter().find(|it| it.name == name).unwrap();
    let mut itemsets = vec![Vec::new()];
    for _ in 0..length {
        let longer = |set: &Vec<u32>| {
            let (set, next) = (set.clone(), set.last().map_or(0, |last| last + 1));
            (next..dataset.columns).map(move |column| [&set[..], &[column]].concat())
        };
        itemsets = itemsets.iter().flat_map(longer).collect();
    }
    v1::CountRequest {
        name: dataset.name,
        root: dataset.root,
        limbs: dataset.limbs,
        length: length as u32,
        columns: itemsets.concat(),
        ranges: vec![Blocks::from(0..dataset.blocks).into()],
        scalars: false,
    }
}

/// Reads to the end; returns whether the end marker came.
async fn drain(mut replies: Streaming<v1::CountReply>) -> Result<bool, Status> {
    let mut done = false;
    while let Some(reply) = replies.message().await? {
        done = matches!(reply.reply, Some(Reply::Done(_)));
    }
    Ok(done)
}

#[test]
fn a_small_query_ends_before_any_of_a_flood() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let flood = operator.token("flood");
    owner.write("token", operator.token("ward"));
    let server = operator.serve("--tokens tokens --threads 1 --moment-cache 0");
    owner.talk_to(server.url());
    owner.write_fimi("large.dat", &random_baskets(40_000, 80, 24));
    owner.write_fimi("small.dat", &random_baskets(300, 6, 128));
    for name in ["large", "small"] {
        owner.json(&format!("encrypt {name}.dat --max-len 3"));
        owner.json(&format!("upload {name}.oboro --token-file token"));
    }
    owner.json("access grant flood read,count large --token-file token");
    // All triples of eighty items among forty thousand transactions, requested repeatedly.
    let runtime = Runtime::new().unwrap();
    let mut client = bearer(&runtime, &server, &flood);
    let large = runtime.block_on(question(&mut client, "ward/large", 3));
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..14 {
        let answer = runtime.block_on(client.count(large.clone()));
        let (mut answer, ended) = (answer.unwrap().into_inner(), Arc::clone(&ended));
        let accepted = runtime.block_on(answer.message()).unwrap();
        assert!(accepted.is_some());
        runtime.spawn(async move {
            let _ = drain(answer).await;
            ended.fetch_add(1, Ordering::SeqCst);
        });
    }
    owner.json(
        "mine small.oboro --min-support 1 --verify small.dat --token-file token --trust-server",
    );
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

#[test]
fn what_goes_beyond_a_limit_is_refused_with_the_limit() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve(
        "--max-message 1MiB --max-dataset 224KiB --max-itemsets 7 --max-queries 9 --max-queries-per-client 3 --query-timeout 60",
    );
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("encrypt rows.dat --max-len 3 --out larger.oboro");
    owner.json("upload rows.oboro");
    let message = owner.refused("upload larger.oboro");
    let bytes = owner.json("inspect larger.oboro")["stored_bytes"].to_string();
    says(
        &message,
        &[
            "the server refused",
            &format!("takes {bytes} bytes"),
            "at most 229376",
            "--max-dataset",
        ],
    );
    // The client splits its queries to fit the server's limit: fifteen pairs in three queries.
    let mined = owner.json("mine rows.oboro --min-support 1 --verify rows.dat --trust-server");
    let of_levels = |field: &str| -> Vec<_> {
        let levels = mined["levels"].as_array().unwrap().iter();
        levels.map(|level| level[field].clone()).collect()
    };
    assert_eq!(of_levels("asked"), [0, 15]);
    assert_eq!(of_levels("questions"), [0, 3]);

    let runtime = Runtime::new().unwrap();
    let mut client = bearer(&runtime, &server, "");
    runtime.block_on(async {
        let info = client.server_info(v1::ServerInfoRequest {}).await;
        let info = info.unwrap().into_inner();
        assert_eq!(info.protocol, PROTOCOL);
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(
            info.limits.unwrap(),
            v1::Limits {
                message_bytes: 1 << 20,
                dataset_bytes: 224 << 10,
                itemsets: 7,
                queries: 9,
                queries_per_client: 3,
                query_seconds: 60,
                search_bytes: 1 << 30,
            }
        );

        let pairs = question(&mut client, "rows", 2).await;
        let status = client.count(pairs.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        says(
            status.message(),
            &["15 itemsets of length 2", "at most 7", "--max-itemsets"],
        );

        let status = client
            .begin_upload(v1::BeginUploadRequest {
                name: "large".to_owned(),
                manifest: vec![0; 1 << 20].into(),
            })
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        says(
            status.message(),
            &["up to 1048576 bytes", "not of 10485", "--max-message"],
        );
    });
}

#[test]
fn callers_of_another_protocol_are_told_what_to_update() {
    let operator = Home::new();
    let server = operator.serve("");
    let runtime = Runtime::new().unwrap();
    let (older, newer) = ((PROTOCOL - 1).to_string(), (PROTOCOL + 1).to_string());
    for (headers, phrases) in [
        (
            &[(PROTOCOL_KEY, &*older)][..],
            [&*format!("the caller {older};"), "update the caller's"],
        ),
        (
            &[(PROTOCOL_KEY, &newer)],
            [&format!("the caller {newer};"), "update the server's"],
        ),
        (&[], ["the caller an unknown one", "client library"]),
    ] {
        let mut client = raw(&runtime, &server, headers);
        runtime.block_on(async {
            let listed = client
                .list_datasets(v1::ListDatasetsRequest::default())
                .await;
            let counted = client.count(v1::CountRequest::default()).await;
            let told = client.server_info(v1::ServerInfoRequest {}).await;
            for status in [listed.unwrap_err(), counted.unwrap_err(), told.unwrap_err()] {
                assert_eq!(status.code(), Code::FailedPrecondition);
                says(status.message(), &[&format!("speaks protocol {PROTOCOL},")]);
                says(status.message(), &phrases);
            }
        });
    }
}

/// A server that refuses every call.
#[derive(Clone)]
struct Refusing(Status);

impl NamedService for Refusing {
    const NAME: &'static str = "oboro.v1.Mining";
}

impl Service<http::Request<Body>> for Refusing {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        ready(Ok(self.0.clone().into_http()))
    }
}

#[test]
fn servers_of_another_protocol_are_told_from_broken_ones() {
    let owner = Home::with_key();
    owner.write("rows.dat", "1 2\n");
    owner.json("encrypt rows.dat");
    let runtime = Runtime::new().unwrap();
    let refusing = |status: Status| {
        let _context = runtime.enter();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        owner.talk_to(&format!("http://{}", listener.local_addr().unwrap()));
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let server = tonic::transport::Server::builder().add_service(Refusing(status));
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    };
    let commands = [
        "datasets",
        "upload rows.oboro",
        "mine rows.oboro --min-support 1",
        "delete rows --yes --now",
    ];
    for (spoken, remedy) in [
        (PROTOCOL - 1, "update the server"),
        (PROTOCOL + 1, "update this Oboro"),
    ] {
        let mut metadata = MetadataMap::new();
        metadata.insert(PROTOCOL_KEY, spoken.into());
        refusing(Status::with_metadata(
            Code::FailedPrecondition,
            "no",
            metadata,
        ));
        for command in commands {
            let message = owner.refused(command);
            says(
                &message,
                &[
                    &format!("the server speaks protocol {spoken}"),
                    &format!("speaks {PROTOCOL};"),
                    remedy,
                ],
            );
        }
    }
    // The first release reports it in its message only.
    let words = "this server speaks protocol 1, the caller speaks 2; update the older of the two";
    refusing(Status::failed_precondition(words));
    for command in commands {
        says(&owner.refused(command), &["the server refused", words]);
    }
}

#[test]
fn health_is_told_to_anyone_and_ends_with_the_service() {
    let operator = Home::new();
    operator.token("ward");
    let server = operator.serve("--tokens tokens");
    let runtime = Runtime::new().unwrap();
    let mut client = HealthClient::new(runtime.block_on(connect(&server)));
    let about = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    runtime.block_on(async {
        let mut watches = Vec::new();
        for service in ["", "oboro.v1.Mining"] {
            let health = client.check(about(service)).await.unwrap().into_inner();
            assert_eq!(health.status(), ServingStatus::Serving);
            let mut watch = client.watch(about(service)).await.unwrap().into_inner();
            let health = watch.message().await.unwrap().unwrap();
            assert_eq!(health.status(), ServingStatus::Serving);
            watches.push(watch);
        }
        let status = client.check(about("other")).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        server.terminate();
        for mut watch in watches {
            let health = watch.message().await.unwrap().unwrap();
            assert_eq!(health.status(), ServingStatus::NotServing);
            assert!(watch.message().await.unwrap().is_none());
        }
    });
    let ended = server.ended();
    assert_eq!(ended.code, Some(0));
    assert!(
        !ended.stderr.contains("still in progress"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_server_that_drains_answers_but_says_that_it_does_not_serve() {
    let (owner, operator) = (Home::with_key(), Home::new());
    // Longer than any test waits.
    let server = operator.serve("--drain-delay 86400");
    owner.talk_to(server.url());
    let runtime = Runtime::new().unwrap();
    let mut client = HealthClient::new(runtime.block_on(connect(&server)));
    let about = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    runtime.block_on(async {
        let mut watch = client.watch(about("")).await.unwrap().into_inner();
        let mut told = async || watch.message().await.unwrap().unwrap().status();
        assert_eq!(told().await, ServingStatus::Serving);
        server.terminate();
        assert_eq!(told().await, ServingStatus::NotServing);
    });
    // A new connection, of an owner and of a probe.
    owner.json("datasets");
    let mut client = HealthClient::new(runtime.block_on(connect(&server)));
    runtime.block_on(async {
        for service in ["", "oboro.v1.Mining"] {
            let health = client.check(about(service)).await.unwrap().into_inner();
            assert_eq!(health.status(), ServingStatus::NotServing);
        }
    });
    server.terminate();
    assert_eq!(server.ended().code, Some(1));
}

#[test]
fn a_server_that_has_drained_ends() {
    let operator = Home::new();
    let server = operator.serve("--drain-delay 1");
    server.terminate();
    let ended = server.ended();
    assert_eq!(ended.code, Some(0));
    says(&ended.stderr, &["the drain delay is over"]);
}
