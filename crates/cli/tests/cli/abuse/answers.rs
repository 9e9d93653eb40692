//! Tenants who ask for much and take little of it: listings, answers of questions, searches in genomes; and those who have
//! many datasets, or one of many segments.

use super::{Scene, scaled};
use crate::common::calls::{connect, connect_narrowly, is_for_now, question, with_token};
use crate::common::http2::{Connection, prefix};
use crate::common::{Home, until};
use oboro_protocol::v1;
use oboro_protocol::v1::mining_client::MiningClient;
use prost::Message;
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// A tenant with a directory of its own for data, and a token in `token`.
fn tenant(scene: &Scene, name: &str) -> (Home, String) {
    let (home, token) = (Home::with_key(), scene.tenant(name));
    home.write("token", &token);
    home.talk_to(scene.server.url());
    (home, token)
}

fn list(
    runtime: &Runtime,
    client: &mut MiningClient<Channel>,
    token: &str,
) -> Vec<v1::DatasetInfo> {
    let list = with_token(v1::ListDatasetsRequest::default(), token);
    let listed = runtime.block_on(client.list_datasets(list)).unwrap();
    listed.into_inner().datasets
}

async fn take(mut answer: Streaming<v1::CountReply>) -> Result<(), Status> {
    while answer.message().await?.is_some() {}
    Ok(())
}

#[test]
fn many_tiny_datasets_and_unread_listings_are_cheap() {
    // Of more files than these none stays open between questions.
    let (connections, files) = (300, 200);
    let scene = Scene::served(super::MEMORY, |operator, lean| {
        operator.serve_after(
            &format!("ulimit -n {}", connections + files + 256),
            &format!("{lean} --max-connections {connections} --max-calls-per-second 100000 --queue-timeout 0"),
        )
    });
    let (flood, token) = tenant(&scene, "flood");
    let runtime = Runtime::new().unwrap();
    let datasets = scaled(1_008, 10);
    for number in 0..datasets {
        flood.write_fimi("tiny.dat", &[vec![1, number as u32 + 2]]);
        flood.json(&format!(
            "encrypt tiny.dat --format fimi --max-len 2 --out tiny{number}"
        ));
        flood.json(&format!("upload tiny{number} --token-file token"));
    }
    let mut client = MiningClient::new(runtime.block_on(connect(&scene.server)));
    let listed = list(&runtime, &mut client, &token);
    assert_eq!(listed.len(), datasets);
    // Whatever was asked about is kept open.
    for of in &listed {
        let asked = client.count(with_token(question(of, 1), &token));
        let answer = runtime.block_on(asked).unwrap();
        runtime.block_on(take(answer.into_inner())).unwrap();
    }
    scene.holds(2 + files, 5 * datasets);
    // Those of one client that are not read take its places; others are refused.
    let (listings, each) = (scaled(20_000, 0), 100);
    let unread: Vec<Connection> = (0..listings / each)
        .map(|_| {
            let mut connection = Connection::to(&scene.server, 0);
            connection.flood("/oboro.v1.Mining/ListDatasets", &token, each);
            connection
        })
        .collect();
    let refused: usize = unread.iter().map(Connection::refused).sum();
    assert_eq!(refused, listings - 16);
    scene.holds(unread.len() + 2 + files, 5 * datasets + listings);
    drop(unread);
    until("the flood's own listing is answered again", || {
        let list = with_token(v1::ListDatasetsRequest::default(), &token);
        runtime.block_on(client.list_datasets(list)).ok()
    });
}

#[test]
fn five_slow_readers_hold_no_more_than_their_answers_in_flight() {
    let scene = Scene::new("--max-queries-per-client 2 --queue-timeout 0");
    let (slow, token) = tenant(&scene, "slow");
    // Answers of many times what is kept of one.
    let rows: Vec<Vec<u32>> = (0..500).map(|row| vec![row % 50, 50 + row % 10]).collect();
    slow.write_fimi("rows.dat", &rows);
    slow.json("encrypt rows.dat --format fimi --max-len 2");
    slow.json("upload rows.oboro --token-file token");
    let runtime = Runtime::new().unwrap();
    let mut client = MiningClient::new(runtime.block_on(connect(&scene.server)));
    let of = list(&runtime, &mut client, &token).remove(0);
    let question = question(&of, 2);
    let other = scene.tenant("other");
    let mut kept = Vec::new();
    let mut refused = 0;
    for token in [&token, &token, &token, &token, &other] {
        let mut client = runtime.block_on(connect_narrowly(&scene.server));
        match runtime.block_on(client.count(with_token(question.clone(), token))) {
            Ok(answer) => kept.push(answer.into_inner()),
            Err(status) => {
                // The other has no such dataset.
                assert!(is_for_now(&status) || token == &other, "{status}");
                refused += 1;
            }
        }
        scene.holds(6, 10);
    }
    assert_eq!((kept.len(), refused), (2, 3));
    // Slowly they get on.
    for _ in 0..3 {
        for answer in &mut kept {
            assert!(runtime.block_on(answer.message()).unwrap().is_some());
        }
        scene.holds(6, 10);
    }
}

#[test]
fn a_dataset_of_more_segments_than_descriptors_is_served() {
    let segments = scaled(1_000, 200);
    let descriptors = segments / 2 + 60;
    let scene = Scene::served(super::MEMORY, |operator, lean| {
        operator.serve_after(
            &format!("ulimit -n {descriptors}"),
            &format!("{lean} --max-connections 30"),
        )
    });
    let (many, _) = tenant(&scene, "many");
    let mut all = vec![vec![1, 2, 3]];
    many.write_fimi("one.dat", &all);
    many.json("encrypt one.dat --format fimi --max-len 2 --out many");
    for number in 1..segments as u32 {
        let basket = vec![1 + number % 3];
        many.write_fimi("one.dat", std::slice::from_ref(&basket));
        many.json("encrypt one.dat --format fimi --append-to many --no-absorb");
        all.push(basket);
    }
    many.write_fimi("all.dat", &all);
    many.json("upload many --token-file token");
    let mine = "mine many --min-support 1 --answers moments --verify all.dat --token-file token";
    many.json(mine);
    scene.holds(descriptors, 10 * segments);
    // Idle connections take the descriptors that are theirs, and no others.
    let idle: Vec<_> = (0..200)
        .map(|_| std::net::TcpStream::connect(scene.server.address()).unwrap())
        .collect();
    many.json(mine);
    scene.holds(descriptors, 10 * segments);
    drop(idle);
}

#[test]
fn trickling_queries_do_not_block_other_searches() {
    let operator = Home::new();
    operator.json("genome generate --data data --panel p --haplotypes 2000 --sites 64");
    let memory = 192;
    let server = operator.serve(&format!(
        "--memory {memory}MiB --genome-cache 16MiB {}",
        super::LEAN
    ));
    let client = Home::new();
    client.talk_to(server.url());
    let shown = operator.json("genome show --data data --panel p --haplotype 77 --length 40");
    let [position, symbols] = ["position", "symbols"].map(|field| shown[field].as_str().unwrap());
    let (chromosome, position) = position
        .split_once(':')
        .map_or((None, position), |(it, rest)| (Some(it.to_owned()), rest));
    let open = v1::SearchRequest {
        request: Some(v1::search_request::Request::Open(v1::OpenSearch {
            name: "p".to_owned(),
            length: 40,
            kind: Some(v1::open_search::Kind::Within(0)),
            r#where: Some(v1::open_search::Where::Panel(v1::PanelSearch {
                windows: vec![v1::GenomicPosition {
                    chromosome,
                    position: position.parse().unwrap(),
                }],
                ..Default::default()
            })),
            count: false,
        })),
    };
    let open = open.encode_to_vec();
    // Every connection is a client.
    let trickled: Vec<_> = (0..5)
        .map(|_| {
            let mut connection = Connection::to(&server, 1 << 20);
            let stream = connection.call("/oboro.v1.Genome/SearchGenome", "");
            connection.send(stream, &prefix(open.len()));
            connection.send(stream, &open);
            connection.send(stream, &prefix(512 << 10));
            (connection, stream)
        })
        .collect();
    let whole = shown["position"].as_str().unwrap();
    for byte in 0..5 {
        for (connection, stream) in &trickled {
            connection.send(*stream, &[byte]);
        }
        let found: Value = client.json(&format!(
            "genome query --panel p --position {whole} --alleles {symbols}"
        ));
        assert_eq!(found["exists"], true);
    }
    assert!(server.peak_bytes() <= memory * super::MIB * 11 / 10);
}
