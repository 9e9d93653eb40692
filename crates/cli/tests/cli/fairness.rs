//! Tenants who take what they can get: places and calls. None of them keeps another from being served, and a refused
//! call is made again when the server says.

use crate::common::calls::{self, connect_narrowly, is_for_now, with_token};
use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says};
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::{RETRY_AFTER_KEY, v1};
use tokio::runtime::Runtime;
use tonic::{Status, Streaming};

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
    let names = ["a", "b", "c", "d"];
    let tokens = names.map(|name| [tenant(&owner, &operator, name), operator.token(name)]);
    runtime.block_on(async {
        for [one, other] in tokens {
            let question = question(&server, &one, 2).await;
            // A client is one however many connections and tokens it has.
            for token in [&one, &other, &one, &other, &other] {
                let mut client = connect_narrowly(&server).await;
                let asked = client.count(with_token(question.clone(), token)).await;
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
fn calls_beyond_the_rate_are_made_again_when_the_server_says() {
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
