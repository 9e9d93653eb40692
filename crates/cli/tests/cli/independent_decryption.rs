//! The output of `oboro encrypt` is decrypted by `tests/independent_decrypt.py`, which was written
//! from `docs/cryptography.md` and `docs/formats.md` alone, and compared with the plaintext.

use crate::common::Home;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// One transaction, by item names.
type Row = BTreeSet<String>;

/// The independent program's result for `data.oboro`.
fn decrypt(owner: &Home) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/independent_decrypt.py");
    let output = Command::new("python3")
        .arg("-B")
        .arg(program)
        .args(["oboro.key", "data.oboro"])
        .current_dir(owner.path("."))
        .output()
        .expect("this test needs Python 3.10 or newer as python3");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn support(rows: &[Row], itemset: &[&String]) -> u64 {
    let holding = rows
        .iter()
        .filter(|row| itemset.iter().all(|&item| row.contains(item)));
    holding.count() as u64
}

fn columns(value: &Value) -> impl Iterator<Item = usize> {
    let columns = value.as_array().unwrap().iter();
    columns.map(|column| usize::try_from(column.as_u64().unwrap()).unwrap())
}

/// Encrypts generated transactions, and checks everything that the independent program reports.
fn check(items: usize, transactions: usize, length: usize, blocks: u64) {
    let owner = Home::with_key();
    owner.json(&format!(
        "generate data.dat --items {items} --transactions {transactions} --transaction-length {length}"
    ));
    owner.json("encrypt data.dat --max-len 3");
    let inspected = owner.json("inspect data.oboro --key oboro.key");
    let names: Vec<String> = serde_json::from_value(inspected["items"].clone()).unwrap();
    assert_eq!(names.len(), items);

    let mut plaintext: Vec<Row> = String::from_utf8(owner.read("data.dat"))
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(plaintext.len(), transactions);

    let decrypted = decrypt(&owner);
    assert_eq!(decrypted["dataset"], inspected["dataset"]);
    assert_eq!(decrypted["limbs"], inspected["limbs"]);
    assert_eq!(decrypted["degree"], 4096);
    assert_eq!(decrypted["blocks"], blocks);

    let supports = decrypted["columns"].as_object().unwrap();
    assert_eq!(supports.len(), items);
    for (column, name) in names.iter().enumerate() {
        let expected = support(&plaintext, &[name]);
        assert_eq!(supports[&column.to_string()], expected, "item {name}");
    }

    let moments = decrypted["moments"].as_array().unwrap();
    assert_eq!(moments.len(), 3);
    for (counted, length) in moments.iter().zip(1..) {
        let itemset: Vec<&String> = columns(&counted["columns"])
            .map(|column| &names[column])
            .collect();
        assert_eq!(itemset.len(), length);
        let expected = support(&plaintext, &itemset);
        assert!(expected > 0, "{itemset:?} shows nothing");
        assert_eq!(counted["support"], expected, "{itemset:?}");
    }

    // Blocks are padded with empty transactions, which look like those of the file.
    plaintext.retain(|row| !row.is_empty());
    plaintext.sort();
    let mut rows: Vec<Row> = decrypted["transactions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| columns(row).map(|column| names[column].clone()).collect())
        .collect();
    rows.sort();
    assert!(rows == plaintext, "the transactions differ");
    assert_eq!(
        decrypted["empty_transactions"],
        blocks * 4096 - plaintext.len() as u64
    );

    // Of 24,576 errors or more; by chance a deviation this large occurs once in 10^14 runs.
    let variance = decrypted["error_variance"].as_f64().unwrap();
    assert!((variance - 10.5).abs() < 0.75, "variance {variance}");
}

#[test]
fn one_block_is_decrypted_from_the_documents_alone() {
    check(10, 300, 4, 1);
}

#[test]
fn two_blocks_are_decrypted_from_the_documents_alone() {
    check(3, 5000, 2, 2);
}
