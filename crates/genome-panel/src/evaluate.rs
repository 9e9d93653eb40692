//! The blinded evaluation: a query's mismatch counts, each times a fresh random factor.
//!
//! A test's linear form is multiplied by a uniform factor modulo `t` that is not 0, so what the owner
//! of the query decrypts is 0 where the test holds, and anything else with equal probability where it
//! does not. Tests are in fresh random order, and those that only pad are as much work as others: time
//! does not tell how many different rows there are. Before an answer leaves, its ciphertext is added to
//! an encryption of 0 under the query's public key, its values are hidden by uniform noise, and only
//! then it is cut to the bits that are needed. The proof is in `docs/cryptography.md`, "Genome search".
//!
//! What is drawn is drawn for one query and window, from a seed of their own, and never kept.

use crate::rows::Window;
use oboro_genome::wire::{Answer, EncryptedQuery};
use oboro_genome::{Kind, Plan};
use oboro_ring::{Fractions, Ntt, Seed, mask, vector};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, RngExt, SeedableRng};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The stream of the generator that tests are shuffled with; answers have those from 0.
const ORDER: u64 = u64::MAX;
/// Products of a query's ciphertexts that are summed in one pass.
const TOGETHER: usize = 4;

/// How often a row counts that is there more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplicity {
    /// Once: the answer says whether there is such a row.
    Once,
    /// As often as it is there: the answer says how many there are.
    Each,
}

/// What one value of an answer is made from: the beginning of a row.
#[derive(Debug, Clone, Copy)]
struct Test {
    row: u32,
    length: u16,
    says: Says,
}

/// What one value of an answer tells.
#[derive(Debug, Clone, Copy)]
enum Says {
    /// Whether the beginning has so many mismatches.
    Mismatches(u8),
    /// Nothing: it is never 0.
    Nothing,
}

/// A query with its masks expanded: what its evaluations on all windows share.
pub struct ExpandedQuery {
    plan: Arc<Plan>,
    query: EncryptedQuery,
    /// That of the public key.
    nonce: Seed,
    /// The masks of the query's ciphertexts, then that of the public key, in evaluation form.
    masks: Vec<Vec<u32>>,
}

impl std::fmt::Debug for ExpandedQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpandedQuery").finish_non_exhaustive()
    }
}

impl ExpandedQuery {
    /// Expands the masks of a query of this plan, whose public key's mask has the seed `nonce`.
    pub fn new(plan: Arc<Plan>, query: EncryptedQuery, nonce: Seed) -> Self {
        let basis = plan.ring().basis();
        let masks = seeds(&query, &nonce).map(|seed| {
            let mut mask = vec![0; basis.degree() * basis.limbs().len()];
            for (limb, out) in mask.chunks_exact_mut(basis.degree()).enumerate() {
                mask::expand(seed, basis, limb, out);
            }
            mask
        });
        Self {
            masks: masks.collect(),
            plan,
            query,
            nonce,
        }
    }

    /// Bytes in memory of a query of this plan. The bytes that it is decoded from are fewer than its masks.
    pub fn bytes_of(plan: &Plan) -> u64 {
        let basis = plan.ring().basis();
        let polynomial = basis.degree() * basis.limbs().len() * size_of::<u32>();
        2 * (polynomial * (plan.ciphertexts() + 1)) as u64
    }
}

/// The seeds of the masks of a query's ciphertexts, then that of the public key's.
fn seeds<'q>(query: &'q EncryptedQuery, nonce: &'q Seed) -> impl Iterator<Item = &'q Seed> {
    let seeds = query.ciphertexts.iter().map(|ciphertext| &ciphertext.seed);
    seeds.chain([nonce])
}

/// The evaluation of one query on one window. Answers may be computed on any number of threads.
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
    /// A plaintext polynomial for each ciphertext of the query, in coefficient form.
    plaintexts: Vec<i32>,
    /// What is added to the values: noise and constants, limb after limb, in coefficient form.
    added: Vec<u32>,
    transformed: Vec<u32>,
    sums: [Vec<u64>; 2],
    /// The answer's two parts, limb after limb.
    parts: [Vec<u32>; 2],
    ternary: Vec<i8>,
    errors: Vec<i32>,
    fractions: Vec<u64>,
    symbols: Vec<u8>,
    /// The factors of one test's terms.
    form: Vec<i32>,
}

impl Evaluation {
    /// Draws the order of the tests and what blinds them.
    ///
    /// # Errors
    /// No randomness.
    ///
    /// # Panics
    /// If there are no rows, or the query's plan is for rows of another length, or for fewer.
    pub fn new(
        query: Arc<ExpandedQuery>,
        window: Arc<Window>,
        multiplicity: Multiplicity,
    ) -> Result<Self, getrandom::Error> {
        let mut randomness = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *randomness)?;
        Ok(Self::with_randomness(
            query,
            window,
            multiplicity,
            &randomness,
        ))
    }

    fn with_randomness(
        query: Arc<ExpandedQuery>,
        window: Arc<Window>,
        multiplicity: Multiplicity,
        randomness: &[u8; 32],
    ) -> Self {
        let purpose: Vec<_> = seeds(&query.query, &query.nonce)
            .map(|seed| &seed.0)
            .collect();
        let seed = oboro_sample::seed(randomness, &purpose);
        let mut rng = ChaCha20Rng::from_seed(*seed);
        rng.set_stream(ORDER);
        Self {
            tests: tests(&query.plan, &window, multiplicity, &mut rng),
            query,
            window,
            seed,
        }
    }

    /// Bytes in memory of an evaluation of this plan, besides its query and its window.
    pub fn bytes_of(plan: &Plan) -> u64 {
        plan.tests() * size_of::<Test>() as u64
    }

    /// How query and answers lie in polynomials.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.query.plan
    }

    /// The number of answers.
    pub fn answers(&self) -> u64 {
        self.plan().answers()
    }

    /// Computes an answer. The same number gives the same answer.
    ///
    /// Panics if there is no such answer.
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

    /// Writes the tests, each times a factor, and what is added to their values.
    fn blind(&self, tests: &[Test], workspace: &mut Workspace, rng: &mut ChaCha20Rng) {
        let ring = self.plan().ring();
        let (degree, width) = (ring.basis().degree(), self.plan().width());
        let t = ring.plaintext();
        for (place, test) in tests.iter().enumerate() {
            let factor = 1 + oboro_sample::below(rng, u64::from(t.value()) - 1) as u32;
            let (of_form, constant) = match test.says {
                Says::Mismatches(count) => (t.centre(factor), t.neg(t.mul(factor, count.into()))),
                Says::Nothing => (0, factor),
            };
            let Workspace { symbols, form, .. } = workspace;
            self.window.rows().read(test.row as usize, symbols);
            let question = self.plan().question();
            question.form(symbols, test.length.into(), of_form, form);
            let polynomials = workspace.plaintexts.chunks_exact_mut(degree);
            for (polynomial, factors) in polynomials.zip(form.chunks(width)) {
                let of_test = &mut polynomial[place * width..][..width];
                for (coefficient, &factor) in of_test.iter_mut().rev().zip(factors) {
                    *coefficient = factor;
                }
            }
            let coefficient = self.plan().coefficient(place);
            let noise = Noise::draw(rng, self.plan().flood_bits());
            for (limb, ntt) in ring.limbs().iter().enumerate() {
                let q = ntt.modulus();
                workspace.added[limb * degree + coefficient] =
                    q.add(ring.residue(constant, limb), noise.residue(ntt));
            }
        }
    }

    /// The sum of the products of plaintexts and query, and of an encryption of 0.
    fn multiply(&self, workspace: &mut Workspace, rng: &mut ChaCha20Rng) {
        let ExpandedQuery { query, masks, .. } = &*self.query;
        let ring = self.plan().ring();
        let degree = ring.basis().degree();
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        oboro_sample::ternary(&seed, &mut workspace.ternary);
        rng.fill_bytes(&mut *seed);
        oboro_sample::centred_binomial(&seed, &mut workspace.errors);
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
                // As many as may be added before a reduction, less those that come at the end.
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

    /// The parts as fractions. Of the values only those leave that belong to tests: no noise hides the
    /// others.
    fn cut(&self, tests: usize, workspace: &mut Workspace) -> Answer {
        let plan = self.plan();
        let fractions = Fractions::over(plan.ring().limbs(), 1);
        let [values, masks] = &mut workspace.parts;
        let out = &mut workspace.fractions;
        fractions.of_polynomial(values, plan.value_bits(), out);
        let mut values: Vec<u64> = (0..tests)
            .map(|place| out[plan.coefficient(place)])
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
        self.symbols.resize(plan.question().length() as usize, 0);
        self.form.resize(plan.question().terms(), 0);
    }
}

/// The tests of a question in the order of their values: shuffled within each group.
fn tests(
    plan: &Plan,
    window: &Window,
    multiplicity: Multiplicity,
    rng: &mut ChaCha20Rng,
) -> Vec<Test> {
    let question = plan.question();
    let length = question.length() as usize;
    assert_eq!(window.rows().length(), length);
    let mut tests = Vec::with_capacity(plan.tests() as usize);
    for (number, size) in question.groups().into_iter().enumerate() {
        let first = tests.len();
        let beginning = match question.kind() {
            Kind::Match { .. } => length,
            Kind::Longest => number + 1,
        };
        let mut add = |row: u32, within: u8| {
            tests.extend((0..=within).map(|mismatches| Test {
                row,
                length: beginning as u16,
                says: Says::Mismatches(mismatches),
            }));
        };
        match (question.kind(), multiplicity) {
            (Kind::Match { within }, Multiplicity::Each) => {
                (0..window.rows().len() as u32).for_each(|row| add(row, within));
            }
            (Kind::Match { within }, Multiplicity::Once) => window
                .beginnings(beginning)
                .for_each(|row| add(row, within)),
            (Kind::Longest, _) => window.beginnings(beginning).for_each(|row| add(row, 0)),
        }
        let end = first + size as usize;
        assert!(tests.len() <= end, "the plan has room for all rows");
        // As many reads all over the rows as other tests make.
        let padding = (0..window.rows().len() as u32).cycle().map(|row| Test {
            row,
            length: beginning as u16,
            says: Says::Nothing,
        });
        tests.extend(padding.take(end - tests.len()));
        assert_eq!(tests.len(), end, "there are rows");
        oboro_sample::shuffle(rng, &mut tests[first..]);
    }
    tests
}

/// Signed coefficients, polynomial after polynomial, in evaluation form.
fn lift(coefficients: &[i32], ntt: &Ntt, out: &mut [u32]) {
    let q = ntt.modulus().value();
    // Below 2q, which the transform takes.
    for (value, &x) in out.iter_mut().zip(coefficients) {
        *value = q.wrapping_add_signed(x);
    }
    out.chunks_exact_mut(ntt.degree())
        .for_each(|polynomial| ntt.forward(polynomial));
}

/// A number from `−2^bits` to `2^bits − 1`.
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
    use oboro_genome::Question;
    use oboro_genome::wire::Ciphertext;
    use oboro_ring::{Basis, Scaled};

    #[test]
    fn a_generator_that_repeats_itself_repeats_a_seed_only_with_the_query() {
        let question = Question::new(5, 2, 3, Kind::Match { within: 0 }).unwrap();
        let plan = Arc::new(Plan::new(question).unwrap());
        let window = Arc::new(Window::new(Rows::new(5, 1, vec![1, 2, 3])));
        let basis = plan.ring().basis();
        let polynomial = vec![0; basis.degree() * basis.limbs().len()];
        let seed = |of_query: u8, nonce: u8, randomness: u8| {
            let ciphertext = Ciphertext {
                seed: Seed([of_query; 32]),
                residues: polynomial.clone(),
            };
            let query = EncryptedQuery {
                ciphertexts: vec![ciphertext; plan.ciphertexts()],
                public_key: polynomial.clone(),
            };
            let query = ExpandedQuery::new(Arc::clone(&plan), query, Seed([nonce; 32]));
            let evaluation = Evaluation::with_randomness(
                Arc::new(query),
                Arc::clone(&window),
                Multiplicity::Once,
                &[randomness; 32],
            );
            *evaluation.seed
        };
        assert_eq!(seed(1, 2, 3), seed(1, 2, 3));
        for other in [seed(4, 2, 3), seed(1, 4, 3), seed(1, 2, 4)] {
            assert_ne!(seed(1, 2, 3), other);
        }
    }

    #[test]
    fn noise_is_uniform_and_has_one_value_modulo_all_limbs() {
        let ring = Scaled::new(Basis::new(12, 3).unwrap(), 41);
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
