//! Several clients of one server: fair sharing, limits and the health service. Raw calls play clients that behave differently from `oboro`.

use crate::common::calls::{self, connect, request, with_token};
use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::{PROTOCOL, v1};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::Runtime;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// A query for all itemsets of a length in a dataset.
async fn question(
    client: &mut MiningClient<Channel>,
    token: &str,
    name: &str,
    length: u32,
) -> v1::CountRequest {
    let list = with_token(v1::ListDatasetsRequest::default(), token);
    let listed = client.list_datasets(list).await.unwrap().into_inner();
    let dataset = listed.datasets.iter().find(|it| it.name == name);
    calls::question(dataset.unwrap(), length)
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
    let mut client = MiningClient::new(runtime.block_on(connect(&server)))
        .max_encoding_message_size(1 << 28)
        .max_decoding_message_size(1 << 28);
    let large = runtime.block_on(question(&mut client, &flood, "ward/large", 3));
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..14 {
        let answer = runtime.block_on(client.count(with_token(large.clone(), &flood)));
        let (mut answer, ended) = (answer.unwrap().into_inner(), Arc::clone(&ended));
        let accepted = runtime.block_on(answer.message()).unwrap();
        assert!(accepted.is_some());
        runtime.spawn(async move {
            while let Ok(Some(_)) = answer.message().await {}
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
    let bytes = owner.json("inspect larger.oboro")["stored_bytes"].take();
    owner.refuses(format!(
        "upload larger.oboro => the server refused … takes {bytes} bytes … at most 229376 … --max-dataset"
    ));
    // The client splits its queries to fit the server's limit: fifteen pairs in three queries.
    let mined = owner.json("mine rows.oboro --min-support 1 --verify rows.dat --trust-server");
    let of_levels = |field: &str| -> Vec<_> {
        let levels = mined["levels"].as_array().unwrap().iter();
        levels.map(|level| level[field].clone()).collect()
    };
    assert_eq!(of_levels("asked"), [0, 15]);
    assert_eq!(of_levels("questions"), [0, 3]);

    let runtime = Runtime::new().unwrap();
    let mut client = MiningClient::new(runtime.block_on(connect(&server)));
    runtime.block_on(async {
        let info = client.server_info(request(v1::ServerInfoRequest {})).await;
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

        let pairs = question(&mut client, "", "rows", 2).await;
        let status = client.count(request(pairs)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        says(
            status.message(),
            &["15 itemsets of length 2", "at most 7", "--max-itemsets"],
        );

        let large = v1::BeginUploadRequest {
            name: "large".to_owned(),
            manifest: vec![0; 1 << 20].into(),
        };
        let status = client.begin_upload(request(large)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        says(
            status.message(),
            &["up to 1048576 bytes", "not of 10485", "--max-message"],
        );
    });
}

#[test]
fn health_needs_no_token_and_ends_with_the_service() {
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
        let mut next = async || watch.message().await.unwrap().unwrap().status();
        assert_eq!(next().await, ServingStatus::Serving);
        server.terminate();
        assert_eq!(next().await, ServingStatus::NotServing);
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
