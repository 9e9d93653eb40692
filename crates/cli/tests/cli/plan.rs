//! The estimates of `oboro plan` match what encrypting and mining take.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};
use serde_json::Value;

#[test]
fn what_is_planned_is_what_comes() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(5_000, 8, 200));
    let planned = owner.json("plan rows.dat --max-len 3");
    let encrypted = owner.json("encrypt rows.dat --max-len 3");
    for field in [
        "transactions",
        "items",
        "max_len",
        "degree",
        "limbs",
        "plaintext_modulus",
        "blocks",
        "stored_bytes",
    ] {
        assert_eq!(planned[field], encrypted[field], "{field}");
    }
    owner.json("upload rows.oboro");
    // Everything is frequent and nothing deduced: exactly the planned itemsets.
    let pairs = owner.json("mine rows.oboro --min-support 1 --max-len 2 --answers moments");
    let sums = &planned["levels"][0]["verified_bytes"];
    assert_eq!(
        (&pairs["received_bytes"], sums.as_u64()),
        (sums, Some(28 * 7))
    );
    let mined = owner.json("mine rows.oboro --min-support 1 --no-deduction --verify rows.dat");
    // Supports of items are known from encryption; everything longer is counted in the cells.
    let levels = |of: &Value| of["levels"].as_array().unwrap().clone();
    let counted = |of: &Value| levels(of)[1..].to_vec();
    assert_eq!((levels(&mined).len(), levels(&planned).len()), (3, 2));
    assert_eq!(planned["cells_bytes"], mined["received_bytes"]);
    for (planned, mined) in levels(&planned).iter().zip(counted(&mined)) {
        assert_eq!(planned["level"], mined["level"]);
        assert_eq!(planned["itemsets"], mined["asked"]);
    }
    let verified = owner.json("mine rows.oboro --min-support 1 --answers moments");
    for (planned, mined) in levels(&planned).iter().zip(counted(&verified)) {
        assert_eq!(planned["verified_bytes"], mined["received_bytes"]);
    }
    let moments = owner.json("mine rows.oboro --min-support 1 --no-deduction --trust-server");
    for (planned, mined) in levels(&planned).iter().zip(counted(&moments)) {
        assert_eq!(planned["moments_bytes"], mined["received_bytes"]);
        assert_eq!(planned["limbs"], mined["limbs"]);
        let bound = |level: &Value| level["log2_phase_bound"].as_f64().unwrap();
        assert!((bound(planned) - bound(&mined)).abs() < 1e-6);
        assert!(bound(planned) < planned["log2_q"].as_f64().unwrap());
    }
}

#[test]
fn numbers_and_files_give_the_same_plan() {
    let owner = Home::new();
    owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
    let mut of_file = owner.json("plan rows.dat --max-len 2");
    assert_eq!(of_file["read"]["transactions"], 300);
    of_file["read"] = Value::Null;
    let mut of_numbers = owner.json("plan --transactions 300 --items 6 --max-len 2");
    // These are measured.
    for plan in [&mut of_file, &mut of_numbers] {
        assert!(plan["in_words"]["encrypt_seconds"].take().is_number());
    }
    assert_eq!(of_file, of_numbers);
    owner.write_fimi(
        "rare.dat",
        &[vec![vec![1, 2]; 9], vec![vec![1, 2, 3]]].concat(),
    );
    let rare = owner.json("plan rare.dat --min-item-support 2");
    assert_eq!(
        (&rare["items"], &rare["read"]["items"]),
        (&2.into(), &3.into())
    );
    let left_out = "items in fewer than 2 … a minimum support of 1 is then refused";
    owner.refuses(format!(
        "plan rare.dat --min-item-support 2 --min-support 0.1 => {left_out}"
    ));
    // No item is left out.
    owner.json("plan rare.dat --min-item-support 1 --min-support 0.1");
    let fewer = owner.json("plan rows.dat --max-len 3 --frequent-items 4 --itemsets 3");
    for level in fewer["levels"].as_array().unwrap() {
        assert_eq!(level["itemsets"], 3);
    }

    let explained = owner.json("plan --transactions 8124 --items 112 --max-len 5 --explain");
    let alternatives = explained["alternatives"].as_array().unwrap();
    let with = |phrase: &str| {
        alternatives
            .iter()
            .filter(|it| it["verdict"].as_str().unwrap().contains(phrase))
            .collect::<Vec<_>>()
    };
    let [chosen] = with("chosen")[..] else {
        panic!("{explained}")
    };
    for field in ["degree", "limbs", "plaintext_modulus"] {
        assert_eq!(chosen[field], explained[field], "{field}");
    }
    assert!(!with("not secure").is_empty() && !with("more bytes").is_empty());
    assert!(of_file.get("alternatives").is_none());
    let text = owner.done("plan rows.dat --explain");
    says(
        &text,
        &[
            "300 transactions × 6 items",
            "128 bits of security",
            "the sealed cells of 6 frequent items",
            "chosen",
        ],
    );
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let owner = Home::new();
    let most = u64::MAX;
    owner.refuses(format!(
        "plan --transactions 0 --items 3 => at least one transaction
        plan --transactions 3 --items 0 => at least one transaction
        plan --transactions 3 --items 3 --max-len 17 => choose 1 to 16
        plan --transactions 3 --items 4294967295 => leave rare items out
        plan --transactions {most} --items 100000 --max-len 16 => cannot be verified
        plan --transactions 9 --items 3 --min-item-support 2 => needs a file
        plan none.dat => none.dat"
    ));
    owner.misuses("plan\nplan --transactions 3\nplan --items 3\nplan rows.dat --items 3");
    // The largest possible numbers: nothing overflows.
    owner.json("plan --transactions 268435456 --items 100000 --max-len 16");
}

#[test]
fn a_plan_in_words_says_what_a_run_takes_and_shows() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    // Items 0 to 11 are in every other transaction, 12 to 29 in every tenth.
    let basket = |row: u32| -> Vec<u32> {
        let common = (0..12).filter(|item| (row + item).is_multiple_of(2));
        let rare = (12..30).filter(|item| (row + item).is_multiple_of(10));
        common.chain(rare).collect()
    };
    owner.write_fimi("rows.dat", &(0..3_000).map(basket).collect::<Vec<_>>());
    let planned = owner.json("plan rows.dat --max-len 4 --min-support 25%");
    assert_eq!(planned["frequent_items"], 12);
    let words = &planned["in_words"];
    assert!(words["encrypt_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(words["route"], "cells");
    let learned = words["server_learns"].as_str().unwrap();
    says(
        learned,
        &["which 12 of the 30 encrypted columns are frequent"],
    );

    // What it advises takes what it says, and what it warns of is so.
    let advice = words["advice"].as_array().unwrap();
    assert_eq!(advice.len(), 2, "{words}");
    for advice in advice {
        let option = advice["option"].as_str().unwrap();
        let max_len = if option.contains("max-len") {
            ""
        } else {
            "--max-len 4"
        };
        owner.json(&format!(
            "encrypt rows.dat --out a.oboro {max_len} {option}"
        ));
        let inspected = owner.json("inspect a.oboro");
        assert_eq!(
            inspected["stored_bytes"], advice["stored_bytes"],
            "{option}"
        );
        std::fs::remove_dir_all(owner.path("a.oboro")).unwrap();
    }
    owner.json("encrypt rows.dat --max-len 4");
    owner.json("upload rows.oboro");
    let mined = owner.json("mine rows.oboro --min-support 25% --verify rows.dat");
    assert_eq!(words["received_bytes"], mined["received_bytes"]);
    assert_eq!(mined["columns"], 12);

    let text = owner.done("plan rows.dat --max-len 4 --min-support 25%");
    for phrase in [
        "encrypting takes",
        "at 100 Mbit/s",
        "a run at 0.25, with 12 frequent items receives",
        "\nthe server learns which 12 of the 30",
        "advice: encrypt with --min-item-support 0.25 to upload",
    ] {
        says(&text, &[phrase]);
    }
    // Of pairs alone, sums are fewer bytes.
    let pairs = owner.json("plan rows.dat --max-len 2 --min-support 25%");
    assert_eq!(pairs["in_words"]["route"], "scalars");
}
