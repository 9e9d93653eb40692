//! What the owner verifies of sums of pairs is verified by `tests/independent_verify.py`, too, which was written from
//! `docs/cryptography.md` and `docs/formats.md` alone: it counts on ciphertext what a server is asked for, accepts
//! that, reads the supports, and refuses what was altered.

mod common;

use common::Home;
use common::plaintext::{Plaintext, random_baskets};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// Rows of so many items.
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

/// What the program makes of an answer: its exit status, and what it says.
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
    // A range, a total with its sample, and one more that was appended behind them.
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
