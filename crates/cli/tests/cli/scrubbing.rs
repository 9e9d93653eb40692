//! Scrubs find and name damage, do not block others, and end with their callers.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Process, Server, flip, says, until};
use serde_json::Value;
use std::path::PathBuf;

/// An owner and an operator whose server has `rows` and `others`, of `transactions` transactions each; and the segment
/// of `rows` there.
fn published(transactions: u64) -> (Home, Home, Server, PathBuf) {
    let (owner, operator) = (Home::with_key(), Home::new());
    operator.set("OBORO_LOG", "debug");
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(transactions, 8, 128));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("encrypt rows.dat --out others.oboro --max-len 3");
    owner.json("upload others.oboro");
    let uploaded = owner.json("upload rows.oboro");
    let dataset = uploaded["dataset"].as_str().unwrap();
    let directory = format!("data/segments/{dataset}");
    let segment = operator.find(&directory, "00000000.seg");
    (owner, operator, server, segment)
}

const MINE: &str = "mine rows.oboro --min-support 10% --verify rows.dat --trust-server";

/// Runs a scrub that must find damage; returns its JSON.
fn finds(home: &Home, line: &str) -> Value {
    let ended = home.run(&format!("{line} --json"));
    ended.without_panic();
    assert_eq!(ended.code, Some(8), "{ended:?}");
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    says(error["error"].as_str().unwrap(), &["damaged"]);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn damage_is_named_and_only_what_touches_it_is_refused() {
    let (owner, operator, server, segment) = published(500);
    let scrub = format!("scrub --server {}", server.url());
    let sound = owner.json(&scrub);
    assert_eq!(sound["datasets"], 2);
    assert_eq!(sound["segments"], 2);
    // Three limbs and the sealed cells of eight columns, twice.
    assert_eq!(sound["parts"], 64);
    assert_eq!(sound["damaged"], serde_json::json!([]));
    says(&owner.done(&scrub), &["checked 2 datasets", "0 damaged"]);

    operator.json("backup data copy");
    owner.json(&format!("{MINE} --max-len 2"));
    // The last panel, before the sealed cells of eight columns: no query has read it yet.
    flip(
        &segment,
        std::fs::read(&segment).unwrap().len() - 8 * 4096 - 1,
    );
    let found = finds(&owner, &scrub);
    assert_eq!(found["parts"], 64);
    assert_eq!(found["damaged_parts"], 1);
    let damage = &found["damaged"][0];
    assert_eq!(damage["name"], "rows");
    assert_eq!(damage["segment"], 0);
    assert_eq!((&damage["limb"], &damage["column"]), (&2.into(), &7.into()));
    assert_eq!(damage["path"], Value::Null);
    let problem = damage["problem"].as_str().unwrap();
    says(
        problem,
        &[
            "panel (limb 2, column 7) of segment 0 of dataset",
            "does not match its digest",
            "Restore it from a copy",
        ],
    );
    // File locations on the server are shown to its operator, not to callers.
    let place = segment.to_str().unwrap().split("segments").next().unwrap();
    assert!(!found.to_string().contains(place), "{found}");
    until("the server has logged where", || {
        let log = server.log();
        (log.contains("ERROR") && log.contains("00000000.seg")).then_some(())
    });
    let ended = owner.run(&scrub);
    assert_eq!(ended.code, Some(8), "{ended:?}");
    says(
        &ended.stdout,
        &["rows: panel (limb 2, column 7)", "1 damaged"],
    );
    says(&ended.stderr, &["error: one part is damaged"]);

    let others = owner.json(&format!("{scrub} others"));
    assert_eq!(
        (&others["datasets"], &others["parts"]),
        (&1.into(), &32.into())
    );
    assert_eq!(finds(&owner, &format!("{scrub} rows"))["damaged_parts"], 1);
    owner.refuses(format!("{scrub} nothing => no dataset named \"nothing\""));
    owner.json(&format!("{MINE} --max-len 2"));
    owner.json("mine others.oboro --min-support 10% --verify rows.dat");
    says(&owner.refused(MINE), &["panel (limb 2, column 7)"]);

    // Segments never change: copying one from a backup repairs it, even during serving.
    let within = segment.strip_prefix(operator.path("data")).unwrap();
    std::fs::copy(operator.path("copy").join(within), &segment).unwrap();
    owner.json(&scrub);
    owner.json(MINE);
    flip(
        &segment,
        std::fs::read(&segment).unwrap().len() - 8 * 4096 - 1,
    );

    // The operator's own scrub names the file, and repairs nothing.
    operator.refuses("scrub data => in use by another process … scrub --server");
    server.kill();
    for _ in 0..2 {
        let found = finds(&operator, "scrub data --rate 1GiB");
        let path = found["damaged"][0]["path"].as_str().unwrap();
        says(path, &["data/segments/", "00000000.seg"]);
        assert_eq!(found["damaged"].as_array().unwrap().len(), 1);
    }
    operator.misuses("scrub\nscrub data --rate 0\nscrub data --token-file token");
}

/// Blocks of a segment times slots of a block: a dataset takes 21 MiB.
const SEGMENT: u64 = 64 * 4096;

/// Starts a scrub that takes three quarters of a minute, and waits until it is in progress.
fn slow_scrub(owner: &Home, server: &Server) -> Process {
    let begun = || {
        let log = server.log();
        let begins = |line: &&str| line.contains("Scrub") && line.contains("is about");
        log.lines().filter(begins).count()
    };
    let before = begun();
    let scrub = owner.start(&format!("scrub --server {} --rate 1MiB", server.url()));
    until("the scrub is in progress", || {
        (begun() > before).then_some(())
    });
    scrub
}

#[test]
fn serving_goes_on_beside_a_slow_scrub() {
    let (owner, _operator, server, _segment) = published(SEGMENT);
    // On a server without tokens each connection is a client, and each client has one.
    let mut slow = [(); 4].map(|()| slow_scrub(&owner, &server));
    let quick = format!("scrub --server {} --rate 1GiB", server.url());
    let message = owner.refused(&quick);
    says(
        &message,
        &["4 scrubs are in progress", "try again when one has ended"],
    );
    // Its rate has a lower limit, or one caller would occupy it indefinitely.
    let message = owner.refused(&quick.replace("1GiB", "1B"));
    says(&message, &["1 MiB a second or more"]);
    owner.json(MINE);
    owner.json("delete others --yes --now");
    assert!(slow.iter_mut().all(|it| it.is_running()));
    slow.iter_mut().for_each(|it| it.kill());
    until("a turn is given back", || {
        (owner.run(&quick).code == Some(0)).then_some(())
    });
    // Once one has ended for its caller, the next may begin.
    for _ in 0..20 {
        assert_eq!(owner.json(&quick)["datasets"], 1);
    }
}

#[test]
fn a_scrub_ends_with_its_server() {
    let (owner, _operator, server, _segment) = published(SEGMENT);
    let slow = slow_scrub(&owner, &server);
    server.kill();
    // The server's first message may not have arrived.
    let message = slow.ended().refusal();
    let ends = [
        "broke while scrubbing",
        "does not answer as an Oboro server",
    ];
    assert!(ends.iter().any(|end| message.contains(end)), "{message}");
}
