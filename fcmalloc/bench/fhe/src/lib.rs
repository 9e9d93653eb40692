//! Support counting with BFV as a user of the `fhe` crate writes it.
//!
//! `fhe-support THREADS ROUNDS`. Initial makes encrypted columns. A round is one query: it switches
//! the columns to the next modulus, multiplies all pairs, adds the products to their sums, and drops
//! everything but the sums. The first round is a phase of its own; the later ones are the steady
//! main phase.

mod measure;
mod team;

use std::error::Error;
use std::sync::{Arc, RwLock};

use fhe::bfv::{BfvParameters, BfvParametersBuilder, Ciphertext, Encoding, Plaintext, SecretKey};
use fhe_traits::{FheDecoder, FheDecrypter, FheEncoder, FheEncrypter};
use measure::{Phase, Phases};
use team::{Team, Work};

const DEGREE: usize = 8192;
const MODULI: [usize; 4] = [50, 50, 50, 50];
const PLAINTEXT_MODULUS: u64 = 65537;
const COLUMNS: usize = 9;
const PAIRS: usize = COLUMNS * (COLUMNS - 1) / 2;

/// Reads the command line, counts, and prints a line of JSON.
///
/// # Errors
///
/// Arguments that are not positive numbers, and what the library refuses.
pub fn run() -> Result<(), Box<dyn Error>> {
    let mut phases = Phases::begin();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [threads, rounds] = arguments.as_slice() else {
        return Err("usage: fhe-support THREADS ROUNDS".into());
    };
    let (threads, rounds) = (threads.parse()?, rounds.parse()?);
    let counting = Counting::new()?;
    let (verified, peak) = Team::new(threads).lead(&counting, |run| {
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
    phases.measure(Phase::Terminal, || drop(counting));
    phases.report(peak, verified?);
    Ok(())
}

/// What all threads do together before the next step begins.
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

/// A place for a ciphertext that one thread fills and another may drop.
#[derive(Default)]
struct Place(RwLock<Option<Ciphertext>>);

impl Place {
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
    columns: [Place; COLUMNS],
    lowered: [Place; COLUMNS],
    products: [Place; PAIRS],
    sums: [Place; PAIRS],
}

impl Counting {
    fn new() -> fhe::Result<Self> {
        let parameters = BfvParametersBuilder::new()
            .set_degree(DEGREE)
            .set_plaintext_modulus(PLAINTEXT_MODULUS)
            .set_moduli_sizes(&MODULI)
            .build_arc()?;
        Ok(Self {
            key: SecretKey::random(&parameters, &mut rand::rng()),
            parameters,
            columns: std::array::from_fn(|_| Place::default()),
            lowered: std::array::from_fn(|_| Place::default()),
            products: std::array::from_fn(|_| Place::default()),
            sums: std::array::from_fn(|_| Place::default()),
        })
    }

    fn encrypt(&self, column: usize) -> Ciphertext {
        let bits: Vec<u64> = (0..DEGREE).map(|slot| bit(column, slot)).collect();
        let plaintext = Plaintext::try_encode(&bits, Encoding::simd(), &self.parameters)
            .expect("there is a slot for every bit");
        self.key
            .try_encrypt(&plaintext, &mut rand::rng())
            .expect("plaintext and key have the same parameters")
    }

    fn switch(&self, column: usize) -> Ciphertext {
        let mut lowered = self.columns[column].read(Clone::clone);
        lowered.switch_down().expect("there is a level below");
        lowered
    }

    fn multiply(&self, product: usize) -> Ciphertext {
        let (larger, smaller) = pair(product);
        self.lowered[larger].read(|a| self.lowered[smaller].read(|b| a * b))
    }

    /// Whether every sum decrypts to the bits of its pair, times the rounds.
    fn verified(&self, rounds: usize) -> Result<bool, Box<dyn Error>> {
        for product in 0..PAIRS {
            let (larger, smaller) = pair(product);
            let plaintext = self.sums[product].read(|sum| self.key.try_decrypt(sum))?;
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

    fn tasks(step: Step) -> usize {
        match step {
            Step::Encrypt | Step::Switch | Step::DropLowered => COLUMNS,
            Step::Multiply | Step::BeginSums | Step::Add | Step::DropProducts => PAIRS,
        }
    }

    fn perform(&self, step: Step, task: usize) {
        match step {
            Step::Encrypt => self.columns[task].put(self.encrypt(task)),
            Step::Switch => self.lowered[task].put(self.switch(task)),
            Step::Multiply => self.products[task].put(self.multiply(task)),
            Step::BeginSums => self.sums[task].put(self.products[task].read(Clone::clone)),
            Step::Add => self.sums[task].add(&self.products[task]),
            Step::DropProducts => drop(self.products[task].take()),
            Step::DropLowered => drop(self.lowered[task].take()),
        }
    }
}

/// What a transaction (slot) has of an item (column): made up, and the same in every run.
fn bit(column: usize, slot: usize) -> u64 {
    u64::from((slot * (2 * column + 3) / 7).is_multiple_of(3))
}

/// The pair of columns of a product, the larger first.
fn pair(product: usize) -> (usize, usize) {
    let larger = (1..COLUMNS)
        .rfind(|larger| larger * (larger - 1) / 2 <= product)
        .expect("the first pair is (1, 0)");
    (larger, product - larger * (larger - 1) / 2)
}
