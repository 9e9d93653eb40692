//! Support counting with BFV, as a user of the `fhe` crate would write it.
//!
//! `fhe-support [--columns N] [--placement POLICY] THREADS ROUNDS`. The initial phase creates encrypted columns. A
//! round is one query: it switches the columns to the next modulus, multiplies all pairs, adds the products to their
//! sums, and drops everything but the sums. The first round is a phase of its own; the later ones are the steady main
//! phase.
//!
//! With a placement, each memory node has its own threads, and a block of columns for each round, which they count: the
//! blocks are dealt to the nodes. The policy decides on which node a ciphertext is created.

mod arguments;
mod measure;
mod places;
mod team;

use std::error::Error;
use std::sync::{Arc, RwLock};

use arguments::Arguments;
use fhe::bfv::{BfvParameters, BfvParametersBuilder, Ciphertext, Encoding, Plaintext, SecretKey};
use fhe_traits::{FheDecoder, FheDecrypter, FheEncoder, FheEncrypter};
use measure::{Phase, Phases};
use places::Places;
use team::{Team, Work};

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
    let arguments = Arguments::read(std::env::args().skip(1))?;
    let places = Places::new(arguments.threads, arguments.placement)?;
    let team = Team::new(places.seats());
    let counting = Counting::new(&arguments, places)?;
    let rounds = arguments.rounds;
    let (verified, peak) = team.lead(&counting, |run| {
        phases.measure(Phase::Initial, || run(Step::Encrypt));
        phases.measure(Phase::First, || {
            run(Step::Switch { round: 0 });
            run(Step::Multiply);
            run(Step::BeginSums);
            run(Step::DropProducts);
            run(Step::DropLowered);
        });
        measure::mark();
        for round in 0..rounds {
            phases.measure(Phase::ModulusSwitch, || run(Step::Switch { round }));
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
    let slots = DEGREE * rounds * counting.nodes.len();
    phases.measure(Phase::Terminal, || drop(counting));
    phases.report(peak, slots, verified?);
    Ok(())
}

/// A step that all threads do together, each for its node.
#[derive(Clone, Copy)]
enum Step {
    Encrypt,
    Switch { round: usize },
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
    places: Places,
    columns: usize,
    nodes: Vec<Node>,
}

/// The work of a node's threads.
struct Node {
    /// The columns of each block, concatenated.
    blocks: Vec<Slot>,
    lowered: Vec<Slot>,
    products: Vec<Slot>,
    sums: Vec<Slot>,
}

impl Node {
    fn new(columns: usize, blocks: usize) -> Self {
        let empty = |count| (0..count).map(|_| Slot::default()).collect();
        let pairs = columns * (columns - 1) / 2;
        Self {
            blocks: empty(columns * blocks),
            lowered: empty(columns),
            products: empty(pairs),
            sums: empty(pairs),
        }
    }

    fn multiply(&self, product: usize) -> Ciphertext {
        let (larger, smaller) = pair(product);
        self.lowered[larger].read(|a| self.lowered[smaller].read(|b| a * b))
    }
}

impl Counting {
    fn new(arguments: &Arguments, places: Places) -> fhe::Result<Self> {
        let parameters = BfvParametersBuilder::new()
            .set_degree(DEGREE)
            .set_plaintext_modulus(PLAINTEXT_MODULUS)
            .set_moduli_sizes(&MODULI)
            .build_arc()?;
        let columns = arguments.columns;
        // Without a placement every round counts the same block.
        let blocks = match arguments.placement {
            Some(_) => arguments.rounds,
            None => 1,
        };
        Ok(Self {
            key: SecretKey::random(&parameters, &mut rand::rng()),
            parameters,
            columns,
            nodes: (0..places.nodes())
                .map(|_| Node::new(columns, blocks))
                .collect(),
            places,
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

    /// Whether every sum decrypts to the bits of its pair, times the number of rounds.
    fn verified(&self, rounds: usize) -> Result<bool, Box<dyn Error>> {
        for node in &self.nodes {
            for (product, sum) in node.sums.iter().enumerate() {
                let (larger, smaller) = pair(product);
                let plaintext = sum.read(|sum| self.key.try_decrypt(sum))?;
                let counted = Vec::<u64>::try_decode(&plaintext, Encoding::simd())?;
                let expected = |slot| bit(larger, slot) * bit(smaller, slot) * rounds as u64;
                if (0..DEGREE).any(|slot| counted[slot] != expected(slot)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Work for Counting {
    type Step = Step;

    fn tasks(&self, step: Step, node: usize) -> usize {
        let node = &self.nodes[node];
        match step {
            Step::Encrypt => node.blocks.len(),
            Step::Switch { .. } | Step::DropLowered => node.lowered.len(),
            Step::Multiply | Step::BeginSums | Step::Add | Step::DropProducts => {
                node.products.len()
            }
        }
    }

    fn perform(&self, step: Step, number: usize, task: usize) {
        let node = &self.nodes[number];
        match step {
            Step::Encrypt => {
                let column = task % self.columns;
                let made = self.places.make(number, column, || self.encrypt(column));
                node.blocks[task].put(made);
            }
            Step::Switch { round } => {
                let column = round * self.columns + task;
                node.lowered[task].put(lowered(&node.blocks[column % node.blocks.len()]));
            }
            Step::Multiply => node.products[task].put(node.multiply(task)),
            Step::BeginSums => node.sums[task].put(node.products[task].read(Clone::clone)),
            Step::Add => node.sums[task].add(&node.products[task]),
            Step::DropProducts => drop(node.products[task].take()),
            Step::DropLowered => drop(node.lowered[task].take()),
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
