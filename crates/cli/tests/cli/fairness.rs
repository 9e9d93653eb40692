//! Tenants who take what they can get: places, messages, calls. None of them keeps another from being served,
//! and who is refused for a while is told when to come again, and comes.

use crate::common::calls::{self, connect_narrowly, is_for_now, with_token};
use crate::common::http2::Connection;
use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says, until};
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::{RETRY_AFTER_KEY, v1};
use tokio::runtime::Runtime;
use tonic::{Code, Status, Streaming};

/// An owner with an uploaded dataset, and an operator whose server has these options.
fn scene(options: &str) -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    owner.write("token", operator.token("ward"));
    let server = operator.serve(&format!("--tokens tokens {options}"));
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro --token-file token");
    (owner, operator, server)
}

/// The token of another tenant, who has uploaded a dataset too.
fn tenant(owner: &Home, operator: &Home, name: &str) -> String {
    let token = operator.token(name);
    owner.write(name, &token);
    owner.json(&format!("encrypt rows.dat --max-len 2 --out {name}.oboro"));
    owner.json(&format!("upload {name}.oboro --token-file {name}"));
    token
}

/// A question for all itemsets of a length in the only dataset.
async fn question(server: &Server, token: &str, length: u32) -> v1::CountRequest {
    let mut client = MiningClient::new(calls::connect(server).await);
    let list = with_token(v1::ListDatasetsRequest::default(), token);
    let listed = client.list_datasets(list).await.unwrap().into_inner();
    calls::question(&listed.datasets[0], length)
}

/// A refusal that names when to try again.
fn assert_for_now(status: &Status) {
    assert!(is_for_now(status), "{status}");
}

#[test]
fn greedy_tenants_leave_places_to_the_next() {
    let (owner, operator, server) =
        scene("--max-queries 16 --max-queries-per-client 4 --queue-timeout 0");
    let runtime = Runtime::new().unwrap();
    let mut kept: Vec<Streaming<v1::CountReply>> = Vec::new();
    let tokens = ["a", "b", "c", "d"].map(|name| tenant(&owner, &operator, name));
    runtime.block_on(async {
        for token in tokens {
            let question = question(&server, &token, 2).await;
            for _ in 0..4 {
                let mut client = connect_narrowly(&server).await;
                let asked = client.count(with_token(question.clone(), &token)).await;
                match asked {
                    Ok(answer) => kept.push(answer.into_inner()),
                    Err(refusal) => assert_for_now(&refusal),
                }
            }
        }
    });
    // Three have all that one may have; the fourth has one of those places that are for clients that have none.
    assert_eq!(kept.len(), 3 * 4 + 1);
    owner.json("mine rows.oboro --min-support 10% --verify rows.dat --token-file token");
}

#[test]
fn who_has_many_connections_keeps_nobody_out_at_the_same_address() {
    let (owner, operator, server) = scene("--max-connections-per-address 8");
    let greedy = operator.token("greedy");
    // None of them takes its answer, so that all that the name may have are in use.
    let held: Vec<_> = (0..24)
        .map(|_| {
            let mut connection = Connection::to(&server, 0);
            connection.ask("/oboro.v1.Mining/ListDatasets", &greedy, &[]);
            until("it has an answer, or a refusal", || {
                (connection.answered() > 0).then_some(())
            });
            connection
        })
        .collect();
    assert_eq!(held.iter().map(Connection::refused).sum::<usize>(), 16);
    for _ in 0..3 {
        owner.json("mine rows.oboro --min-support 10% --verify rows.dat --token-file token");
    }
    drop(held);
}

#[test]
fn many_clients_are_served_beside_one_huge_question() {
    let (owner, operator) = (Home::with_key(), Home::new());
    // Every connection is a client.
    let server = operator.serve("--threads 1 --moment-cache 0");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(20_000, 60, 24));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let huge = question(&server, "", 2).await;
        let mut client = connect_narrowly(&server).await;
        let _unread = client.count(with_token(huge, "")).await.unwrap();
        let small = v1::CountRequest {
            columns: vec![0],
            ..question(&server, "", 1).await
        };
        let mut asked = Vec::new();
        for _ in 0..200 {
            let mut client = MiningClient::new(calls::connect(&server).await);
            let small = small.clone();
            asked.push(tokio::spawn(async move {
                let mut answer = client.count(with_token(small, "")).await?.into_inner();
                while answer.message().await?.is_some() {}
                Ok::<_, Status>(())
            }));
        }
        for answer in asked {
            answer.await.unwrap().unwrap();
        }
    });
}

#[test]
fn messages_count_inside_the_memory_of_the_server() {
    let memory = "--memory 112MiB --moment-cache 0 --threads 1 --max-queries 1";
    let (owner, _operator, server) = scene(memory);
    let token = String::from_utf8(owner.read("token")).unwrap();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let mut client = connect_narrowly(&server).await;
        let manifest = v1::BeginUploadRequest {
            name: "large".to_owned(),
            manifest: vec![0; 8 << 20].into(),
        };
        let refused = client.begin_upload(with_token(manifest, &token)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        says(refused.message(), &["for all messages", "--memory"]);
    });
    owner.json("mine rows.oboro --min-support 10% --verify rows.dat --token-file token");
}

#[test]
fn who_calls_too_often_is_told_when_to_call_again_and_does() {
    let (owner, operator, server) = scene("--max-calls-per-second 1");
    let (token, runtime) = (operator.token("eager"), Runtime::new().unwrap());
    owner.write("eager", &token);
    let exhaust = || {
        runtime.block_on(async {
            let mut client = connect_narrowly(&server).await;
            loop {
                let delete = v1::CancelUploadRequest {
                    name: "none".to_owned(),
                };
                let called = client.cancel_upload(with_token(delete, &token)).await;
                let status = called.unwrap_err();
                if status.metadata().contains_key(RETRY_AFTER_KEY) {
                    assert_for_now(&status);
                    says(status.message(), &["1 a second", "--max-calls-per-second"]);
                    break;
                }
            }
        });
    };
    exhaust();
    let listed = owner.run("datasets --token-file eager");
    assert_eq!(listed.code, Some(0), "{listed:?}");
    // For programs standard error has nothing but errors.
    exhaust();
    owner.json("datasets --token-file eager");
    owner.json("datasets --token-file token");
}

#[test]
fn owners_wait_for_a_busy_server_and_say_so() {
    let (owner, operator, server) = scene("--max-queries 1 --queue-timeout 0");
    let token = tenant(&owner, &operator, "greedy");
    let runtime = Runtime::new().unwrap();
    let kept = runtime.block_on(async {
        let question = question(&server, &token, 2).await;
        let mut client = connect_narrowly(&server).await;
        client.count(with_token(question, &token)).await.unwrap()
    });
    let mine = "mine rows.oboro --min-support 10% --verify rows.dat --token-file token";
    let waiting = owner.start(mine);
    crate::common::until("it was refused once", || {
        server.log().contains("ResourceExhausted").then_some(())
    });
    drop(kept);
    drop(runtime);
    let ended = waiting.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    says(&ended.stderr, &["the server is busy; trying again in"]);
}
