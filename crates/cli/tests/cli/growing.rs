//! Data that grow and shrink, by the commands: many appends and their compaction, erasure of rows, other keys.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, files, parties, says};
use serde_json::Value;
use std::path::Path;

/// A table of rows with dated ids and the items a, b and c.
fn table(rows: &[(&str, [u8; 3])]) -> String {
    let line = |(id, [a, b, c]): &(&str, [u8; 3])| format!("{id},{a},{b},{c}\n");
    let lines: String = rows.iter().map(line).collect();
    format!("id,a,b,c\n{lines}")
}

const ROWS: [(&str, [u8; 3]); 6] = [
    ("2025-03-01/7", [1, 1, 0]),
    ("2025-11-20/3", [0, 1, 1]),
    ("2026-01-01/1", [1, 1, 1]),
    ("2026-02-10/4", [1, 0, 1]),
    ("2026-02-11/4", [1, 1, 1]),
    ("2026-05-05/9", [0, 0, 1]),
];

/// The files in which these bytes are.
fn holding(directory: &Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let holds = |file: &std::path::PathBuf| {
        let content = std::fs::read(file).unwrap();
        content.windows(bytes.len()).any(|it| it == bytes)
    };
    files(directory).into_iter().filter(holds).collect()
}

fn mines(owner: &Home, rows: &[(&str, [u8; 3])], key: &str) {
    owner.write("there.csv", table(rows));
    for options in [
        "--max-len 2 --answers moments",
        "--max-len 3 --answers moments",
        "--answers cells",
    ] {
        let line =
            format!("mine rows.oboro --min-support 1 {options} --key {key} --verify there.csv");
        owner.json(&line);
    }
}

#[test]
fn a_daily_feed_is_compacted() {
    let (owner, operator, server) = parties();
    // An empty basket at an end would leave no line.
    let day = |number: u64| random_baskets(20 + number, 4, 128).into_iter();
    let day = |number| day(number).map(|basket| [&[9], &basket[..]].concat());
    let days: Vec<Vec<Vec<u32>>> = (0..12).map(|number| day(number).collect()).collect();
    owner.write_fimi("rows.dat", &days[0]);
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro");
    for day in &days[1..] {
        owner.write_fimi("day.dat", day);
        owner.json("encrypt day.dat --append-to rows.oboro --no-absorb");
    }
    owner.write_fimi("all.dat", &days.concat());
    owner.write_fimi("day.dat", &days[0]);
    // It is remembered.
    let told = owner.done("encrypt day.dat --append-to rows.oboro");
    says(
        &told,
        &["`oboro compact` would put 13 blocks into 1 and save"],
    );
    owner.write_fimi("all.dat", &[&days.concat()[..], &days[0]].concat());

    let before = owner.json("inspect rows.oboro");
    let plan = owner.json("compact rows.oboro --dry-run");
    assert_eq!(plan["compaction"]["blocks"], 13);
    assert_eq!(plan["compaction"]["blocks_after"], 1);
    assert_eq!(owner.json("inspect rows.oboro"), before);
    let compacted = owner.json("compact rows.oboro");
    assert_eq!(compacted["new_bytes"], plan["compaction"]["bytes_after"]);
    let after = owner.json("inspect rows.oboro");
    assert_eq!(after["blocks"], 1);
    let bytes = |of: &Value| of["stored_bytes"].as_u64().unwrap();
    assert!(12 * bytes(&after) < bytes(&before));
    let again = owner.json("compact rows.oboro");
    assert_eq!(again["compaction"], Value::Null);

    // The server has the first day, and learns of everything else at once.
    let told = owner.run("mine rows.oboro --min-support 1").refusal();
    says(
        &told,
        &[
            "version 1, uploaded",
            "upload the directory's version first",
        ],
    );
    let uploaded = owner.json("upload rows.oboro");
    assert_eq!(uploaded["sent_bytes"], after["stored_bytes"]);
    for options in ["--max-len 2 --answers moments", "--answers cells"] {
        let line = format!("mine rows.oboro --min-support 1 {options} --verify all.dat");
        owner.json(&line);
    }
    let datasets = owner.json("datasets");
    assert_eq!(datasets[0]["version"], 14);
    assert_eq!(files(&operator.path("data/segments")).len(), 1);
    owner.json(&format!("scrub --server {}", server.url()));
}

/// Each upload replaces the segment before.
#[test]
fn a_daily_feed_needs_no_compaction() {
    let (owner, operator, server) = parties();
    let day = |number: u64| random_baskets(20 + number, 4, 128).into_iter();
    let day = |number| day(number).map(|basket| [&[9], &basket[..]].concat());
    let days: Vec<Vec<Vec<u32>>> = (0..4).map(|number| day(number).collect()).collect();
    owner.write_fimi("rows.dat", &days[0]);
    owner.json("encrypt rows.dat");
    for there in 0..4 {
        if there > 0 {
            let before = days[..there].concat().len();
            owner.write_fimi("day.dat", &days[there]);
            let plan = owner.json("encrypt day.dat --append-to rows.oboro --dry-run");
            let appended = owner.json("encrypt day.dat --append-to rows.oboro");
            for told in [&plan, &appended] {
                assert_eq!(told["absorbed_transactions"], before);
                assert_eq!(told["expected_bytes"], appended["stored_bytes"]);
            }
            assert_eq!(appended["blocks"], 1);
            assert_eq!(appended["compaction_pays"], false);
        }
        let uploaded = owner.json("upload rows.oboro");
        assert_eq!(uploaded["version"], there + 1);
        owner.write_fimi("all.dat", &days[..=there].concat());
        for options in ["--max-len 3 --answers moments", "--answers cells"] {
            let line = format!("mine rows.oboro --min-support 1 {options} --verify all.dat");
            owner.json(&line);
        }
        assert_eq!(files(&operator.path("data/segments")).len(), 1);
    }
    owner.json(&format!("scrub --server {}", server.url()));
}

#[test]
fn an_erased_row_is_in_no_byte_that_is_left() {
    let (owner, operator, server) = parties();
    owner.write("rows.csv", table(&ROWS));
    owner.json("encrypt rows.csv --row-ids id");
    owner.json("upload rows.oboro");
    mines(&owner, &ROWS, "oboro.key");
    owner.json("mine rows.oboro --min-support 1 --answers cells");
    assert!(owner.path("rows.oboro/cells").exists());
    operator.json("backup data monday");

    let told = owner
        .run("erase rows.oboro --row-id 2026-01-01/1 --row-id nobody")
        .refusal();
    says(
        &told,
        &["no row has the id \"nobody\";", "nothing was erased"],
    );
    let told = owner.run("erase rows.oboro --before 2026-13-01").refusal();
    says(&told, &["is no date"]);
    let would = owner.json("erase rows.oboro --row-id 2026-01-01/1 --dry-run");
    let segment = owner.find("rows.oboro/segments", "00000000.seg");
    let old = std::fs::read(&segment).unwrap();
    let erased = owner.json("erase rows.oboro --row-id 2026-01-01/1 --record erasure.json");
    assert_eq!(
        (&erased["erased"], &erased["transactions"]),
        (&1.into(), &5.into())
    );
    assert_eq!(erased["new_bytes"], would["new_bytes"]);
    let record: Value = serde_json::from_slice(&owner.read("erasure.json")).unwrap();
    assert_eq!(record["after"]["root"], erased["root"]);
    assert_eq!(record["removed_segments"].as_array().unwrap().len(), 1);
    assert!(
        !String::from_utf8(owner.read("erasure.json"))
            .unwrap()
            .contains("2026-01-01")
    );

    // Sealed cells and ciphertext differ in every byte that depends on data; these are of a panel.
    let of_old = &old[8192..8224];
    assert!(holding(&operator.path("data"), of_old).len() == 1);
    assert_eq!(
        holding(&owner.path("rows.oboro"), of_old),
        Vec::<std::path::PathBuf>::new()
    );
    assert!(!owner.path("rows.oboro/cells").exists());
    owner.json("upload rows.oboro");
    assert_eq!(
        holding(&operator.path("data"), of_old),
        Vec::<std::path::PathBuf>::new()
    );
    let read = &owner.json("inspect rows.oboro --key oboro.key")["read"];
    assert_eq!(
        (&read["transactions"], &read["densest"]["transactions"]),
        (&5.into(), &4.into())
    );
    let left: Vec<_> = ROWS
        .into_iter()
        .filter(|it| it.0 != "2026-01-01/1")
        .collect();
    mines(&owner, &left, "oboro.key");
    let rows = owner.json("row-ids rows.oboro");
    assert_eq!(rows["rows"].as_array().unwrap().len(), 5);
    let told = owner
        .run("erase rows.oboro --row-id 2026-01-01/1")
        .refusal();
    says(&told, &["a row that was erased before has no id any more"]);

    // A backup is restored, with the notes of what was rewritten since.
    drop(server);
    assert!(!operator.path("monday/rewritten").exists());
    operator.copy("data/rewritten", "monday/rewritten");
    assert_eq!(holding(&operator.path("monday"), of_old).len(), 1);
    let server = operator.serve_from("monday", "");
    owner.talk_to(server.url());
    assert_eq!(
        holding(&operator.path("monday"), of_old),
        Vec::<std::path::PathBuf>::new()
    );
    let told = owner
        .run("mine rows.oboro --min-support 1 --keep-cells 0")
        .refusal();
    says(
        &told,
        &[
            "restored here from a copy that is older",
            "upload the present version",
        ],
    );
    owner.json("upload rows.oboro");
    mines(&owner, &left, "oboro.key");

    // Retention, and ids from a file.
    owner.copy("rows.oboro", "copy.oboro");
    owner.write("ids.txt", "2025-03-01/7\n2025-11-20/3\n\n2026-02-10/4\n");
    let told = owner.json("erase copy.oboro --row-ids-file ids.txt");
    assert_eq!(told["erased"], 3);
    let told = owner.json("erase rows.oboro --before 2026-02-11");
    assert_eq!(told["erased"], 3);
    owner.json("upload rows.oboro");
    mines(&owner, &ROWS[4..], "oboro.key");
    let none = owner.json("erase rows.oboro --before 2026-02-11");
    assert_eq!(none["erased"], 0);
    let told = owner.run("erase rows.oboro --before 2027-01-01").refusal();
    says(&told, &["erase every transaction", "delete the dataset"]);
    // What is empty goes with a compaction, and more can be appended.
    owner.write("more.csv", table(&ROWS[..2]));
    owner.json("encrypt more.csv --append-to rows.oboro --row-ids id");
    owner.json("compact rows.oboro --all");
    owner.json("upload rows.oboro");
    mines(&owner, &[&ROWS[4..], &ROWS[..2]].concat(), "oboro.key");
}

/// The rows in the first slots of a large append are a sample of it. Nearly all of them are erased: those left make a new
/// sample. The client library's `growth.rs` checks the supports.
#[test]
fn rows_that_must_be_shuffled_again_are_announced() {
    let (owner, _operator, _server) = parties();
    let table = |rows: std::ops::Range<usize>| -> String {
        let row = |row| format!("r{row},1,{},{}\n", u8::from(row % 50 > 0), row % 2);
        let rows: String = rows.map(row).collect();
        format!("id,bread,milk,tea\n{rows}")
    };
    owner.write("rows.csv", table(0..10));
    owner.write("more.csv", table(10_000..100_000));
    owner.json("encrypt rows.csv --row-ids id --max-len 2");
    owner.json("encrypt more.csv --append-to rows.oboro");
    owner.json("upload rows.oboro");
    let rows = owner.json("row-ids rows.oboro --slots");
    let mut rows: Vec<(u64, &str)> = (rows["rows"].as_array().unwrap().iter())
        .map(|it| (it["slot"].as_u64().unwrap(), it["id"].as_str().unwrap()))
        .collect();
    rows.sort_unstable();
    let erased: Vec<&str> = rows[10..][..34_000].iter().map(|it| it.1).collect();
    owner.write("ids.txt", erased.join("\n"));
    let would = owner.json("erase rows.oboro --row-ids-file ids.txt --dry-run");
    assert_eq!(would["shuffled"]["transactions"], 56_000);
    assert_eq!(would["shuffled"]["new_bytes"], would["new_bytes"]);
    let text = owner.done("erase rows.oboro --row-ids-file ids.txt");
    for part in [
        "erasing 34000 transactions: ",
        "are 56000 transactions that must be shuffled again",
        "erased 34000 transactions\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn new_items_get_columns_when_everything_is_encrypted_again() {
    let (owner, _operator, _server) = parties();
    owner.write("rows.csv", table(&ROWS));
    owner.json("encrypt rows.csv --row-ids id --max-len 3");
    owner.json("upload rows.oboro");
    mines(&owner, &ROWS, "oboro.key");
    owner.write("more.csv", "id,d,a,b,c\n7,1,1,0,1\n8,1,0,0,1\n");
    let append = "encrypt more.csv --append-to rows.oboro --row-ids id";
    let told = owner.run(append).refusal();
    says(
        &told,
        &["1 items are not columns", "--new-items re-encrypt"],
    );
    // A column of the dataset is lacking: nothing is encrypted, and a dry run says so as well.
    owner.write("lacking.csv", "id,d,a,b\n7,1,1,0\n");
    for dry in ["", " --dry-run"] {
        let lacking = append.replace("more.csv", "lacking.csv");
        let told = owner
            .run(&format!("{lacking} --new-items re-encrypt{dry}"))
            .refusal();
        says(&told, &["have no column"]);
    }
    let appended = owner.json(&format!("{append} --new-items re-encrypt"));
    assert_eq!(appended["items_left_out"], 0);
    assert_eq!(
        (&appended["items"], &appended["version"]),
        (&4.into(), &3.into())
    );
    let uploaded = owner.json("upload rows.oboro");
    assert_eq!(uploaded["sent_bytes"], appended["stored_bytes"]);
    let line = |(id, [a, b, c]): &(&str, [u8; 3])| format!("{id},{a},{b},{c},0\n");
    let lines: String = ROWS.iter().map(line).collect();
    let more = "7,1,0,1,1\n8,0,0,1,1\n";
    owner.write("all.csv", format!("id,a,b,c,d\n{lines}{more}"));
    for options in ["--max-len 3 --answers moments", "--answers cells"] {
        let line = format!("mine rows.oboro --min-support 1 {options} --verify all.csv");
        owner.json(&line);
    }
    // What was left out may be among them.
    owner.json("encrypt rows.csv --row-ids id --min-item-support 5 --out rare.oboro");
    for dry in ["", " --dry-run"] {
        let append = "encrypt more.csv --append-to rare.oboro --row-ids id";
        let told = owner
            .run(&format!("{append} --new-items re-encrypt{dry}"))
            .refusal();
        says(
            &told,
            &[
                "fewer than 5 transactions were left out",
                "encrypt everything anew",
            ],
        );
    }
}

#[test]
fn another_key_opens_everything_and_the_old_one_nothing() {
    let (owner, _operator, _server) = parties();
    owner.write("rows.csv", table(&ROWS));
    owner.json("encrypt rows.csv --row-ids id");
    owner.json("upload rows.oboro");
    mines(&owner, &ROWS, "oboro.key");
    owner.json("keygen --key new.key");
    let told = owner.run("rotate rows.oboro --new-key oboro.key").refusal();
    says(&told, &["the key that the dataset is encrypted with"]);
    owner.copy("rows.oboro", "old.oboro");
    let rotated = owner.json("rotate rows.oboro --new-key new.key");
    assert_eq!(rotated["new_bytes"], rotated["stored_bytes"]);
    let told = owner.run("mine rows.oboro --min-support 1").refusal();
    says(&told, &["is not the one that dataset"]);
    owner.json("upload rows.oboro");
    mines(&owner, &ROWS, "new.key");
    // The copy from before is a version that was replaced.
    let told = owner.run("upload old.oboro --name rows").refusal();
    says(&told, &["it is not newer", "Upload the newest version"]);
    owner.write("more.csv", table(&ROWS[..2]));
    owner.json("encrypt more.csv --append-to rows.oboro --row-ids id --key new.key");
    owner.json("upload rows.oboro");
    mines(&owner, &[&ROWS[..], &ROWS[..2]].concat(), "new.key");
}
