//! Speed of the ring's kernels: `cargo bench --features fhe-math --bench ring`. Products must agree with `fhe-math` first.
//! One JSON object per line, the summary last; times are medians of interleaved repetitions, in microseconds.

use oboro_ring::pack::{bits_packed_len, pack_bits, unpack_bits};
use oboro_ring::{
    Fractions, Limb, Modulus, Ntt, Parameters, Ring, Seed, limb_primes, mask, vector,
};
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::time::Instant;

const REPETITIONS: usize = 31;
const CALLS: u32 = 64;

struct Case<'a> {
    name: &'a str,
    run: Box<dyn FnMut() + 'a>,
    samples: Vec<f64>,
}

impl<'a> Case<'a> {
    fn new(name: &'a str, run: impl FnMut() + 'a) -> Self {
        Self {
            name,
            run: Box::new(run),
            samples: Vec::with_capacity(REPETITIONS),
        }
    }

    fn sample(&mut self) {
        let begun = Instant::now();
        for _ in 0..CALLS {
            (self.run)();
        }
        self.samples
            .push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
    }

    fn median(&mut self) -> f64 {
        self.samples.sort_by(f64::total_cmp);
        self.samples[self.samples.len() / 2]
    }
}

/// Compares products modulo X^N + 1 with those of `fhe-math`.
///
/// # Panics
/// If one differs.
fn check_products() {
    for log_degree in [10, 12, 13, 15] {
        for q in limb_primes(log_degree, 2).into_iter().chain([65537]) {
            let degree = 1 << log_degree;
            let modulus = Modulus::new(q).expect("limb primes are valid");
            let ntt = Ntt::new(modulus, degree).expect("limb primes allow the transform");
            let peer_modulus = fhe_math::zq::Modulus::new(q.into()).expect("a valid modulus");
            let peer =
                fhe_math::ntt::NttOperator::new(&peer_modulus, degree).expect("a valid ring");
            let residue = |i: usize, factor: u32| (i as u32).wrapping_mul(factor) % q;
            let mut a: Vec<u32> = (0..degree).map(|i| residue(i, 0x9e37_79b9)).collect();
            let mut b: Vec<u32> = (0..degree).map(|i| residue(i, 0x85eb_ca6b)).collect();
            let widen = |values: &[u32]| -> Vec<u64> { values.iter().map(|&x| x.into()).collect() };
            let (mut wide_a, mut wide_b) = (widen(&a), widen(&b));
            ntt.forward(&mut a);
            ntt.forward(&mut b);
            let mut product = vec![0; degree];
            vector::multiply(&modulus, &a, &b, &mut product);
            ntt.inverse(&mut product);
            peer.forward(&mut wide_a);
            peer.forward(&mut wide_b);
            peer_modulus.mul_vec(&mut wide_a, &wide_b);
            peer.backward(&mut wide_a);
            assert_eq!(widen(&product), wide_a, "N = {degree}, q = {q}");
        }
    }
}

/// Slots of a register tile's operands: eight operands fit into the L1 cache.
const TILE: usize = 512;

fn main() {
    check_products();
    let log_degree = 12;
    let degree = 1usize << log_degree;
    let modulus = Modulus::new(limb_primes(log_degree, 1)[0]).expect("limb primes are valid");
    let ntt = Ntt::new(modulus, degree).expect("limb primes allow the transform");
    let parameters = Parameters::new(log_degree, 2, 65537).expect("within the standard's bound");
    let a: Vec<u32> = (0..degree as u32)
        .map(|i| i.wrapping_mul(0x9e37_79b9) % modulus.value())
        .collect();
    let b: Vec<u32> = a.iter().rev().copied().collect();
    let peer_modulus = fhe_math::zq::Modulus::new(modulus.value().into()).expect("a valid modulus");
    let peer = fhe_math::ntt::NttOperator::new(&peer_modulus, degree).expect("a valid ring");
    let wide: Vec<u64> = a.iter().map(|&x| x.into()).collect();

    let (mut v, mut w, mut x, mut m) = (a.clone(), a.clone(), a.clone(), a.clone());
    let mut y = wide.clone();
    let mut sums = vec![0u64; degree];
    let wide_sums: Vec<u64> = wide.iter().map(|&x| x * x).collect();
    let mut reduced = vec![0; degree];
    let operands: Vec<Vec<u32>> = (0..8).map(|i| [&a[i..TILE], &a[..i]].concat()).collect();
    let operand = |i: usize| &operands[i][..];
    let (prefixes, leaves) = ([0, 1, 2, 3].map(operand), [4, 5, 6, 7].map(operand));
    let ring = Ring::new(parameters.clone());
    let fractions = Fractions::new(&ring, 2);
    // Any residues below the smaller limb; the output of one call is the input of the next.
    let mut residues: Vec<u32> = a.iter().chain(&a).map(|x| x / 2).collect();
    let mut fraction = vec![0u64; degree];
    let numbers: Vec<u64> = a.iter().map(|&x| u64::from(x) << 7).collect();
    let mut packed = vec![0u8; bits_packed_len(degree, 35)];
    let mut unpacked = numbers.clone();
    let bytes = packed.clone();
    let mut cases = [
        Case::new("forward", || ntt.forward(black_box(&mut v))),
        Case::new("inverse", || ntt.inverse(black_box(&mut w))),
        Case::new("forward_scalar", || ntt.forward_scalar(black_box(&mut x))),
        Case::new("forward_fhe_math", || peer.forward(black_box(&mut y))),
        Case::new("mask", || {
            mask::expand(&Seed([7; 32]), &parameters, Limb(0), black_box(&mut m))
        }),
        Case::new("dot", || {
            black_box(vector::dot(&modulus, black_box(&a), black_box(&b)));
        }),
        Case::new("tile", || {
            let mut sums = [vector::Sum::default(); vector::LEAVES * vector::PREFIXES];
            vector::dots(black_box(&prefixes), black_box(&leaves), &mut sums, &[]);
            black_box(sums);
        }),
        Case::new("accumulate_four_pairs", || {
            sums.fill(0);
            vector::accumulate_products(black_box(&[(&a[..], &b[..]); 4]), black_box(&mut sums));
        }),
        Case::new("reduce_into", || {
            vector::reduce_into(&modulus, black_box(&wide_sums), black_box(&mut reduced));
        }),
        Case::new("fractions_of_2_limbs", || {
            fractions.of_polynomial(black_box(&mut residues), 35, black_box(&mut fraction));
        }),
        Case::new("pack_35_bits", || {
            pack_bits(black_box(&numbers), 35, black_box(&mut packed));
        }),
        Case::new("unpack_35_bits", || {
            unpack_bits(black_box(&bytes), 35, black_box(&mut unpacked));
        }),
    ];
    for _ in 0..REPETITIONS {
        cases.iter_mut().for_each(Case::sample);
    }
    let mut summary = Map::new();
    for case in &mut cases {
        let microseconds = case.median();
        let spread = [case.samples[0], case.samples[case.samples.len() - 1]];
        println!(
            "{}",
            json!({ "case": case.name, "degree": degree, "microseconds": microseconds, "least_and_most": spread })
        );
        summary.insert(format!("{}_microseconds", case.name), json!(microseconds));
    }
    let number =
        |summary: &Map<String, Value>, key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
    let faster = number(&summary, "forward_fhe_math_microseconds")
        / number(&summary, "forward_microseconds");
    summary.insert("forward_faster_than_fhe_math".to_owned(), json!(faster));
    for (case, products) in [
        ("dot", degree),
        ("tile", TILE * vector::PREFIXES * vector::LEAVES),
        ("accumulate_four_pairs", 4 * degree),
    ] {
        let rate = products as f64 / number(&summary, &format!("{case}_microseconds")) / 1e3;
        summary.insert(format!("{case}_gmacs_per_second"), json!(rate));
    }
    summary.insert(
        "kernels".to_owned(),
        json!(vector::Kernels::current().name()),
    );
    summary.insert("bench".to_owned(), json!("ring"));
    println!("{}", Value::Object(summary));
}
