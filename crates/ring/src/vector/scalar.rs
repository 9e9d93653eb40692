//! Reference kernels: one residue at a time.

use super::{LAZY_SUMS, LEAVES, PAIRS, Sum};
use crate::Modulus;

pub(super) fn multiply(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    for ((r, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *r = q.mul(x, y);
    }
}

pub(super) fn multiply_add(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    for ((r, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *r = q.add(*r, q.mul(x, y));
    }
}

pub(super) fn subtract_product(q: &Modulus, a: &mut [u32], b: &[u32], c: &[u32]) {
    for ((r, &x), &y) in a.iter_mut().zip(b).zip(c) {
        *r = q.sub(*r, q.mul(x, y));
    }
}

pub(super) fn accumulate_products(pairs: &[(&[u32], &[u32])], accumulator: &mut [u64]) {
    for (a, b) in pairs {
        for ((sum, &x), &y) in accumulator.iter_mut().zip(*a).zip(*b) {
            *sum += u64::from(x) * u64::from(y);
        }
    }
}

pub(super) fn reduce_into(q: &Modulus, accumulator: &[u64], out: &mut [u32]) {
    for (r, &sum) in out.iter_mut().zip(accumulator) {
        *r = q.reduce(sum);
    }
}

pub(super) fn dots(prefixes: &[&[u32]], leaves: &[&[u32]], sums: &mut [Sum], _ahead: &[&[u32]]) {
    for (prefix, sums) in prefixes.iter().zip(sums.chunks_mut(leaves.len())) {
        for (leaf, sum) in leaves.iter().zip(sums) {
            add_dot(prefix, leaf, sum);
        }
    }
}

pub(super) fn pairs(operands: [&[u32]; LEAVES], sums: &mut [Sum; PAIRS], _ahead: &[&[u32]]) {
    let pairs = (0..LEAVES).flat_map(|i| (i + 1..LEAVES).map(move |j| (i, j)));
    for ((i, j), sum) in pairs.zip(sums) {
        add_dot(operands[i], operands[j], sum);
    }
}

fn add_dot(a: &[u32], b: &[u32], sum: &mut Sum) {
    for (a, b) in a.chunks(LAZY_SUMS).zip(b.chunks(LAZY_SUMS)) {
        let run: u64 = a
            .iter()
            .zip(b)
            .map(|(&x, &y)| u64::from(x) * u64::from(y))
            .sum();
        sum.low += run & 0xffff_ffff;
        sum.high += run >> 32;
    }
}
