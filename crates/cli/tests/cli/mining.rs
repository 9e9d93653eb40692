//! Mining on ciphertext finds exactly what is in the plaintext: known data, structured data, every input format.

use crate::common::plaintext::{Plaintext, by_length, known_data, random_baskets, supports};
use crate::common::{Home, parties, says};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// With this the server counts everything, including what could be deduced.
const ASK_ALL: &str = "--no-deduction --trust-server";
const MOMENTS: &str = "--trust-server";

/// Encrypts `input`, uploads it to a server process, mines it there; returns the output of `oboro mine`.
fn mine(
    input: &Path,
    min_support: &str,
    max_len: usize,
    encrypt_options: &str,
    mine_options: &str,
) -> Value {
    let (owner, _operator, _server) = parties();
    let input = input.display();
    owner.json(&format!(
        "encrypt {input} --out data.oboro --max-len {max_len} {encrypt_options}"
    ));
    owner.json("upload data.oboro");
    owner.json(&format!(
        "mine data.oboro --min-support {min_support} --verify {input} {mine_options}"
    ))
}

/// A number in the output of `oboro mine` for each level.
fn by_level(mined: &Value, name: &str) -> Vec<u64> {
    let levels = mined["levels"].as_array().unwrap().iter();
    levels.map(|level| level[name].as_u64().unwrap()).collect()
}

/// How the supports of each level were obtained.
fn routes(mined: &Value) -> Vec<&str> {
    let levels = mined["levels"].as_array().unwrap().iter();
    levels
        .map(|level| level["route"].as_str().unwrap_or("-"))
        .collect()
}

/// Compares with supports counted by the test, and checks the noise.
fn assert_right(mined: &Value, truth: &Plaintext, min_support: u64, max_len: usize) {
    assert_eq!(mined["matches_plaintext"], true);
    assert_eq!(mined["transactions"], truth.transactions());
    assert_eq!(mined["min_support"], min_support);
    assert!(supports(mined) == truth.frequent(min_support, max_len));
    let trusted = |level: &&Value| level["route"] == "trusted";
    for level in mined["levels"].as_array().unwrap().iter().filter(trusted) {
        let log2 = |name: &str| level[name].as_f64().unwrap();
        assert!(
            log2("log2_largest_phase") <= log2("log2_phase_bound"),
            "{level}"
        );
    }
}

/// A row of the table in the README of the known data: a minimum support in percent, frequent itemsets by length.
/// Returns the output of `oboro mine`, if the data are present.
fn assert_known(
    file: &str,
    percent: u64,
    encrypt_options: &str,
    mine_options: &str,
    expected: &[usize],
) -> Option<Value> {
    let input = known_data(file)?;
    let max_len = expected.len();
    let min_support = format!("{percent}%");
    let mined = mine(&input, &min_support, max_len, encrypt_options, mine_options);
    assert_eq!(by_length(&supports(&mined), max_len), expected);
    let truth = Plaintext::read(&input);
    let min_support = (percent * truth.transactions() as u64).div_ceil(100);
    assert_right(&mined, &truth, min_support, max_len);
    Some(mined)
}

/// At most 1.1 bits per transaction and frequent column, plus padding to whole blocks and tags.
fn assert_few_bytes(mined: &Value, columns: u64) {
    assert_eq!(mined["answers"], "verified");
    assert_eq!(mined["columns"], columns);
    let transactions = mined["transactions"].as_u64().unwrap();
    // The largest block is of 8192 slots, and there is one segment.
    let padded = transactions.next_multiple_of(8192);
    let bytes = mined["received_bytes"].as_u64().unwrap();
    assert!(
        bytes <= columns * (padded / 8 + 40 * padded.div_ceil(64 * 4096)),
        "{bytes}"
    );
    if transactions > 5_000 {
        assert!(8 * bytes <= columns * transactions * 11 / 10, "{bytes}");
    }
}

#[test]
fn mushroom_at_20_percent() {
    let expected = [39, 304, 1050, 2152, 3031];
    let mine = |options| assert_known("mushroom.dat.gz", 20, "", options, &expected);
    let (Some(auto), Some(all)) = (mine(""), mine(ASK_ALL)) else {
        return;
    };
    assert_eq!(by_level(&auto, "asked")[1..], [703, 507, 67, 0]);
    assert_eq!(by_level(&all, "asked")[1..], [741, 1265, 2231, 3052]);
    assert_eq!(
        routes(&all),
        ["-", "trusted", "trusted", "trusted", "trusted"]
    );
    // The items are in the owner's record; the cells of the frequent ones, fetched once, serve all longer itemsets.
    assert_eq!(routes(&auto), ["-", "cells", "cells", "cells", "-"]);
    assert_eq!(by_level(&auto, "received_bytes")[2..], [0; 3]);
    assert_few_bytes(&auto, 39);
}

/// Pairs as sums that the server computes on ciphertext: 7 bytes each, since each of these data sets is one range.
#[test]
fn pairs_of_real_data_by_sums() {
    const SUMS: &str = "--answers moments";
    for (file, percent, options, expected) in [
        ("mushroom.dat.gz", 30, "", [24, 134]),
        ("mushroom.dat.gz", 20, "", [39, 304]),
        ("chess.dat.gz", 90, "", [13, 68]),
        ("T10I4D100K.dat.gz", 1, "--min-item-support 1%", [375, 9]),
        ("retail.dat.gz", 1, "--min-item-support 1%", [70, 58]),
    ] {
        if let Some(mined) = assert_known(file, percent, options, SUMS, &expected) {
            assert_eq!(mined["answers"], "verified");
            assert_eq!(routes(&mined), ["-", "scalars"]);
            let pairs = expected[0] * (expected[0] - 1) / 2;
            assert_eq!(mined["received_bytes"], 7 * pairs);
        }
    }
}

/// Triples and quadruples by moments of a prefix: 43 and 57 kB each.
#[test]
fn longer_itemsets_of_real_data_by_moments() {
    const MOMENTS: &str = "--answers moments";
    type Known = (
        &'static str,
        u64,
        &'static str,
        &'static [usize],
        &'static [&'static str],
    );
    let all: &[&str] = &["-", "scalars", "prefix", "prefix"];
    let known: [Known; 4] = [
        ("mushroom.dat.gz", 30, "", &[24, 134, 349, 501], all),
        ("chess.dat.gz", 90, "", &[13, 68, 167, 203], all),
        (
            "retail.dat.gz",
            1,
            "--min-item-support 1%",
            &[70, 58, 25],
            &all[..3],
        ),
        // No pair is frequent, so nothing longer is requested.
        (
            "T10I4D100K.dat.gz",
            3,
            "--min-item-support 1%",
            &[60, 0],
            &all[..2],
        ),
    ];
    for (file, percent, options, expected, expected_routes) in known {
        if let Some(mined) = assert_known(file, percent, options, MOMENTS, expected) {
            assert_eq!(mined["answers"], "verified");
            assert_eq!(routes(&mined), expected_routes);
        }
    }
    // A request that is too large is refused, with a smaller alternative.
    let Some(input) = known_data("T10I4D100K.dat.gz") else {
        return;
    };
    let (owner, _operator, _server) = parties();
    let data = input.display();
    owner.json(&format!(
        "encrypt {data} --max-len 3 --out t.oboro --min-item-support 1%"
    ));
    owner.json("upload t.oboro");
    let refused = owner.refused("mine t.oboro --min-support 1% --answers moments");
    says(
        &refused,
        &[
            "all itemsets of 3 items",
            "--answers cells",
            "698 MB",
            "kB at most",
        ],
    );
    owner.json(&format!("mine t.oboro --min-support 1% --verify {data}"));
}

/// The number of transactions with both an item and each other one that occurs.
fn together(baskets: &[Vec<u32>], item: u32, items: u32) -> BTreeMap<String, u64> {
    let others = (0..items).filter(|&it| it != item);
    let count = |other: u32| {
        let both = |it: &&Vec<u32>| it.contains(&item) && it.contains(&other);
        (
            other.to_string(),
            baskets.iter().filter(both).count() as u64,
        )
    };
    others.map(count).collect()
}

/// The counts in the output of `oboro pairs`.
fn counted(printed: &Value) -> BTreeMap<String, u64> {
    let pairs = printed["pairs"].as_array().unwrap().iter();
    let pair = |it: &Value| {
        let item = it["item"].as_str().unwrap().to_owned();
        (item, it["together"].as_u64().unwrap())
    };
    pairs.map(pair).collect()
}

#[test]
fn pairs_with_one_item() {
    const ITEMS: u32 = 25;
    let (owner, _operator, _server) = parties();
    // A stratum that is counted exactly, then one with its sample.
    let (few, many) = (
        random_baskets(300, ITEMS, 40),
        random_baskets(45_000, ITEMS, 60),
    );
    owner.write_fimi("few.dat", &few);
    owner.write_fimi("many.dat", &many);
    owner.json("encrypt few.dat --max-len 2 --out rows.oboro");
    owner.json("encrypt many.dat --append-to rows.oboro");
    owner.json("upload rows.oboro");
    let all = [few, many].concat();
    for item in [0, 7, 24] {
        let printed = owner.json(&format!("pairs rows.oboro --with {item}"));
        assert_eq!(counted(&printed), together(&all, item, ITEMS));
        let support = all.iter().filter(|it| it.contains(&item)).count();
        assert_eq!(printed["support"], support);
        assert_eq!(
            (&printed["answers"], &printed["route"]),
            (&"verified".into(), &"scalars".into())
        );
        assert_eq!(printed["received_bytes"], 3 * 7 * 24);
    }
    let text = owner.done("pairs rows.oboro --with 7 --out pairs.csv");
    says(
        &text,
        &[
            "24 other items",
            "504 B received",
            "verified",
            "and 4 more: all are in pairs.csv",
        ],
    );
    says(
        &owner.done("pairs rows.oboro --with 7"),
        &["and 4 more: --out FILE or --json gives all"],
    );
    let csv = String::from_utf8(owner.read("pairs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 25);
    let support = |item: u32| all.iter().filter(|it| it.contains(&item)).count();
    let row = format!(
        "7,3,{},{},{},{}",
        support(7),
        support(3),
        together(&all, 7, ITEMS)["3"],
        all.len()
    );
    assert!(csv.lines().any(|line| line == row), "{csv}");
    let mode = std::fs::metadata(owner.path("pairs.csv")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    says(
        &owner.refused("pairs rows.oboro --with milk"),
        &["\"milk\" is no item of this dataset"],
    );
    // The server counts no pairs here; an item was left out there.
    owner.json("encrypt few.dat --max-len 1 --out single.oboro");
    owner.json("upload single.oboro");
    says(
        &owner.refused("pairs single.oboro --with 7"),
        &["counts no pairs", "--max-len 2 or more"],
    );
    let refused = owner.refused("encrypt few.dat --max-len 1 --focus 3 --out other.oboro");
    says(&refused, &["focus items", "choose 2 or more"]);
    let refused = owner.refused("encrypt few.dat --max-len 2 --focus 3,milk --out other.oboro");
    says(&refused, &["\"milk\" is to be a focus item", "spelling"]);
}

/// More items than have fixed parts for all their pairs.
#[test]
fn pairs_of_many_columns() {
    const ITEMS: u32 = 1_030;
    let (owner, _operator, _server) = parties();
    // Each item occurs; the rarest come last in the owner's order.
    let mut rows = random_baskets(400, ITEMS, 6);
    rows[0] = (0..ITEMS).collect();
    owner.write_fimi("rows.dat", &rows);
    let encrypted = owner.json("encrypt rows.dat --max-len 3 --focus 1029,5 --out rows.oboro");
    let mut focus: Vec<String> = serde_json::from_value(encrypted["focus"].clone()).unwrap();
    focus.sort_unstable();
    assert_eq!(focus, ["1029", "5"]);
    owner.json("upload rows.oboro");
    let rare = {
        let support = |item: u32| rows.iter().filter(|it| it.contains(&item)).count();
        (0..ITEMS)
            .filter(|it| ![5, 1029].contains(it))
            .min_by_key(|&it| support(it))
            .unwrap()
    };
    for item in [5, 1029] {
        let printed = owner.json(&format!("pairs rows.oboro --with {item}"));
        assert_eq!(counted(&printed), together(&rows, item, ITEMS));
        assert_eq!(printed["received_bytes"], 7 * 1_029);
    }
    let refused = owner.refused(&format!("pairs rows.oboro --with {rare}"));
    says(&refused, &["focus", "--max-len 2"]);
    // Pairs of all items: in cells, unless fixed parts of more columns are kept.
    let mine = "mine rows.oboro --min-support 1 --max-len 2 --verify rows.dat";
    let refused = owner.refused(&format!("{mine} --answers moments"));
    says(
        &refused,
        &["1024 with the largest supports", "--pair-columns"],
    );
    assert_eq!(routes(&owner.json(mine))[1], "cells");
    // At a higher support fewer are frequent.
    let longer = "mine rows.oboro --max-len 3 --answers moments --min-support";
    owner.json(&format!("{longer} 12 --verify rows.dat"));
    let encrypt = "encrypt rows.dat --max-len 2 --out all.oboro --pair-columns";
    says(
        &owner.refused(&format!("{encrypt} 4097")),
        &["1024 to 4096"],
    );
    owner.json(&format!("{encrypt} 1030"));
    owner.json("upload all.oboro --name all");
    let all = "mine all.oboro --name all --min-support 1 --max-len 2 --answers moments";
    let mined = owner.json(&format!("{all} --verify rows.dat"));
    assert_eq!(
        (&mined["answers"], routes(&mined)[1]),
        (&"verified".into(), "scalars")
    );
    let pairs = 7 * u64::from(ITEMS) * u64::from(ITEMS - 1) / 2;
    assert_eq!(by_level(&mined, "received_bytes")[1], pairs);
    // Appended rows are counted as well.
    let more = [vec![5, 7, 1029], vec![5]];
    owner.write_fimi("more.dat", &more);
    owner.json("encrypt more.dat --append-to rows.oboro");
    owner.json("upload rows.oboro");
    rows.extend(more);
    owner.write_fimi("rows.dat", &rows);
    let printed = owner.json("pairs rows.oboro --with 5");
    assert_eq!(counted(&printed), together(&rows, 5, ITEMS));
}

/// The number of transactions appended one by one: OBORO_APPENDS, or a fraction of the number in `make nightly`.
fn appends() -> u64 {
    let given = std::env::var("OBORO_APPENDS").ok();
    given.map_or(40, |given| given.parse().unwrap())
}

#[test]
fn many_appends_are_counted_with_few_ranges() {
    let (owner, _operator, _server) = parties();
    let (first, more) = (
        random_baskets(300, 4, 128),
        random_baskets(appends(), 4, 100),
    );
    owner.write_fimi("rows.dat", &first);
    owner.json("encrypt rows.dat --max-len 3");
    let mut all = first;
    for (number, basket) in more.into_iter().enumerate() {
        // An empty basket would leave no line.
        let basket = [&basket[..], &[number as u32 % 4]].concat();
        let basket: Vec<u32> = std::collections::BTreeSet::from_iter(basket)
            .into_iter()
            .collect();
        owner.write_fimi("one.dat", std::slice::from_ref(&basket));
        owner.json("encrypt one.dat --append-to rows.oboro");
        all.push(basket);
    }
    owner.write_fimi("all.dat", &all);
    owner.json("upload rows.oboro");
    let sums = "mine rows.oboro --min-support 1 --max-len 2 --answers moments --verify all.dat";
    let mined = owner.json(sums);
    // All of them are one range.
    assert_eq!(mined["received_bytes"], 6 * 7);
    // The same data with a trusted server, deeper, then with an append.
    owner.json("mine rows.oboro --min-support 1 --max-len 3 --trust-server --verify all.dat");
    owner.json("trust reset rows.oboro");
    owner.json("encrypt rows.dat --append-to rows.oboro");
    owner.json("upload rows.oboro");
    owner.write_fimi(
        "all.dat",
        &[&all[..], &random_baskets(300, 4, 128)].concat(),
    );
    for options in [
        "--max-len 2 --answers moments",
        "--max-len 3 --answers moments",
        "--max-len 3 --answers cells",
        "--max-len 3 --trust-server",
    ] {
        owner.json(&format!(
            "mine rows.oboro --min-support 1 {options} --verify all.dat"
        ));
    }
}

#[test]
fn chess_at_90_percent() {
    let expected = [13, 68, 167, 203];
    assert_known("chess.dat.gz", 90, "", ASK_ALL, &expected);
    if let Some(auto) = assert_known("chess.dat.gz", 90, "", "", &expected) {
        assert_few_bytes(&auto, 13);
    }
}

#[test]
fn t10i4d100k_at_1_percent() {
    let rare = "--min-item-support 0.01";
    let mined = assert_known("T10I4D100K.dat.gz", 1, rare, "", &[375, 9, 1, 0]);
    if let Some(mined) = mined {
        assert_eq!(routes(&mined), ["-", "cells", "cells"]);
        assert_few_bytes(&mined, 375);
    }
}

#[test]
fn retail_at_1_percent() {
    let rare = "--min-item-support 0.01";
    let expected = [70, 58, 25, 6];
    assert_known("retail.dat.gz", 1, rare, MOMENTS, &expected);
    if let Some(auto) = assert_known("retail.dat.gz", 1, rare, "", &expected) {
        assert_few_bytes(&auto, 70);
    }
}

#[test]
fn a_run_stops_once_too_many_itemsets_are_certain() {
    let (owner, _operator, _server) = parties();
    // 28 items that occur together once, some of them elsewhere as well.
    let baskets: Vec<Vec<u32>> = (0..40)
        .map(|row| match row {
            0 => (0..28).collect(),
            row => vec![row % 5, 100 + row],
        })
        .collect();
    owner.write_fimi("rows.dat", &baskets);
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 1 --max-len";
    let refused = owner.run(&format!("{mine} 28"));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    says(
        &refused.stderr,
        &[
            "484 itemsets of up to 2 items are frequent and at least 8388331 longer ones follow",
            "the limit of 1000000",
            "`--min-support`",
            "`--max-len`",
            "`--stop-above 0`",
        ],
    );
    // With what the message says, it ends.
    assert_eq!(supports(&owner.json(&format!("{mine} 4"))).len(), 24_235);
    says(
        &owner.refused(&format!("{mine} 4 --stop-above 24234")),
        &[
            "3760 itemsets",
            "at least 20475 longer ones follow",
            "the limit of 24234",
        ],
    );
    // How many there are depends on counts that a release suppresses.
    let refused = owner.refused(&format!("{mine} 4 --stop-above 24234 --suppress-below 11"));
    says(&refused, &["more than 24234 itemsets", "--stop-above 0"]);
    assert!(
        !refused.contains("3760") && !refused.contains("20475"),
        "{refused}"
    );
    for enough in [24_235, 0] {
        owner.json(&format!("{mine} 4 --stop-above {enough}"));
    }
}

#[test]
fn what_follows_from_known_supports_is_not_asked() {
    let (owner, _operator, _server) = parties();
    // 0 is in all, 1 and 2 sometimes occur together, 3 is rare.
    let baskets: Vec<Vec<u32>> = (0..300)
        .map(|row| match row {
            0..10 => vec![0, 1, 3],
            10..100 => vec![0, 1],
            100..200 => vec![0, 1, 2],
            _ => vec![0, 2],
        })
        .collect();
    owner.write_fimi("rows.dat", &baskets);
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 100 --verify rows.dat";
    let mined = owner.json(mine);
    let truth = Plaintext::read(&owner.path("rows.dat"));
    assert_right(&mined, &truth, 100, 3);
    assert_eq!(by_level(&mined, "candidates"), [4, 3, 1]);
    assert_eq!(by_level(&mined, "asked"), [0, 1, 0]);
    assert_eq!(by_level(&mined, "deduced"), [3, 2, 1]);
    assert_eq!(by_level(&mined, "excluded"), [1, 0, 0]);
    assert_eq!(by_level(&mined, "frequent"), [3, 3, 1]);
    assert_eq!(by_level(&mined, "received_bytes")[2], 0);
    assert!(mined["levels"][2]["log2_largest_phase"].is_null());
    let table = owner.done(mine);
    let row = table.lines().nth(3).unwrap().split_whitespace();
    let row: Vec<&str> = row.collect();
    assert_eq!(row, ["3", "1", "0", "1", "0", "1", "-", "-", "-", "-", "-"]);

    let mined = owner.json(&format!("{mine} {ASK_ALL}"));
    assert_right(&mined, &truth, 100, 3);
    assert_eq!(by_level(&mined, "asked"), [0, 3, 1]);

    // More than all transactions: nothing has to be requested.
    let mined = owner.json("mine rows.oboro --min-support 301 --verify rows.dat");
    assert_eq!(by_level(&mined, "asked"), [0]);
    assert_eq!(by_level(&mined, "excluded"), [4]);
}

/// A mined dataset of 5000 transactions of items with different supports, and the options of the mining.
fn parties_with_kept_cells() -> (Home, Home, crate::common::Server) {
    let (owner, operator, server) = parties();
    let basket = |row: u32| {
        (0..8)
            .filter(move |item| row.is_multiple_of(item + 1))
            .collect()
    };
    owner.write_fimi("rows.dat", &(0..5_000).map(basket).collect::<Vec<_>>());
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    (owner, operator, server)
}

#[test]
fn cells_that_are_kept_are_not_fetched_again() {
    let (owner, _operator, _server) = parties_with_kept_cells();
    let mine = |options: &str| {
        let mined = owner.json(&format!("mine rows.oboro --max-len 3 {options}"));
        let number = |name: &str| mined[name].as_u64().unwrap();
        (
            number("columns"),
            number("new_columns"),
            number("received_bytes"),
        )
    };
    // Two blocks of 4096 transactions, a seal for each segment.
    const COLUMN: u64 = 2 * 4096 / 8 + 40;
    let verify = "--verify rows.dat";
    assert_eq!(
        mine(&format!("--min-support 20% {verify}")),
        (5, 5, 5 * COLUMN)
    );
    assert_eq!(mine(&format!("--min-support 20% {verify}")), (5, 0, 0));
    assert_eq!(mine(&format!("--min-support 30% {verify}")), (3, 0, 0));
    // No connection is made.
    let away = "mine rows.oboro --max-len 3 --min-support 20% --server http://127.0.0.1:9";
    assert_eq!(
        owner.json(&format!("{away} --offline"))["answers"],
        "verified"
    );
    says(
        &owner.run(away).refusal(),
        &["cannot reach", "--offline answers"],
    );
    // A lower one says what it reveals, before the request.
    let told = owner.done("mine rows.oboro --max-len 2 --min-support 15% --answers cells");
    assert!(
        told.starts_with("the server learns that one more column is wanted"),
        "{told}"
    );
    assert_eq!(
        mine(&format!("--min-support 12% {verify}")),
        (8, 2, 2 * COLUMN)
    );
    // The cache is neither used nor filled if disabled.
    assert_eq!(mine("--min-support 20% --keep-cells 0"), (5, 5, 5 * COLUMN));
    // After an append only the new segment is fetched.
    owner.json("encrypt rows.dat --append-to rows.oboro --no-absorb");
    owner.json("upload rows.oboro");
    let all = [owner.read("rows.dat"), owner.read("rows.dat")].concat();
    owner.write("twice.dat", all);
    assert_eq!(
        mine("--min-support 20% --verify twice.dat"),
        (5, 0, 5 * COLUMN)
    );
    assert_eq!(mine("--min-support 20% --verify twice.dat"), (5, 0, 0));
    assert_eq!(
        mine("--min-support 12% --verify twice.dat"),
        (8, 0, 3 * COLUMN)
    );
    // Damaged cache files are fetched again.
    let cells = owner.path("rows.oboro/cells");
    let kept: Vec<_> = std::fs::read_dir(&cells)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    assert!(
        kept.iter().all(|path| path.extension().unwrap() == "cells"),
        "{kept:?}"
    );
    for path in &kept {
        let mut bytes = std::fs::read(path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let (columns, _, bytes) = mine("--min-support 12% --verify twice.dat");
    assert!(columns == 8 && bytes > 0, "{bytes}");
    assert_eq!(mine("--min-support 12% --verify twice.dat"), (8, 0, 0));
    // The cache stays within its limit.
    std::fs::remove_dir_all(&cells).unwrap();
    let few = "--min-support 12% --keep-cells 4KiB";
    assert_eq!(mine(few), (8, 8, 16 * COLUMN));
    assert_eq!(mine(few), (8, 8, 16 * COLUMN));
}

/// The owner's row ids: `patient 0` and so on; every third row has tea and every fifth gout.
fn named_rows(numbers: std::ops::Range<usize>) -> String {
    let row = |number: usize| {
        format!(
            "patient {number},{},{}\n",
            u8::from(number.is_multiple_of(3)),
            u8::from(number.is_multiple_of(5))
        )
    };
    let rows: String = numbers.map(row).collect();
    format!("id,tea,gout\n{rows}")
}

#[test]
fn row_ids_are_sealed_and_come_back() {
    let (owner, operator, _server) = parties();
    owner.write("rows.csv", named_rows(0..5_000));
    owner.write("more.csv", named_rows(5_000..5_100));
    owner.json("encrypt rows.csv --row-ids id --max-len 2");
    owner.json("upload rows.oboro");
    let ids = || -> Vec<(u64, String)> {
        let rows = owner.json("row-ids rows.oboro --slots");
        let rows = rows["rows"].as_array().unwrap().iter();
        let slot_and_id = rows.map(|it| {
            (
                it["slot"].as_u64().unwrap(),
                it["id"].as_str().unwrap().to_owned(),
            )
        });
        let mut rows: Vec<_> = slot_and_id.collect();
        assert!(rows.is_sorted_by_key(|it| it.1.clone()));
        rows.sort_unstable();
        rows
    };
    let expected = |numbers: std::ops::Range<usize>| -> Vec<String> {
        let mut all: Vec<_> = numbers.map(|it| format!("patient {it}")).collect();
        all.sort_unstable();
        all
    };
    let sorted = |rows: &[(u64, String)]| -> Vec<String> {
        let mut all: Vec<_> = rows.iter().map(|(_, id)| id.clone()).collect();
        all.sort_unstable();
        all
    };
    let first = ids();
    assert!(first.iter().map(|(slot, _)| *slot).eq(0..5_000));
    assert_eq!(sorted(&first), expected(0..5_000));
    // Rows are not in the file's order.
    let in_place = first
        .iter()
        .filter(|(slot, id)| *id == format!("patient {slot}"));
    assert!(in_place.count() < 20);
    // Row ids are not items, and mining finds what the file has.
    let mined = owner.json("mine rows.oboro --min-support 1% --verify rows.csv");
    assert_eq!(mined["matches_plaintext"], true);
    assert_eq!(mined["itemsets"].as_array().unwrap().len(), 3);
    // Appends are read the same way; their blocks begin at the next block.
    owner.json("encrypt more.csv --append-to rows.oboro");
    owner.json("upload rows.oboro");
    let both = ids();
    assert_eq!(both[..5_000], first);
    assert!(both[5_000..].iter().map(|(slot, _)| *slot).eq(8_192..8_292));
    assert_eq!(sorted(&both), expected(0..5_100));
    let text = owner.done("row-ids rows.oboro --out ids.txt");
    let sorted_text = "5100 rows\n  patient 0\n  patient 1\n  patient 10\n";
    assert!(text.starts_with(sorted_text), "{text}");
    let text = owner.done("row-ids rows.oboro --slots");
    let is_shown = text.contains("  patient 0\n") && text.contains("\n  slot ");
    assert!(is_shown, "{text}");
    assert_eq!(
        String::from_utf8(owner.read("ids.txt"))
            .unwrap()
            .lines()
            .count(),
        5_101
    );
    // Nothing that is stored or sent has an id in the clear.
    for (home, directory) in [(&owner, "rows.oboro"), (&operator, "data")] {
        for (file, bytes) in home.contents(directory) {
            let in_clear = bytes.windows(7).any(|it| it == b"patient");
            assert!(!in_clear, "{} has row ids", file.display());
        }
    }
}

#[test]
fn every_form_with_columns_may_have_row_ids() {
    let (owner, _operator, _server) = parties();
    let long = "patient_id,date,code\nanna,1,I10\nbo,1,I10\nanna,2,E11\nbo,2,K21\ncy,1,E11\n";
    let baskets = "1,anna,tea,milk\n2,bo,tea\n3,cy,milk,egg,tea\n";
    let counts = "id,tea,milk\n\"an\nna\",4,0\nbo,1,2\n\"c\"\"y\",0,0\n";
    for (name, text, options, ids) in [
        ("long", long, "--row-ids patient_id", ["anna", "bo", "cy"]),
        (
            "baskets",
            baskets,
            "--format csv-basket --header no --drop-columns 1 --row-ids 2",
            ["anna", "bo", "cy"],
        ),
        (
            "counts",
            counts,
            "--format csv-counts --row-ids id",
            ["an\nna", "bo", "c\"y"],
        ),
    ] {
        owner.write(&format!("{name}.csv"), text);
        owner.json(&format!("encrypt {name}.csv {options} --out {name}.oboro"));
        owner.json(&format!("upload {name}.oboro"));
        let rows = owner.json(&format!("row-ids {name}.oboro --out {name}.ids"));
        let rows = rows["rows"].as_array().unwrap().iter();
        let mut found: Vec<_> = rows.map(|it| it["id"].as_str().unwrap()).collect();
        let written: String = (found.iter())
            .map(|id| format!("\"{}\"\n", id.replace('"', "\"\"")))
            .collect();
        let file = String::from_utf8(owner.read(&format!("{name}.ids"))).unwrap();
        assert_eq!(file, format!("id\n{written}"));
        owner.json(&format!("row-ids {name}.oboro --slots --out {name}.slots"));
        let file = String::from_utf8(owner.read(&format!("{name}.slots"))).unwrap();
        assert!(file.starts_with("id,slot\n"), "{file}");
        let mode = std::fs::metadata(owner.path(&format!("{name}.ids"))).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        found.sort_unstable();
        assert_eq!(found, ids);
        let mined = owner.json(&format!(
            "mine {name}.oboro --min-support 1 --verify {name}.csv"
        ));
        assert_eq!(mined["matches_plaintext"], true);
    }
}

#[test]
fn rows_of_a_dataset_all_have_ids_or_none_has() {
    let (owner, _operator, _server) = parties();
    let refused = |line: &str, parts: &[&str]| says(&owner.run(line).refusal(), parts);
    owner.write("rows.csv", named_rows(0..20));
    owner.write("rows.dat", "1 2\n2 3\n");
    owner.write(
        "longer.csv",
        format!("id,tea,gout\n{},1,1\n", "y".repeat(17)),
    );
    owner.json("encrypt rows.csv --row-ids id --max-len 2");
    owner.json("encrypt rows.csv --drop-columns id --out plain.oboro");
    assert_eq!(owner.json("inspect rows.oboro")["row_id_bytes"], 16);
    assert_eq!(owner.json("inspect plain.oboro")["row_id_bytes"], 0);
    let planned = owner.json("plan --transactions 20 --items 2 --max-len 2 --row-id-bytes 10");
    assert_eq!(
        planned["stored_bytes"],
        owner.json("inspect rows.oboro")["stored_bytes"]
    );
    refused(
        "encrypt rows.csv --row-ids id --format csv-counts --append-to plain.oboro",
        &["rows of this dataset have no ids"],
    );
    refused(
        "encrypt rows.dat --format fimi --append-to rows.oboro",
        &["say which column has them"],
    );
    refused(
        "encrypt longer.csv --append-to rows.oboro",
        &["has 17 bytes and this dataset reserves 16 for each"],
    );
    owner.json("upload plain.oboro");
    refused(
        "row-ids plain.oboro",
        &["rows of this dataset have no ids", "--row-ids"],
    );
    // Rows appended twice are present twice, and the output says so.
    owner.json("encrypt rows.csv --append-to rows.oboro");
    owner.json("upload rows.oboro");
    assert_eq!(owner.json("row-ids rows.oboro")["repeated"], 40);
    let text = owner.done("row-ids rows.oboro");
    assert!(
        text.starts_with("40 rows\n  40 of them share an id with another row"),
        "{text}"
    );
    // Transactions are compared, not their ids.
    let twice = named_rows(0..20) + named_rows(0..20).split_once('\n').unwrap().1;
    owner.write("twice.csv", twice);
    let mined = owner.json("mine rows.oboro --min-support 1 --verify twice.csv");
    assert_eq!(mined["matches_plaintext"], true);
}

#[test]
fn nothing_frequent_is_an_answer_too() {
    let (owner, _operator, _server) = parties();
    owner.write_fimi("rows.dat", &random_baskets(100, 5, 128));
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro");
    let mined = owner.json("mine rows.oboro --min-support 100% --verify rows.dat --out none.json");
    assert_eq!(mined["itemsets"].as_array().unwrap().len(), 0);
    let rules = owner.json("rules none.json");
    assert_eq!(rules["rules"].as_array().unwrap().len(), 0);
}

#[test]
fn generated_data_from_file_to_rules() {
    let (owner, _operator, _server) = parties();
    let generated = owner.json("generate quest.dat");
    assert_eq!(generated["transactions"], 2000);
    owner.json("encrypt quest.dat --max-len 3");
    owner.json("upload quest.oboro");
    let mined = owner.json("mine quest.oboro --min-support 5% --verify quest.dat --out found.json");
    let truth = Plaintext::read(&owner.path("quest.dat"));
    assert_right(&mined, &truth, 100, 3);
    let written: Value = serde_json::from_slice(&owner.read("found.json")).unwrap();
    assert_eq!(written["itemsets"], mined["itemsets"]);

    let document = owner.json("rules found.json --metric confidence --min 0.5");
    let rules = document["rules"].as_array().unwrap();
    let is_confident = |rule: &Value| rule["confidence"].as_f64().unwrap() >= 0.5;
    assert!(!rules.is_empty() && rules.iter().all(is_confident));
}

#[test]
fn verification_notices_other_data() {
    let (owner, _operator, _server) = parties();
    let mut baskets = random_baskets(300, 5, 128);
    owner.write_fimi("rows.dat", &baskets);
    baskets[7] = vec![0, 1, 2, 3, 4];
    owner.write_fimi("others.dat", &baskets);
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro");
    let message =
        owner.refused("mine rows.oboro --min-support 1 --verify others.dat --keep-cells 0");
    says(&message, &["differs from the plaintext", "--verify"]);
}

#[test]
fn a_feed_with_new_items_raises_the_minimum_support() {
    let (owner, _operator, _server) = parties();
    let feed = |day: u32| -> Vec<Vec<u32>> {
        // Items 0 and 1 often, on each day one of its own, and item 9 three times in all.
        (0..20u32)
            .map(|row| match row {
                0 => vec![0, 1, 9],
                1 => vec![0, 100 + day],
                _ => (0..=row % 2).collect(),
            })
            .collect()
    };
    let first: Vec<Vec<u32>> = (0..100u32).map(|row| (0..=row % 2).collect()).collect();
    owner.write_fimi(
        "all.dat",
        &[&first[..], &feed(1), &feed(2), &feed(3)].concat(),
    );
    owner.write_fimi("rows.dat", &first);
    owner.json("encrypt rows.dat");
    owner.write_fimi("day.dat", &feed(1));
    let told = owner.refused("encrypt day.dat --append-to rows.oboro");
    says(
        &told,
        &[
            "2 items are not columns",
            "\"101\" for one",
            "--new-items drop",
        ],
    );
    let told = owner.refused("encrypt day.dat --append-to rows.oboro --min-item-support 5");
    says(&told, &["add --new-items drop"]);
    let drop = "encrypt day.dat --append-to rows.oboro --new-items drop";
    for (day, threshold) in [(1, 2), (2, 3), (3, 4)] {
        owner.write_fimi("day.dat", &feed(day));
        if day == 3 {
            let told = owner.refused(&format!("{drop} --min-item-support 3"));
            says(&told, &["\"9\"", "up to 3 transactions", "fewer than 3"]);
        }
        let appended = owner.json(&format!("{drop} --min-item-support 4"));
        assert_eq!(appended["items_left_out"], 2);
        assert_eq!(appended["min_item_support"], threshold);
    }
    assert_eq!(owner.json("inspect rows.oboro")["version"], 4);
    owner.json("upload rows.oboro");
    owner.refused("mine rows.oboro --min-support 3");
    let mined = owner.json("mine rows.oboro --min-support 4 --verify all.dat");
    assert_eq!(mined["matches_plaintext"], true);
}

/// Two owners append to copies of one dataset: the server accepts one history, and the other owner gets an error.
#[test]
fn histories_that_parted_are_distinguished_from_old_ones() {
    let (owner, _operator, _server) = parties();
    owner.write_fimi("rows.dat", &[vec![0, 1], vec![0]]);
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro");
    owner.copy("rows.oboro", "old.oboro");
    owner.copy("rows.oboro", "other.oboro");
    let append = |to: &str| format!("encrypt rows.dat --append-to {to} --no-absorb --json");
    owner.done(&append("rows.oboro"));
    owner.done(&append("other.oboro"));
    owner.json("upload rows.oboro");
    // Of the same version, and of a later one.
    let parted = [
        "that the other lacks",
        "on a bundle of the published version",
    ];
    for _ in 0..2 {
        says(&owner.refused("upload other.oboro --name rows"), &parted);
        let mine = "mine other.oboro --name rows --min-support 1";
        says(&owner.run(mine).refusal(), &["version"]);
        owner.done(&append("other.oboro"));
    }
    let trust = owner.json("trust show other.oboro");
    assert_eq!(trust["failure"], Value::Null);
    says(
        &owner.refused("upload old.oboro --name rows"),
        &["not newer"],
    );
    // Two appends to one directory at the same time: one after the other, or one is refused.
    let ended = [(); 2].map(|()| owner.start(&append("old.oboro")));
    let ended = ended.map(|it| it.ended());
    let done = ended.iter().filter(|it| it.code == Some(0)).count();
    assert!(done > 0, "{ended:?}");
    let dataset = owner.json("inspect old.oboro --key oboro.key");
    assert_eq!(dataset["transactions"], 2 + 2 * done);
}

#[test]
fn a_day_without_transactions_changes_nothing() {
    let owner = Home::with_key();
    let rows = "id,item\n1,tea\n1,salt\n2,tea\n";
    let form = "--format csv-long --transaction-column id --item-column item";
    owner.write("rows.csv", rows);
    owner.json(&format!("encrypt rows.csv {form}"));
    owner.write("day.csv", "id,item\n");
    let head = std::fs::read(owner.path("rows.oboro/head")).unwrap();
    let told = owner.done("encrypt day.csv --append-to rows.oboro");
    says(&told, &["nothing to append", "version 1"]);
    // Where the form is to be recognised, a single line is a transaction or a header; who knows says so.
    owner.write("table.csv", "tea,salt\n1,0\n1,1\n");
    owner.json("encrypt table.csv");
    owner.write("day.csv", "salt,tea\n");
    owner.refused("encrypt day.csv --append-to table.oboro");
    let told =
        owner.done("encrypt day.csv --append-to table.oboro --format csv-onehot --header yes");
    says(&told, &["nothing to append"]);
    owner.write("day.csv", "1,0\n");
    owner.refused("encrypt day.csv --append-to table.oboro");
    // That the first file had a header says nothing of this line.
    let said = "--format csv-onehot --header yes --missing absent";
    owner.json(&format!("encrypt table.csv {said} --out said.oboro"));
    let told = owner.refused("encrypt day.csv --append-to said.oboro");
    says(&told, &["--header yes", "--header no"]);
    // Nor are the columns of a table without a header new items.
    owner.write("day.csv", "1,0\n0,1\n");
    let told = owner.refused("encrypt day.csv --append-to said.oboro --new-items drop");
    says(&told, &["have no column in this table"]);
    assert_eq!(std::fs::read(owner.path("rows.oboro/head")).unwrap(), head);
}

#[test]
fn a_minimum_support_below_that_of_items_left_out_is_refused() {
    let (owner, _operator, _server) = parties();
    // Item 0 in all transactions, 1 in every other one, 2 in 10.
    let baskets: Vec<Vec<u32>> = (0..300)
        .map(|row| match row {
            0..10 => vec![0, 2],
            _ => (0..=u32::from(row % 2 == 0)).collect(),
        })
        .collect();
    owner.write_fimi("rows.dat", &baskets);
    let encrypted = owner.json("encrypt rows.dat --min-item-support 10%");
    assert_eq!(encrypted["items"], 2);
    assert_eq!(encrypted["items_left_out"], 1);
    assert_eq!(encrypted["min_item_support"], 30);
    owner.json("upload rows.oboro");
    for options in ["", "--verify rows.dat"] {
        for support in ["29", "9.5%", "1"] {
            let message = owner.refused(&format!(
                "mine rows.oboro --min-support {support} {options}"
            ));
            says(
                &message,
                &[
                    "fewer than 30 of 300",
                    "at least 30 transactions",
                    "encrypt the data again",
                ],
            );
        }
        owner.done(&format!("mine rows.oboro --min-support 10% {options}"));
    }
    // An append does not lower it.
    owner.write_fimi("more.dat", &vec![vec![0, 1]; 300]);
    owner.json("encrypt more.dat --append-to rows.oboro --format fimi");
    owner.json("upload rows.oboro");
    owner.refused("mine rows.oboro --min-support 29");
    owner.done("mine rows.oboro --min-support 30");
    let told = owner.done("encrypt rows.dat --out again.oboro --min-item-support 30");
    says(&told, &["1 items in fewer than 30 transactions left out"]);
}

#[test]
fn a_result_says_where_longer_itemsets_were_not_looked_for() {
    let (owner, _operator, _server) = parties();
    owner.write_fimi("rows.dat", &vec![vec![0, 1, 2]; 100]);
    owner.json("encrypt rows.dat --format fimi --max-len 3");
    owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 50 --verify rows.dat --out found.json";
    assert_eq!(owner.json(mine)["max_len"], Value::Null);
    assert!(!owner.done(mine).contains("not searched for"));
    for max_len in [1, 2] {
        let mine = format!("{mine} --max-len {max_len}");
        assert_eq!(owner.json(&mine)["max_len"], max_len);
        let told =
            format!("itemsets of more than {max_len} items were not searched for (--max-len)");
        says(&owner.done(&mine), &[&told]);
        says(&owner.done("rules found.json"), &[&told]);
        assert_eq!(owner.json("rules found.json")["max_len"], max_len);
    }
    // The dataset's own limit has the same effect.
    owner.json("encrypt rows.dat --format fimi --out short.oboro --max-len 2");
    owner.json("upload short.oboro");
    let mined = owner.json("mine short.oboro --min-support 50 --verify rows.dat");
    assert_eq!(mined["max_len"], 2);
}

#[test]
fn a_table_says_how_much_of_the_result_it_shows() {
    let (owner, _operator, _server) = parties();
    owner.write_fimi("rows.dat", &vec![vec![0, 1, 2, 3, 4]; 100]);
    owner.json("encrypt rows.dat --format fimi --max-len 4");
    owner.json("upload rows.oboro");
    let mined = owner.done("mine rows.oboro --min-support 50 --out found.json");
    says(
        &mined,
        &["30 frequent itemsets", "the longest first, 20 of 30"],
    );
    let rules = owner.done("rules found.json --min 0 --top 7");
    says(
        &rules,
        &[
            "rules from 30 itemsets",
            "confidence of at least 0",
            "the best 7",
        ],
    );
    let all = owner.json("rules found.json --min 0 --top 7");
    assert!(all["rules"].as_array().unwrap().len() > 7);
    assert_eq!(
        (&all["metric"], &all["min"]),
        (&"confidence".into(), &0.0.into())
    );
}

#[test]
fn single_questions_are_answered_from_cells() {
    let (owner, _operator, server) = parties();
    let baskets = random_baskets(500, 6, 128);
    owner.write_fimi("rows.dat", &baskets);
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    let with = |items: &[u32]| {
        let has_all = |basket: &&Vec<u32>| items.iter().all(|item| basket.contains(item));
        baskets.iter().filter(has_all).count()
    };
    let counted = owner.json("count rows.oboro 1 0,2 5,3,1,0");
    let supports: Vec<_> = counted["itemsets"].as_array().unwrap().iter().collect();
    for (found, items) in supports.iter().zip([&[1][..], &[0, 2], &[5, 3, 1, 0]]) {
        assert_eq!(found["support"], with(items), "{items:?}");
    }
    assert_eq!(counted["answers"], "verified");
    // Item 4 was not asked about, and item 2 only in a pair.
    assert_eq!(
        (&counted["columns"], &counted["new_columns"]),
        (&5.into(), &5.into())
    );
    // What was fetched once is not fetched again, and single items need nothing at all: but for the version.
    assert_eq!(owner.json("count rows.oboro 0,1,2")["received_bytes"], 0);
    says(
        &owner.done("count rows.oboro 0,1 --keep-cells 0"),
        &["the server learns that 2 columns are wanted"],
    );
    drop(server);
    let refused = owner.run("count rows.oboro 0,1,2");
    assert_eq!(refused.code, Some(5), "{refused:?}");
    says(&refused.refusal(), &["cannot reach", "--offline answers"]);
    assert_eq!(
        owner.json("count rows.oboro 4 --offline")["itemsets"][0]["support"],
        with(&[4])
    );
    says(
        &owner.refused("count rows.oboro 4,5 --offline"),
        &["not everything that this takes is kept"],
    );
    // Nothing is learned where nothing can be asked.
    let ended = owner.run("count rows.oboro 4,5");
    assert_eq!(ended.code, Some(5), "{ended:?}");
    ended.refusal();
    says(
        &owner.done("count rows.oboro 0,1 --offline"),
        &["{0, 1}", "verified", "version 1, uploaded 20", "OFFLINE"],
    );
    let refused = owner.refused("count rows.oboro 0,tea");
    says(
        &refused,
        &["\"tea\" is no item of this dataset", "check its spelling"],
    );
    owner.misused("count rows.oboro");
    let counted = owner.json("count rows.oboro 1,1 --offline");
    assert_eq!(counted["itemsets"][0]["items"], serde_json::json!(["1"]));
}

/// The facts of a result by which a reader can tell whether it is stale.
fn of_version(result: &Value) -> (&Value, &Value, bool) {
    let offline = result["offline"].as_bool().unwrap();
    (&result["version"], &result["answers"], offline)
}

/// A copy of the directory knows nothing of what is uploaded from the original: the server's version tells.
#[test]
fn a_stale_copy_answers_only_offline_and_says_so() {
    let (owner, _operator, server) = parties();
    owner.write(
        "rows.csv",
        "id,a,b,c\nr1,1,1,0\nr2,1,1,1\nr3,0,1,1\nr4,1,0,1\n",
    );
    owner.json("encrypt rows.csv --format csv-onehot --row-ids id --max-len 3");
    owner.json("upload rows.oboro");
    let copy = |to: &str| owner.copy("rows.oboro", to);
    let questions = |of: &str| {
        [
            format!("mine {of} --name rows --min-support 1 --answers cells"),
            format!("mine {of} --name rows --min-support 1 --max-len 1"),
            format!("count {of} --name rows a,b"),
            format!("count {of} --name rows a"),
            format!("pairs {of} --name rows --with a"),
        ]
    };
    // All cells are kept here, and none in the bare copy.
    copy("bare.oboro");
    let mut before = Vec::new();
    for question in questions("rows.oboro") {
        before.push(owner.json(&question));
    }
    assert_eq!(before[4]["route"], "cells");
    copy("copy.oboro");
    let mined = &before[0]["source"];
    assert_eq!(of_version(mined), (&1.into(), &"verified".into(), false));
    says(mined["uploaded"].as_str().unwrap(), &["20", "UTC"]);
    for at in [2, 3, 4] {
        assert_eq!(
            of_version(&before[at]),
            (&1.into(), &"verified".into(), false)
        );
        says(before[at]["uploaded"].as_str().unwrap(), &["20", "UTC"]);
    }
    let refuses = |of: &str, phrases: &[&str]| {
        for question in questions(of) {
            let ended = owner.run(&question);
            let message = ended.stderr.clone();
            says(&message, &["nothing was asked", "uploaded 20"]);
            says(&message, phrases);
            assert!(ended.has_failed(), "{question}: {ended:?}");
            assert!(!ended.stdout.contains("verified"), "{ended:?}");
        }
    };
    let answers_offline = || {
        for (question, before) in questions("copy.oboro").iter().zip(&before) {
            let question = question.replace(" --answers cells", "");
            let answered = owner.json(&format!("{question} --offline"));
            let result = if answered["source"].is_null() {
                &answered
            } else {
                &answered["source"]
            };
            assert_eq!(of_version(result), (&1.into(), &"verified".into(), true));
            assert_eq!(answered["itemsets"], before["itemsets"]);
            assert_eq!(answered["pairs"], before["pairs"]);
            says(
                &owner.done(&format!("{question} --offline")),
                &["version 1, uploaded 20", "OFFLINE", "not compared"],
            );
        }
    };
    // An erasure that is not uploaded yet, and then is.
    owner.json("erase rows.oboro --row-id r2");
    refuses(
        "rows.oboro",
        &[
            "has version 2, not uploaded",
            "upload the directory's version",
        ],
    );
    owner.json("upload rows.oboro");
    owner.json(&questions("rows.oboro")[0]);
    let both = [
        "has version 1, uploaded",
        "has version 2, uploaded",
        "another copy",
    ];
    refuses("copy.oboro", &both);
    refuses("bare.oboro", &both);
    answers_offline();
    for question in &questions("bare.oboro")[2..3] {
        let refused = owner.refused(&format!("{question} --offline"));
        says(&refused, &["not everything that this takes is kept"]);
    }
    owner.write("more.csv", "id,a,b,c\nr5,1,1,0\n");
    owner.json("encrypt more.csv --append-to rows.oboro");
    owner.json("upload rows.oboro");
    refuses(
        "copy.oboro",
        &["has version 1, uploaded", "has version 3, uploaded"],
    );
    // Under that name there is another dataset, then none, and then no server.
    owner.json("delete rows --yes");
    refuses("copy.oboro", &["no dataset named \"rows\"", "version 1"]);
    owner.json("encrypt rows.csv --format csv-onehot --row-ids id --out other.oboro");
    owner.json("upload other.oboro --name rows");
    refuses("copy.oboro", &["it is another dataset"]);
    drop(server);
    for question in questions("copy.oboro") {
        let ended = owner.run(&question);
        assert_eq!(ended.code, Some(5), "{ended:?}");
        says(&ended.refusal(), &["cannot reach", "--offline answers"]);
    }
    answers_offline();
    // Nothing else goes with it.
    for other in ["--trust-server", "--answers moments"] {
        owner.misused(&format!(
            "mine copy.oboro --min-support 1 --offline {other}"
        ));
    }
}

#[test]
fn rules_are_chosen_by_their_items_and_written_as_tables() {
    let (owner, _operator, _server) = parties();
    owner.write(
        "rows.csv",
        "\"a,1\",b,c\n\"a,1\",b\n\"a,1\",c\nb,c\n\"a,1\",b,c\n",
    );
    owner.json("encrypt rows.csv --format csv-basket --max-len 3");
    owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 1";
    owner.json(&format!("{mine} --out found.json"));
    owner.json(&format!("{mine} --out found.csv"));
    let table = String::from_utf8(owner.read("found.csv")).unwrap();
    assert_eq!(
        table.lines().next(),
        Some("items,length,transactions,support")
    );
    says(&table, &["\"\"\"a,1\"\"\",1,4,0.8\n", "\"b,c\",2,3,0.6\n"]);
    assert_eq!(table.lines().count(), 1 + 7);
    let refused = owner.refused(&format!("{mine} --out found.xls"));
    says(&refused, &["found.xls", ".json, .csv or .parquet"]);

    let rules = |options: &str| -> Vec<(Vec<String>, Vec<String>)> {
        let rules = owner.json(&format!("rules found.json --min 0 {options}"));
        let names = |side: &Value| serde_json::from_value(side.clone()).unwrap();
        let rules = rules["rules"].as_array().unwrap().iter();
        let sides = rules.map(|rule| (names(&rule["antecedents"]), names(&rule["consequents"])));
        sides.collect()
    };
    let all = rules("");
    assert_eq!(all.len(), 6 + 6);
    let has = |side: &[String], name: &str| side.iter().any(|it| it == name);
    type Sides = (Vec<String>, Vec<String>);
    let chosen = |takes: &dyn Fn(&Sides) -> bool| {
        let chosen = all.iter().filter(|rule| takes(rule));
        chosen.cloned().collect::<Vec<_>>()
    };
    let concludes_b = chosen(&|(_, to)| has(to, "b"));
    assert_eq!(rules("--consequent b"), concludes_b);
    assert!(!concludes_b.is_empty() && concludes_b.len() < all.len());
    // A name with a comma is in quotes, which the shell takes away without others around them.
    let script = r#""$oboro" rules found.json --min 0 --json --antecedent '"a,1"'"#;
    let from_a = owner.start_shell(script).json();
    let from_a = from_a["rules"].as_array().unwrap().len();
    assert_eq!(from_a, chosen(&|(from, _)| has(from, "a,1")).len());
    let both = chosen(&|(from, to)| ["b", "c"].iter().all(|it| has(from, it) || has(to, it)));
    assert_eq!(rules("--items b,c"), both);
    let told = owner.done("rules found.json --min 0 --consequent b --items c");
    says(&told, &[", consequent {b}, items {c}"]);
    let refused = owner.refused("rules found.json --antecedent tea");
    says(
        &refused,
        &["tea is in none of its itemsets", "check its spelling"],
    );

    owner.json("rules found.json --min 0 --out rules.csv");
    let table = String::from_utf8(owner.read("rules.csv")).unwrap();
    assert!(table.starts_with("antecedents,consequents,antecedent_support,"));
    assert_eq!(table.lines().count(), 1 + all.len());
    let refused = owner.refused("rules found.json --min 0 --out ./found.json");
    says(&refused, &["it has the itemsets", "another file"]);
    let shown = owner.json("rules found.json --min 0 --out rules.json");
    let written: Value = serde_json::from_slice(&owner.read("rules.json")).unwrap();
    assert_eq!(written, shown);
    for file in ["found.json", "found.csv", "rules.csv", "rules.json"] {
        let mode = fs::metadata(owner.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}
