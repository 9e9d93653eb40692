//! What is done with results: released, condensed, written as tables, recorded, shown.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};
use oboro_results::FileDigest;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

/// Runs `test` with an owner of these baskets, uploaded as `rows`.
fn with_rows(baskets: &[Vec<u32>], max_len: usize, test: impl FnOnce(&Home)) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", baskets);
    owner.json(&format!(
        "encrypt rows.dat --format fimi --max-len {max_len}"
    ));
    owner.json("upload rows.oboro");
    test(&owner);
}

/// The supports by itemset.
fn supports(result: &Value) -> BTreeMap<Vec<String>, u64> {
    let itemsets = result["itemsets"].as_array().unwrap().iter();
    let entry = |itemset: &Value| {
        let mut items: Vec<String> = serde_json::from_value(itemset["items"].clone()).unwrap();
        items.sort();
        (items, itemset["support"].as_u64().unwrap())
    };
    itemsets.map(entry).collect()
}

/// Asserts that a file is for its owner alone.
fn assert_private(owner: &Home, file: &str) {
    let mode = fs::metadata(owner.path(file)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{file}");
}

/// Item 0 in 60 transactions, with item 1 in all of them but 3; item 2 in other 20, item 3 in 4.
fn telling_rows() -> Vec<Vec<u32>> {
    let mut rows = vec![vec![0, 1]; 57];
    rows.extend(vec![vec![0]; 3]);
    rows.extend(vec![vec![1]; 20]);
    rows.extend(vec![vec![2]; 20]);
    rows.extend(vec![vec![3]; 4]);
    rows
}

#[test]
fn what_is_released_gives_no_small_count_away() {
    with_rows(&telling_rows(), 2, |owner| {
        owner.json("mine rows.oboro --min-support 1 --out all.json");
        let mine = "mine rows.oboro --min-support 1 --suppress-below 11";
        let ended = owner.run(&format!("{mine} --out release.json"));
        let promise = [
            "promised: no part of a shown itemset has 1 to 10",
            "not promised: ",
        ];
        says(&ended.stderr, &["RELEASE: counts below 11 are suppressed"]);
        says(&ended.stderr, &promise);
        says(&ended.stdout, &["for release, counts below 11"]);
        says(&ended.stdout, &promise);
        // Nor do the records, in which a digest or a lower threshold would let one be guessed.
        owner.json(&format!("{mine} --out shown.json --record mined.json"));
        owner.json("rules all.json --suppress-below 11 --out rules.csv --record ruled.json");
        let record = |name: &str| -> Value { serde_json::from_slice(&owner.read(name)).unwrap() };
        assert_eq!(record("mined.json")["asked"]["min_support"], Value::Null);
        assert_eq!(record("ruled.json")["inputs"], json!([]));
        owner.misused("mine rows.oboro --top 2 --suppress-below 11");
        let released: Value = serde_json::from_slice(&owner.read("release.json")).unwrap();
        let singles: Vec<_> = supports(&released).into_iter().collect();
        let name = |item: &str| vec![item.to_owned()];
        // Of {0, 1}, 57 of 60, would follow that 3 have item 0 and not item 1.
        assert_eq!(singles, [(name("0"), 60), (name("1"), 77), (name("2"), 20)]);
        let release = &released["release"];
        assert_eq!(release["suppress_below"], 11);
        assert_eq!(release["search"]["complete"], true);
        for field in ["promised", "not_promised"] {
            assert!(release["search"][field].is_string(), "{release}");
        }
        assert_eq!(released["min_support"], 11);
        // How the data were read would show the rarest item.
        assert!(released["source"].get("read").is_none());
        // The same from the file of everything, and for the rules.
        let rules = owner.json("rules all.json --min 0 --suppress-below 11");
        assert_eq!(rules["rules"], json!([]));
        assert_eq!(rules["release"], released["release"]);
        assert_eq!(
            owner.json("rules all.json --min 0")["rules"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        let counted = owner.json("count rows.oboro 0,1 0 3 2,3 --suppress-below 11");
        let answers = counted["itemsets"].as_array().unwrap().iter();
        let answers: Vec<&Value> = answers.map(|it| &it["support"]).collect();
        assert_eq!(
            answers,
            [&Value::Null, &json!(60), &Value::Null, &Value::Null]
        );
        let ended = owner.run("count rows.oboro 0,1 --suppress-below 11");
        says(&ended.stdout, &["suppressed", "{0, 1}"]);
        says(&ended.stderr, &["RELEASE"]);
        owner.misused("mine rows.oboro --min-support 1 --suppress-below 2");
    });
}

#[test]
fn a_release_does_not_depend_on_hidden_counts() {
    // The same is shown of both, but others are hidden: more items, pairs and levels.
    let mut more = telling_rows();
    more.retain(|row| row[..] != [3]);
    more.extend([vec![4, 5, 6], vec![4, 5, 6], vec![4, 5], vec![7]]);
    let outputs: Vec<Vec<String>> = [telling_rows(), more]
        .iter()
        .map(|rows| {
            let mut outputs = Vec::new();
            with_rows(rows, 3, |owner| {
                let mine = "mine rows.oboro --min-support 1 --suppress-below 11";
                let inspected = owner.json("inspect rows.oboro");
                let mined = owner.json(mine);
                let mut kept = |text: &[u8]| {
                    let mut text = String::from_utf8(text.to_vec()).unwrap();
                    // These name the dataset, not what is in it, and when the run began.
                    let mut names = vec![&inspected["dataset"], &inspected["root"]];
                    names.push(&mined["source"]["uploaded"]);
                    for name in names.into_iter().filter_map(Value::as_str) {
                        text = text.replace(name, "");
                    }
                    for field in ["\"began\"", "\"sha256\""] {
                        while let Some(at) = text.find(field) {
                            let value = at + field.len() + text[at + field.len()..].find('"').unwrap();
                            let end = value + 1 + text[value + 1..].find('"').unwrap();
                            text.replace_range(at..=end, "");
                        }
                    }
                    outputs.push(text);
                };
                let json = owner.run(&format!("{mine} --json --out shown.json --record run.json"));
                assert_eq!(json.code, Some(0), "{}", json.stderr);
                kept(json.stdout.as_bytes());
                kept(json.stderr.as_bytes());
                let text = owner.run(&format!("{mine} --verify rows.dat"));
                kept(text.stdout.as_bytes());
                kept(text.stderr.as_bytes());
                owner.done("report shown.json --out report.html");
                owner.json(&format!("{mine} --out shown.csv"));
                owner.json("mine rows.oboro --min-support 1 --out all.json");
                owner.json("rules all.json --min 0 --suppress-below 11 --out rules.json --record ruled.json");
                for file in ["shown.json", "run.json", "report.html", "shown.csv", "rules.json", "ruled.json"] {
                    kept(&owner.read(file));
                }
                let counted = owner.run("count rows.oboro 0,1 2 --suppress-below 11 --json");
                kept(counted.stdout.as_bytes());
                kept(counted.stderr.as_bytes());
            });
            outputs
        })
        .collect();
    for (one, other) in outputs[0].iter().zip(&outputs[1]) {
        assert_eq!(one, other);
    }
    for detail in [
        "levels",
        "columns",
        "bytes",
        "seconds",
        "length  candidates",
        " ms\n",
        "routes",
    ] {
        assert!(!outputs[0][0].contains(detail), "{detail}");
        assert!(!outputs[0][2].contains(detail), "{detail}");
    }
}

#[test]
fn released_supports_are_rounded_and_rules_are_of_the_rounded_ones() {
    with_rows(&telling_rows(), 2, |owner| {
        let released =
            owner.json("mine rows.oboro --min-support 1 --round-to 10 --out release.json");
        assert_eq!(released["transactions"], 100);
        let values: Vec<u64> = supports(&released).into_values().collect();
        assert_eq!(values, [60, 60, 80, 20]);
        assert_eq!(released["release"], json!({ "round_to": 10 }));
        assert_eq!(released.get("levels"), None);
        let rules = owner.json("rules release.json --min 0");
        assert_eq!(rules["rules"][0]["confidence"], 1.0);
        assert_eq!(rules["release"]["round_to"], 10);
        owner.refuses("rules release.json --suppress-below 5 => release.json … rounded already");
        let counted = owner.json("count rows.oboro 0,1 --round-to 10");
        assert_eq!(counted["itemsets"][0]["support"], 60);
        assert_eq!(counted["transactions"], 100);
    });
}

#[test]
fn closed_and_maximal_itemsets_are_kept() {
    let mut rows = random_baskets(300, 7, 128);
    // Item 9 wherever item 0 is: {0} is not closed.
    for row in rows.iter_mut().filter(|row| row.contains(&0)) {
        row.push(9);
    }
    with_rows(&rows, 3, |owner| {
        let mine = "mine rows.oboro --min-support 25 --max-len 3";
        let all = supports(&owner.json(mine)).len();
        for kept in ["closed", "maximal"] {
            let mined = owner.json(&format!("{mine} --{kept} --out kept.json"));
            assert_eq!(mined["kept"], kept);
            assert!(supports(&mined).len() < all);
            owner.refuses(format!(
                "rules kept.json => kept.json … {kept} … rules need all"
            ));
            let unknown =
                format!("those of 3 items are all listed: whether they are {kept} was not checked");
            let text = owner.done(&format!("{mine} --{kept}"));
            says(&text, &[&format!("{kept} frequent itemsets"), &unknown]);
        }
        owner.misused(&format!("{mine} --closed --maximal"));
    });
}

#[test]
fn itemsets_are_listed_that_contain_what_was_asked_for() {
    with_rows(&random_baskets(300, 8, 128), 3, |owner| {
        let mine = "mine rows.oboro --min-support 20 --max-len 3";
        let containing = "--containing 5,1,5";
        // What no superset among all itemsets makes superfluous.
        for option in ["", "--closed", "--maximal"] {
            let mut expected = supports(&owner.json(&format!("{mine} {option}")));
            expected.retain(|items, _| ["1", "5"].iter().all(|it| items.iter().any(|o| o == it)));
            assert!(expected.len() > 1);
            let mined = owner.json(&format!("{mine} {option} {containing}"));
            assert_eq!(supports(&mined), expected);
            assert_eq!(mined["containing"], json!(["1", "5"]));
        }
        let some = format!("{mine} {containing} --verify rows.dat --out some.json");
        says(&owner.done(&some), &["with {1, 5}"]);
        owner.refuses(format!(
            "rules some.json => some.json … with {{1, 5}} … rules need all
            {mine} --containing 1,bread => \"bread\" is no item of this dataset"
        ));
        owner.done("report some.json --out some.html");
        let page = String::from_utf8(owner.read("some.html")).unwrap();
        says(&page, &["itemsets that contain {1, 5} are listed"]);
        assert!(!page.contains("<h2>Rules</h2>"));
        owner.misused(&format!("{mine} --containing 1 --top 3"));
    });
    // A release does not name an item that it holds back.
    let mut rows = vec![vec![0, 1]; 96];
    rows.extend(vec![vec![0, 1, 2]; 4]);
    with_rows(&rows, 2, |owner| {
        let mine = "mine rows.oboro --min-support 1 --suppress-below 11 --out some.json";
        let none = "the result for release has no itemset with … --containing";
        owner.refuses(format!("{mine} --containing 2 => {none}"));
        assert!(!owner.path("some.json").exists());
        let released = owner.json(&format!("{mine} --containing 1"));
        assert_eq!(
            supports(&released).into_values().collect::<Vec<_>>(),
            [100, 100]
        );
    });
}

#[test]
fn the_most_frequent_itemsets_are_found_without_a_support() {
    with_rows(&random_baskets(400, 8, 100), 3, |owner| {
        let top = owner.json("mine rows.oboro --top 12 --verify rows.dat --out top.json");
        assert_eq!(
            (&top["top"], &top["matches_plaintext"]),
            (&json!(12), &json!(true))
        );
        let found = top["itemsets"].as_array().unwrap().len();
        assert!(found >= 12, "{top}");
        let chosen = &top["min_support"];
        let same = owner.json(&format!("mine rows.oboro --min-support {chosen}"));
        assert_eq!(same["itemsets"], top["itemsets"]);
        says(
            &owner.done("mine rows.oboro --top 3"),
            &["chosen for the 3 most frequent", "as frequent as the last"],
        );
        // No more than there are above the least support that may be chosen.
        let floor = owner.json("mine rows.oboro --top 100000 --min-support 100");
        let mined = owner.json("mine rows.oboro --min-support 100");
        assert_eq!(floor["itemsets"], mined["itemsets"]);
        owner.misused("mine rows.oboro");
        owner.misused("mine rows.oboro --top 0");
    });
}

/// The number of rows of a table in Parquet, and what its metadata say.
fn parquet(owner: &Home, name: &str) -> (usize, Value) {
    let file = File::open(owner.path(name)).unwrap();
    let metadata = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let metadata = metadata.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().unwrap();
    let about = pairs.iter().find(|it| it.key == "oboro").unwrap();
    let about = serde_json::from_str(about.value.as_deref().unwrap()).unwrap();
    (metadata.num_rows() as usize, about)
}

#[test]
fn tables_in_parquet_say_what_they_are_of() {
    with_rows(&telling_rows(), 2, |owner| {
        let mined = owner.json("mine rows.oboro --min-support 1 --out found.parquet");
        let (rows, about) = parquet(owner, "found.parquet");
        assert_eq!(rows, mined["itemsets"].as_array().unwrap().len());
        for field in ["transactions", "min_support", "max_len", "source"] {
            assert_eq!(about[field], mined[field], "{field}");
        }
        assert_eq!(
            (&about["source"]["name"], &about["source"]["version"]),
            (&json!("rows"), &json!(1))
        );
        owner.json("mine rows.oboro --min-support 1 --out found.json");
        let rules = owner.json("rules found.json --min 0.9 --consequent 1 --out rules.parquet");
        let (rows, about) = parquet(owner, "rules.parquet");
        assert_eq!(rows, rules["rules"].as_array().unwrap().len());
        assert_eq!(
            (&about["min"], &about["consequent"]),
            (&json!(0.9), &json!(["1"]))
        );
        for file in ["found.parquet", "rules.parquet"] {
            assert_private(owner, file);
        }
    });
}

#[test]
fn many_rules_need_little_memory() {
    // All itemsets of 11 items give 173,052 rules, which took half a gigabyte.
    let owner = Home::new();
    let itemset = |mask: u32| -> Value {
        let items = (0..11).filter(|item| mask >> item & 1 == 1);
        let items: Vec<String> = items.map(|item| format!("item {item}")).collect();
        json!({ "support": 4096 >> items.len(), "items": items })
    };
    let itemsets: Vec<Value> = (1..1 << 11).map(itemset).collect();
    let document =
        json!({ "transactions": 4096, "min_support": 1, "max_len": null, "itemsets": itemsets });
    owner.write("found.json", document.to_string());
    for file in ["rules.json", "rules.csv", "rules.parquet"] {
        // Its peak is read while it waits for the pipe to be emptied, which holds a small part of the rules.
        let script = format!(
            "mkfifo {file}; $oboro rules found.json --min 0 --out {file} > {file}.text & exec 3< {file}; \
             head -c 1000 <&3 > /dev/null; grep VmHWM /proc/$!/status; cat <&3 > /dev/null; wait $!"
        );
        let ended = owner.start_shell(&script).ended();
        assert_eq!(ended.code, Some(0), "{file}: {}", ended.stderr);
        let words: Vec<&str> = ended.stdout.split_whitespace().collect();
        let peak: u64 = words[1].parse().unwrap();
        assert!(peak < 150_000, "{file}: {peak} kB");
        let text = owner.read(&format!("{file}.text"));
        says(
            &String::from_utf8(text).unwrap(),
            &["173052 rules", "the best 20"],
        );
    }
}

#[test]
fn a_run_leaves_a_record_that_can_be_signed() {
    with_rows(&telling_rows(), 2, |owner| {
        owner.json(
            "mine rows.oboro --min-support 50% --answers cells --out found.json --record run.json",
        );
        let text = String::from_utf8(owner.read("run.json")).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        // Canonical: sorted names, no spaces, one line.
        assert_eq!(record.to_string() + "\n", text);
        assert_eq!(record["command"], "mine");
        assert_eq!(record["asked"]["min_support"], "0.5");
        assert_eq!(record["asked"]["answers"], "cells");
        let source = &record["source"];
        let root = owner.json("inspect rows.oboro")["root"].clone();
        assert_eq!(
            (&source["name"], &source["manifest"]),
            (&json!("rows"), &root)
        );
        assert_eq!(
            (&source["version"], &source["answers"]),
            (&json!(1), &json!("verified"))
        );
        assert_eq!(source["routes"], json!(["cells"]));
        assert!(
            record["verified"][1]
                .as_str()
                .unwrap()
                .contains("sealed columns")
        );
        let digest = |name: &str| json!(FileDigest::of(name, &owner.read(name)));
        assert_eq!(record["outputs"], json!([digest("found.json")]));
        assert!(record["began"].as_str().unwrap().ends_with('Z'));
        assert_private(owner, "run.json");

        owner.json("rules found.json --min 0 --out rules.csv --record rules-run.json");
        let record: Value = serde_json::from_slice(&owner.read("rules-run.json")).unwrap();
        assert_eq!(record["inputs"], json!([digest("found.json")]));
        assert_eq!(record["outputs"], json!([digest("rules.csv")]));
        assert_eq!(record["source"]["manifest"], root);
        let counted = owner.json("count rows.oboro 0,1 --record counted.json");
        let record: Value = serde_json::from_slice(&owner.read("counted.json")).unwrap();
        assert_eq!(record["answer"]["itemsets"], counted["itemsets"]);
        assert_eq!(record["asked"]["itemsets"], json!([["0", "1"]]));

        owner.refuses(
            "rules found.json --record r.json => --out
            rules found.json --out r.csv --record found.json => another file",
        );

        // As docs/outputs.md has it.
        let script = "ssh-keygen -q -t ed25519 -N '' -f id && \
             ssh-keygen -q -Y sign -f id -n oboro-run run.json && \
             echo \"alice@example.org $(cat id.pub)\" > signers && \
             ssh-keygen -Y verify -f signers -I alice@example.org -n oboro-run -s run.json.sig < run.json";
        if Command::new("ssh-keygen").arg("-?").output().is_ok() {
            let ended = owner.start_shell(script).ended();
            says(&ended.stdout, &["Good \"oboro-run\" signature"]);
        }
    });
}

#[test]
fn a_report_is_one_page() {
    with_rows(&telling_rows(), 2, |owner| {
        owner.json("mine rows.oboro --min-support 1 --answers cells --out found.json");
        let made = owner.json("report found.json --out report.html");
        assert_eq!(made["itemsets"], 5);
        let page = String::from_utf8(owner.read("report.html")).unwrap();
        says(
            &page,
            &[
                "Frequent itemsets in rows",
                "{0} ⇒ {1}: support 54.8 %, confidence 95.0 %",
                "How the data were read",
                "fimi",
                "What was verified",
                "the supports of single items",
                "were counted in the clear at the owner",
            ],
        );
        assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
        assert_private(owner, "report.html");
        owner.refuses(
            "report found.json --out found.json => it has the itemsets
            report rows.dat --out report.html => rows.dat … not a document of frequent itemsets",
        );
    });
}

#[test]
fn results_go_where_they_harm_nothing() {
    with_rows(&telling_rows(), 2, |owner| {
        let mine = "mine rows.oboro --min-support 1 --out";
        owner.json(&format!("{mine} .csv"));
        assert!(owner.read(".csv").starts_with(b"items,length,"));
        owner.json(&format!("{mine} found.json"));
        symlink("nowhere", owner.path("link.json")).unwrap();
        owner.refuses(format!(
            "{mine} link.json => link.json … a dangling symbolic link"
        ));
        assert!(owner.path("link.json").is_symlink());
        for name in ["lock", "found.csv", "segments/found.csv"] {
            let place = "in the directory of an encrypted dataset";
            owner.refuses(format!(
                "rules found.json --out rows.oboro/{name} => {place}"
            ));
        }
        owner.json("inspect rows.oboro --verify");
        // Neither the plaintext nor the result is replaced by something else of the run.
        owner.copy("rows.dat", "rows.csv");
        let rows = owner.read("rows.csv");
        for option in ["--out", "--record"] {
            let line =
                format!("mine rows.oboro --min-support 1 --verify rows.csv {option} rows.csv");
            says(&owner.run(&line).stderr, &["rows.csv", "to another file"]);
        }
        assert_eq!(owner.read("rows.csv"), rows);
        let same = "./new.json … write it to another file";
        owner.refuses(format!("{mine} new.json --record ./new.json => {same}"));
        // A pipe is written to.
        let piped = owner.start_shell(&format!("$oboro {mine} /dev/stdout | grep -c support"));
        assert_eq!(piped.ended().code, Some(0));
    });
}
