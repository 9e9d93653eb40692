//! Answers reveal nothing beyond their meaning, as far as these tests can distinguish from chance. All randomness is
//! the operating system's; each bound fails about once in 10^6 runs.

use oboro_client::genome::{OwnQuery, Pattern};
use oboro_genome::{Kind, Plan, SearchSpec};
use oboro_genome_server::{Evaluation, ExpandedQuery, Multiplicity, Rows, Window, Workspace};
use oboro_ring::Nonce;
use std::sync::Arc;

const LENGTH: u32 = 10;
/// Smallest prime above the length.
const T: usize = 11;
const NONCE: Nonce = Nonce([5; 32]);

/// Bound that a chi-square with `freedom` degrees of freedom exceeds about once in 10^6: Wilson and Hilferty's
/// approximation, at 4.9 standard deviations.
fn bound(freedom: usize) -> f64 {
    let n = freedom as f64;
    n * (1.0 - 2.0 / (9.0 * n) + 4.9 * (2.0 / (9.0 * n)).sqrt()).powi(3)
}

/// Chi-square statistic against a uniform distribution.
fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let square = |&count: &u64| (count as f64 - expected).powi(2) / expected;
    counts.iter().map(square).sum()
}

/// Chi-square statistic of two histograms with equal totals.
fn two_sample(a: &[u64], b: &[u64]) -> f64 {
    let pairs = a.iter().zip(b).filter(|(a, b)| **a + **b > 0);
    pairs
        .map(|(&a, &b)| (a as f64 - b as f64).powi(2) / (a + b) as f64)
        .sum()
}

/// Makes rows of two alleles, one bit each.
fn window(rows: &[u64]) -> Arc<Window> {
    Arc::new(Window::new(Rows::new(
        [0; 32],
        LENGTH as usize,
        1,
        rows.to_vec(),
    )))
}

fn spec(rows: usize) -> SearchSpec {
    SearchSpec::new(LENGTH, 2, rows as u64, Kind::Match { within: 0 }).unwrap()
}

/// Encrypts the query of reference alleles only: a row's mismatches are its ones.
fn own(plan: &Arc<Plan>) -> OwnQuery {
    let pattern = Pattern::of_alleles(&"0".repeat(LENGTH as usize)).unwrap();
    OwnQuery::encrypt(Arc::clone(plan), &pattern, &NONCE, &[]).unwrap()
}

fn evaluation(own: &OwnQuery, window: &Arc<Window>) -> Evaluation {
    let sent = own.encrypted().encode(own.plan());
    let query = ExpandedQuery::decode(Arc::clone(own.plan()), sent, NONCE).unwrap();
    Evaluation::new(Arc::new(query), Arc::clone(window), Multiplicity::Each).unwrap()
}

/// Decrypts the tests of `runs` evaluations of one query.
fn values(own: &OwnQuery, window: &Arc<Window>, runs: usize) -> Vec<Vec<u32>> {
    let mut workspace = Workspace::default();
    let run = |_| {
        let evaluation = evaluation(own, window);
        let answers = 0..evaluation.answers();
        let values = answers.flat_map(|n| own.values(&evaluation.answer(n, &mut workspace)));
        values.take(window.rows().len()).collect()
    };
    (0..runs).map(run).collect()
}

#[test]
fn what_is_no_match_is_uniform_whatever_the_mismatches() {
    let plan = Arc::new(Plan::new(spec(300)).unwrap());
    let own = own(&plan);
    let mut all = Vec::new();
    for mismatches in [1, 2, 5, LENGTH] {
        let window = window(&[(1 << mismatches) - 1; 300]);
        let mut counts = [0; T];
        for value in values(&own, &window, 20).into_iter().flatten() {
            counts[value as usize] += 1;
        }
        assert_eq!(counts[0], 0, "{mismatches} mismatches are no match");
        let chi = chi_square(&counts[1..]);
        assert!(chi < bound(T - 2), "{mismatches} mismatches: {counts:?}");
        all.push(counts);
    }
    for counts in &all[1..] {
        let chi = two_sample(&all[0], counts);
        assert!(chi < bound(T - 2), "{:?} and {counts:?}", all[0]);
    }
}

#[test]
fn a_row_beside_the_match_does_not_show() {
    // One match among other rows; the panels differ in the last row.
    let mut rows: Vec<u64> = (0..24).collect();
    let plan = Arc::new(Plan::new(spec(24)).unwrap());
    let own = own(&plan);
    let histogram = |rows: &[u64]| {
        // By position: a match, or otherwise its value.
        let mut counts = vec![0u64; 24 * T];
        for values in values(&own, &window(rows), 1500) {
            for (place, value) in values.into_iter().enumerate() {
                counts[place * T + value as usize] += 1;
            }
        }
        counts
    };
    let differing = [1, 1023].map(|last| {
        rows[23] = last;
        histogram(&rows)
    });
    let chi = two_sample(&differing[0], &differing[1]);
    assert!(chi < bound(24 * T - 1), "chi-square {chi}");
    // The test has power: a second match is detected.
    rows[23] = 0;
    let chi = two_sample(&differing[0], &histogram(&rows));
    assert!(chi > bound(24 * T - 1), "chi-square {chi}");
}

#[test]
fn the_noise_that_is_left_is_the_flood() {
    // Untruncated, which shows all of it, for rows with few and with many mismatches.
    let plan = Arc::new(Plan::uncut(spec(512), 11).unwrap());
    let basis = plan.ring().basis();
    let own = own(&plan);
    let flood = (f64::from(plan.flood_bits()) - basis.log2_q(basis.limbs().len())).exp2();
    let histogram = |row: u64| {
        let mut workspace = Workspace::default();
        let mut counts = [0u64; 32];
        for _ in 0..40 {
            let evaluation = evaluation(&own, &window(&[row; 512]));
            for number in 0..evaluation.answers() {
                let answer = evaluation.answer(number, &mut workspace);
                let tests = 512 - number as usize * plan.tests_per_answer();
                for phase in own.phases(&answer).into_iter().take(tests) {
                    let of_unit = phase as f64 / 64f64.exp2() * T as f64;
                    let error = (of_unit - of_unit.round()) / T as f64;
                    let share = (error / flood + 1.0) / 2.0;
                    assert!((-0.01..=1.01).contains(&share), "{share}");
                    counts[((share * 32.0) as usize).min(31)] += 1;
                }
            }
        }
        counts
    };
    let (few, many) = (histogram(1), histogram(1023));
    for counts in [&few, &many] {
        let chi = chi_square(counts);
        assert!(chi < bound(31), "chi-square {chi}: {counts:?}");
    }
    assert!(two_sample(&few, &many) < bound(31));
}

#[test]
fn places_without_tests_carry_nothing() {
    let plan = Arc::new(Plan::new(spec(3)).unwrap());
    assert!(plan.tests_per_answer() > 3);
    let own = own(&plan);
    let answer = evaluation(&own, &window(&[0, 1, 2])).answer(0, &mut Workspace::default());
    assert!(answer.values[..3].iter().any(|&value| value != 0));
    assert!(answer.values[3..].iter().all(|&value| value == 0));
}
