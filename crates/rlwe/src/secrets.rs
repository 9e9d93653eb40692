//! Products of column secrets, in the two forms that moments meet: made when first needed, kept for
//! reuse, wiped when dropped.

use crate::key::DatasetKey;
use oboro_ring::{Parameters, Ring, vector};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use zeroize::{Zeroize, Zeroizing};

/// Products are kept for reuse up to this many bytes.
const CACHE_BYTES: usize = 512 << 20;

/// Bits of a digit of coefficients; digits are balanced, so that they fit a signed word.
const DIGIT_BITS: u32 = 32;

/// A product of secrets in evaluation form modulo one limb.
type Evaluation = Arc<Zeroizing<Vec<u32>>>;

/// A product of secrets in coefficient form: one or two digits to the base 2^32, least first, of
/// `σ(X^{-1})`, whose dot product with the coefficients of `f` is the constant coefficient of `σ·f`.
pub(crate) struct Reversed {
    digits: Vec<Zeroizing<Vec<i32>>>,
}

/// The coefficients of a polynomial modulo `2^bits`, `bits` up to 64, in digits likewise.
#[derive(Default)]
pub(crate) struct Digits {
    digits: Vec<Vec<i32>>,
}

impl Digits {
    /// Takes the coefficients, below `2^bits`, in place of what was there.
    pub(crate) fn set(&mut self, coefficients: &[u64], bits: u32) {
        let count = bits.div_ceil(DIGIT_BITS) as usize;
        self.digits.resize_with(count, Vec::new);
        let (low, high) = self.digits.split_at_mut(1);
        low[0].clear();
        low[0].extend(coefficients.iter().map(|&x| low_digit(x)));
        if let [high] = high {
            high.clear();
            high.extend(coefficients.iter().map(|&x| high_digit(x)));
        }
    }
}

impl Zeroize for Digits {
    fn zeroize(&mut self) {
        self.digits.zeroize();
    }
}

/// A polynomial that will be multiplied by secrets: for each digit, its evaluation form modulo the
/// first two limbs.
pub(crate) struct Factor {
    digits: Vec<[Vec<u32>; FACTOR_LIMBS]>,
}

/// The limbs that hold a digit times a secret, whose coefficients are at most `N·2^31 ≤ 2^46`.
const FACTOR_LIMBS: usize = 2;

/// `x mod 2^32` between −2^31 and 2^31.
fn low_digit(x: u64) -> i32 {
    x as i32
}

/// What is left, in units of 2^32 and modulo 2^32.
fn high_digit(x: u64) -> i32 {
    (x.wrapping_sub(i64::from(low_digit(x)) as u64) >> DIGIT_BITS) as i32
}

impl Reversed {
    /// The constant coefficient of the product of the secrets and `f`, modulo a power of two that
    /// `f` is known by; more bits mean nothing.
    pub(crate) fn constant_coefficient(&self, f: &Digits) -> u64 {
        let mut sum = 0u64;
        for (i, secret) in self.digits.iter().enumerate() {
            // Digits of `f` beyond those it has, or beyond 2^64, do not count.
            for (j, digit) in f.digits[..f.digits.len().saturating_sub(i)]
                .iter()
                .enumerate()
            {
                let product = vector::wrapping_dot(secret, digit);
                sum = sum.wrapping_add(product << (DIGIT_BITS as usize * (i + j)));
            }
        }
        sum
    }
}

/// The products of one dataset's secrets. Shared by threads.
pub(crate) struct SecretProducts {
    key: DatasetKey,
    /// Products of more secrets are not kept.
    longest: usize,
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    evaluations: HashMap<(usize, Box<[u32]>), Evaluation>,
    reversed: HashMap<Box<[u32]>, Arc<Reversed>>,
    bytes: usize,
}

impl Kept {
    /// Makes room for as many more bytes, if need be by starting anew.
    fn reserve(&mut self, bytes: usize) {
        if self.bytes + bytes > CACHE_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
    }
}

impl SecretProducts {
    /// No products yet; those of up to `longest` secrets will be kept.
    pub(crate) fn new(key: DatasetKey, longest: usize) -> Self {
        Self {
            key,
            longest,
            kept: RwLock::default(),
        }
    }

    fn ring(&self) -> &Ring {
        self.key.ring()
    }

    fn is_kept(&self, columns: &[u32]) -> bool {
        columns.len() <= self.longest
    }

    /// The product of some columns' secrets in evaluation form modulo a limb.
    pub(crate) fn evaluation(&self, limb: usize, columns: &[u32]) -> Evaluation {
        let key = (limb, Box::from(columns));
        if let Some(found) = self.kept().evaluations.get(&key) {
            return Arc::clone(found);
        }
        let product = Arc::new(self.multiply(limb, columns));
        if self.is_kept(columns) {
            let mut kept = self.kept.write().expect("no thread panics with the lock");
            kept.reserve(size_of_val(&product[..]));
            kept.evaluations.insert(key, Arc::clone(&product));
        }
        product
    }

    /// The product of some columns' secrets in coefficient form.
    pub(crate) fn reversed(&self, columns: &[u32]) -> Arc<Reversed> {
        if let Some(found) = self.kept().reversed.get(columns) {
            return Arc::clone(found);
        }
        let digits = digits_of_product(self.ring().parameters(), columns.len());
        let product = Arc::new(Reversed::new(&self.coefficients(columns), digits));
        if self.is_kept(columns) {
            let mut kept = self.kept.write().expect("no thread panics with the lock");
            kept.reserve(digits * self.ring().degree() * size_of::<i32>());
            kept.reversed.insert(columns.into(), Arc::clone(&product));
        }
        product
    }

    /// Prepares a polynomial for [`times`](Self::times).
    pub(crate) fn factor(&self, f: &Digits) -> Factor {
        let evaluate = |digit: &Vec<i32>| {
            std::array::from_fn(|limb| {
                let ntt = &self.ring().limbs()[limb];
                let residue = |&x: &i32| ntt.modulus().reduce_signed(x.into());
                let mut values: Vec<u32> = digit.iter().map(residue).collect();
                ntt.forward(&mut values);
                values
            })
        };
        Factor {
            digits: f.digits.iter().map(evaluate).collect(),
        }
    }

    /// The product of one column's secret and a polynomial that is known modulo `2^bits`. The ring has
    /// two limbs at least, as it has for any itemset of two.
    pub(crate) fn times(&self, column: u32, f: &Factor, bits: u32) -> Zeroizing<Digits> {
        let [first, second] = [0, 1].map(|limb| &self.ring().limbs()[limb]);
        let secret = [0, 1].map(|limb| self.evaluation(limb, &[column]));
        let (q, p) = (second.modulus(), first.modulus().value());
        let inverse = q.inverse(q.reduce(p.into()));
        let degree = self.ring().degree();
        let mut product = [(); FACTOR_LIMBS].map(|()| Zeroizing::new(vec![0; degree]));
        let mut sum = Zeroizing::new(vec![0u64; degree]);
        for (i, digit) in f.digits.iter().enumerate() {
            for (limb, ntt) in [first, second].into_iter().enumerate() {
                vector::multiply(
                    ntt.modulus(),
                    &secret[limb],
                    &digit[limb],
                    &mut product[limb],
                );
                ntt.inverse(&mut product[limb]);
            }
            let [low, high] = &product;
            for ((sum, &low), &high) in sum.iter_mut().zip(low.iter()).zip(high.iter()) {
                let above = q.mul(q.sub(high, q.reduce(low.into())), inverse);
                let whole = i64::from(low) + i64::from(q.centre(above)) * i64::from(p);
                *sum = sum.wrapping_add((whole as u64) << (DIGIT_BITS as usize * i));
            }
        }
        let mut digits = Zeroizing::new(Digits::default());
        digits.set(&sum, bits);
        digits
    }

    fn kept(&self) -> std::sync::RwLockReadGuard<'_, Kept> {
        self.kept.read().expect("no thread panics with the lock")
    }

    /// One multiplication from the product of all but the last column.
    fn multiply(&self, limb: usize, columns: &[u32]) -> Zeroizing<Vec<u32>> {
        let (&last, others) = columns
            .split_last()
            .expect("a power of the mask comes with a secret");
        if others.is_empty() {
            return self.key.column_secret(last).evaluate(self.ring(), limb);
        }
        let (a, b) = (
            self.evaluation(limb, others),
            self.evaluation(limb, &[last]),
        );
        let mut product = Zeroizing::new(vec![0; self.ring().degree()]);
        let q = self.ring().limbs()[limb].modulus();
        vector::multiply(q, &a, &b, &mut product);
        product
    }

    /// The coefficients of a product of secrets modulo 2^64, from as many limbs as hold them.
    fn coefficients(&self, columns: &[u32]) -> Zeroizing<Vec<u64>> {
        if let [column] = columns {
            return self.key.column_secret(*column).words();
        }
        let limbs = limbs_of_product(self.ring().parameters(), columns.len());
        // Mixed radix (Garner): σ = Σ_l d_l·P_l with P_l = q_0·…·q_{l−1} and the last digit centred,
        // d_l = (σ − Σ_{m<l} d_m·P_m)·P_l^{-1} mod q_l.
        let mut digits: Vec<Zeroizing<Vec<u32>>> = Vec::with_capacity(limbs);
        let mut sum = Zeroizing::new(vec![0u64; self.ring().degree()]);
        let mut radix = 1u64;
        for (l, ntt) in self.ring().limbs()[..limbs].iter().enumerate() {
            let q = ntt.modulus();
            let product = |moduli: usize| {
                let primes = self.ring().parameters().limb_moduli()[..moduli].iter();
                primes.fold(1, |product, m| q.mul(product, q.reduce(m.value().into())))
            };
            let inverse = q.inverse(product(l));
            let mut digit = self.multiply(l, columns);
            ntt.inverse_times(&mut digit, inverse);
            for (m, lower) in digits.iter().enumerate() {
                vector::subtract_multiple(q, &mut digit, lower, q.mul(product(m), inverse));
            }
            let is_last = l + 1 == limbs;
            for (sum, &digit) in sum.iter_mut().zip(digit.iter()) {
                let digit = if is_last {
                    i64::from(q.centre(digit)) as u64
                } else {
                    digit.into()
                };
                *sum = sum.wrapping_add(digit.wrapping_mul(radix));
            }
            radix = radix.wrapping_mul(q.value().into());
            digits.push(digit);
        }
        sum
    }
}

impl Reversed {
    /// `coefficients` modulo 2^64 in natural order: `X^{-j} = −X^{N−j}`.
    fn new(coefficients: &[u64], digits: usize) -> Self {
        let constant = coefficients[0];
        let others = coefficients[1..].iter().rev().map(|x| x.wrapping_neg());
        let reversed = || std::iter::once(constant).chain(others.clone());
        let mut all = vec![Zeroizing::new(reversed().map(low_digit).collect())];
        if digits > 1 {
            all.push(Zeroizing::new(reversed().map(high_digit).collect()));
        }
        Self { digits: all }
    }
}

/// `log2` of what the coefficients of a product of so many ternary secrets cannot exceed:
/// `N^{secrets−1}`.
fn log2_coefficient(parameters: &Parameters, secrets: usize) -> u32 {
    parameters.log_degree() * (secrets as u32 - 1)
}

/// How many digits hold such a coefficient, modulo 2^64.
fn digits_of_product(parameters: &Parameters, secrets: usize) -> usize {
    if log2_coefficient(parameters, secrets) < DIGIT_BITS - 1 {
        1
    } else {
        2
    }
}

/// How many limbs hold such a coefficient, centred. A level's `Q` is above twice its phase, and a
/// phase may be as large as a product of secrets, so there are enough.
fn limbs_of_product(parameters: &Parameters, secrets: usize) -> usize {
    let needed = f64::from(log2_coefficient(parameters, secrets)) + 1.0 + 1e-6;
    (1..=parameters.limb_count())
        .find(|&limbs| parameters.log2_q(limbs) > needed)
        .expect("the limbs of a level hold the products of its secrets")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;
    use proptest::prelude::*;

    /// The product of ternary secrets in `Z[X]/(X^N + 1)`, exactly.
    fn product(key: &DatasetKey, columns: &[u32]) -> Vec<i128> {
        let centred = |column| -> Vec<i128> {
            let words = key.column_secret(column).words();
            words.iter().map(|&x| i128::from(x as i64)).collect()
        };
        columns[1..]
            .iter()
            .fold(centred(columns[0]), |product, &column| {
                let n = product.len();
                let mut out = vec![0i128; n];
                for (i, s) in centred(column)
                    .into_iter()
                    .enumerate()
                    .filter(|(_, s)| *s != 0)
                {
                    for (j, p) in product.iter().enumerate() {
                        let sign = if i + j < n { s } else { -s };
                        out[(i + j) % n] += sign * p;
                    }
                }
                out
            })
    }

    #[test]
    fn coefficients_are_those_of_the_product() {
        let key = key(7, &Parameters::new(12, 3, 40961).unwrap());
        let secrets = SecretProducts::new(key.clone(), 4);
        for columns in [
            &[3][..],
            &[1, 2],
            &[1, 2, 5],
            &[0, 1, 2, 5],
            &[0, 1, 2, 5, 6],
        ] {
            let exact: Vec<u64> = product(&key, columns)
                .into_iter()
                .map(|x| x as u64)
                .collect();
            assert!(*secrets.coefficients(columns) == exact, "{columns:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn dots_are_constant_coefficients(count in 1usize..=4, bits in 1u32..=64, seed: u64) {
            let key = key(7, &Parameters::new(12, 3, 40961).unwrap());
            let columns = &[0, 1, 2, 5][..count];
            let mut state = seed;
            let f: Vec<u64> = (0..4096).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> (64 - bits)
            }).collect();
            let sigma = product(&key, columns);
            let mut exact = sigma[0] as u64 as u128 * f[0] as u128;
            for j in 1..4096 {
                exact = exact.wrapping_sub((sigma[4096 - j] as u128).wrapping_mul(f[j] as u128));
            }
            let mut digits = Digits::default();
            digits.set(&f, bits);
            let found = SecretProducts::new(key, 3).reversed(columns).constant_coefficient(&digits);
            prop_assert_eq!(found << (64 - bits), (exact as u64) << (64 - bits));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Multiplying by one secret first and meeting the others later is meeting all of them.
        #[test]
        fn a_secret_may_be_multiplied_in_first(bits in 1u32..=64, seed: u64) {
            let key = key(7, &Parameters::new(12, 3, 40961).unwrap());
            let secrets = SecretProducts::new(key, 2);
            let mut state = seed;
            let f: Vec<u64> = (0..4096).map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Extreme digits among them.
                if i % 7 == 0 { (u64::MAX / 2) >> (64 - bits) } else { state >> (64 - bits) }
            }).collect();
            let mut digits = Digits::default();
            digits.set(&f, bits);
            let times = secrets.times(1, &secrets.factor(&digits), bits);
            for others in [&[4][..], &[4, 9]] {
                let all = [&[1], others].concat();
                let direct = secrets.reversed(&all).constant_coefficient(&digits);
                let later = secrets.reversed(others).constant_coefficient(&times);
                prop_assert_eq!(later << (64 - bits), direct << (64 - bits));
            }
        }
    }

    #[test]
    fn what_is_kept_is_what_was_made_and_the_largest_products_are_not() {
        let key = key(7, &Parameters::new(12, 3, 40961).unwrap());
        let secrets = SecretProducts::new(key, 1);
        let first = secrets.reversed(&[4]);
        assert!(Arc::ptr_eq(&first, &secrets.reversed(&[4])));
        let pair = secrets.reversed(&[4, 5]);
        assert!(!Arc::ptr_eq(&pair, &secrets.reversed(&[4, 5])));
        assert!(secrets.kept().bytes > 0);
    }
}
