//! Residue vectors: products, sums and dot products over slices of equal length.
//!
//! Operands are canonical residues modulo the given prime unless said otherwise; results are
//! canonical. Every operation has a scalar reference and an AVX2 twin with the same results,
//! chosen at run time, and takes the same time whatever the residues are. Slices of unequal
//! length are a programming error and panic.

use crate::Modulus;

#[cfg(target_arch = "x86_64")]
mod avx2;
mod scalar;

/// Products below `2^56` that fit a 64-bit sum: the number of [`multiply_accumulate`] and
/// [`accumulate`] calls allowed between two [`reduce_into`]/[`fold`] of the same accumulator.
pub const LAZY_SUMS: usize = 256;

/// Runs the AVX2 twin where the processor has it, else the scalar reference.
macro_rules! dispatch {
    ($name:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 was just detected, the functions' only requirement.
            return unsafe { avx2::$name($($argument),*) };
        }
        scalar::$name($($argument),*)
    }};
}

/// `out[j] = a[j]·b[j] mod q`.
pub fn multiply(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == b.len() && a.len() == out.len());
    dispatch!(multiply(q, a, b, out))
}

/// `out[j] = (out[j] + a[j]·b[j]) mod q`.
pub fn multiply_add(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == b.len() && a.len() == out.len());
    dispatch!(multiply_add(q, a, b, out))
}

/// `Σ_j a[j]·b[j] mod q`; operands may be any values below `2^28`.
pub fn dot(q: &Modulus, a: &[u32], b: &[u32]) -> u32 {
    assert_eq!(a.len(), b.len());
    dispatch!(dot(q, a, b))
}

/// `Σ_j a[j]·b[j] mod 2^64` of any signed words.
pub fn wrapping_dot(a: &[i32], b: &[i32]) -> u64 {
    assert_eq!(a.len(), b.len());
    dispatch!(wrapping_dot(a, b))
}

/// `Σ_j a[j] mod q` of any 32-bit values.
pub fn sum(q: &Modulus, a: &[u32]) -> u32 {
    q.reduce(a.iter().map(|&x| u64::from(x)).sum())
}

/// `accumulator[j] += a[j]·b[j]`, unreduced; operands may be any values below `2^28`.
/// At most [`LAZY_SUMS`] additions between reductions.
pub fn multiply_accumulate(a: &[u32], b: &[u32], accumulator: &mut [u64]) {
    assert!(a.len() == b.len() && a.len() == accumulator.len());
    dispatch!(multiply_accumulate(a, b, accumulator))
}

/// `accumulator[j] += a[j]`, unreduced.
pub fn accumulate(a: &[u32], accumulator: &mut [u64]) {
    assert_eq!(a.len(), accumulator.len());
    for (sum, &x) in accumulator.iter_mut().zip(a) {
        *sum += u64::from(x);
    }
}

/// `accumulator[j] mod q`, in place: makes room for another [`LAZY_SUMS`] − 1 additions.
pub fn fold(q: &Modulus, accumulator: &mut [u64]) {
    for sum in accumulator {
        *sum = u64::from(q.reduce(*sum));
    }
}

/// `out[j] = accumulator[j] mod q`.
pub fn reduce_into(q: &Modulus, accumulator: &[u64], out: &mut [u32]) {
    assert_eq!(accumulator.len(), out.len());
    for (r, &sum) in out.iter_mut().zip(accumulator) {
        *r = q.reduce(sum);
    }
}

/// `out[j] = (out[j] + a[j]) mod q`.
pub fn add_assign(q: &Modulus, a: &[u32], out: &mut [u32]) {
    assert_eq!(a.len(), out.len());
    for (sum, &x) in out.iter_mut().zip(a) {
        *sum = q.add(*sum, x);
    }
}

/// `out[j] = (a[j] − b[j]·c[j]) mod q`, in place of `a`.
pub fn subtract_product(q: &Modulus, a: &mut [u32], b: &[u32], c: &[u32]) {
    assert!(a.len() == b.len() && a.len() == c.len());
    dispatch!(subtract_product(q, a, b, c))
}

/// `a[j] = (a[j] − b[j]·factor) mod q`, for any 32-bit `b`.
pub fn subtract_multiple(q: &Modulus, a: &mut [u32], b: &[u32], factor: u32) {
    assert_eq!(a.len(), b.len());
    let (factor, shoup, two_q) = (factor, q.shoup(factor), 2 * q.value());
    for (x, &y) in a.iter_mut().zip(b) {
        // Below 3q < 2^30.
        let difference = *x + two_q - q.mul_shoup_lazy(y, factor, shoup);
        let below_two_q = difference.min(difference.wrapping_sub(two_q));
        *x = below_two_q.min(below_two_q.wrapping_sub(q.value()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moduli() -> impl Strategy<Value = Modulus> {
        prop::sample::select(vec![12289, 65537, 114_689, 134_176_769, 268_369_921])
            .prop_map(|q| Modulus::new(q).unwrap())
    }

    /// Vectors whose length is no multiple of a register, with the largest residues mixed in.
    fn triples() -> impl Strategy<Value = (Modulus, Vec<(u32, u32, u32)>)> {
        moduli().prop_flat_map(|q| {
            let residue = prop_oneof![3 => 0..q.value(), 1 => Just(q.value() - 1), 1 => Just(0)];
            (
                Just(q),
                prop::collection::vec((residue.clone(), residue.clone(), residue), 0..70),
            )
        })
    }

    proptest! {
        #[test]
        fn agree_with_integers((q, triples) in triples()) {
            let v = u64::from(q.value());
            let a: Vec<u32> = triples.iter().map(|t| t.0).collect();
            let b: Vec<u32> = triples.iter().map(|t| t.1).collect();
            let c: Vec<u32> = triples.iter().map(|t| t.2).collect();
            let products: Vec<u64> = a.iter().zip(&b).map(|(&x, &y)| u64::from(x) * u64::from(y)).collect();
            let residues = |wide: Vec<u64>| wide.into_iter().map(|x| (x % v) as u32).collect::<Vec<_>>();

            let mut out = c.clone();
            multiply(&q, &a, &b, &mut out);
            prop_assert_eq!(&out, &residues(products.clone()));
            let mut out = c.clone();
            multiply_add(&q, &a, &b, &mut out);
            prop_assert_eq!(&out, &residues(products.iter().zip(&c).map(|(p, &z)| p + u64::from(z)).collect()));
            let mut out = c.clone();
            subtract_product(&q, &mut out, &a, &b);
            prop_assert_eq!(&out, &residues(products.iter().zip(&c).map(|(p, &z)| u64::from(z) + v - p % v).collect()));
            let mut out = c.clone();
            add_assign(&q, &a, &mut out);
            prop_assert_eq!(&out, &residues(a.iter().zip(&c).map(|(&x, &z)| u64::from(x) + u64::from(z)).collect()));
            let mut out = c.clone();
            let any = a.iter().map(|x| x.wrapping_mul(0x9e37_79b9)).collect::<Vec<_>>();
            let factor = b.first().copied().unwrap_or(0);
            subtract_multiple(&q, &mut out, &any, factor);
            prop_assert_eq!(&out, &residues(any.iter().zip(&c).map(|(&x, &z)| u64::from(z) + v - u64::from(x) * u64::from(factor) % v).collect()));
            prop_assert_eq!(u64::from(dot(&q, &a, &b)), products.iter().sum::<u64>() % v);
            prop_assert_eq!(u64::from(sum(&q, &a)), a.iter().map(|&x| u64::from(x)).sum::<u64>() % v);

            let mut accumulator = vec![0; a.len()];
            multiply_accumulate(&a, &b, &mut accumulator);
            accumulate(&c, &mut accumulator);
            let expected: Vec<u64> = products.iter().zip(&c).map(|(p, &z)| p + u64::from(z)).collect();
            prop_assert_eq!(&accumulator, &expected);
            let mut out = vec![0; a.len()];
            reduce_into(&q, &accumulator, &mut out);
            fold(&q, &mut accumulator);
            prop_assert_eq!(&out, &residues(expected));
            prop_assert_eq!(accumulator, out.into_iter().map(u64::from).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn wrapping_dots_agree_with_integers(pairs in prop::collection::vec((any::<i32>(), any::<i32>()), 0..200)) {
            let (a, b): (Vec<i32>, Vec<i32>) = pairs.iter().copied().unzip();
            let exact: i128 = pairs.iter().map(|&(x, y)| i128::from(x) * i128::from(y)).sum();
            prop_assert_eq!(wrapping_dot(&a, &b), exact as u64);
            prop_assert_eq!(scalar::wrapping_dot(&a, &b), exact as u64);
        }

        /// Where there is AVX2, the reference runs only on remainders unless it is called by name.
        #[test]
        fn references_agree_with_what_runs((q, triples) in triples()) {
            let a: Vec<u32> = triples.iter().map(|t| t.0).collect();
            let b: Vec<u32> = triples.iter().map(|t| t.1).collect();
            let c: Vec<u32> = triples.iter().map(|t| t.2).collect();
            let (mut fast, mut reference) = (c.clone(), c.clone());
            multiply(&q, &a, &b, &mut fast);
            scalar::multiply(&q, &a, &b, &mut reference);
            prop_assert_eq!(&fast, &reference);
            multiply_add(&q, &a, &b, &mut fast);
            scalar::multiply_add(&q, &a, &b, &mut reference);
            prop_assert_eq!(&fast, &reference);
            subtract_product(&q, &mut fast, &a, &c);
            scalar::subtract_product(&q, &mut reference, &a, &c);
            prop_assert_eq!(&fast, &reference);
            prop_assert_eq!(dot(&q, &a, &b), scalar::dot(&q, &a, &b));
            let (mut fast, mut reference) = (vec![9; a.len()], vec![9; a.len()]);
            multiply_accumulate(&a, &b, &mut fast);
            scalar::multiply_accumulate(&a, &b, &mut reference);
            prop_assert_eq!(fast, reference);
        }
    }

    #[test]
    fn long_sums_of_the_largest_operands_do_not_overflow() {
        let q = Modulus::new(268_369_921).unwrap();
        let largest = vec![(1 << 28) - 1; 70_001];
        let square = ((1u128 << 28) - 1).pow(2);
        assert_eq!(
            u128::from(dot(&q, &largest, &largest)),
            square * 70_001 % u128::from(q.value())
        );
        let lowest = vec![i32::MIN; 70_001];
        assert_eq!(wrapping_dot(&lowest, &lowest), 70_001u64 << 62);
        let mut accumulator = vec![0; 16];
        for _ in 0..LAZY_SUMS {
            multiply_accumulate(&largest[..16], &largest[..16], &mut accumulator);
        }
        assert_eq!(u128::from(accumulator[0]), square * LAZY_SUMS as u128);
    }
}
