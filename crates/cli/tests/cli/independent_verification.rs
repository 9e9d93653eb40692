//! The owner's verification of sums and moments is repeated by `tests/independent_verify.py`, which was written from
//! `docs/cryptography.md` and `docs/formats.md` alone: it counts on ciphertext as a server would, accepts the result,
//! reads the supports, and refuses altered answers.

use crate::common::Home;
use crate::common::plaintext::{Plaintext, random_baskets};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// Items per row.
const ITEMS: u32 = 4;

fn python(owner: &Home, arguments: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/independent_verify.py");
    Command::new("python3")
        .arg("-B")
        .arg(program)
        .args(["oboro.key", "rows.oboro"])
        .args(arguments)
        .current_dir(owner.path("."))
        .output()
        .expect("this test needs Python 3.10 or newer as python3")
}

/// The program's verdict on an answer: its exit status, and its output.
fn verify(owner: &Home, answer: &Value) -> (Option<i32>, Value) {
    owner.write("answer.json", answer.to_string());
    let output = python(owner, &["verify", "answer.json"]);
    let said = serde_json::from_slice(&output.stdout);
    let said = said.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), said)
}

#[test]
fn sums_are_verified_and_read_as_the_documents_say() {
    let owner = Home::with_key();
    let few = random_baskets(300, ITEMS, 128);
    let many = random_baskets(41_500, ITEMS, 128);
    owner.write_fimi("few.dat", &few);
    owner.write_fimi("many.dat", &many);
    owner.write_fimi("all.dat", &[&few[..], &many, &few].concat());
    // A range, a total with its sample, and one more range appended after them.
    owner.json("encrypt few.dat --max-len 2 --out rows.oboro");
    owner.json("encrypt many.dat --append-to rows.oboro");
    owner.json("encrypt few.dat --append-to rows.oboro");
    let counted = python(&owner, &["count", "--columns", &ITEMS.to_string()]);
    let honest: Value = serde_json::from_slice(&counted.stdout).unwrap();
    let ranges = honest["ranges"].as_array().unwrap();
    assert_eq!(ranges.len(), 4);

    let (code, said) = verify(&owner, &honest);
    assert_eq!((code, &said["verified"]), (Some(0), &json!(true)), "{said}");
    let truth = Plaintext::read(&owner.path("all.dat"));
    let mut expected: Vec<u64> = truth
        .frequent(1, 2)
        .into_iter()
        .filter_map(|(itemset, support)| (itemset.len() == 2).then_some(support))
        .collect();
    let mut found: Vec<u64> = serde_json::from_value(said["supports"].clone()).unwrap();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);

    let value =
        |range: usize, limb: usize, pair: usize| format!("/ranges/{range}/limbs/{limb}/{pair}");
    let plus = |answer: &mut Value, at: &str, by: i64| {
        let sum = answer.pointer_mut(at).unwrap();
        *sum = json!(sum.as_i64().unwrap() + by);
    };
    type Lie<'a> = (&'a str, Box<dyn Fn(&mut Value) + 'a>);
    let lies: Vec<Lie<'_>> = vec![
        ("a value", Box::new(|it| plus(it, &value(1, 0, 2), 1))),
        (
            "a value of the sample",
            Box::new(|it| plus(it, &value(2, 1, 5), 1)),
        ),
        (
            "pairs that cancel",
            Box::new(|it| {
                plus(it, &value(0, 0, 0), 7);
                plus(it, &value(0, 0, 1), -7);
            }),
        ),
        (
            "ranges that cancel",
            Box::new(|it| {
                plus(it, &value(1, 0, 3), 7);
                plus(it, &value(3, 0, 3), -7);
            }),
        ),
        (
            "ranges exchanged",
            Box::new(|it| it["ranges"].as_array_mut().unwrap().swap(1, 2)),
        ),
        (
            "a range missing",
            Box::new(|it| drop(it["ranges"].as_array_mut().unwrap().pop())),
        ),
    ];
    for (what, lie) in lies {
        let mut answer = honest.clone();
        lie(&mut answer);
        let (code, said) = verify(&owner, &answer);
        assert_eq!(
            (code, &said["verified"]),
            (Some(3), &json!(false)),
            "{what}: {said}"
        );
    }
}

/// The program's own answer to a query about a dataset, which it accepts, and its supports.
fn accepted(owner: &Home, question: &[&str]) -> (Value, Value) {
    let counted = python(owner, &[&["count"], question].concat());
    let honest: Value = serde_json::from_slice(&counted.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&counted.stderr)));
    let (code, said) = verify(owner, &honest);
    assert_eq!((code, &said["verified"]), (Some(0), &json!(true)), "{said}");
    (honest, said["supports"].clone())
}

/// The numbers of an answer, each by its path.
fn numbers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => {
            for (place, value) in values.iter().enumerate() {
                numbers(value, &format!("{at}/{place}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// One number increased by one, the first and the last two exchanged, all shifted by one, the last limb zeroed.
fn lies_are_refused(owner: &Home, honest: &Value) {
    let mut places = Vec::new();
    for (range, of_range) in honest["ranges"].as_array().unwrap().iter().enumerate() {
        numbers(
            &of_range["limbs"],
            &format!("/ranges/{range}/limbs"),
            &mut places,
        );
    }
    let refused = |answer: &Value| {
        let (code, said) = verify(owner, answer);
        assert_eq!(
            (code, &said["verified"]),
            (Some(3), &json!(false)),
            "{said}"
        );
    };
    for at in [0, places.len() / 2, places.len() - 1] {
        let mut answer = honest.clone();
        let number = answer.pointer_mut(&places[at]).unwrap();
        *number = json!((number.as_i64().unwrap() ^ 1).max(0));
        refused(&answer);
    }
    let mut answer = honest.clone();
    let [first, last] =
        [&places[0], &places[places.len() - 1]].map(|at| honest.pointer(at).unwrap());
    *answer.pointer_mut(&places[0]).unwrap() = last.clone();
    *answer.pointer_mut(&places[places.len() - 1]).unwrap() = first.clone();
    refused(&answer);
    let mut answer = honest.clone();
    let limbs = answer["ranges"][0]["limbs"].as_array_mut().unwrap();
    limbs.pop();
    refused(&answer);
}

#[test]
fn rows_and_longer_itemsets_are_verified_and_read_as_the_documents_say() {
    let owner = Home::with_key();
    let rows = random_baskets(300, 5, 128);
    owner.write_fimi("few.dat", &rows);
    owner.json("encrypt few.dat --max-len 4 --out rows.oboro");
    // Two strata, each with secrets of its own.
    owner.json("encrypt few.dat --append-to rows.oboro --no-absorb");
    owner.write_fimi("all.dat", &[&rows[..], &rows].concat());
    for question in [
        &["--row", "0"][..],
        &["--row", "4"],
        &["--columns", "4", "--length", "3"],
        &["--columns", "5", "--length", "4"],
    ] {
        let (honest, supports) = accepted(&owner, question);
        let plain = python(&owner, &[&["plain"], question].concat());
        let plain: Value = serde_json::from_slice(&plain.stdout).unwrap();
        let plain = plain.get("supports").unwrap_or(&plain);
        assert_eq!(&supports, plain, "{question:?}");
        lies_are_refused(&owner, &honest);
    }
    let truth = Plaintext::read(&owner.path("all.dat")).frequent(1, 4);
    let mut of_four: Vec<u64> = truth
        .iter()
        .filter(|it| it.0.len() == 4)
        .map(|it| *it.1)
        .collect();
    let (_, supports) = accepted(&owner, &["--columns", "5", "--length", "4"]);
    let mut supports: Vec<u64> = serde_json::from_value(supports).unwrap();
    of_four.sort_unstable();
    supports.sort_unstable();
    assert_eq!(supports, of_four);
}

#[test]
fn many_columns_are_verified_as_the_documents_say() {
    const MANY: u32 = 1_030;
    let owner = Home::with_key();
    let mut rows = random_baskets(20, MANY, 40);
    rows[0] = (0..MANY).collect();
    // The focus item, in all of them, is the first in the order of supports.
    for row in &mut rows {
        row.retain(|&it| it != MANY - 1);
        row.push(MANY - 1);
    }
    owner.write_fimi("rows.dat", &rows);
    owner.json("encrypt rows.dat --max-len 2 --focus 1029");
    let (honest, supports) = accepted(&owner, &["--row", "0"]);
    lies_are_refused(&owner, &honest);
    let mut supports: Vec<u64> = serde_json::from_value(supports).unwrap();
    let together = |other: u32| {
        let both = |it: &&Vec<u32>| it.contains(&1029) && it.contains(&other);
        rows.iter().filter(both).count() as u64
    };
    let mut expected: Vec<u64> = (0..MANY - 1).map(together).collect();
    supports.sort_unstable();
    expected.sort_unstable();
    assert_eq!(supports, expected);
}
