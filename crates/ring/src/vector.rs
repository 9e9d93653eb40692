//! Residue vectors: products, sums and dot products over slices of equal length.
//!
//! Operands are canonical residues modulo the given prime unless stated otherwise; results are canonical. Every
//! operation has a scalar reference and a kernel per instruction set, selected at run time. All give the same results
//! and are constant-time in the residues. Slices of unequal length are a programming error and panic.

#![allow(unsafe_code)]

use crate::Modulus;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernels;
#[cfg(any(target_arch = "aarch64", test))]
mod neon;
mod scalar;

/// Number of products below `2^56` that fit into a 64-bit sum: the most that an accumulator of [`accumulate_products`]
/// takes between two reductions.
pub const LAZY_SUMS: usize = 256;

/// Largest number of prefixes per call of [`dots`].
pub const PREFIXES: usize = 4;
/// Largest number of leaves in a register tile.
pub const LEAVES: usize = 4;
/// Number of pairs among [`LEAVES`] operands.
pub const PAIRS: usize = LEAVES * (LEAVES - 1) / 2;
/// Number of slices prefetched while a register tile computes.
pub const AHEAD: usize = 2;

/// Residues in a cache line.
const LINE: usize = 16;

/// Smallest size of a modulus whose sums can be reduced in registers.
const WIDE_REDUCTION_BITS: u32 = 27;

/// Unreduced sum of up to `2^32` products: `low + high·2^32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    low: u64,
    high: u64,
}

/// Lets callers wipe sums of products with secrets.
impl zeroize::DefaultIsZeroes for Sum {}

impl Sum {
    /// The sum modulo `q`.
    pub fn residue(self, q: &Modulus) -> u32 {
        let high = q.mul(q.reduce(self.high), q.reduce(1 << 32));
        q.add(q.reduce(self.low), high)
    }
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.low += other.low;
        self.high += other.high;
    }
}

/// Instruction sets with kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The reference, for any machine.
    Scalar,
    /// Eight residues at a time.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Sixteen residues at a time.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Four residues at a time; emulated in tests on other machines.
    #[cfg(any(target_arch = "aarch64", test))]
    Neon,
}

impl Kernels {
    /// Returns the kernels that this machine supports, the fastest last.
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::Scalar];
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            all.push(Self::Neon);
        }
        #[cfg(all(test, not(target_arch = "aarch64")))]
        all.push(Self::Neon);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx2") {
                all.push(Self::Avx512);
            }
        }
        all
    }

    /// Returns the kernels in use: the fastest available. For comparisons, the environment variable `OBORO_KERNELS`
    /// names others, used if available.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Kernels> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let available = Self::available();
            let wanted = std::env::var("OBORO_KERNELS").unwrap_or_default();
            let named = available.iter().find(|kernels| kernels.name() == wanted);
            *named.unwrap_or(&available[available.len() - 1])
        })
    }

    /// The name of the instruction set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(any(target_arch = "aarch64", test))]
            Self::Neon => "neon",
        }
    }
}

/// Calls the kernel for an instruction set, or the scalar reference.
macro_rules! dispatch {
    ($kernels:expr, $name:ident($($argument:expr),*)) => {
        match $kernels {
            Kernels::Scalar => scalar::$name($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels::available` detected AVX2, the functions' only requirement.
            Kernels::Avx2 => unsafe { avx2::$name($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels::available` detected AVX-512 F (and AVX2), all that the functions require.
            Kernels::Avx512 => unsafe { avx512::$name($($argument),*) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: `Kernels::available` detected NEON, the functions' only requirement.
            Kernels::Neon => unsafe { neon::$name($($argument),*) },
            #[cfg(all(test, not(target_arch = "aarch64")))]
            Kernels::Neon => neon::$name($($argument),*),
        }
    };
}

/// `out[j] = a[j]·b[j] mod q`.
pub fn multiply(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == b.len() && a.len() == out.len());
    dispatch!(Kernels::current(), multiply(q, a, b, out))
}

/// `out[j] = (out[j] + a[j]·b[j]) mod q`.
pub fn multiply_add(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == b.len() && a.len() == out.len());
    dispatch!(Kernels::current(), multiply_add(q, a, b, out))
}

/// `a[j] = (a[j] − b[j]·c[j]) mod q`.
pub fn subtract_product(q: &Modulus, a: &mut [u32], b: &[u32], c: &[u32]) {
    assert!(a.len() == b.len() && a.len() == c.len());
    dispatch!(Kernels::current(), subtract_product(q, a, b, c))
}

/// `out[j] = (out[j] + a[j]) mod q`.
pub fn add_assign(q: &Modulus, a: &[u32], out: &mut [u32]) {
    assert_eq!(a.len(), out.len());
    for (sum, &x) in out.iter_mut().zip(a) {
        *sum = q.add(*sum, x);
    }
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

/// `Σ_j a[j] mod q` of any 32-bit values.
pub fn sum(q: &Modulus, a: &[u32]) -> u32 {
    q.reduce(a.iter().map(|&x| u64::from(x)).sum())
}

/// The largest of any 32-bit values; 0 for an empty slice.
pub fn largest(a: &[u32]) -> u32 {
    a.iter().fold(0, |largest, &x| largest.max(x))
}

/// `Σ_j a[j]·b[j] mod q`; operands may be any values below `2^28`.
pub fn dot(q: &Modulus, a: &[u32], b: &[u32]) -> u32 {
    let mut sum = Sum::default();
    dots(&[a], &[b], std::slice::from_mut(&mut sum), &[]);
    sum.residue(q)
}

/// Computes `sums[p·L + l] += Σ_j prefixes[p][j]·leaves[l][j]` for `L` leaves, at least one, and up to [`PREFIXES`]
/// prefixes. Operands may be any values below `2^28`. Slices in `ahead`, of the same length, are prefetched, [`AHEAD`]
/// of them for every four leaves; they affect speed only.
pub fn dots(prefixes: &[&[u32]], leaves: &[&[u32]], sums: &mut [Sum], ahead: &[&[u32]]) {
    assert!((1..=PREFIXES).contains(&prefixes.len()) && !leaves.is_empty());
    assert_eq!(sums.len(), prefixes.len() * leaves.len());
    let length = prefixes[0].len();
    assert!(prefixes.iter().chain(leaves).all(|x| x.len() == length));
    dispatch!(Kernels::current(), dots(prefixes, leaves, sums, ahead))
}

/// Adds to `sums` the dot products of each operand with those after it, in lexicographic order. Operands may be any
/// values below `2^28`. [`AHEAD`] slices are prefetched as in [`dots`].
pub fn pairs(operands: [&[u32]; LEAVES], sums: &mut [Sum; PAIRS], ahead: &[&[u32]]) {
    assert!(operands.iter().all(|x| x.len() == operands[0].len()));
    dispatch!(Kernels::current(), pairs(operands, sums, ahead))
}

/// Adds `Σ_i a_i[j]·b_i[j]` over the pairs to every entry `j` of the accumulator, unreduced, in one pass for every four
/// pairs. Operands may be any values below `2^28`, with at most [`LAZY_SUMS`] products per entry between reductions.
/// The order of the entries is internal to this module until [`reduce_into`].
pub fn accumulate_products(pairs: &[(&[u32], &[u32])], accumulator: &mut [u64]) {
    let length = accumulator.len();
    assert!(
        pairs
            .iter()
            .all(|(a, b)| a.len() == length && b.len() == length)
    );
    dispatch!(Kernels::current(), accumulate_products(pairs, accumulator))
}

/// Prefetches residues. Affects speed only.
#[inline]
pub fn prefetch(a: &[u32]) {
    a.chunks(LINE).for_each(prefetch_line);
}

/// Prefetches the cache line of the first residue.
#[inline]
fn prefetch_line(a: &[u32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 processor has SSE; a prefetch reads nothing the program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(a.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = a;
}

/// Reduces each entry modulo `q` in place, after which [`LAZY_SUMS`] − 1 more products fit.
pub fn fold(q: &Modulus, accumulator: &mut [u64]) {
    for sum in accumulator {
        *sum = u64::from(q.reduce(*sum));
    }
}

/// Writes entry `j` of an accumulator modulo `q` to `out[j]`, in the order of the operands.
pub fn reduce_into(q: &Modulus, accumulator: &[u64], out: &mut [u32]) {
    assert_eq!(accumulator.len(), out.len());
    dispatch!(Kernels::current(), reduce_into(q, accumulator, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moduli() -> impl Strategy<Value = Modulus> {
        prop::sample::select(vec![
            12289,
            65537,
            114_689,
            134_176_769,
            134_215_681,
            268_369_921,
        ])
        .prop_map(|q| Modulus::new(q).unwrap())
    }

    /// Vectors whose length is not a multiple of a register's, with the largest residues mixed in.
    fn vectors(count: usize) -> impl Strategy<Value = (Modulus, Vec<Vec<u32>>)> {
        (moduli(), 0..70usize).prop_flat_map(move |(q, length)| {
            let residue = prop_oneof![3 => 0..q.value(), 1 => Just(q.value() - 1), 1 => Just(0)];
            let vector = prop::collection::vec(residue, length);
            (Just(q), prop::collection::vec(vector, count))
        })
    }

    fn wide(a: &[u32], b: &[u32]) -> Vec<u64> {
        a.iter()
            .zip(b)
            .map(|(&x, &y)| u64::from(x) * u64::from(y))
            .collect()
    }

    proptest! {
        #[test]
        fn all_kernels_agree_with_integers((q, v) in vectors(3)) {
            let modulus = u64::from(q.value());
            let (a, b, c) = (&v[0], &v[1], &v[2]);
            let products = wide(a, b);
            let residues = |wide: &mut dyn Iterator<Item = u64>| wide.map(|x| (x % modulus) as u32).collect::<Vec<_>>();
            let plus_c = |x: (&u64, &u32)| x.0 + u64::from(*x.1);
            for kernels in Kernels::available() {
                let mut out = c.clone();
                dispatch!(kernels, multiply(&q, a, b, &mut out));
                prop_assert_eq!(&out, &residues(&mut products.iter().copied()), "{:?}", kernels);
                let mut out = c.clone();
                dispatch!(kernels, multiply_add(&q, a, b, &mut out));
                prop_assert_eq!(&out, &residues(&mut products.iter().zip(c).map(plus_c)), "{:?}", kernels);
                let mut out = c.clone();
                dispatch!(kernels, subtract_product(&q, &mut out, a, b));
                let differences = &mut products.iter().zip(c).map(|(p, &z)| u64::from(z) + modulus - p % modulus);
                prop_assert_eq!(&out, &residues(differences), "{:?}", kernels);
            }
            let mut out = c.clone();
            add_assign(&q, a, &mut out);
            prop_assert_eq!(&out, &residues(&mut a.iter().zip(c).map(|(&x, &z)| u64::from(x) + u64::from(z))));
            prop_assert_eq!(u64::from(dot(&q, a, b)), products.iter().sum::<u64>() % modulus);
            prop_assert_eq!(u64::from(sum(&q, a)), a.iter().map(|&x| u64::from(x)).sum::<u64>() % modulus);
        }

        #[test]
        fn multiples_are_subtracted((q, v) in vectors(2), factor: u32) {
            let modulus = u64::from(q.value());
            let any: Vec<u32> = v[0].iter().map(|x| x.wrapping_mul(0x9e37_79b9)).collect();
            let factor = factor % q.value();
            let mut out = v[1].clone();
            subtract_multiple(&q, &mut out, &any, factor);
            let expected = any.iter().zip(&v[1]).map(|(&x, &z)| {
                ((u64::from(z) + modulus - u64::from(x) * u64::from(factor) % modulus) % modulus) as u32
            });
            prop_assert_eq!(out, expected.collect::<Vec<_>>());
        }

        #[test]
        fn all_kernels_accumulate_pairs((q, v) in vectors(14), pairs in 0..7usize) {
            let pairs: Vec<(&[u32], &[u32])> = v.chunks(2).take(pairs).map(|p| (&p[0][..], &p[1][..])).collect();
            let modulus = u64::from(q.value());
            let expected: Vec<u32> = (0..v[0].len())
                .map(|j| (pairs.iter().map(|(a, b)| u64::from(a[j]) * u64::from(b[j])).sum::<u64>() % modulus) as u32)
                .collect();
            for kernels in Kernels::available() {
                let mut accumulator = vec![0; v[0].len()];
                dispatch!(kernels, accumulate_products(&pairs, &mut accumulator));
                let mut out = vec![0; accumulator.len()];
                dispatch!(kernels, reduce_into(&q, &accumulator, &mut out));
                prop_assert_eq!(&out, &expected, "{:?}", kernels);
                fold(&q, &mut accumulator);
                dispatch!(kernels, reduce_into(&q, &accumulator, &mut out));
                prop_assert_eq!(&out, &expected, "{:?}", kernels);
            }
        }

        #[test]
        fn all_kernels_sum_tiles((q, v) in vectors(15), prefixes in 1..=PREFIXES, leaves in 1..=11usize) {
            let of = |range: std::ops::Range<usize>| range.map(|i| &v[i][..]).collect::<Vec<_>>();
            let (prefixes, leaves) = (of(0..prefixes), of(4..4 + leaves));
            for kernels in Kernels::available() {
                // Previous sums are kept, and sums outside the tile are unchanged.
                let start = Sum { low: 5, high: 7 };
                let mut sums = vec![start; prefixes.len() * leaves.len() + 1];
                let tile = sums.len() - 1;
                dispatch!(kernels, dots(&prefixes, &leaves, &mut sums[..tile], &prefixes));
                prop_assert_eq!(sums.pop(), Some(start));
                for (a, sums) in prefixes.iter().zip(sums.chunks(leaves.len())) {
                    for (b, sum) in leaves.iter().zip(sums) {
                        let total: u128 = wide(a, b).into_iter().map(u128::from).sum::<u128>() + 5 + (7 << 32);
                        prop_assert_eq!(u128::from(sum.low) + (u128::from(sum.high) << 32), total, "{:?}", kernels);
                        prop_assert_eq!(u128::from(sum.residue(&q)), total % u128::from(q.value()));
                    }
                }
            }
        }

        #[test]
        fn all_kernels_sum_pairs((_, v) in vectors(4)) {
            let operands = std::array::from_fn(|i| &v[i][..]);
            let expected: Vec<u128> = (0..4)
                .flat_map(|i| (i + 1..4).map(move |j| (i, j)))
                .map(|(i, j)| wide(&v[i], &v[j]).into_iter().map(u128::from).sum::<u128>() + 5 + (7 << 32))
                .collect();
            for kernels in Kernels::available() {
                let mut sums = [Sum { low: 5, high: 7 }; PAIRS];
                dispatch!(kernels, pairs(operands, &mut sums, &[operands[0]]));
                let found = sums.map(|sum| u128::from(sum.low) + (u128::from(sum.high) << 32));
                prop_assert_eq!(&found[..], &expected[..], "{:?}", kernels);
            }
        }

        /// Checks arbitrary accumulators, beyond those that products can give.
        #[test]
        fn all_kernels_reduce_any_sums(q in moduli(), mut sums in prop::collection::vec(any::<u64>(), 0..70)) {
            sums.extend([u64::MAX; 16]);
            for kernels in Kernels::available() {
                let mut out = vec![0; sums.len()];
                dispatch!(kernels, reduce_into(&q, &sums, &mut out));
                // The order is internal to the kernels.
                out.sort_unstable();
                let mut expected: Vec<u32> = sums.iter().map(|&x| q.reduce(x)).collect();
                expected.sort_unstable();
                prop_assert_eq!(out, expected, "{:?}", kernels);
            }
        }
    }

    #[test]
    fn long_sums_of_the_largest_operands_do_not_overflow() {
        let largest = vec![(1 << 28) - 1; 70_001];
        let square = ((1u128 << 28) - 1).pow(2);
        for kernels in Kernels::available() {
            let mut sums = [Sum::default(); LEAVES * PREFIXES];
            dispatch!(
                kernels,
                dots(&[&largest[..]; 4], &[&largest[..]; 4], &mut sums, &[])
            );
            for (prefixes, leaves) in [(1, 1), (1, 2), (2, 1)] {
                let (prefixes, leaves) = (vec![&largest[..]; prefixes], vec![&largest[..]; leaves]);
                let few = &mut sums[..prefixes.len() * leaves.len()];
                few.fill(Sum::default());
                dispatch!(kernels, dots(&prefixes, &leaves, few, &[&largest[1..]]));
            }
            let mut pair_sums = [Sum::default(); PAIRS];
            dispatch!(kernels, pairs([&largest[..]; 4], &mut pair_sums, &[]));
            for sum in sums.into_iter().chain(pair_sums) {
                let total = u128::from(sum.low) + (u128::from(sum.high) << 32);
                assert_eq!(total, square * 70_001);
            }
            let mut accumulator = vec![0; 32];
            let pair = (&largest[..32], &largest[..32]);
            for _ in 0..LAZY_SUMS / 4 {
                dispatch!(kernels, accumulate_products(&[pair; 4], &mut accumulator));
            }
            assert!(
                accumulator
                    .iter()
                    .all(|&sum| u128::from(sum) == square * LAZY_SUMS as u128)
            );
        }
    }

    #[test]
    fn the_fastest_kernels_are_in_use() {
        if std::env::var_os("OBORO_KERNELS").is_none() {
            assert_eq!(Some(&Kernels::current()), Kernels::available().last());
        }
    }
}
