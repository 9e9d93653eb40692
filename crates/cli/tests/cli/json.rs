//! With `--json` every command prints JSON: one value on standard output, or one error on standard
//! error.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};
use serde_json::Value;

/// Asserts that an object has exactly these fields.
#[track_caller]
fn has_fields(value: &Value, fields: &[&str]) {
    let mut expected = fields.to_vec();
    expected.sort_unstable();
    let mut found: Vec<_> = value.as_object().unwrap().keys().collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn every_command_prints_one_value() {
    let (owner, operator) = (Home::new(), Home::new());
    // The server's one value is read when it starts.
    let server = operator.serve("");
    owner.talk_to(server.url());

    // `Home::json` requires exactly one value and an empty standard error.
    let made = owner.json("keygen");
    has_fields(&made, &["key", "key_check", "passphrase"]);
    let generated = owner.json("generate quest.dat");
    has_fields(&generated, &["output", "transactions", "items", "bytes"]);
    let planned = owner.json("plan quest.dat --max-len 2");
    has_fields(
        &planned,
        &[
            "transactions",
            "items",
            "frequent_items",
            "max_len",
            "degree",
            "limbs",
            "plaintext_modulus",
            "log2_q",
            "log2_q_bound",
            "blocks",
            "ranges",
            "sample_blocks",
            "stored_bytes",
            "panel_bytes",
            "cells_bytes",
            "levels",
            "in_words",
            "read",
        ],
    );
    let encryption = [
        "directory",
        "dataset",
        "version",
        "root",
        "transactions",
        "items",
        "items_left_out",
        "min_item_support",
        "blocks",
        "degree",
        "limbs",
        "plaintext_modulus",
        "max_len",
        "stored_bytes",
        "noise_norm",
        "noise_peak",
        "noise_plaintext_peak",
        "encrypt_seconds",
        "relied_on",
        "expected_bytes",
        "focus",
        "free_bytes",
        "read",
        "compaction_pays",
        "absorbed_transactions",
    ];
    let encrypted = owner.json("encrypt quest.dat --max-len 2");
    has_fields(&encrypted, &encryption);
    assert_eq!(encrypted["expected_bytes"], encrypted["stored_bytes"]);
    assert_eq!(encrypted["read"]["format"], "fimi");
    let uploaded = owner.json("upload quest.oboro");
    has_fields(
        &uploaded,
        &[
            "name",
            "dataset",
            "version",
            "root",
            "sent_bytes",
            "total_bytes",
            "upload_seconds",
        ],
    );
    assert_eq!(uploaded["root"], encrypted["root"]);
    assert_eq!(uploaded["total_bytes"], encrypted["stored_bytes"]);

    let listed = owner.json("datasets");
    let dataset = &listed.as_array().unwrap()[0];
    has_fields(
        dataset,
        &[
            "name",
            "dataset",
            "version",
            "root",
            "columns",
            "blocks",
            "degree",
            "limbs",
            "max_len",
            "stored_bytes",
        ],
    );
    assert_eq!(dataset["name"], "quest");
    for field in [
        "dataset", "version", "root", "blocks", "degree", "limbs", "max_len",
    ] {
        assert_eq!(dataset[field], encrypted[field], "{field}");
    }

    const MINING: [&str; 6] = [
        "seconds",
        "answers",
        "columns",
        "new_columns",
        "received_bytes",
        "levels",
    ];
    let mined = owner.json("mine quest.oboro --min-support 0.2 --out found.json");
    let result = [
        "transactions",
        "min_support",
        "max_len",
        "source",
        "itemsets",
    ];
    has_fields(&mined, &[&result[..], &MINING].concat());
    owner.write("named.csv", "id,tea,milk\nanna,1,0\nbo,1,1\n");
    owner.json("encrypt named.csv --format csv-onehot --row-ids id");
    owner.json("upload named.oboro");
    let rows = owner.json("row-ids named.oboro");
    has_fields(&rows, &["directory", "answers", "repeated", "rows"]);
    has_fields(&rows["rows"][1], &["id"]);
    let rows = owner.json("row-ids named.oboro --slots");
    has_fields(&rows["rows"][1], &["id", "slot"]);
    let pairs = owner.json("pairs named.oboro --with tea");
    let counted = [
        "directory",
        "item",
        "support",
        "transactions",
        "min_item_support",
        "answers",
        "route",
        "received_bytes",
        "seconds",
        "server_seconds",
        "pairs",
        "version",
        "uploaded",
        "offline",
    ];
    has_fields(&pairs, &counted);
    has_fields(&pairs["pairs"][0], &["item", "support", "together"]);
    let granted = owner.json("access grant carol read,count named");
    has_fields(&granted, &["caller", "name", "roles"]);
    has_fields(&owner.json("access list")[0], &["caller", "name", "roles"]);
    owner.json("access revoke carol read,count named");
    assert_eq!(owner.json("queries").as_array().unwrap().len(), 0);
    assert_eq!(
        owner.json("datasets --uploads").as_array().unwrap().len(),
        0
    );
    has_fields(
        &owner.json("delete named --yes"),
        &["name", "deleted", "for_ever"],
    );
    has_fields(
        &owner.json("datasets --deleted")[0],
        &["name", "dataset", "stored_bytes", "deleted", "until"],
    );
    has_fields(&owner.json("undelete named"), &["name", "dataset"]);
    owner.json("delete named --yes --now");
    let mined = owner.json("mine quest.oboro --min-support 0.2 --verify quest.dat");
    has_fields(
        &mined,
        &[
            &result[..],
            &MINING,
            &["matches_plaintext", "plaintext_seconds", "read"],
        ]
        .concat(),
    );
    for level in mined["levels"].as_array().unwrap() {
        has_fields(
            level,
            &[
                "level",
                "candidates",
                "questions",
                "moments",
                "known_moments",
                "combining_seconds",
                "asked",
                "deduced",
                "excluded",
                "frequent",
                "route",
                "limbs",
                "received_bytes",
                "seconds",
                "server_seconds",
                "log2_largest_phase",
                "log2_phase_bound",
            ],
        );
    }
    let rules = owner.json("rules found.json --min 0");
    has_fields(
        &rules,
        &[
            "transactions",
            "min_support",
            "max_len",
            "unverified",
            "metric",
            "min",
            "antecedent",
            "consequent",
            "items",
            "rules",
            "source",
        ],
    );
    assert!(!rules["rules"].as_array().unwrap().is_empty());

    let inspected = owner.json("inspect oboro.key");
    assert_eq!(inspected["kind"], "key file");
    let inspected = owner.json("inspect quest.oboro --verify");
    assert_eq!(inspected["kind"], "dataset");
    assert_eq!(inspected["verified"], true);
    assert!(inspected.get("items").is_none());
    let inspected = owner.json("inspect quest.oboro --key oboro.key");
    assert_eq!(inspected["transactions"], 2000);
    assert_eq!(
        inspected["items"].as_array().unwrap().len() as u64,
        generated["items"]
    );
    assert_eq!(inspected["trust"]["relied_on"], Value::Null);
    assert_eq!(inspected["read"], encrypted["read"]);
    let inspected = owner.json("inspect quest.oboro/segments/00000000.seg --verify");
    assert_eq!(inspected["kind"], "segment");

    let appended = owner.json("encrypt quest.dat --append-to quest.oboro --no-absorb");
    has_fields(&appended, &encryption);
    let made = [
        "directory",
        "dataset",
        "version",
        "root",
        "transactions",
        "blocks",
        "stored_bytes",
        "new_bytes",
        "seconds",
        "left",
    ];
    let compacted = owner.json("compact quest.oboro");
    has_fields(&compacted, &[&made[..], &["compaction"]].concat());
    owner.json("keygen --key new.key");
    let rotated = owner.json("rotate quest.oboro --new-key new.key");
    has_fields(&rotated, &[&made[..], &["key_check"]].concat());
    owner.write("ids.csv", "id,a,b\n1,1,1\n2,0,1\n");
    owner.json("encrypt ids.csv --row-ids id");
    let erased = owner.json("erase ids.oboro --row-id 2");
    let fields = [&made[..], &["erased", "shuffled", "record"]].concat();
    has_fields(&erased, &fields);
    has_fields(&erased["shuffled"], &["transactions", "new_bytes"]);
    let scrubbed = [
        "datasets",
        "segments",
        "collections",
        "parts",
        "bytes",
        "damaged_parts",
        "damaged",
    ];
    has_fields(
        &owner.json(&format!("scrub --server {}", server.url())),
        &scrubbed,
    );
    let copied = operator.json("backup data copy");
    let backup = ["target", "datasets", "segments", "collections", "bytes"];
    has_fields(&copied, &backup);
    has_fields(&operator.json("scrub copy"), &scrubbed);
    let token = ["name", "id", "roles", "until"];
    let made = operator.json("token new ward");
    has_fields(&made, &[&token[..], &["token", "out"]].concat());
    for command in ["token list", "token revoke ward"] {
        let tokens = operator.json(command);
        has_fields(&tokens[0], &[&token[..], &["expired"]].concat());
    }
    let deleted = owner.json("delete quest --yes --now");
    has_fields(&deleted, &["name", "deleted", "for_ever"]);
    assert_eq!(owner.json("datasets"), serde_json::json!([]));
}

#[test]
fn certain_rules_have_an_infinite_conviction() {
    let owner = Home::new();
    owner.write(
        "found.json",
        r#"{"transactions":4,"min_support":1,"max_len":null,"itemsets":[
            {"items":["a"],"support":2},{"items":["b"],"support":3},{"items":["a","b"],"support":2}]}"#,
    );
    let rules = owner.json("rules found.json");
    assert_eq!(rules["rules"][0]["confidence"], 1.0);
    assert_eq!(rules["rules"][0]["conviction"], "Infinity");
}

#[test]
fn wrong_usage_is_one_value_too() {
    let owner = Home::new();
    for (line, phrase) in [
        ("mine --json", "required arguments were not provided"),
        (
            "--json mine rows.oboro --min-suport 1",
            "unexpected argument",
        ),
        ("plan rows.dat --max-len many --json", "invalid value"),
        ("mine \u{1b}[31m --bad --json", "'--bad'"),
    ] {
        let error: Value = serde_json::from_str(&owner.misused(line)).unwrap();
        has_fields(&error, &["error", "class"]);
        assert_eq!(error["class"], "usage");
        let said = error["error"].as_str().unwrap();
        says(said, &[phrase]);
        assert!(!said.contains(['\n', '\u{1b}']), "{said:?}");
    }
}

#[test]
fn every_error_is_one_value() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(100, 5, 128));
    owner.write("bad.dat", "1 2 \"x\"\n");
    owner.json("encrypt rows.dat");
    for (command, (code, class), phrase) in [
        ("keygen", (4, "keys"), "exists already"),
        ("generate nowhere/quest.dat", (3, "input"), "cannot write"),
        (
            "encrypt bad.dat --format fimi",
            (3, "input"),
            "line 1: \"\\\"x\\\"\" is not an item number",
        ),
        ("upload none.oboro", (3, "input"), "does not exist"),
        (
            "mine rows.oboro --min-support 1",
            (7, "server"),
            "no dataset named \"rows\"",
        ),
        ("rules rows.dat", (3, "input"), "rows.dat"),
        (
            "mine rows.oboro --min-support 1 --trust-server --max-len 9",
            (3, "input"),
            "the server can count itemsets of up to",
        ),
        (
            "datasets --server http://127.0.0.1:0",
            (5, "connection"),
            "cannot reach",
        ),
        (
            "delete rows --yes --now",
            (7, "server"),
            "no dataset named \"rows\"",
        ),
        ("inspect rows.dat", (8, "damaged"), "does not begin with"),
        (
            "serve --data data --listen 0.0.0.0:0",
            (3, "input"),
            "refusing to listen",
        ),
        (
            "scrub nowhere",
            (3, "input"),
            "not the directory of a store",
        ),
        (
            "backup nowhere copy",
            (3, "input"),
            "not the directory of a store",
        ),
    ] {
        // The option may stand before or after the command.
        for line in [format!("{command} --json"), format!("--json {command}")] {
            let ended = owner.run(&line);
            ended.without_panic();
            assert_eq!(ended.stdout, "", "{line}");
            let error: Value = serde_json::from_str(&ended.stderr)
                .unwrap_or_else(|error| panic!("{error}: {ended:?}"));
            has_fields(&error, &["error", "class"]);
            assert_eq!(
                (ended.code, &error["class"]),
                (Some(code), &class.into()),
                "{line}"
            );
            says(error["error"].as_str().unwrap(), &[phrase]);
            // Text output has the same sentence, but for the number of the call.
            let sentence = |told: &str| told.split(" (request ").next().unwrap().to_owned();
            let told = error["error"].as_str().unwrap();
            assert_eq!(sentence(&owner.refused(command)), sentence(told));
        }
    }
}
