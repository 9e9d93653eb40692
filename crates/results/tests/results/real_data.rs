//! Real data with known counts: Apriori on bitmaps and Eclat must return every row of the data folder's table,
//! support by support. Without the data, the test reports it and passes.

use std::num::NonZeroUsize;
use std::path::Path;

use oboro_input::{ReadOptions, Transactions, read_path};
use oboro_mining::{
    AprioriOptions, PlaintextCounter, RuleOptions, apriori, association_rules, eclat,
};
use oboro_results::ItemsetsDocument;

fn known_data(file: &str) -> Option<Transactions> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(file);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    Some(read_path(&path, &ReadOptions::default()).unwrap().0)
}

fn check(file: &str, min_support: &str, max_len: usize, transactions: usize, counts: &[usize]) {
    let Some(data) = known_data(file) else {
        return;
    };
    assert_eq!(data.len(), transactions);

    let min_support = min_support.parse().unwrap();
    let max_len = NonZeroUsize::new(max_len);
    let options = AprioriOptions::new(min_support).with_max_len(max_len);
    let mut counter = PlaintextCounter::new(&data);
    let mut observed = Vec::new();
    let found = apriori(&mut counter, options, |report| {
        observed.push(report.frequent)
    })
    .unwrap();
    let mut by_length: Vec<usize> = found.levels().iter().map(Vec::len).collect();
    by_length.resize(counts.len(), 0);
    assert_eq!(by_length, counts);
    assert_eq!(found.len(), counts.iter().sum::<usize>());
    observed.resize(counts.len(), 0);
    assert_eq!(observed, counts);

    assert_eq!(eclat(&data, min_support, max_len), found);

    // Dropping rare items first changes items' numbers, but not the document.
    let document = ItemsetsDocument::new(&found, data.names()).unwrap();
    let restricted = data.restrict(min_support);
    let again = eclat(&restricted, min_support, max_len);
    assert_eq!(
        ItemsetsDocument::new(&again, restricted.names()).unwrap(),
        document
    );

    let read_back = ItemsetsDocument::from_json(document.to_json().as_bytes()).unwrap();
    let (names, itemsets) = read_back.into_itemsets().unwrap();
    assert_eq!(ItemsetsDocument::new(&itemsets, &names).unwrap(), document);
    association_rules(&itemsets, &names, RuleOptions::default()).unwrap();
}

#[test]
fn mushroom_at_30_percent() {
    check("mushroom.dat.gz", "30%", 4, 8_124, &[24, 134, 349, 501]);
}

#[test]
fn mushroom_at_20_percent() {
    check(
        "mushroom.dat.gz",
        "0.2",
        5,
        8_124,
        &[39, 304, 1050, 2152, 3031],
    );
}

#[test]
fn chess_at_90_percent() {
    check("chess.dat.gz", "0.9", 4, 3_196, &[13, 68, 167, 203]);
}

#[test]
fn t10i4d100k_at_1_percent() {
    check("T10I4D100K.dat.gz", "0.01", 4, 100_000, &[375, 9, 1, 0]);
}

#[test]
fn retail_at_1_percent() {
    check("retail.dat.gz", "1%", 4, 88_162, &[70, 58, 25, 6]);
}

#[test]
fn most_of_mushroom_at_20_percent_is_deduced() {
    let Some(data) = known_data("mushroom.dat.gz") else {
        return;
    };
    let options = AprioriOptions::new("20%".parse().unwrap()).with_max_len(NonZeroUsize::new(5));
    let asked = |deduction| {
        let mut asked = Vec::new();
        let options = options.with_deduction(deduction);
        let found = apriori(&mut PlaintextCounter::new(&data), options, |report| {
            asked.push(report.asked);
        });
        (asked, found.unwrap())
    };
    let (questions, found) = asked(true);
    let (all_questions, found_without) = asked(false);
    assert_eq!(questions[1..], [703, 507, 67, 0]);
    assert_eq!(all_questions[1..], [741, 1265, 2231, 3052]);
    assert_eq!(found, found_without);
}
