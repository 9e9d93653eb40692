//! Mining over a connection finds what mining plaintext finds, whatever the transactions.

mod common;

use common::{connect, serve, two};
use oboro_client::{Answered, Answers, Connection, EncryptedCounter, upload};
use oboro_mining::{
    AprioriOptions, Dataset, FrequentItemsets, MinSupport, Shuffled, Target, Transactions, apriori,
    eclat,
};
use oboro_rlwe::MasterKey;
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn mine(
    connection: &Connection,
    directory: &Path,
    parts: &[&Transactions],
    max_len: usize,
    check_columns: usize,
    options: AprioriOptions,
    answers: Answers,
) -> (FrequentItemsets, Vec<String>) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("dataset-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let master = MasterKey::generate().unwrap();
    let mut dataset = Dataset::create(
        Shuffled::of(parts[0]).unwrap(),
        &master,
        Target::New(&directory.join(&name)),
        max_len,
        check_columns,
        two(),
        &go_on,
    )
    .unwrap();
    for part in &parts[1..] {
        let rows = Shuffled::of(part).unwrap();
        dataset = dataset.append(rows, two(), &go_on).unwrap();
    }
    upload(connection, dataset.bundle(), &name, &|_, _| {}).unwrap();
    let mut counter =
        EncryptedCounter::new(connection, &dataset, &name, two()).with_answers(answers);
    let frequent = apriori(&mut counter, options, |_| {}).unwrap();
    for trace in counter.traces() {
        assert!(trace.log2_largest_phase <= trace.log2_phase_bound);
        assert_eq!(trace.checks > 0, check_columns > 0);
        let took = match trace.answered {
            Answered::Moments => trace.moments_bytes.unwrap(),
            Answered::Columns => trace.columns_bytes,
        };
        assert_eq!(trace.received_bytes, took, "{trace:?}");
        match answers {
            Answers::Moments => assert_eq!(trace.answered, Answered::Moments),
            Answers::Columns => assert_eq!(trace.answered, Answered::Columns),
            Answers::Auto => assert!(trace.moments_bytes.is_none_or(|bytes| took <= bytes)),
        }
    }
    let names = counter.names().to_vec();
    connection.delete(&name).unwrap();
    (frequent, names)
}

/// Transactions over a few items: random ones, repeated ones, constant items.
fn transactions() -> impl Strategy<Value = Transactions> {
    let basket = prop::collection::btree_set(0u8..7, 0..7);
    (
        prop::collection::vec(basket, 1..40),
        1usize..400,
        any::<bool>(),
    )
        .prop_map(|(baskets, times, constant)| {
            let named = baskets
                .iter()
                .cycle()
                .take(baskets.len() * times)
                .map(|basket| {
                    let mut names: Vec<String> =
                        basket.iter().map(|item| format!("item {item}")).collect();
                    names.extend(constant.then(|| "always".to_owned()));
                    names
                });
            Transactions::from_named(named).unwrap()
        })
}

/// All transactions so many times.
fn repeated(transactions: &Transactions, times: usize) -> Transactions {
    let names = transactions.names();
    let named = |basket: &[u32]| -> Vec<String> {
        basket
            .iter()
            .map(|&item| names[item as usize].clone())
            .collect()
    };
    let once: Vec<_> = transactions.iter().map(named).collect();
    Transactions::from_named(vec![once; times].concat()).unwrap()
}

#[test]
fn agrees_with_plaintext() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(&directory.path().join("store"), 1 << 20);
    let connection = connect(&server);
    let cases = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(16)
    };
    let answers = prop::sample::select(vec![Answers::Auto, Answers::Moments, Answers::Columns]);
    let checks = prop_oneof![Just(0), 5usize..8];
    proptest!(cases, |(transactions in transactions(), percent in 1u32..60, max_len in 1usize..=5, longer in 0usize..4, checks in checks, deduction: bool, appended: bool, answers in answers)| {
        prop_assume!(transactions.item_count() > 0);
        let parts = vec![&transactions; 1 + usize::from(appended)];
        let min_support = MinSupport::Fraction(f64::from(percent) / 100.0);
        // Columns answer what the dataset was not encrypted for.
        let longest = if answers == Answers::Moments { max_len } else { max_len + longer };
        let options = AprioriOptions::new(min_support)
            .with_max_len(NonZeroUsize::new(longest))
            .with_deduction(deduction);
        let (encrypted, names) = mine(&connection, directory.path(), &parts, max_len, checks, options, answers);
        let all = repeated(&transactions, parts.len());
        let plaintext = eclat(&all, min_support, options.max_len);
        prop_assert_eq!(
            encrypted.to_document(&names).unwrap(),
            plaintext.to_document(all.names()).unwrap()
        );
    });
}

/// Moments of several messages, sent by two threads: all of them known, or only a part.
#[test]
fn what_the_cache_had_and_what_is_counted_make_one_answer() {
    for (moment_cache, all_fit) in [(1 << 26, true), (1 << 20, false)] {
        let directory = tempfile::tempdir().unwrap();
        let server = serve(&directory.path().join("store"), moment_cache);
        let connection = connect(&server);
        let basket = |i: usize| (0..150).filter(move |item| !(i + item).is_multiple_of(3));
        let names = |i: usize| basket(i).map(|item| item.to_string());
        let named = (0..60).map(|i| Vec::from_iter(names(i)));
        let transactions = Transactions::from_named(named).unwrap();
        let master = MasterKey::generate().unwrap();
        let path = directory.path().join("dataset");
        let rows = Shuffled::of(&transactions).unwrap();
        let target = Target::New(&path);
        let dataset = Dataset::create(rows, &master, target, 2, 0, two(), &go_on).unwrap();
        upload(&connection, dataset.bundle(), "dataset", &|_, _| {}).unwrap();
        let mine = || {
            let options = AprioriOptions::new(MinSupport::Fraction(0.3))
                .with_max_len(NonZeroUsize::new(2))
                .with_deduction(false);
            let mut counter = EncryptedCounter::new(&connection, &dataset, "dataset", two());
            let frequent = apriori(&mut counter, options, |_| {}).unwrap();
            let document = frequent.to_document(counter.names()).unwrap();
            (document, counter.traces()[1])
        };
        let (first, computed) = mine();
        assert_eq!(computed.known_moments, 0);
        for _ in 0..3 {
            let (again, pairs) = mine();
            assert_eq!(again, first);
            assert_eq!(pairs.moments, computed.moments);
            assert!(pairs.received_bytes > 3 << 19, "{pairs:?}");
            assert!(pairs.known_moments > 0, "{pairs:?}");
            assert_eq!(pairs.known_moments == pairs.moments, all_fit, "{pairs:?}");
        }
    }
}
