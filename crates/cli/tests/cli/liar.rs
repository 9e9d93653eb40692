//! A server that lies, through the command: one lie of each kind, with its exit status, message and journal. All lies
//! in all ways to ask are in `crates/client/tests/client/liar.rs`.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says};
use oboro_protocol::v1::{self, count_reply::Reply};
use oboro_relay::{Answer, Relay};
use serde_json::{Value, json};

/// Message about cells that were not sealed.
const CELLS: &str = "the server sent other cells than were encrypted";
/// Message about sums and moments.
const SUMS: &str = "the server sent other numbers than those of the ciphertext that was encrypted";
/// Exit status of a run that ended because of a false answer.
const FALSE_ANSWER: Option<i32> = Some(9);

/// An owner with a dataset that has row ids, a server that has it, and a relay between them.
struct Scene {
    owner: Home,
    relay: Relay,
    _server: Server,
    _operator: Home,
}

impl Scene {
    fn new() -> Self {
        let (owner, operator) = (Home::with_key(), Home::new());
        let server = operator.serve("");
        owner.talk_to(server.url());
        let row = |number: usize| {
            let has = |item: usize| u8::from(!(number + item).is_multiple_of(3));
            format!("p{number},{},{},{},{}\n", has(0), has(1), has(2), has(3))
        };
        let rows: String = (0..60).map(row).collect();
        owner.write("rows.csv", format!("id,a,b,c,d\n{rows}"));
        owner.json("encrypt rows.csv --row-ids id --max-len 3");
        owner.json("upload rows.oboro");
        let relay = Relay::to(server.url());
        owner.talk_to(relay.url());
        Self {
            owner,
            relay,
            _server: server,
            _operator: operator,
        }
    }

    /// The calls since the last time, with what was asked, without those for the version.
    fn asked(&self) -> Vec<oboro_relay::Asked> {
        let mut asked = self.relay.asked();
        asked.retain(|(call, _)| call != "DescribeDataset");
        asked
    }
}

/// Flips a bit in each part of an answer about data.
fn falsify(call: &str, answer: &mut Answer) {
    let flipped = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.iter_mut().take(1).for_each(|it| *it ^= 1);
        bytes.into()
    };
    match call {
        "FetchColumns" => answer.alter_as(|all: &mut Vec<v1::FetchColumnsReply>| {
            all.iter_mut().for_each(|it| it.data = flipped(&it.data));
        }),
        "Count" => answer.alter_as(|all: &mut Vec<v1::CountReply>| {
            for reply in all {
                if let Some(Reply::Moments(part)) = &mut reply.reply {
                    part.residues = flipped(&part.residues);
                }
            }
        }),
        _ => {}
    }
}

#[test]
fn a_false_answer_ends_each_command_and_is_remembered_until_the_owner_decides() {
    let scene = Scene::new();
    let owner = &scene.owner;
    let commands = [
        (
            "mine rows.oboro --min-support 1 --keep-cells 0 --answers cells",
            CELLS,
        ),
        (
            "mine rows.oboro --min-support 1 --max-len 2 --answers moments",
            SUMS,
        ),
        (
            "mine rows.oboro --min-support 1 --max-len 3 --answers moments",
            SUMS,
        ),
        ("count rows.oboro a,b b,c,d --keep-cells 0", CELLS),
        ("pairs rows.oboro --with a", SUMS),
        ("row-ids rows.oboro", CELLS),
    ];
    for (command, what) in commands {
        scene.relay.pass();
        owner.json(command);
        let honest = scene.asked();
        scene.relay.alter(|call, _, answer| falsify(call, answer));
        let ended = owner.run(&format!("{command} --json"));
        assert_eq!(ended.code, FALSE_ANSWER, "{ended:?}");
        assert_eq!(ended.stdout, "");
        says(
            &ended.stderr,
            &[what, "nothing is reported", "says so from now on"],
        );
        assert_eq!(scene.asked(), honest[..1], "{command}");
        let shown = owner.json("trust show rows.oboro");
        says(shown["failure"]["what"].as_str().unwrap(), &[what]);
        says(
            shown["failure"]["time"].as_str().unwrap(),
            &["20", ":", "UTC"],
        );
        // Nothing is requested from then on, not even from an honest server or by another command.
        scene.relay.pass();
        for again in [command, "pairs rows.oboro --with b"] {
            let ended = owner.run(again);
            assert_eq!(ended.code, FALSE_ANSWER, "{ended:?}");
            says(
                &ended.refusal(),
                &["nothing was asked", what, "oboro trust reset"],
            );
        }
        assert_eq!(scene.relay.asked(), []);
        let text = owner.done("trust reset rows.oboro");
        says(&text, &["queries to the server are allowed again"]);
        assert_eq!(owner.json("trust show rows.oboro")["failure"], Value::Null);
    }
    // A trusting run notices only answers that cannot be.
    scene.relay.alter(|call, _, answer| {
        if call == "Count" {
            answer.alter(|all| drop(all.remove(1)));
        }
    });
    let ended = owner.run("mine rows.oboro --min-support 1 --trust-server");
    assert_eq!(ended.code, FALSE_ANSWER, "{ended:?}");
    let shown = owner.json("trust show rows.oboro");
    assert!(!shown["failure"].is_null() && !shown["relied_on"].is_null());
}

#[test]
fn words_of_a_server_do_not_steer_the_terminal() {
    let scene = Scene::new();
    scene.relay.alter(|call, _, answer| match call {
        "ListDatasets" => answer.alter_as(|all: &mut Vec<v1::ListDatasetsReply>| {
            all[0].datasets[0].name.push_str("\u{202e}slwo");
        }),
        "Count" => answer.fail("13", "out of\nluck\u{1b}[31m\u{9b}2J\u{202e}"),
        _ => {}
    });
    let ended = scene
        .owner
        .run("mine rows.oboro --min-support 1 --trust-server");
    assert_eq!(
        ended.refusal(),
        r"the server failed: out of\nluck\u{1b}[31m\u{9b}2J\u{202e}"
    );
    says(&scene.owner.done("datasets"), &[r"rows\u{202e}slwo  "]);
    let listed = scene.owner.json("datasets");
    assert_eq!(listed[0]["name"], "rows\u{202e}slwo");
}

#[test]
fn trust_in_the_server_is_noted_before_it_is_asked_and_shown_with_results() {
    let scene = Scene::new();
    let owner = &scene.owner;
    scene.relay.alter(|call, _, answer| {
        if call == "Count" {
            answer.fail("13", "out of luck");
        }
    });
    owner
        .run("mine rows.oboro --min-support 1 --trust-server")
        .refusal();
    let relied_on = &owner.json("trust show rows.oboro")["relied_on"];
    assert_eq!(
        (&relied_on["version"], &relied_on["decided"]),
        (&json!(1), &json!(false))
    );
    scene.relay.pass();
    let mine = "mine rows.oboro --min-support 1 --trust-server --out found.json";
    let mined = owner.json(mine);
    assert_eq!(
        (&mined["answers"], &mined["unverified"]),
        (&json!("unverified"), &json!(true))
    );
    says(&owner.done(mine), &["UNVERIFIED"]);
    assert_eq!(owner.json("rules found.json")["unverified"], true);
    says(&owner.done("rules found.json"), &["UNVERIFIED"]);
    // What is asked now may be the server's choice.
    scene.relay.asked();
    let ended = owner.run("pairs rows.oboro --with a");
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let waits = [
        "nothing was asked",
        "--trust-server",
        "oboro trust reset",
        "may have learned",
    ];
    says(&ended.refusal(), &waits);
    assert_eq!(scene.relay.asked(), []);
    // An append warns about it.
    let append = "encrypt rows.csv --append-to rows.oboro --row-ids id";
    says(&owner.done(append), &["trusted before", "its own secrets"]);
    owner.json("upload rows.oboro");
    // The dataset can be mined with verification again once the owner has decided.
    let learned = [
        "may have learned",
        "version 1",
        "queries to the server are allowed again",
    ];
    says(&owner.done("trust reset rows.oboro"), &learned);
    assert_eq!(owner.json("trust reset rows.oboro")["reset"], false);
    let verified = owner.done("mine rows.oboro --min-support 1 --out found.json");
    says(&verified, &["every answer of the server was verified"]);
    assert_eq!(owner.json("rules found.json")["unverified"], false);
}

#[test]
fn uploads_listings_and_records_that_are_false_are_refused() {
    let scene = Scene::new();
    let owner = &scene.owner;
    owner.set("OBORO_RECOVERY_PASSPHRASE", "open sesame");
    owner.json("upload rows.oboro --keep-record");
    scene.relay.alter(|call, _, answer| match call {
        "Publish" => answer.alter_as(|all: &mut Vec<v1::Published>| {
            all[0].root = vec![1; 32].into();
        }),
        "ListDatasets" => answer.alter_as(|all: &mut Vec<v1::ListDatasetsReply>| {
            all[0].datasets[0].limbs = u32::MAX;
        }),
        "FetchRecovery" => answer.alter_as(|all: &mut Vec<v1::RecoveryChunk>| {
            let mut data = all[0].data.to_vec();
            data[120] ^= 1;
            all[0].data = data.into();
        }),
        _ => {}
    });
    owner.write_fimi("more.dat", &random_baskets(100, 6, 129));
    owner.json("encrypt more.dat");
    let published = [
        "the server published root 0101",
        "delete the dataset and upload again",
    ];
    says(&owner.refused("upload more.oboro"), &published);
    says(
        &owner.refused("datasets"),
        &["malformed message", "another version of Oboro"],
    );
    scene.relay.asked();
    let refused = owner.refused("recover rows --out again.oboro");
    says(&refused, &["the record that the server sent"]);
    let asked = scene.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].0, "FetchRecovery");
}
