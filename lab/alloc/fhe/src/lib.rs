//! Support counting with BFV, as a user of the `fhe` crate would write it: `fhe-support THREADS ROUNDS`.
//!
//! The initial phase creates encrypted columns. A round is one query: it switches the columns to the next modulus,
//! multiplies all pairs, adds the products to their sums, and drops everything but the sums. The first round is a phase
//! of its own; the later ones are the steady main phase.
//!
//! [`products`] is the program with and without temporary copies, which has phases and threads in common.

mod measure;
pub mod products;
mod team;

use std::error::Error;
use std::num::NonZero;
use std::sync::{Arc, RwLock};

use fhe::bfv::{BfvParameters, BfvParametersBuilder, Ciphertext, Encoding, Plaintext, SecretKey};
use fhe_traits::{FheDecoder, FheDecrypter, FheEncoder, FheEncrypter};
use measure::{Phase, Phases};
use team::Work;

const COLUMNS: usize = 9;
const DEGREE: usize = 8192;
const MODULI: [usize; 4] = [50, 50, 50, 50];
const PLAINTEXT_MODULUS: u64 = 65537;

/// Reads the command line, counts, and prints a line of JSON.
///
/// # Errors
///
/// Invalid arguments, errors of the library, and memory nodes that may not be used.
pub fn run() -> Result<(), Box<dyn Error>> {
    let mut phases = Phases::begin();
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [threads, rounds] = &given[..] else {
        return Err("usage: fhe-support THREADS ROUNDS".into());
    };
    let (threads, rounds): (NonZero<usize>, NonZero<usize>) = (threads.parse()?, rounds.parse()?);
    let rounds = rounds.get();
    let counting = Counting::new()?;
    let (verified, peak) = team::lead(threads, &counting, |run| {
        phases.measure(Phase::Initial, || run(Step::Encrypt));
        phases.measure(Phase::First, || {
            run(Step::Switch);
            run(Step::Multiply);
            run(Step::BeginSums);
            run(Step::DropProducts);
            run(Step::DropLowered);
        });
        measure::mark();
        for _ in 0..rounds {
            phases.measure(Phase::ModulusSwitch, || run(Step::Switch));
            phases.measure(Phase::Product, || run(Step::Multiply));
            phases.measure(Phase::Add, || run(Step::Add));
            phases.measure(Phase::Freeing, || {
                run(Step::DropProducts);
                run(Step::DropLowered);
            });
        }
        measure::mark();
        (counting.verified(rounds + 1), measure::peak_bytes())
    });
    let slots = DEGREE * rounds;
    phases.measure(Phase::Terminal, || drop(counting));
    phases.report(peak, slots, verified?);
    Ok(())
}

/// A step that all threads do together.
#[derive(Clone, Copy)]
enum Step {
    Encrypt,
    Switch,
    Multiply,
    BeginSums,
    Add,
    DropProducts,
    DropLowered,
}

/// A slot for a ciphertext that one thread fills and another may drop.
#[derive(Default)]
struct Slot(RwLock<Option<Ciphertext>>);

impl Slot {
    fn put(&self, ciphertext: Ciphertext) {
        *self.0.write().expect("no thread panicked") = Some(ciphertext);
    }

    fn take(&self) -> Option<Ciphertext> {
        self.0.write().expect("no thread panicked").take()
    }

    fn read<R>(&self, read: impl FnOnce(&Ciphertext) -> R) -> R {
        let held = self.0.read().expect("no thread panicked");
        read(held.as_ref().expect("an earlier step filled it"))
    }

    fn add(&self, other: &Self) {
        let mut held = self.0.write().expect("no thread panicked");
        let sum = held.as_mut().expect("the first round filled it");
        other.read(|term| *sum += term);
    }
}

struct Counting {
    parameters: Arc<BfvParameters>,
    key: SecretKey,
    columns: Vec<Slot>,
    lowered: Vec<Slot>,
    products: Vec<Slot>,
    sums: Vec<Slot>,
}

impl Counting {
    fn new() -> fhe::Result<Self> {
        let parameters = BfvParametersBuilder::new()
            .set_degree(DEGREE)
            .set_plaintext_modulus(PLAINTEXT_MODULUS)
            .set_moduli_sizes(&MODULI)
            .build_arc()?;
        let empty = |count| (0..count).map(|_| Slot::default()).collect();
        let pairs = COLUMNS * (COLUMNS - 1) / 2;
        Ok(Self {
            key: SecretKey::random(&parameters, &mut rand::rng()),
            parameters,
            columns: empty(COLUMNS),
            lowered: empty(COLUMNS),
            products: empty(pairs),
            sums: empty(pairs),
        })
    }

    fn multiply(&self, product: usize) -> Ciphertext {
        let (larger, smaller) = pair(product);
        self.lowered[larger].read(|a| self.lowered[smaller].read(|b| a * b))
    }

    fn encrypt(&self, column: usize) -> Ciphertext {
        let bits: Vec<u64> = (0..DEGREE).map(|slot| bit(column, slot)).collect();
        let plaintext = Plaintext::try_encode(&bits, Encoding::simd(), &self.parameters)
            .expect("there is a slot for every bit");
        self.key
            .try_encrypt(&plaintext, &mut rand::rng())
            .expect("plaintext and key have the same parameters")
    }

    /// Whether every sum decrypts to the bits of its pair, times the number of rounds.
    fn verified(&self, rounds: usize) -> Result<bool, Box<dyn Error>> {
        for (product, sum) in self.sums.iter().enumerate() {
            let (larger, smaller) = pair(product);
            let plaintext = sum.read(|sum| self.key.try_decrypt(sum))?;
            let counted = Vec::<u64>::try_decode(&plaintext, Encoding::simd())?;
            let expected = |slot| bit(larger, slot) * bit(smaller, slot) * rounds as u64;
            if (0..DEGREE).any(|slot| counted[slot] != expected(slot)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Work for Counting {
    type Step = Step;

    fn tasks(&self, step: Step) -> usize {
        match step {
            Step::Encrypt | Step::Switch | Step::DropLowered => self.columns.len(),
            Step::Multiply | Step::BeginSums | Step::Add | Step::DropProducts => {
                self.products.len()
            }
        }
    }

    fn perform(&self, step: Step, task: usize) {
        match step {
            Step::Encrypt => self.columns[task].put(self.encrypt(task)),
            Step::Switch => self.lowered[task].put(lowered(&self.columns[task])),
            Step::Multiply => self.products[task].put(self.multiply(task)),
            Step::BeginSums => self.sums[task].put(self.products[task].read(Clone::clone)),
            Step::Add => self.sums[task].add(&self.products[task]),
            Step::DropProducts => drop(self.products[task].take()),
            Step::DropLowered => drop(self.lowered[task].take()),
        }
    }
}

/// The column at the next modulus.
fn lowered(column: &Slot) -> Ciphertext {
    let mut lowered = column.read(Clone::clone);
    lowered.switch_down().expect("there is a level below");
    lowered
}

/// Whether a transaction (slot) has an item (column): synthetic, and the same in every run.
fn bit(column: usize, slot: usize) -> u64 {
    u64::from((slot * (2 * column + 3) / 7).is_multiple_of(3))
}

/// The pair of columns of a product, the larger first.
fn pair(product: usize) -> (usize, usize) {
    let larger = (1..)
        .find(|larger| larger * (larger + 1) / 2 > product)
        .expect("pairs are fewer than numbers");
    (larger, product - larger * (larger - 1) / 2)
}
