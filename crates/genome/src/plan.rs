//! The layout of a query and its answer in polynomials, the ring, and the noise.
//!
//! A query ciphertext holds `width` terms as its first coefficients. A *test* is a row, or a prefix of one, with the
//! number of mismatches that it is tested for. It has `width` coefficients of each plaintext polynomial, in reverse.
//! Coefficient `width − 1` of its slot in the sum of the products is then its linear form. Narrow slots give few
//! answers and many query ciphertexts; a plan uses the width that minimises the total bytes.

use crate::{Kind, SearchSpec};
use oboro_ring::{Basis, MAX_LOG_DEGREE, ScaledRing, fraction, pack};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// Bound on what an answer reveals of the server's data beyond its meaning: statistical distance at most 2^-40.
pub const STATISTICAL_BITS: i32 = 40;

/// Smallest degree to try: noise that hides 40 bits needs more than two limbs.
const MIN_LOG_DEGREE: u32 = 12;
/// Variance of an error: a centred binomial of 42 coins.
const ERROR_VARIANCE: f64 = 10.5;
/// Largest error.
const MAX_ERROR: f64 = 21.0;
/// Largest useful number of fraction bits.
const MAX_BITS: u32 = 40;

/// Error: no ring supports the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "no 128-bit secure ring supports this search: {tests} tests of {terms} terms; search fewer rows or a shorter query"
)]
pub struct PlanError {
    tests: u64,
    terms: usize,
}

/// Layout of a search.
#[derive(Debug, Clone)]
pub struct Plan {
    spec: SearchSpec,
    ring: Arc<ScaledRing>,
    shape: Shape,
}

/// Numbers of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shape {
    width: usize,
    tests: u64,
    tests_per_answer: usize,
    flood_bits: u32,
    mask_bits: u32,
    value_bits: u32,
    bytes: u64,
}

impl Plan {
    /// Computes the plan of a search with the fewest bytes, query and answer together.
    ///
    /// # Errors
    /// No secure ring supports the search.
    pub fn new(spec: SearchSpec) -> Result<Self, PlanError> {
        // The narrowest width for each number of ciphertexts.
        let terms = spec.terms();
        let mut widths: Vec<usize> = (1..=terms).map(|count| terms.div_ceil(count)).collect();
        widths.dedup();
        Self::among(spec, &widths)
    }

    /// Computes the plan of this width.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// Panics if the width is 0.
    pub fn of_width(spec: SearchSpec, width: usize) -> Result<Self, PlanError> {
        Self::among(spec, &[width])
    }

    /// As [`of_width`](Self::of_width), with answers of full precision, whose noise can be measured.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// Panics if the width is 0.
    pub fn uncut(spec: SearchSpec, width: usize) -> Result<Self, PlanError> {
        let mut plan = Self::of_width(spec, width)?;
        (plan.shape.mask_bits, plan.shape.value_bits) = (MAX_BITS, MAX_BITS);
        Ok(plan)
    }

    fn among(spec: SearchSpec, widths: &[usize]) -> Result<Self, PlanError> {
        let tests = spec.groups().iter().sum();
        let t = plaintext_modulus(&spec);
        let mut best: Option<(Shape, Basis)> = None;
        for log_degree in MIN_LOG_DEGREE..=MAX_LOG_DEGREE {
            let largest = largest(log_degree);
            let before = best.as_ref().map(|(shape, _)| shape.bytes);
            for limbs in 1..=largest.limbs().len() {
                let basis = largest.first(limbs);
                let widths = widths.iter().filter(|&&width| width <= basis.degree());
                let shape = widths
                    .filter_map(|&width| Shape::new(&spec, tests, t, &basis, width))
                    .min_by_key(|shape| shape.bytes);
                if let Some(shape) = shape
                    && best
                        .as_ref()
                        .is_none_or(|(best, _)| shape.bytes < best.bytes)
                {
                    best = Some((shape, basis));
                }
            }
            // Polynomials only grow from here on.
            if before.is_some() && before == best.as_ref().map(|(shape, _)| shape.bytes) {
                break;
            }
        }
        let (shape, basis) = best.ok_or(PlanError {
            tests,
            terms: spec.terms(),
        })?;
        Ok(Self {
            spec,
            ring: Arc::new(ScaledRing::new(basis, t)),
            shape,
        })
    }

    /// The search.
    pub fn spec(&self) -> &SearchSpec {
        &self.spec
    }

    /// The ring. Its plaintexts are modulo the smallest odd prime above the query's length: a mismatch count other than
    /// the one tested for is not 0.
    pub fn ring(&self) -> &Arc<ScaledRing> {
        &self.ring
    }

    /// Number of terms per query ciphertext, and of coefficients per test.
    pub fn width(&self) -> usize {
        self.shape.width
    }

    /// Number of ciphertexts per query.
    pub fn ciphertexts(&self) -> usize {
        self.spec.terms().div_ceil(self.shape.width)
    }

    /// Number of zero tests.
    pub fn tests(&self) -> u64 {
        self.shape.tests
    }

    /// Number of tests per answer; the last may have fewer.
    pub fn tests_per_answer(&self) -> usize {
        self.shape.tests_per_answer
    }

    /// Number of answers. Each has the masks of a whole polynomial and the values of its tests.
    pub fn answers(&self) -> u64 {
        self.shape
            .tests
            .div_ceil(self.shape.tests_per_answer as u64)
    }

    /// Index of the coefficient that holds the value of slot `place` of an answer.
    pub fn coefficient(&self, place: usize) -> usize {
        (place + 1) * self.shape.width - 1
    }

    /// Bits of the noise, which is uniform from `−2^bits` to `2^bits − 1`.
    pub fn flood_bits(&self) -> u32 {
        self.shape.flood_bits
    }

    /// Bits of each coefficient of an answer's mask.
    pub fn mask_bits(&self) -> u32 {
        self.shape.mask_bits
    }

    /// Bits of the value of a test.
    pub fn value_bits(&self) -> u32 {
        self.shape.value_bits
    }

    /// Encodes the plan uniquely. The search: length (4 bytes), symbols (1), rows (8) and kind (0 and the allowed
    /// mismatches, or 1 and 0). The ring: `log2 N` (1), `t` (4), the number of limbs (1) and the prime of each (4). The
    /// layout: width, tests and tests per answer (8 each); bits of noise, masks and values (4 each).
    pub fn encode(&self) -> Vec<u8> {
        let (spec, basis) = (&self.spec, self.ring.basis());
        let mut bytes = Vec::new();
        bytes.extend(spec.length().to_le_bytes());
        bytes.push(spec.symbols());
        bytes.extend(spec.rows().to_le_bytes());
        bytes.extend(match spec.kind() {
            Kind::Match { within } => [0, within],
            Kind::Longest => [1, 0],
        });
        bytes.push(basis.log_degree() as u8);
        bytes.extend(self.ring.plaintext().value().to_le_bytes());
        bytes.push(basis.limbs().len() as u8);
        for limb in basis.limbs() {
            bytes.extend(limb.value().to_le_bytes());
        }
        let shape = &self.shape;
        for number in [
            shape.width as u64,
            shape.tests,
            shape.tests_per_answer as u64,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        for bits in [shape.flood_bits, shape.mask_bits, shape.value_bits] {
            bytes.extend(bits.to_le_bytes());
        }
        bytes
    }

    /// Number of bytes of the residues of one polynomial of a query.
    pub fn polynomial_bytes(&self) -> usize {
        polynomial_bytes(self.ring.basis())
    }

    /// Number of bytes of an answer.
    pub fn answer_bytes(&self) -> usize {
        self.shape.answer_bytes(self.ring.basis())
    }

    /// Number of bytes of query and answers together.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes
    }
}

impl Shape {
    /// Computes the numbers for a width; `None` if the noise does not fit into the ring.
    fn new(spec: &SearchSpec, tests: u64, t: u32, basis: &Basis, width: usize) -> Option<Self> {
        let tests_per_answer = basis.degree() / width;
        let noise = noise(spec, tests, t, basis, tests_per_answer);
        let flood_bits = (noise * tests as f64).log2().ceil() as u32 + STATISTICAL_BITS as u32;
        let q = basis.log2_q(basis.limbs().len());
        let hidden = (f64::from(flood_bits) - q).exp2() + (noise.log2() - q).exp2();
        let budget = 0.5 / f64::from(t) - hidden;
        let (mask_bits, value_bits) = fewest_bits(budget, basis.degree(), tests, tests_per_answer)?;
        let mut shape = Self {
            width,
            tests,
            tests_per_answer,
            flood_bits,
            mask_bits,
            value_bits,
            bytes: 0,
        };
        // The ciphertexts and the public key.
        let polynomials = spec.terms().div_ceil(width) as u64 + 1;
        let answers = tests.div_ceil(tests_per_answer as u64);
        shape.bytes = polynomials * (SEED_BYTES + polynomial_bytes(basis)) as u64
            + answers * shape.answer_bytes(basis) as u64;
        Some(shape)
    }

    fn answer_bytes(&self, basis: &Basis) -> usize {
        pack::bits_packed_len(basis.degree(), self.mask_bits)
            + pack::bits_packed_len(self.tests_per_answer.next_multiple_of(8), self.value_bits)
    }
}

/// Number of bytes of the seed that accompanies the residues of a ciphertext.
pub(crate) const SEED_BYTES: usize = 32;

fn polynomial_bytes(basis: &Basis) -> usize {
    pack::packed_len(basis.degree() * basis.limbs().len())
}

/// Returns the ring of a degree with the most limbs; its primes are searched once.
///
/// Panics for a degree that plans do not try.
fn largest(log_degree: u32) -> &'static Basis {
    const DEGREES: usize = (MAX_LOG_DEGREE - MIN_LOG_DEGREE + 1) as usize;
    static LARGEST: [OnceLock<Basis>; DEGREES] = [const { OnceLock::new() }; DEGREES];
    LARGEST[(log_degree - MIN_LOG_DEGREE) as usize]
        .get_or_init(|| Basis::largest(log_degree).expect("the degree is supported"))
}

/// Smallest odd prime above the length of a query.
fn plaintext_modulus(spec: &SearchSpec) -> u32 {
    let is_prime = |n: &u32| {
        (2..*n)
            .take_while(|d| d * d <= *n)
            .all(|d| !n.is_multiple_of(d))
    };
    (spec.length() + 1..)
        .filter(|n| !n.is_multiple_of(2))
        .find(is_prime)
        .expect("there is a prime below twice any number")
}

/// Bound, in units of 1/Q, on all values of all answers before noise is added; it fails with probability at most 2^-41.
/// `docs/cryptography.md`, "Genome search".
fn noise(spec: &SearchSpec, tests: u64, t: u32, basis: &Basis, tests_per_answer: usize) -> f64 {
    let factor = f64::from(t / 2);
    let degree = basis.degree() as f64;
    let terms = spec.terms_of_a_test() as f64;
    // Over all tests, a sum of independent errors times known numbers of norm 1 exceeds this with probability 2^-43. In
    // units of the errors' standard deviation.
    let tail = tail(tests, STATISTICAL_BITS + 3);
    let of_query = tail * (ERROR_VARIANCE * terms * tests_per_answer as f64).sqrt() * factor;
    // Rounding of the query's terms, and of the constant added to the value.
    let of_rounding = 0.5 * (terms * factor + 1.0);
    let of_public_key = tail * MAX_ERROR * degree.sqrt();
    let of_secret = tail * (ERROR_VARIANCE * degree).sqrt();
    of_query + of_rounding + of_public_key + of_secret
}

/// Bound, in standard deviations, that one of `tests` sub-Gaussian sums exceeds with probability `2^-bits`.
fn tail(tests: u64, bits: i32) -> f64 {
    (2.0 * ((2.0 * tests as f64).ln() + f64::from(bits) * std::f64::consts::LN_2)).sqrt()
}

/// Returns the bits of masks and values with the fewest bytes whose rounding error stays within `budget`.
fn fewest_bits(
    budget: f64,
    degree: usize,
    tests: u64,
    tests_per_answer: usize,
) -> Option<(u32, u32)> {
    // The rounding error of a mask coefficient is uniform within a unit, times a ternary secret.
    let spread = tail(tests, STATISTICAL_BITS) * (degree as f64 / 12.0).sqrt();
    let fixed_point = (degree + 1) as f64 * f64::from(fraction::FIXED_POINT_ERROR) / 64f64.exp2();
    (1..=MAX_BITS)
        .filter_map(|mask_bits| {
            let left = budget - fixed_point - spread * (-f64::from(mask_bits)).exp2();
            let value_bits = (left > 0.0).then(|| (0.5 / left).log2().ceil() as u32)?;
            (value_bits <= MAX_BITS).then_some((mask_bits, value_bits.max(1)))
        })
        .min_by_key(|&(mask, value)| {
            degree * mask as usize + tests_per_answer.next_multiple_of(8) * value as usize
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn plan(length: u32, symbols: u8, rows: u64, kind: Kind) -> Plan {
        Plan::new(SearchSpec::new(length, symbols, rows, kind).unwrap()).unwrap()
    }

    #[test]
    fn places_do_not_meet() {
        // In the product of a query and a test's coefficients no other term contributes to that coefficient.
        for plan in [
            plan(38, 2, 2752, Kind::Match { within: 0 }),
            plan(7, 4, 9000, Kind::Longest),
            plan(1, 2, 1, Kind::Match { within: 0 }),
        ] {
            let degree = plan.ring().basis().degree();
            assert!(plan.coefficient(plan.tests_per_answer() - 1) < degree);
            assert_eq!(plan.coefficient(0), plan.width() - 1);
            assert!(plan.ciphertexts() * plan.width() >= plan.spec().terms());
            assert!(plan.answers() * plan.tests_per_answer() as u64 >= plan.tests());
        }
    }

    #[test]
    fn no_two_plans_have_the_same_bytes() {
        let exact = Kind::Match { within: 0 };
        let spec =
            |length, symbols, rows, kind| SearchSpec::new(length, symbols, rows, kind).unwrap();
        let asked = spec(38, 2, 2752, exact);
        let plans = [
            Plan::new(asked),
            Plan::of_width(asked, 3),
            Plan::of_width(asked, 39),
            Plan::uncut(asked, 3),
            Plan::new(spec(38, 2, 2753, exact)),
            Plan::new(spec(38, 3, 2752, exact)),
            Plan::new(spec(37, 2, 2752, exact)),
            Plan::new(spec(38, 2, 2752, Kind::Match { within: 1 })),
            Plan::new(spec(38, 2, 2752, Kind::Longest)),
        ];
        let bytes = plans.map(|plan| plan.unwrap().encode());
        assert_eq!(HashSet::from(bytes.clone()).len(), bytes.len());
        // The first one's, field by field.
        let [first, ..] = bytes;
        assert_eq!(
            first[..15],
            [38, 0, 0, 0, 2, 192, 10, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(first[15..22], [12, 41, 0, 0, 0, 3, 1]);
        assert_eq!(first.len(), 21 + 3 * 4 + 3 * 8 + 3 * 4);
    }

    #[test]
    fn known_panels_have_small_plans() {
        let omni = plan(38, 2, 2752, Kind::Match { within: 0 });
        assert_eq!(omni.ring().plaintext().value(), 41);
        assert_eq!(omni.ring().basis().log_degree(), 12);
        assert!(omni.bytes() < 400_000, "{}", omni.bytes());
        let lambda = plan(32, 4, 2 * 48_471, Kind::Match { within: 0 });
        assert!(lambda.bytes() < 2_000_000, "{}", lambda.bytes());
    }

    #[test]
    fn the_noise_fits() {
        for (length, rows) in [(1, 1), (38, 2752), (500, 1_000_000), (4096, 1 << 25)] {
            let plan = plan(length, 2, rows, Kind::Match { within: 0 });
            let basis = plan.ring().basis();
            let q = basis.log2_q(basis.limbs().len());
            let t = f64::from(plan.ring().plaintext().value());
            assert!(t > f64::from(length));
            // The flood hides the noise of all tests, and values stay distinguishable.
            let noise = noise(
                plan.spec(),
                plan.tests(),
                t as u32,
                basis,
                plan.tests_per_answer(),
            );
            let flood = f64::from(plan.flood_bits());
            assert!(flood >= noise.log2() + (rows as f64).log2() + 40.0);
            assert!(flood < q - (2.0 * t).log2());
        }
    }
}
