//! Every answer agrees with a search of the plaintext.

use oboro_client::genome::{OwnQuery, Pattern, SearchResult};
use oboro_genome::{Kind, Plan, SearchSpec};
use oboro_genome_server::{Evaluation, ExpandedQuery, Multiplicity, Rows, Window, Workspace};
use oboro_ring::Nonce;
use proptest::prelude::*;
use std::sync::Arc;

const BITS: u32 = 4;

fn window(rows: &[Vec<u8>]) -> Arc<Window> {
    let length = rows[0].len();
    let per_row = Rows::words_per_row(length, BITS);
    let mut words = vec![0; rows.len() * per_row];
    for (row, words) in rows.iter().zip(words.chunks_exact_mut(per_row)) {
        for (j, &symbol) in row.iter().enumerate() {
            words[j / 16] |= u64::from(symbol) << (j % 16 * BITS as usize);
        }
    }
    Arc::new(Window::new(Rows::new([0; 32], length, BITS, words)))
}

fn pattern(query: &[Option<u8>]) -> Pattern {
    let letter = |symbol: &Option<u8>| symbol.map_or('?', |x| char::from(b'0' + x));
    Pattern::of_alleles(&query.iter().map(letter).collect::<String>()).unwrap()
}

/// Result of an encrypted search that is padded by `extra` rows.
fn search(
    rows: &[Vec<u8>],
    symbols: u8,
    query: &[Option<u8>],
    kind: Kind,
    multiplicity: Multiplicity,
    extra: u64,
) -> SearchResult {
    let spec = SearchSpec::new(query.len() as u32, symbols, rows.len() as u64 + extra, kind);
    let plan = Arc::new(Plan::new(spec.unwrap()).unwrap());
    let nonce = Nonce([3; 32]);
    let own = OwnQuery::encrypt(Arc::clone(&plan), &pattern(query), &nonce, &[]).unwrap();
    let sent = own.encrypted().encode(&plan);
    let received = ExpandedQuery::decode(Arc::clone(&plan), sent, nonce).unwrap();
    let evaluation = Evaluation::new(Arc::new(received), window(rows), multiplicity).unwrap();
    let mut workspace = Workspace::default();
    let answers: Vec<_> = (0..evaluation.answers())
        .map(|number| evaluation.answer(number, &mut workspace).encode(&plan))
        .collect();
    own.read(&answers, 1, 0).unwrap()
}

fn differences(query: &[Option<u8>], row: &[u8]) -> usize {
    let differ = |(q, &x): (&Option<u8>, &u8)| q.is_some_and(|q| q != x);
    query.iter().zip(row).filter(|&it| differ(it)).count()
}

#[derive(Debug, Clone)]
struct Case {
    symbols: u8,
    rows: Vec<Vec<u8>>,
    query: Vec<Option<u8>>,
}

fn cases() -> impl Strategy<Value = Case> {
    // The unknown symbol follows those that a query can contain.
    (2u8..=10, any::<bool>(), 1usize..30).prop_flat_map(|(asked, unknown, length)| {
        let symbols = asked + u8::from(unknown);
        let row = prop::collection::vec(0..symbols, length);
        let rows = prop::collection::vec(row, 1..60);
        // Usually cut from a row, for the search to find something.
        let query = (
            any::<prop::sample::Index>(),
            prop::collection::vec((0u8..12, 0..asked), length),
        );
        (Just(symbols), rows, query).prop_map(move |(symbols, mut rows, (from, noise))| {
            let source = from.get(&rows).clone();
            let query = source.iter().zip(noise);
            let query = query
                .map(|(&symbol, (kind, other))| match kind {
                    0 => None,
                    1 => Some(other),
                    _ => Some(symbol).filter(|&symbol| symbol < asked),
                })
                .collect();
            rows.push(source);
            Case {
                symbols,
                rows,
                query,
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn matches_are_those_of_the_plaintext(case in cases(), within in 0u8..=2, extra in 0u64..500) {
        let within = within.min(case.query.len() as u8 - 1);
        let mut distinct = case.rows.clone();
        distinct.sort();
        distinct.dedup();
        let matching = |rows: &[Vec<u8>]| {
            let is_near = |row: &&Vec<u8>| differences(&case.query, row) <= within.into();
            SearchResult::Matches(rows.iter().filter(is_near).count() as u64)
        };
        let found = |multiplicity| {
            search(&case.rows, case.symbols, &case.query, Kind::Match { within }, multiplicity, extra)
        };
        prop_assert_eq!(found(Multiplicity::Once), matching(&distinct));
        prop_assert_eq!(found(Multiplicity::Each), matching(&case.rows));
    }

    #[test]
    fn the_longest_beginning_is_that_of_the_plaintext(case in cases(), extra in 0u64..500) {
        let of_row = |row: &Vec<u8>| {
            let beginnings = 1..=case.query.len();
            beginnings.take_while(|&n| differences(&case.query[..n], &row[..n]) == 0).count()
        };
        let longest = case.rows.iter().map(of_row).max().unwrap();
        let found = search(&case.rows, case.symbols, &case.query, Kind::Longest, Multiplicity::Once, extra);
        prop_assert_eq!(found, SearchResult::Longest(longest as u32));
    }
}

#[test]
fn many_answers_and_wide_queries_agree_as_well() {
    let row = |seed: u64| -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..300)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 62) as u8
            })
            .collect()
    };
    let rows: Vec<_> = (0..3000).map(|number| row(number % 2500)).collect();
    let query: Vec<_> = rows[17].iter().map(|&x| Some(x)).collect();
    let exact = Kind::Match { within: 0 };
    let found = |multiplicity| search(&rows, 4, &query, exact, multiplicity, 0);
    assert_eq!(found(Multiplicity::Once), SearchResult::Matches(1));
    assert_eq!(found(Multiplicity::Each), SearchResult::Matches(2));
    let absent = vec![Some(3); 300];
    let found = search(&rows, 4, &absent, exact, Multiplicity::Once, 0);
    assert_eq!(found, SearchResult::Matches(0));
}
