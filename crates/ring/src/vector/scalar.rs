//! The reference: one residue at a time.

use super::LAZY_SUMS;
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

pub(super) fn multiply_accumulate(a: &[u32], b: &[u32], accumulator: &mut [u64]) {
    for ((sum, &x), &y) in accumulator.iter_mut().zip(a).zip(b) {
        *sum += u64::from(x) * u64::from(y);
    }
}

pub(super) fn dot(q: &Modulus, a: &[u32], b: &[u32]) -> u32 {
    let run = |(a, b): (&[u32], &[u32])| {
        a.iter()
            .zip(b)
            .map(|(&x, &y)| u64::from(x) * u64::from(y))
            .sum()
    };
    a.chunks(LAZY_SUMS)
        .zip(b.chunks(LAZY_SUMS))
        .map(run)
        .fold(0, |sum, run| q.add(sum, q.reduce(run)))
}

pub(super) fn wrapping_dot(a: &[i32], b: &[i32]) -> u64 {
    a.iter().zip(b).fold(0u64, |sum, (&x, &y)| {
        sum.wrapping_add((i64::from(x) * i64::from(y)) as u64)
    })
}
