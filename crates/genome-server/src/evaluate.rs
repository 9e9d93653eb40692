//! Blinded evaluation: a query's mismatch counts, each times a fresh random factor.
//!
//! A test's linear form is multiplied by a uniform nonzero factor modulo `t`. The owner of the query decrypts 0 where
//! the test holds, and anything else with equal probability where it does not. Tests are in fresh random order, and
//! padding tests take as much work as others: time does not reveal the number of different rows. Before an answer
//! leaves, its ciphertext is added to an encryption of 0 under the query's public key. Uniform noise then hides its
//! values, and only then is it truncated to the bits that are needed. The proof is in `docs/cryptography.md`, "Genome
//! search".
//!
//! Random values are drawn for one query and window, and never kept. They are derived from fresh randomness and from
//! everything that the answers depend on. A generator that repeats itself, as after a rollback of a virtual machine,
//! never blinds two different answers alike.

use crate::rows::Window;
use oboro_format::Digest;
use oboro_genome::wire::{Answer, EncryptedQuery, WireError};
use oboro_genome::{Kind, Plan};
use oboro_ring::mask::{self, MaskSeed};
use oboro_ring::{Fractions, Limb, Nonce, Ntt, vector};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Generator stream that shuffles the tests; the answers use streams from 0.
const ORDER: u64 = u64::MAX;
/// Number of products of a query's ciphertexts that are summed in one pass.
const TOGETHER: usize = 4;

/// Counting of repeated rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplicity {
    /// Once: the answer reveals if such a row exists.
    Once,
    /// As often as they occur: the answer reveals their number.
    Each,
}

/// Source of one value of an answer: a prefix of a row.
#[derive(Debug, Clone, Copy)]
struct Test {
    row: u32,
    length: u16,
    says: Meaning,
}

/// Meaning of one value of an answer.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// 0 if the prefix has this many mismatches.
    Mismatches(u8),
    /// Padding, never 0.
    Nothing,
}

/// Query with its masks expanded, shared by its evaluations on all windows.
pub struct ExpandedQuery {
    plan: Arc<Plan>,
    query: EncryptedQuery,
    nonce: Nonce,
    /// Digest of the query's bytes.
    digest: Digest,
    /// Masks of the query's ciphertexts, then that of the public key, in evaluation form.
    masks: Vec<Vec<u32>>,
}

impl std::fmt::Debug for ExpandedQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpandedQuery").finish_non_exhaustive()
    }
}

impl ExpandedQuery {
    /// Checks the bytes of a query of this plan, whose public key's mask has the seed `nonce`, and expands its masks.
    ///
    /// # Errors
    /// The bytes are no such query.
    pub fn decode(plan: Arc<Plan>, bytes: Vec<u8>, nonce: Nonce) -> Result<Self, WireError> {
        let query = EncryptedQuery::decode(&bytes, &plan, &nonce)?;
        let digest = Digest::of(&bytes);
        drop(bytes);
        let seeds = query.ciphertexts.iter().map(|ciphertext| &ciphertext.seed);
        let masks = seeds.map(|seed| expanded(&plan, seed));
        Ok(Self {
            masks: masks.chain([expanded(&plan, &nonce)]).collect(),
            plan,
            query,
            nonce,
            digest,
        })
    }

    /// Memory of a query of this plan, in bytes. The encoded query is smaller than its masks.
    pub fn bytes_of(plan: &Plan) -> u64 {
        let basis = plan.ring().basis();
        let polynomial = basis.degree() * basis.limbs().len() * size_of::<u32>();
        2 * (polynomial * (plan.ciphertexts() + 1)) as u64
    }
}

/// Expands a mask in evaluation form, limb after limb.
fn expanded(plan: &Plan, seed: &impl MaskSeed) -> Vec<u32> {
    let basis = plan.ring().basis();
    let mut mask = vec![0; basis.degree() * basis.limbs().len()];
    for (limb, out) in Limb::enumerate(mask.chunks_exact_mut(basis.degree())) {
        mask::expand(seed, basis, limb, out);
    }
    mask
}

/// Evaluation of one query on one window. Any number of threads may compute answers.
pub struct Evaluation {
    query: Arc<ExpandedQuery>,
    window: Arc<Window>,
    tests: Vec<Test>,
    seed: Zeroizing<[u8; 32]>,
}

impl std::fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluation").finish_non_exhaustive()
    }
}

/// Buffers for one thread.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Plaintext polynomial for each ciphertext of the query, in coefficient form.
    plaintexts: Vec<i32>,
    /// Noise and constants to add to the values, limb after limb, in coefficient form.
    added: Vec<u32>,
    transformed: Vec<u32>,
    sums: [Vec<u64>; 2],
    /// Both parts of the answer, limb after limb.
    parts: [Vec<u32>; 2],
    ternary: Vec<i8>,
    errors: Vec<i32>,
    fractions: Vec<u64>,
    symbols: Vec<u8>,
    /// Factors of one test's terms.
    form: Vec<i32>,
}

impl Evaluation {
    /// Draws the order of the tests and the blinding factors.
    ///
    /// # Errors
    ///
    /// The system provides no randomness.
    ///
    /// # Panics
    ///
    /// If the window has no rows, or rows of another length or more of them than the query's plan.
    pub fn new(
        query: Arc<ExpandedQuery>,
        window: Arc<Window>,
        multiplicity: Multiplicity,
    ) -> Result<Self, getrandom::Error> {
        let mut randomness = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *randomness)?;
        let seed = seed(&randomness, &query, &window, multiplicity);
        Ok(Self::from_seed(query, window, multiplicity, seed))
    }

    fn from_seed(
        query: Arc<ExpandedQuery>,
        window: Arc<Window>,
        multiplicity: Multiplicity,
        seed: Zeroizing<[u8; 32]>,
    ) -> Self {
        let mut rng = ChaCha20Rng::from_seed(*seed);
        rng.set_stream(ORDER);
        Self {
            tests: tests(&query.plan, &window, multiplicity, &mut rng),
            query,
            window,
            seed,
        }
    }

    /// Memory of an evaluation of this plan, in bytes, without its query and its window.
    pub fn bytes_of(plan: &Plan) -> u64 {
        plan.tests() * size_of::<Test>() as u64
    }

    /// The layout of query and answers in polynomials.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.query.plan
    }

    /// Number of answers.
    pub fn answers(&self) -> u64 {
        self.plan().answers()
    }

    /// Computes an answer; equal numbers give equal answers.
    ///
    /// Panics if the number is too large.
    pub fn answer(&self, number: u64, workspace: &mut Workspace) -> Answer {
        let mut rng = ChaCha20Rng::from_seed(*self.seed);
        rng.set_stream(number);
        let each = self.plan().tests_per_answer();
        let first = number as usize * each;
        let tests = &self.tests[first..self.tests.len().min(first + each)];
        workspace.begin(self.plan());
        self.blind(tests, workspace, &mut rng);
        self.multiply(workspace, &mut rng);
        self.cut(tests.len(), workspace)
    }

    /// Writes the tests, each times a factor, and the noise and constants for their values.
    fn blind(&self, tests: &[Test], workspace: &mut Workspace, rng: &mut ChaCha20Rng) {
        let ring = self.plan().ring();
        let (degree, width) = (ring.basis().degree(), self.plan().width());
        let t = ring.plaintext();
        for (position, test) in tests.iter().enumerate() {
            let factor = 1 + oboro_ring::sample::below(rng, u64::from(t.value()) - 1) as u32;
            let (of_form, constant) = match test.says {
                Meaning::Mismatches(count) => {
                    (t.centre(factor), t.neg(t.mul(factor, count.into())))
                }
                Meaning::Nothing => (0, factor),
            };
            let Workspace { symbols, form, .. } = workspace;
            self.window.rows().read(test.row as usize, symbols);
            let spec = self.plan().spec();
            spec.form(symbols, test.length.into(), of_form, form);
            let polynomials = workspace.plaintexts.chunks_exact_mut(degree);
            for (polynomial, factors) in polynomials.zip(form.chunks(width)) {
                let of_test = &mut polynomial[position * width..][..width];
                for (coefficient, &factor) in of_test.iter_mut().rev().zip(factors) {
                    *coefficient = factor;
                }
            }
            let coefficient = self.plan().coefficient(position);
            let noise = Noise::draw(rng, self.plan().flood_bits());
            for (limb, ntt) in Limb::enumerate(ring.limbs()) {
                let q = ntt.modulus();
                workspace.added[limb.0 * degree + coefficient] =
                    q.add(ring.residue(constant, limb), noise.residue(ntt));
            }
        }
    }

    /// Adds the products of plaintexts and query to an encryption of 0.
    fn multiply(&self, workspace: &mut Workspace, rng: &mut ChaCha20Rng) {
        let ExpandedQuery { query, masks, .. } = &*self.query;
        let ring = self.plan().ring();
        let degree = ring.basis().degree();
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        oboro_ring::sample::ternary(&seed, &mut workspace.ternary);
        rng.fill_bytes(&mut *seed);
        oboro_ring::sample::centred_binomial(&seed, &mut workspace.errors);
        let public_key = self.plan().ciphertexts();
        for (limb, ntt) in ring.limbs().iter().enumerate() {
            let q = ntt.modulus();
            let of_limb = limb * degree..(limb + 1) * degree;
            workspace.sums.iter_mut().for_each(|sums| sums.fill(0));
            for (number, plaintexts) in workspace.plaintexts.chunks(TOGETHER * degree).enumerate() {
                let transformed = &mut workspace.transformed[..plaintexts.len()];
                lift(plaintexts, ntt, transformed);
                let products = (number * TOGETHER..).zip(transformed.chunks_exact(degree));
                let (values, masks): (Vec<_>, Vec<_>) = products
                    .map(|(ciphertext, plaintext)| {
                        let values = &query.ciphertexts[ciphertext].residues;
                        let masks = &masks[ciphertext];
                        (
                            (plaintext, &values[of_limb.clone()]),
                            (plaintext, &masks[of_limb.clone()]),
                        )
                    })
                    .unzip();
                vector::accumulate_products(&values, &mut workspace.sums[0]);
                vector::accumulate_products(&masks, &mut workspace.sums[1]);
                // The largest number of sums before a reduction, less those added at the end.
                if (number + 1).is_multiple_of(vector::LAZY_SUMS / TOGETHER - 1) {
                    workspace
                        .sums
                        .iter_mut()
                        .for_each(|sums| vector::fold(q, sums));
                }
            }
            let ternary = &mut workspace.transformed[..degree];
            for (value, &x) in ternary.iter_mut().zip(&workspace.ternary) {
                *value = q.value().wrapping_add_signed(x.into());
            }
            ntt.forward(ternary);
            let keys = [&query.public_key, &masks[public_key]];
            for (sums, key) in workspace.sums.iter_mut().zip(keys) {
                vector::accumulate_products(&[(&*ternary, &key[of_limb.clone()])], sums);
            }
            for (sums, part) in workspace.sums.iter().zip(&mut workspace.parts) {
                vector::reduce_into(q, sums, &mut part[of_limb.clone()]);
            }
            let added = &mut workspace.added[of_limb.clone()];
            ntt.forward(added);
            vector::add_assign(q, added, &mut workspace.parts[0][of_limb.clone()]);
            let errors = &mut workspace.transformed[..degree];
            lift(&workspace.errors, ntt, errors);
            vector::add_assign(q, errors, &mut workspace.parts[1][of_limb]);
        }
    }

    /// Truncates the parts to fractions. Only values that belong to tests leave: no noise hides the others.
    fn cut(&self, tests: usize, workspace: &mut Workspace) -> Answer {
        let plan = self.plan();
        let fractions = Fractions::over(plan.ring().limbs(), 1);
        let [values, masks] = &mut workspace.parts;
        let out = &mut workspace.fractions;
        fractions.of_polynomial(values, plan.value_bits(), out);
        let mut values: Vec<u64> = (0..tests)
            .map(|position| out[plan.coefficient(position)])
            .collect();
        values.resize(plan.tests_per_answer(), 0);
        fractions.of_polynomial(masks, plan.mask_bits(), out);
        Answer {
            mask: out.clone(),
            values,
        }
    }
}

impl Workspace {
    fn begin(&mut self, plan: &Plan) {
        let basis = plan.ring().basis();
        let (degree, limbs) = (basis.degree(), basis.limbs().len());
        self.plaintexts.clear();
        self.plaintexts.resize(plan.ciphertexts() * degree, 0);
        self.added.clear();
        self.added.resize(limbs * degree, 0);
        self.transformed.resize(TOGETHER * degree, 0);
        self.sums.iter_mut().for_each(|sums| sums.resize(degree, 0));
        self.parts
            .iter_mut()
            .for_each(|part| part.resize(limbs * degree, 0));
        self.ternary.resize(degree, 0);
        self.errors.resize(degree, 0);
        self.fractions.resize(degree, 0);
        self.symbols.resize(plan.spec().length() as usize, 0);
        self.form.resize(plan.spec().terms(), 0);
    }
}

/// Derives the seed that blinds the answers to a query on a window. Inputs are fresh randomness, the question, the
/// whole query, and the rows with their collection and position.
fn seed(
    randomness: &[u8; 32],
    query: &ExpandedQuery,
    window: &Window,
    multiplicity: Multiplicity,
) -> Zeroizing<[u8; 32]> {
    let mut asked = query.plan.encode();
    asked.push(multiplicity as u8);
    let ExpandedQuery { nonce, digest, .. } = query;
    let purpose = [
        &Digest::of(&asked).0,
        &nonce.0,
        &digest.0,
        window.rows().origin(),
    ];
    oboro_ring::sample::seed(randomness, &purpose)
}

/// Lists the tests of a search in the order of their values: shuffled within each group.
fn tests(
    plan: &Plan,
    window: &Window,
    multiplicity: Multiplicity,
    rng: &mut ChaCha20Rng,
) -> Vec<Test> {
    let spec = plan.spec();
    let length = spec.length() as usize;
    assert_eq!(window.rows().length(), length);
    let mut tests = Vec::with_capacity(plan.tests() as usize);
    for (number, size) in spec.groups().into_iter().enumerate() {
        let first = tests.len();
        let beginning = match spec.kind() {
            Kind::Match { .. } => length,
            Kind::Longest => number + 1,
        };
        let mut add = |row: u32, within: u8| {
            tests.extend((0..=within).map(|mismatches| Test {
                row,
                length: beginning as u16,
                says: Meaning::Mismatches(mismatches),
            }));
        };
        match (spec.kind(), multiplicity) {
            (Kind::Match { within }, Multiplicity::Each) => {
                (0..window.rows().len() as u32).for_each(|row| add(row, within));
            }
            (Kind::Match { within }, Multiplicity::Once) => window
                .beginnings(beginning)
                .for_each(|row| add(row, within)),
            (Kind::Longest, _) => window.beginnings(beginning).for_each(|row| add(row, 0)),
        }
        let end = first + size as usize;
        assert!(tests.len() <= end, "the plan covers all rows");
        // Reads spread over the rows, like those of other tests.
        let padding = (0..window.rows().len() as u32).cycle().map(|row| Test {
            row,
            length: beginning as u16,
            says: Meaning::Nothing,
        });
        tests.extend(padding.take(end - tests.len()));
        assert_eq!(tests.len(), end, "there are rows");
        oboro_ring::sample::shuffle(rng, &mut tests[first..]);
    }
    tests
}

/// Transforms signed coefficients, polynomial after polynomial, to evaluation form.
fn lift(coefficients: &[i32], ntt: &Ntt, out: &mut [u32]) {
    let q = ntt.modulus().value();
    // Below 2q, which the transform takes.
    for (value, &x) in out.iter_mut().zip(coefficients) {
        *value = q.wrapping_add_signed(x);
    }
    out.chunks_exact_mut(ntt.degree())
        .for_each(|polynomial| ntt.forward(polynomial));
}

/// Generator of uniform numbers from `−2^bits` to `2^bits − 1`.
struct Noise {
    shifted: u128,
    bits: u32,
}

impl Noise {
    fn draw(rng: &mut ChaCha20Rng, bits: u32) -> Self {
        assert!(bits < u128::BITS);
        let drawn: u128 = rng.random();
        Self {
            shifted: drawn >> (u128::BITS - 1 - bits),
            bits,
        }
    }

    fn residue(&self, ntt: &Ntt) -> u32 {
        let q = ntt.modulus();
        let two = q.reduce(2);
        let (high, low) = ((self.shifted >> 64) as u64, self.shifted as u64);
        let shifted = q.add(q.mul(q.reduce(high), q.pow(two, 64)), q.reduce(low));
        q.sub(shifted, q.pow(two, self.bits.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;
    use oboro_genome::wire::Ciphertext;
    use oboro_genome::{SearchSpec, SymbolSet};
    use oboro_ring::{Basis, QuerySeed, ScaledRing};
    use std::collections::HashSet;

    const LENGTH: usize = 38;
    const ROWS: usize = 40;
    const NONCE: Nonce = Nonce([200; 32]);
    const RANDOMNESS: [u8; 32] = [3; 32];

    fn plan() -> Arc<Plan> {
        let exact = Kind::Match { within: 0 };
        let spec = SearchSpec::new(LENGTH as u32, 2, ROWS as u64, exact);
        Arc::new(Plan::new(spec.unwrap()).unwrap())
    }

    /// Rows of two alleles, one bit each.
    fn rows() -> Vec<u64> {
        let row = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LENGTH);
        (1..=ROWS as u64).map(row).collect()
    }

    fn window(origin: u8, rows: Vec<u64>) -> Arc<Window> {
        Arc::new(Window::new(Rows::new([origin; 32], LENGTH, 1, rows)))
    }

    /// Encodes a query of these terms with errors and secret 0: an answer's values decrypt to themselves.
    fn bare(plan: &Plan, terms: &[i32]) -> Vec<u8> {
        let ring = plan.ring();
        let polynomial = |terms: &[i32]| {
            let limbs = Limb::enumerate(ring.limbs());
            let residues = limbs.flat_map(|(limb, ntt)| {
                let mut values = vec![0; ring.basis().degree()];
                for (value, &term) in values.iter_mut().zip(terms) {
                    *value = ring.residue(ring.plaintext().reduce_signed(term.into()), limb);
                }
                ntt.forward(&mut values);
                values
            });
            residues.collect::<Vec<u32>>()
        };
        let ciphertexts = (0..)
            .zip(terms.chunks(plan.width()))
            .map(|(number, terms)| Ciphertext {
                seed: QuerySeed([number; 32]),
                residues: polynomial(terms),
            });
        let query = EncryptedQuery {
            ciphertexts: ciphertexts.collect(),
            public_key: polynomial(&[]),
        };
        query.encode(plan)
    }

    fn expanded(plan: &Arc<Plan>, terms: &[i32]) -> Arc<ExpandedQuery> {
        Arc::new(ExpandedQuery::decode(Arc::clone(plan), bare(plan, terms), NONCE).unwrap())
    }

    type SeedOf = fn(&ExpandedQuery, &Window) -> Zeroizing<[u8; 32]>;

    /// Derives the seed on a machine whose generator repeats itself.
    fn as_it_is(query: &ExpandedQuery, window: &Window) -> Zeroizing<[u8; 32]> {
        seed(&RANDOMNESS, query, window, Multiplicity::Each)
    }

    /// Derives the seed in an earlier way, from the seeds of the masks only.
    fn of_masks_only(query: &ExpandedQuery, _: &Window) -> Zeroizing<[u8; 32]> {
        let seeds = query.query.ciphertexts.iter().map(|it| &it.seed.0);
        let purpose: Vec<_> = seeds.chain([&query.nonce.0]).collect();
        oboro_ring::sample::seed(&RANDOMNESS, &purpose)
    }

    /// Returns the masks of all answers, and the values of all tests.
    fn answers(
        seed_of: SeedOf,
        query: &Arc<ExpandedQuery>,
        window: &Arc<Window>,
    ) -> (Vec<Vec<u64>>, Vec<u64>) {
        let seed = seed_of(query, window);
        let (query, window) = (Arc::clone(query), Arc::clone(window));
        let evaluation = Evaluation::from_seed(query, window, Multiplicity::Each, seed);
        let mut workspace = Workspace::default();
        let answers = (0..evaluation.answers()).map(|n| evaluation.answer(n, &mut workspace));
        let (masks, values): (Vec<_>, Vec<_>) = answers.map(|it| (it.mask, it.values)).unzip();
        (masks, values.concat()[..ROWS].to_vec())
    }

    /// Attack: a client repeats a query to a server that is rolled back each time. The nonce stays, and another of the
    /// terms changes each time. If order and factors of the tests repeated as well, the answers together would be the
    /// rows.
    #[test]
    fn queries_that_repeat_their_masks_are_not_blinded_alike() {
        let plan = plan();
        let window = window(1, rows());
        let read = |seed_of: SeedOf| {
            let nothing = expanded(&plan, &[0; LENGTH + 1]);
            let (masks, without) = answers(seed_of, &nothing, &window);
            let (mut read, mut repeated) = (vec![0u64; ROWS], 0);
            for position in 0..LENGTH {
                let mut terms = [0; LENGTH + 1];
                terms[position + 1] = 1;
                let (again, with) = answers(seed_of, &expanded(&plan, &terms), &window);
                repeated += usize::from(again == masks);
                for (row, (with, without)) in read.iter_mut().zip(with.iter().zip(&without)) {
                    // A factor is at least a unit of 1/t, of eight or more in an answer's bits.
                    let difference = with.wrapping_sub(*without) << (64 - plan.value_bits());
                    let units = (difference as i64) >> (64 - plan.value_bits());
                    *row |= u64::from(units.abs() > 2) << position;
                }
            }
            let rows: HashSet<u64> = rows().into_iter().collect();
            let read = read.into_iter().filter(|row| rows.contains(row));
            (read.count(), repeated)
        };
        assert_eq!(read(of_masks_only), (ROWS, LENGTH));
        assert_eq!(read(as_it_is), (0, 0));
    }

    /// Attack: a client repeats one query on a panel of which one row was replaced.
    #[test]
    fn collections_that_differ_in_a_row_are_not_blinded_alike() {
        let plan = plan();
        let query = expanded(&plan, &plan.spec().encode(&[SymbolSet::of(0); LENGTH]));
        let (before, mut changed) = (rows(), rows());
        changed[17] ^= 1 << 5;
        let (old, new) = (window(1, before), window(2, changed));
        let differing = |seed_of| {
            let [a, b] = [&old, &new].map(|window| answers(seed_of, &query, window).1);
            a.iter().zip(b).filter(|(a, b)| *a != b).count()
        };
        assert_eq!(differing(of_masks_only), 1);
        assert!(differing(as_it_is) > ROWS / 2);
    }

    #[test]
    fn a_generator_that_repeats_itself_repeats_a_seed_only_with_all_of_the_search() {
        let exact = Kind::Match { within: 0 };
        let spec = |rows| SearchSpec::new(LENGTH as u32, 2, rows, exact).unwrap();
        let plans = [ROWS as u64, ROWS as u64 + 1].map(|rows| Plan::new(spec(rows)).unwrap());
        let [plan, larger] = plans.map(Arc::new);
        let window = |origin| window(origin, rows());
        let terms = [0; LENGTH + 1];
        let of = |plan: &Arc<Plan>, bytes: Vec<u8>, nonce, window: &Window, each, randomness| {
            let query = ExpandedQuery::decode(Arc::clone(plan), bytes, Nonce([nonce; 32])).unwrap();
            *seed(&[randomness; 32], &query, window, each)
        };
        let (once, each) = (Multiplicity::Once, Multiplicity::Each);
        let bytes = bare(&plan, &terms);
        let first = of(&plan, bytes.clone(), 200, &window(1), once, 3);
        assert_eq!(of(&plan, bytes.clone(), 200, &window(1), once, 3), first);
        // Bytes of the first ciphertext's seed and residues, and of the public key.
        let altered = [0, 40, bytes.len() - 8].map(|at| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 16;
            of(&plan, bytes, 200, &window(1), once, 3)
        });
        let others = [
            of(&larger, bare(&larger, &terms), 200, &window(1), once, 3),
            of(&plan, bytes.clone(), 201, &window(1), once, 3),
            of(&plan, bytes.clone(), 200, &window(2), once, 3),
            of(&plan, bytes.clone(), 200, &window(1), each, 3),
            of(&plan, bytes, 200, &window(1), once, 4),
        ];
        let all: HashSet<_> = [first].into_iter().chain(altered).chain(others).collect();
        assert_eq!(all.len(), 9);
    }

    #[test]
    fn noise_is_uniform_and_has_one_value_modulo_all_limbs() {
        let ring = ScaledRing::new(Basis::new(12, 3).unwrap(), 41);
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let q = |limb: usize| i128::from(ring.limbs()[limb].modulus().value());
        let mut cells = [0u32; 16];
        for _ in 0..16_000 {
            let noise = Noise::draw(&mut rng, 70);
            let value = noise.shifted as i128 - (1 << 70);
            assert!((-(1 << 70)..1 << 70).contains(&value));
            for limb in 0..3 {
                let expected = value.rem_euclid(q(limb)) as u32;
                assert_eq!(noise.residue(&ring.limbs()[limb]), expected);
            }
            cells[(noise.shifted >> 67) as usize] += 1;
        }
        // 15 degrees of freedom: above 50 once in 10^5.
        let chi: f64 = cells
            .iter()
            .map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0)
            .sum();
        assert!(chi < 50.0, "chi-square {chi}");
    }
}
