//! Mining over a connection finds the itemsets that mining plaintext finds, for arbitrary transactions.

use crate::common::{connect, serve, two};
use oboro_client::{Answers, Connection, Mining, Route, upload};
use oboro_dataset::{Dataset, NewItems, Shuffled, Target};
use oboro_input::{MinSupport, Transactions};
use oboro_mining::{AprioriOptions, FrequentItemsets, eclat};
use oboro_results::ItemsetsDocument;
use oboro_rlwe::MasterKey;
use proptest::prelude::*;
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn mine(
    connection: &Connection,
    directory: &Path,
    parts: &[&Transactions],
    max_len: usize,
    options: AprioriOptions,
    route: Route,
) -> (FrequentItemsets, Vec<String>) {
    let trust_server = route == Route::Trusted;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("dataset-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let master = MasterKey::generate().unwrap();
    let mut dataset = Dataset::create(
        Shuffled::of(parts[0].clone()),
        &master,
        Target::New(&directory.join(&name)),
        max_len,
        two(),
        &go_on,
    )
    .unwrap();
    for part in &parts[1..] {
        let rows = Shuffled::of((*part).clone());
        dataset = dataset
            .append(rows, NewItems::Refuse, two(), &go_on)
            .unwrap();
    }
    upload(connection, dataset.bundle(), &name, &|_, _| {}).unwrap();
    let mined = Mining::new(&dataset, &name, two())
        .trusting_server(trust_server)
        .by(match route {
            Route::Scalars | Route::Prefix => Answers::Moments,
            Route::Cells => Answers::Cells,
            Route::Trusted => Answers::Auto,
        })
        .run(options, || Ok(connection.clone()))
        .unwrap();
    let standing = if trust_server {
        "unverified"
    } else {
        "verified"
    };
    assert_eq!(mined.found.standing(), standing);
    assert_eq!(dataset.trust().unwrap().relied_on.is_some(), trust_server);
    for trace in &mined.traces {
        assert!(trace.level > 1, "{trace:?}");
        assert!(trace.log2_largest_phase <= trace.log2_phase_bound);
        let expected = match trace.level {
            2 if route == Route::Prefix => Route::Scalars,
            _ => route,
        };
        assert_eq!(trace.route, expected);
    }
    if let (Route::Scalars, [pairs]) = (route, &mined.traces[..]) {
        // Small appends are counted together with the earlier rows.
        assert_eq!(pairs.received_bytes, pairs.itemsets as u64 * 7);
    }
    if route == Route::Cells {
        let bytes: u64 = mined.traces.iter().map(|trace| trace.received_bytes).sum();
        let slots =
            dataset.manifest().block_count() * dataset.manifest().parameters.degree() as u64;
        let column = slots / 8 + 40 * dataset.manifest().segments.len() as u64;
        assert_eq!(bytes, mined.fetched.columns as u64 * column);
    }
    let names = mined.names.clone();
    let frequent = mined.found.itemsets().clone();
    connection.delete(&name, true).unwrap();
    (frequent, names)
}

/// Generates transactions over a few items: random ones, repeated ones, constant items.
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

/// Returns all transactions, repeated `times` times.
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
        ..ProptestConfig::with_cases(20)
    };
    proptest!(cases, |(transactions in transactions(), percent in 1u32..60, max_len in 1usize..=5, longer in 0usize..4, deduction: bool, appended: bool, route in prop::sample::select(vec![Route::Scalars, Route::Prefix, Route::Cells, Route::Trusted]))| {
        prop_assume!(transactions.item_count() > 0);
        let parts = vec![&transactions; 1 + usize::from(appended)];
        let min_support = MinSupport::Fraction(f64::from(percent) / 100.0);
        // Counting in cells is not limited to the lengths for which the dataset was encrypted.
        let longest = match route {
            Route::Scalars => max_len.min(2),
            Route::Prefix => max_len.min(4),
            Route::Trusted => max_len,
            Route::Cells => max_len + longer,
        };
        prop_assume!(max_len > 1 || !matches!(route, Route::Scalars | Route::Prefix));
        let options = AprioriOptions::new(min_support)
            .with_max_len(NonZeroUsize::new(longest))
            .with_deduction(deduction);
        let (encrypted, names) = mine(&connection, directory.path(), &parts, max_len, options, route);
        let all = repeated(&transactions, parts.len());
        let plaintext = eclat(&all, min_support, options.max_len);
        prop_assert_eq!(
            ItemsetsDocument::new(&encrypted, &names).unwrap(),
            ItemsetsDocument::new(&plaintext, all.names()).unwrap()
        );
    });
}

/// Columns that add up coherently, and more transactions than the plaintext modulus: a total and its sample.
fn structured_baskets() -> Vec<Vec<u32>> {
    const TRANSACTIONS: u32 = 125_000;
    // Rows repeat in runs as long as a block.
    let in_run = |row: u32| (row / 4096).is_multiple_of(3);
    let basket = |row: u32| {
        // Always; half of them, twice; the other half; once; runs; and the same in reverse.
        let has = [
            true,
            row.is_multiple_of(2),
            row.is_multiple_of(2),
            row % 2 == 1,
            row == 777,
            in_run(row),
            in_run(TRANSACTIONS - 1 - row),
        ];
        (0..7).filter(|&item| has[item as usize]).collect()
    };
    (0..TRANSACTIONS).map(basket).collect()
}

#[test]
fn structured_data_are_counted_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(&directory.path().join("store"), 0);
    let connection = connect(&server);
    let named = |baskets: &[Vec<u32>]| {
        let names = |basket: &Vec<u32>| basket.iter().map(u32::to_string).collect::<Vec<_>>();
        Transactions::from_named(baskets.iter().map(names)).unwrap()
    };
    let check = |baskets: &[Vec<u32>], first: usize, max_len: usize, min_support: u64| {
        let parts = [named(&baskets[..first]), named(&baskets[first..])];
        let parts: Vec<_> = parts.iter().filter(|it| !it.is_empty()).collect();
        let min_support = MinSupport::Count(min_support);
        let options = AprioriOptions::new(min_support)
            .with_max_len(NonZeroUsize::new(max_len))
            .with_deduction(false);
        let route = Route::Trusted;
        let (found, names) = mine(
            &connection,
            directory.path(),
            &parts,
            max_len,
            options,
            route,
        );
        let all = named(baskets);
        let plaintext = eclat(&all, min_support, options.max_len);
        let plaintext = ItemsetsDocument::new(&plaintext, all.names()).unwrap();
        assert_eq!(ItemsetsDocument::new(&found, &names).unwrap(), plaintext);
        plaintext
    };
    // The plaintext modulus is chosen for the first rows, and is too small for the others.
    let baskets = structured_baskets();
    for max_len in 1..=5 {
        check(&baskets, 1_000, max_len, 1);
    }
    // Blocks full to the last slot and just beyond.
    for count in [1, 4095, 4096, 4097, 8192, 8193] {
        let basket = |row: u32| (0..5).filter(|item| row.is_multiple_of(item + 1)).collect();
        let baskets: Vec<Vec<u32>> = (0..count).map(basket).collect();
        check(&baskets, baskets.len(), 2, 1);
    }
    // Itemsets as long as parameters allow: nine items that always occur together, and one that does not.
    let items = |row: u32| if row.is_multiple_of(3) { 10 } else { 9 };
    let baskets: Vec<Vec<u32>> = (0..300).map(|row| (0..items(row)).collect()).collect();
    check(&baskets, baskets.len(), 10, 100);
}

/// Socket that increments a counter when closed.
struct Counted(TcpStream, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

/// Each length has its own connection, which is closed when the next one is opened: evaluation comes between.
#[test]
fn connections_are_closed_before_answers_are_evaluated() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(&directory.path().join("store"), 1 << 20);
    let named = (0..60).map(|i| {
        (0..4)
            .filter(move |item| i % 7 != *item)
            .map(|it| it.to_string())
    });
    let rows = Shuffled::of(Transactions::from_named(named.map(Vec::from_iter)).unwrap());
    let master = MasterKey::generate().unwrap();
    let target = Target::New(&directory.path().join("dataset"));
    let dataset = Dataset::create(rows, &master, target, 4, two(), &go_on).unwrap();
    upload(&connect(&server), dataset.bundle(), "dataset", &|_, _| {}).unwrap();
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let (opened, closed) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let options = AprioriOptions::new(MinSupport::Fraction(0.1)).with_max_len(NonZeroUsize::new(4));
    let mined = Mining::new(&dataset, "dataset", two())
        .by(Answers::Moments)
        .run(options, || {
            let before = opened.fetch_add(1, Ordering::SeqCst);
            assert_eq!(closed.load(Ordering::SeqCst), before);
            let (address, closed) = (address.clone(), Arc::clone(&closed));
            Connection::through("server", move || {
                let stream = std::net::TcpStream::connect(&address)?;
                stream.set_nonblocking(true)?;
                let stream = TcpStream::from_std(stream)?;
                Ok(Counted(stream, Arc::clone(&closed)))
            })
        })
        .unwrap();
    assert_eq!(mined.traces.len(), 3);
    assert_eq!(opened.into_inner(), 3);
    assert_eq!(closed.load(Ordering::SeqCst), 3);
}

/// Moments in several messages, sent by two threads: either all or only some of them are cached.
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
        let rows = Shuffled::of(transactions.clone());
        let target = Target::New(&path);
        let dataset = Dataset::create(rows, &master, target, 2, two(), &go_on).unwrap();
        upload(&connection, dataset.bundle(), "dataset", &|_, _| {}).unwrap();
        let mine = || {
            let options = AprioriOptions::new(MinSupport::Fraction(0.3))
                .with_max_len(NonZeroUsize::new(2))
                .with_deduction(false);
            let mined = Mining::new(&dataset, "dataset", two())
                .trusting_server(true)
                .run(options, || Ok(connection.clone()))
                .unwrap();
            let document = ItemsetsDocument::new(mined.found.itemsets(), &mined.names).unwrap();
            (document, mined.traces[0])
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
