//! What temporary copies cost: the paper on NUMA changed HElib so that a multiplication makes none (HElib+). Here the
//! same program is written in each way on the polynomials of the `fhe` crate: `fhe-products WAY THREADS BLOCKS`.
//!
//! Ciphertexts are BGV's, as HElib's: two polynomials, of which the tensor product has three. Each pair of columns is
//! multiplied in each block and added to the pair's sum.
//!
//! | way | a product |
//! | -- | -- |
//! | `temporaries` | as HElib's interface asks: a copy of a factor, which is still needed; inside, a new ciphertext, which is copied to where the copy was |
//! | `results` | as HElib+ has it: a new ciphertext, once |
//! | `destinations` | none is made: it is written where the thread's last one was |
//!
//! `N = 16384` and eight primes of 50 bits, the paper's number of levels, at 128 bits of security: a polynomial is a
//! mebibyte.

use crate::measure::{self, Phase, Phases};
use crate::team::{self, Work};
use fhe_math::ntt::NttOperator;
use fhe_math::rq::traits::TryConvertFrom;
use fhe_math::rq::{Context, Poly, Representation};
use fhe_math::zq::{Modulus, primes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::RefCell;
use std::error::Error;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};

const COLUMNS: usize = 18;
const PAIRS: usize = COLUMNS * (COLUMNS - 1) / 2;
const DEGREE: usize = 16384;
const MODULI: usize = 8;
const MODULUS_BITS: usize = 50;
const PLAINTEXT_MODULUS: u64 = 65537;

/// Counts as the command line says, and prints a line of JSON.
///
/// # Errors
///
/// Invalid arguments, and errors of the library.
pub fn run() -> Result<(), Box<dyn Error>> {
    let mut phases = Phases::begin();
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [way, threads, blocks] = &given[..] else {
        return Err("usage: fhe-products temporaries|results|destinations THREADS BLOCKS".into());
    };
    let threads: NonZero<usize> = threads.parse()?;
    let blocks: NonZero<usize> = blocks.parse()?;
    let counting = Counting::new(way.parse()?, blocks.get())?;
    let peak = team::lead(threads, &counting, |run| {
        phases.measure(Phase::Initial, || run(Step::Encrypt));
        phases.measure(Phase::First, || run(Step::Count { blocks: 1 }));
        phases.measure(Phase::Product, || {
            run(Step::Count {
                blocks: blocks.get(),
            })
        });
        measure::peak_bytes()
    });
    let verified = counting.verified()?;
    let slots = DEGREE * blocks.get();
    phases.measure(Phase::Terminal, || drop(counting));
    phases.report(peak, slots, verified);
    Ok(())
}

/// How a product comes to its sum.
#[derive(Clone, Copy)]
enum Way {
    Temporaries,
    Results,
    Destinations,
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "temporaries" => Ok(Self::Temporaries),
            "results" => Ok(Self::Results),
            "destinations" => Ok(Self::Destinations),
            _ => Err(format!(
                "{text} is no way; choose temporaries, results or destinations"
            )),
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Encrypt,
    /// Of the first blocks.
    Count {
        blocks: usize,
    },
}

/// Polynomials in evaluation form: two, or the three of a product.
#[derive(Clone)]
struct Ciphertext(Vec<Poly>);

impl Ciphertext {
    fn times(&self, other: &Self) -> Self {
        let ([a0, a1], [b0, b1]) = (self.factor(), other.factor());
        let mut middle = a0 * b1;
        middle += &(a1 * b0);
        Self(vec![a0 * b0, middle, a1 * b1])
    }

    fn factor(&self) -> [&Poly; 2] {
        [&self.0[0], &self.0[1]]
    }
}

/// The residues of three polynomials, modulus after modulus, and of one to compute with.
struct Residues {
    parts: [Vec<u64>; 3],
    scratch: Vec<u64>,
}

impl Residues {
    fn zero(words: usize) -> Self {
        Self {
            parts: std::array::from_fn(|_| vec![0; words]),
            scratch: vec![0; words],
        }
    }

    /// Becomes the product of two ciphertexts.
    fn multiply(&mut self, moduli: &[Modulus], a: &Ciphertext, b: &Ciphertext) {
        let ([a0, a1], [b0, b1]) = (a.factor().map(residues), b.factor().map(residues));
        let [first, middle, last] = &mut self.parts;
        product(moduli, a0, b0, first);
        product(moduli, a0, b1, middle);
        product(moduli, a1, b0, &mut self.scratch);
        add(moduli, &self.scratch, middle);
        product(moduli, a1, b1, last);
    }
}

fn residues(polynomial: &Poly) -> &[u64] {
    let residues = polynomial.coefficients().to_slice();
    residues.expect("polynomials are contiguous")
}

fn product(moduli: &[Modulus], a: &[u64], b: &[u64], out: &mut [u64]) {
    out.copy_from_slice(a);
    let rows = out.chunks_exact_mut(DEGREE).zip(b.chunks_exact(DEGREE));
    for (q, (out, b)) in moduli.iter().zip(rows) {
        q.mul_vec(out, b);
    }
}

fn add(moduli: &[Modulus], a: &[u64], out: &mut [u64]) {
    let rows = out.chunks_exact_mut(DEGREE).zip(a.chunks_exact(DEGREE));
    for (q, (out, a)) in moduli.iter().zip(rows) {
        q.add_vec(out, a);
    }
}

struct Counting {
    way: Way,
    context: Arc<Context>,
    secret: Poly,
    slots: NttOperator,
    /// Block after block.
    columns: Vec<OnceLock<Ciphertext>>,
    sums: Vec<Mutex<Residues>>,
}

thread_local! {
    /// Where the thread's last product is.
    static DESTINATION: RefCell<Option<Residues>> = const { RefCell::new(None) };
}

impl Counting {
    fn new(way: Way, blocks: usize) -> Result<Self, Box<dyn Error>> {
        let below = |&bound: &u64| primes::generate_prime(MODULUS_BITS, 2 * DEGREE as u64, bound);
        let moduli = std::iter::successors(below(&(1 << MODULUS_BITS)), below);
        let moduli: Vec<u64> = moduli.take(MODULI).collect();
        let context = Context::new_arc(&moduli, DEGREE)?;
        let plaintext = Modulus::new(PLAINTEXT_MODULUS)?;
        let words = DEGREE * MODULI;
        Ok(Self {
            way,
            secret: Poly::small(
                &context,
                Representation::Ntt,
                1,
                &mut StdRng::seed_from_u64(0),
            )?,
            context,
            slots: NttOperator::new(&plaintext, DEGREE).ok_or("no transform for the slots")?,
            columns: (0..COLUMNS * blocks).map(|_| OnceLock::new()).collect(),
            sums: (0..PAIRS)
                .map(|_| Mutex::new(Residues::zero(words)))
                .collect(),
        })
    }

    /// Encrypts a column of a block, the same in every run.
    fn encrypt(&self, column: usize) -> Ciphertext {
        let mut rng = StdRng::seed_from_u64(1 + column as u64);
        let mut message: Vec<u64> = (0..DEGREE)
            .map(|slot| u64::from(bit(column, slot)))
            .collect();
        self.slots.backward(&mut message);
        // Errors are centred binomial, as the product's.
        let mut error = || {
            let [plus, minus] = [(); 2].map(|()| rng.random::<u32>() >> 11);
            i64::from(plus.count_ones()) - i64::from(minus.count_ones())
        };
        let noisy: Vec<i64> = (message.iter())
            .map(|&m| m as i64 + PLAINTEXT_MODULUS as i64 * error())
            .collect();
        let coefficients = Representation::PowerBasis;
        let mut values = Poly::try_convert_from(&noisy, &self.context, false, coefficients)
            .expect("there is a coefficient for every slot");
        values.change_representation(Representation::Ntt);
        let mask = Poly::random(&self.context, Representation::Ntt, &mut rng);
        values -= &(&mask * &self.secret);
        Ciphertext(vec![values, mask])
    }

    fn column(&self, block: usize, column: usize) -> &Ciphertext {
        let column = self.columns[block * COLUMNS + column].get();
        column.expect("an earlier step made it")
    }

    /// Adds the products of a pair to its sum.
    fn count(&self, pair: usize, blocks: usize) {
        let (larger, smaller) = crate::pair(pair);
        let moduli = self.context.moduli_operators();
        let mut sum = self.sums[pair].lock().expect("no thread panicked");
        for block in 0..blocks {
            let (a, b) = (self.column(block, larger), self.column(block, smaller));
            match self.way {
                Way::Temporaries => {
                    let mut copy = a.clone();
                    let made = copy.times(b);
                    copy.clone_from(&made);
                    drop(made);
                    add_all(moduli, &copy, &mut sum);
                }
                Way::Results => add_all(moduli, &a.times(b), &mut sum),
                Way::Destinations => DESTINATION.with_borrow_mut(|made| {
                    let made = made.get_or_insert_with(|| Residues::zero(DEGREE * MODULI));
                    made.multiply(moduli, a, b);
                    for (part, sum) in made.parts.iter().zip(&mut sum.parts) {
                        add(moduli, part, sum);
                    }
                }),
            }
        }
    }

    /// Whether sums decrypt to the right counts: of some pairs, since the library's conversion takes longer than all
    /// products.
    fn verified(&self) -> Result<bool, Box<dyn Error>> {
        for pair in (0..PAIRS).step_by(PAIRS / 4) {
            if self.decrypted(pair)? != self.expected(pair) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first block is counted twice.
    fn expected(&self, pair: usize) -> Vec<u64> {
        let (larger, smaller) = crate::pair(pair);
        let blocks = self.columns.len() / COLUMNS;
        let both = |block: usize, slot: usize| {
            let column = |number| bit(block * COLUMNS + number, slot);
            u64::from(column(larger) && column(smaller))
        };
        let count = |slot| (0..blocks).map(|block| both(block, slot)).sum::<u64>() + both(0, slot);
        (0..DEGREE).map(count).collect()
    }

    fn decrypted(&self, pair: usize) -> Result<Vec<u64>, Box<dyn Error>> {
        let sum = self.sums[pair].lock().expect("no thread panicked");
        let polynomial = |part: &Vec<u64>| {
            Poly::try_convert_from(part.clone(), &self.context, false, Representation::Ntt)
        };
        let mut phase = polynomial(&sum.parts[2])?;
        for part in [1, 0] {
            phase *= &self.secret;
            phase += &polynomial(&sum.parts[part])?;
        }
        phase.change_representation(Representation::PowerBasis);
        let all = self.context.modulus();
        let digit = |value: num_bigint::BigUint| -> u64 {
            let rest = |value: &num_bigint::BigUint| {
                (value % PLAINTEXT_MODULUS)
                    .iter_u64_digits()
                    .next()
                    .unwrap_or(0)
            };
            let is_negative = &value + &value > *all;
            let shift = if is_negative {
                PLAINTEXT_MODULUS - rest(all)
            } else {
                0
            };
            (rest(&value) + shift) % PLAINTEXT_MODULUS
        };
        let mut slots: Vec<u64> = Vec::from(&phase).into_iter().map(digit).collect();
        self.slots.forward(&mut slots);
        Ok(slots)
    }
}

/// Adds a product to a sum.
fn add_all(moduli: &[Modulus], product: &Ciphertext, sum: &mut Residues) {
    for (part, sum) in product.0.iter().zip(&mut sum.parts) {
        add(moduli, residues(part), sum);
    }
}

impl Work for Counting {
    type Step = Step;

    fn tasks(&self, step: Step) -> usize {
        match step {
            Step::Encrypt => self.columns.len(),
            Step::Count { .. } => PAIRS,
        }
    }

    fn perform(&self, step: Step, task: usize) {
        match step {
            Step::Encrypt => {
                let _ = self.columns[task].set(self.encrypt(task));
            }
            Step::Count { blocks } => self.count(task, blocks),
        }
    }
}

/// Whether a transaction (slot) has an item of a block (column).
fn bit(column: usize, slot: usize) -> bool {
    (slot * (2 * column + 3) / 7).is_multiple_of(3)
}
