//! The paper's rules at work (its sections 4.1 to 4.4): products of ciphertexts as tasks, with the rules on and off.
//!
//! All pairs and triples of some items are counted in some blocks. A product is a task that reads two ciphertexts and
//! the switching key, and adds what it makes to its node's sum for the itemset. With the cache, a triple reads the
//! product of its first two items, which is kept until its last reader is done. With copies, ciphertexts of other nodes
//! are copied ahead once for all tasks of the node that are ready, and the key is copied to every node for good;
//! without, all are read where they are, the key on the first node. A task runs where its ciphertexts are.
//!
//! Where the machine has one node, nodes are *logical*: which bytes are remote follows from placement and schedule, and
//! the times show what the rules cost, not what they are worth on several nodes.

use super::Arguments;
use super::bgv::{Scheme, Workspace};
use super::nodes::Nodes;
use super::placed::{Policy, scattered};
use crate::itemsets::Combinations;
use crate::output::{Failure, Output, bytes, seconds};
use crate::{timed, trimmed_mean};
use oboro_arena::{Arena, ArenaBlock, Backing, CpuAssignment, Topology};
use oboro_mining::Itemset;
use oboro_tasks::{Assignment, Datum, Graph, Input, Order, Remote, Schedule, run};
use parking_lot::Mutex;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The placements compared: the paper's.
const PLACEMENTS: [Policy; 3] = super::paper::PLACEMENTS;
/// The lengths of the itemsets.
const LENGTHS: [usize; 2] = [2, 3];
const WORD: usize = size_of::<u32>();

/// Which of the paper's rules are on.
#[derive(Clone, Copy)]
struct Rules {
    name: &'static str,
    caches_products: bool,
    order: Order,
    copies_ahead: bool,
}

/// None, then one after another, then all, and all with the project's own order.
const RULES: [Rules; 6] = [
    Rules {
        name: "none",
        caches_products: false,
        order: Order::FirstInFirstOut,
        copies_ahead: false,
    },
    Rules {
        name: "cache",
        caches_products: true,
        order: Order::FirstInFirstOut,
        copies_ahead: false,
    },
    Rules {
        name: "cache, order",
        caches_products: true,
        order: Order::MostReferenced,
        copies_ahead: false,
    },
    Rules {
        name: "cache, copies",
        caches_products: true,
        order: Order::FirstInFirstOut,
        copies_ahead: true,
    },
    Rules {
        name: "all",
        caches_products: true,
        order: Order::MostReferenced,
        copies_ahead: true,
    },
    Rules {
        name: "all, nearby order",
        caches_products: true,
        order: Order::MostReferencedNearby,
        copies_ahead: true,
    },
];

/// One run of the job.
#[derive(Serialize)]
struct Measured {
    bench: &'static str,
    placement: String,
    rules: &'static str,
    caches_products: bool,
    order: &'static str,
    copies_ahead: bool,
    run: u16,
    tasks: usize,
    products: u64,
    /// By the clock, from the first task to the last.
    seconds: f64,
    idle_share: f64,
    /// Bytes that came from another node, read in place or copied; and those of them that were the key's.
    remote_bytes: u64,
    remote_key_bytes: u64,
    /// Of the bytes of ciphertexts, those that were copied ahead of use; and the time that it took, over all workers.
    copied_bytes: u64,
    copying_seconds: f64,
    /// Cached products and copies, at the time when they were most.
    peak_temporary_bytes: usize,
    stolen: u64,
    stolen_needlessly: u64,
    verified: bool,
}

/// The runs of one placement under the same rules.
#[derive(Serialize)]
struct Row {
    placement: String,
    rules: &'static str,
    /// The mean of the runs without the shortest and the longest.
    seconds: f64,
    /// The same, over that without rules.
    seconds_over_none: f64,
    products: u64,
    /// The most of all runs: with several workers, schedules differ.
    remote_bytes: u64,
    peak_temporary_bytes: usize,
}

/// All measurements.
#[derive(Serialize)]
pub struct Figures {
    /// Whether nodes are simulated.
    logical: bool,
    nodes: usize,
    workers: usize,
    items: u32,
    blocks: usize,
    slots: usize,
    input_bytes: usize,
    key_bytes: usize,
    /// Of the encrypted inputs, on a node other than intended, as the kernel reports it; null if it does not.
    misplaced_bytes: Option<usize>,
    runs: u16,
    verified: bool,
    rows: Vec<Row>,
}

/// Runs the job under all rules in turn, as often as the arguments say.
pub fn measure(
    topology: &Topology,
    arguments: &Arguments,
    output: Output,
) -> Result<Figures, Failure> {
    let nodes = Nodes::of(topology, arguments.nodes.map(usize::from))?;
    let (items, blocks) = if arguments.quick { (6, 4) } else { (12, 16) };
    let runs = arguments.task_runs();
    let job = Job::new(items, blocks)?;
    let workers = nodes.workers(topology, arguments.threads.count());
    let mut all = Vec::new();
    let mut misplaced_bytes = Some(0);
    for placement in PLACEMENTS {
        let inputs = Inputs::encrypt(&job, &nodes, placement)?;
        misplaced_bytes = misplaced_bytes
            .zip(inputs.misplaced_bytes().ok())
            .map(|(sum, here)| sum + here);
        for run in 1..=runs {
            for rules in RULES {
                let measured = job.measure(&inputs, &nodes, &workers, rules, run);
                output.result(&measured, || measured.text())?;
                all.push(measured);
            }
        }
    }
    Ok(Figures {
        logical: nodes.logical,
        nodes: nodes.numbers.len(),
        workers: workers.len(),
        items,
        blocks,
        slots: job.scheme.slots(),
        input_bytes: WORD * job.scheme.ciphertext_words() * items as usize * blocks,
        key_bytes: WORD * job.scheme.key_words(),
        misplaced_bytes: misplaced_bytes.filter(|_| !nodes.logical),
        runs,
        verified: all.iter().all(|run| run.verified),
        rows: rows(&all),
    })
}

fn rows(all: &[Measured]) -> Vec<Row> {
    let runs = |placement: &str, rules: &str| -> Vec<&Measured> {
        let are_of = |run: &&Measured| run.placement == placement && run.rules == rules;
        all.iter().filter(are_of).collect()
    };
    let time = |runs: &[&Measured]| trimmed_mean(runs.iter().map(|run| run.seconds).collect());
    let mut rows = Vec::new();
    for placement in PLACEMENTS.map(|placement| placement.to_string()) {
        let none = time(&runs(&placement, RULES[0].name));
        for rules in RULES {
            let runs = runs(&placement, rules.name);
            let seconds = time(&runs);
            rows.push(Row {
                rules: rules.name,
                seconds,
                seconds_over_none: seconds / none,
                products: runs.iter().map(|run| run.products).max().unwrap_or(0),
                remote_bytes: runs.iter().map(|run| run.remote_bytes).max().unwrap_or(0),
                peak_temporary_bytes: (runs.iter().map(|run| run.peak_temporary_bytes).max())
                    .unwrap_or(0),
                placement: placement.clone(),
            });
        }
    }
    rows
}

/// What is counted.
struct Job {
    scheme: Scheme,
    items: u32,
    blocks: usize,
    itemsets: Vec<Itemset>,
    /// The supports in plaintext.
    supports: Vec<u64>,
}

/// Ciphertexts on the nodes where a placement wants them, and the key on the first.
struct Inputs {
    placement: Policy,
    /// Block after block.
    columns: Vec<ArenaBlock>,
    key: ArenaBlock,
    /// With the kernel's number of the node that they are for.
    arenas: Vec<(Arena, u32)>,
}

/// Where the words of a datum are.
#[derive(Clone, Copy)]
enum Place {
    Column(usize),
    Product(usize),
}

/// One task: what it multiplies, and what becomes of it.
struct Product {
    itemset: usize,
    factors: Vec<Datum>,
    /// What others read of it; none if nobody does.
    cached: Option<usize>,
}

/// The tasks of the job.
struct Plan {
    graph: Graph,
    /// By the number of the datum.
    places: Vec<Place>,
    tasks: Vec<Product>,
    /// For each cached product, how many tasks read it.
    readers: Vec<usize>,
}

impl Job {
    fn new(items: u32, blocks: usize) -> Result<Self, Failure> {
        let scheme = Scheme::new(1)?;
        let itemsets: Vec<Itemset> = LENGTHS
            .into_iter()
            .flat_map(|length| Combinations::new(items, length))
            .collect();
        let support = |itemset: &Itemset| {
            let all = |&(block, slot): &(usize, usize)| {
                let mut items = itemset.items().iter();
                items.all(|&item| bit(block, item as usize, slot))
            };
            let places = (0..blocks).flat_map(|block| (0..scheme.slots()).map(move |s| (block, s)));
            places.filter(all).count() as u64
        };
        Ok(Self {
            supports: itemsets.iter().map(support).collect(),
            itemsets,
            scheme,
            items,
            blocks,
        })
    }

    /// Tasks level by level, as Apriori asks, and within a level block by block.
    fn plan(&self, placement: Policy, nodes: usize, caches_products: bool) -> Plan {
        let mut graph = Graph::new();
        let mut places = Vec::new();
        let ciphertext_bytes = (WORD * self.scheme.ciphertext_words()) as u64;
        let items = self.items as usize;
        let columns: Vec<Datum> = (0..self.blocks * items)
            .map(|column| {
                let home = placement.home(nodes, column / items, column % items);
                assert!(home.is_some(), "these placements have homes");
                places.push(Place::Column(column));
                graph.input(Input {
                    home,
                    bytes: ciphertext_bytes,
                    resident: true,
                })
            })
            .collect();
        let (mut tasks, mut readers) = (Vec::new(), Vec::new());
        // For each block and itemset, its cached product.
        let mut products = vec![vec![None; self.itemsets.len()]; self.blocks];
        for length in LENGTHS {
            let level = (self.itemsets.iter().enumerate()).filter(|(_, it)| it.len() == length);
            for (block, products) in products.iter_mut().enumerate() {
                for (itemset, items_of) in level.clone() {
                    let column = |&item: &u32| columns[block * items + item as usize];
                    let [prefix @ .., last] = items_of.items() else {
                        unreachable!("there are two items or more");
                    };
                    let found = self.itemsets.iter().position(|it| it.items() == prefix);
                    let mut factors = match found.and_then(|prefix| products[prefix]) {
                        Some((number, datum)) => {
                            readers[number] += 1;
                            vec![datum]
                        }
                        None => prefix.iter().map(column).collect(),
                    };
                    factors.push(column(last));
                    let is_read = caches_products
                        && length < LENGTHS[LENGTHS.len() - 1]
                        && *last + 1 < self.items;
                    let cached = is_read.then_some(readers.len());
                    if let Some(number) = cached {
                        let (_, datum) = graph.task_with_output(&factors, 1, ciphertext_bytes);
                        places.push(Place::Product(number));
                        products[itemset] = Some((number, datum));
                        readers.push(0);
                    } else {
                        graph.task(&factors, factors.len() as u32 - 1);
                    }
                    tasks.push(Product {
                        itemset,
                        factors,
                        cached,
                    });
                }
            }
        }
        Plan {
            graph,
            places,
            tasks,
            readers,
        }
    }

    fn measure(
        &self,
        inputs: &Inputs,
        nodes: &Nodes,
        workers: &[CpuAssignment],
        rules: Rules,
        number: u16,
    ) -> Measured {
        let count = nodes.numbers.len();
        let mut plan = self.plan(inputs.placement, count, rules.caches_products);
        let graph = std::mem::take(&mut plan.graph);
        let schedule = Schedule::new(graph, nodes.distances.clone(), rules.order);
        let gauge = Gauge::default();
        let running = Running::new(self, inputs, &plan, &gauge, rules, count);
        let copy = |datum| Temporary::new(running.words(datum).to_vec(), &gauge);
        let remote = if rules.copies_ahead {
            Remote::CopyAhead(&copy)
        } else {
            Remote::InPlace
        };
        let (report, took) = timed(|| {
            let Ok(report) = run(&schedule, workers, remote, |_| {
                let mut work = self.scheme.workspace();
                let running = &running;
                move |assignment: Assignment<'_, Temporary<'_>>| {
                    running.execute(&assignment, &mut work);
                    Ok::<_, Infallible>(())
                }
            });
            report
        });
        let counters = schedule.counters();
        let far = |(node, row): (usize, &Vec<u64>)| row.iter().sum::<u64>() - row[node];
        let read: u64 = counters.read.iter().enumerate().map(far).sum();
        let copied = report.workers.iter().map(|worker| worker.copied_bytes);
        let copied_bytes: u64 = copied.sum();
        let remote_key_bytes = running.remote_key_bytes.load(Ordering::Relaxed);
        let remote_bytes = if rules.copies_ahead {
            copied_bytes
        } else {
            read
        };
        let products = |task: &Product| task.factors.len() as u64 - 1;
        Measured {
            bench: "numa tasks",
            placement: inputs.placement.to_string(),
            rules: rules.name,
            caches_products: rules.caches_products,
            order: match rules.order {
                Order::FirstInFirstOut => "first in, first out",
                Order::MostReferenced => "most referenced",
                Order::MostReferencedNearby => "most referenced nearby",
            },
            copies_ahead: rules.copies_ahead,
            run: number,
            tasks: plan.tasks.len(),
            products: plan.tasks.iter().map(products).sum(),
            seconds: took.as_secs_f64(),
            idle_share: report.idle_share(),
            remote_bytes: remote_bytes + remote_key_bytes,
            remote_key_bytes,
            copied_bytes,
            copying_seconds: (report.workers.iter())
                .map(|worker| worker.copying.as_secs_f64())
                .sum(),
            peak_temporary_bytes: gauge.peak.load(Ordering::Relaxed),
            stolen: counters.stolen,
            stolen_needlessly: counters.stolen_needlessly,
            verified: running.supports() == self.supports,
        }
    }
}

/// Whether a transaction has an item: as good as random, with one of three.
fn bit(block: usize, item: usize, slot: usize) -> bool {
    scattered(block << 20 | item, slot).is_multiple_of(3)
}

impl Inputs {
    /// Encrypts the items of all blocks in memory of the nodes.
    fn encrypt(job: &Job, nodes: &Nodes, placement: Policy) -> Result<Self, Failure> {
        let words = job.scheme.ciphertext_words();
        let key_words = job.scheme.key_words();
        let count = job.blocks * job.items as usize;
        let bytes = count * ArenaBlock::footprint(words) + ArenaBlock::footprint(key_words);
        let arena = |&number: &u32| {
            let backing = Backing {
                policy: nodes.memory_of(number),
                ..Backing::default()
            };
            Ok::<_, Failure>((Arena::reserve(bytes, backing)?, number))
        };
        let arenas: Vec<_> = nodes.numbers.iter().map(arena).collect::<Result<_, _>>()?;
        let mut key = arenas[0].0.block(key_words, 0)?;
        job.scheme.switching_key(1 << 32, &mut key);
        let columns = (0..count).map(|column| {
            let (block, item) = (column / job.items as usize, column % job.items as usize);
            let home = placement.home(arenas.len(), block, item).unwrap_or(0);
            let mut ciphertext = arenas[home].0.block(words, item)?;
            let slots = (0..job.scheme.slots()).map(|slot| bit(block, item, slot));
            job.scheme.encrypt(slots, column as u64, &mut ciphertext);
            Ok::<_, Failure>(ciphertext)
        });
        Ok(Self {
            placement,
            columns: columns.collect::<Result<_, _>>()?,
            key,
            arenas,
        })
    }

    /// The bytes on a node other than intended.
    fn misplaced_bytes(&self) -> Result<usize, Failure> {
        let mut misplaced = 0;
        for (arena, own) in &self.arenas {
            let resident = arena.resident_by_node()?;
            let elsewhere = resident.iter().filter(|&(node, _)| node != own);
            misplaced += elsewhere.map(|(_, bytes)| bytes).sum::<usize>();
        }
        Ok(misplaced)
    }
}

/// The bytes of temporaries, now and at most.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// Words that count as temporary until they are dropped.
struct Temporary<'g> {
    words: Vec<u32>,
    gauge: &'g Gauge,
}

impl<'g> Temporary<'g> {
    fn new(words: Vec<u32>, gauge: &'g Gauge) -> Self {
        let bytes = size_of_val(&*words);
        let now = gauge.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        gauge.peak.fetch_max(now, Ordering::Relaxed);
        Self { words, gauge }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        let bytes = size_of_val(&*self.words);
        self.gauge.now.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A run in progress.
struct Running<'r> {
    job: &'r Job,
    inputs: &'r Inputs,
    plan: &'r Plan,
    gauge: &'r Gauge,
    /// For each node its key, if every node is to have one.
    keys: Vec<OnceLock<Vec<u32>>>,
    remote_key_bytes: AtomicU64,
    /// For each cached product, its words and how many readers are left.
    cached: Vec<(Mutex<Option<Arc<Temporary<'r>>>>, AtomicUsize)>,
    /// For each node and itemset; empty until the first product is added.
    sums: Vec<Vec<Mutex<Vec<u32>>>>,
}

/// The words of a datum, from wherever they are.
enum Words<'w> {
    There(&'w [u32]),
    Cached(Arc<Temporary<'w>>),
}

impl std::ops::Deref for Words<'_> {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::There(words) => words,
            Self::Cached(product) => &product.words,
        }
    }
}

impl<'r> Running<'r> {
    fn new(
        job: &'r Job,
        inputs: &'r Inputs,
        plan: &'r Plan,
        gauge: &'r Gauge,
        rules: Rules,
        nodes: usize,
    ) -> Self {
        let keys = if rules.copies_ahead { nodes } else { 0 };
        let cached = |&readers: &usize| (Mutex::default(), AtomicUsize::new(readers));
        let sums = |_| job.itemsets.iter().map(|_| Mutex::default()).collect();
        Self {
            job,
            inputs,
            plan,
            gauge,
            keys: (0..keys).map(|_| OnceLock::new()).collect(),
            remote_key_bytes: AtomicU64::new(0),
            cached: plan.readers.iter().map(cached).collect(),
            sums: (0..nodes).map(sums).collect(),
        }
    }

    /// Where a datum is from the beginning, or since it was made.
    fn words(&self, datum: Datum) -> Words<'_> {
        match self.plan.places[datum.index()] {
            Place::Column(column) => Words::There(&self.inputs.columns[column]),
            Place::Product(number) => {
                let words = self.cached[number].0.lock().clone();
                Words::Cached(words.expect("a task runs when its inputs are there"))
            }
        }
    }

    /// The key that a node reads. It comes from the first node, for every product or once.
    fn key(&self, node: usize, products: usize) -> &[u32] {
        let key = &*self.inputs.key;
        let comes = |times| {
            if node > 0 {
                let bytes = (times * size_of_val(key)) as u64;
                self.remote_key_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
        };
        match self.keys.get(node) {
            Some(own) => own.get_or_init(|| {
                comes(1);
                key.to_vec()
            }),
            None => {
                comes(products);
                key
            }
        }
    }

    fn execute(&self, assignment: &Assignment<'_, Temporary<'_>>, work: &mut Workspace) {
        let task = &self.plan.tasks[assignment.task.index()];
        let scheme = &self.job.scheme;
        let read = |datum| match assignment.copy(datum) {
            Some(copy) => Words::There(&copy.words),
            None => self.words(datum),
        };
        let key = self.key(assignment.node, task.factors.len() - 1);
        let [first, second, rest @ ..] = &task.factors[..] else {
            unreachable!("there are two factors or more");
        };
        let multiply = |a: &[u32], b, work: &mut Workspace| {
            let mut out = vec![0; scheme.ciphertext_words()];
            scheme.multiply(a, &read(b), key, &mut out, work);
            out
        };
        let mut product = multiply(&read(*first), *second, work);
        for &factor in rest {
            product = multiply(&product, factor, work);
        }
        let mut sum = self.sums[assignment.node][task.itemset].lock();
        if sum.is_empty() {
            sum.resize(product.len(), 0);
        }
        scheme.add(&product, &mut sum);
        drop(sum);
        if let Some(number) = task.cached {
            let product = Temporary::new(product, self.gauge);
            *self.cached[number].0.lock() = Some(Arc::new(product));
        }
        for &factor in &task.factors {
            self.release(factor);
        }
    }

    /// A reader of a datum is done.
    fn release(&self, datum: Datum) {
        let Place::Product(number) = self.plan.places[datum.index()] else {
            return;
        };
        let (words, readers) = &self.cached[number];
        if readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            let dropped = words.lock().take();
            drop(dropped);
        }
    }

    /// What the owner decrypts.
    fn supports(&self) -> Vec<u64> {
        let scheme = &self.job.scheme;
        let support = |itemset: usize| {
            let mut all = vec![0; scheme.ciphertext_words()];
            for node in &self.sums {
                let sum = node[itemset].lock();
                if !sum.is_empty() {
                    scheme.add(&sum, &mut all);
                }
            }
            scheme.decrypt_sum(&all)
        };
        (0..self.job.itemsets.len()).map(support).collect()
    }
}

impl Measured {
    fn text(&self) -> String {
        format!(
            "tasks  {:<11}  rules: {:<17}  run {}  {:>9}  {:>10} from other nodes, {:>10} of temporaries, {} products\n",
            self.placement,
            self.rules,
            self.run,
            seconds(std::time::Duration::from_secs_f64(self.seconds)),
            bytes(self.remote_bytes),
            bytes(self.peak_temporary_bytes as u64),
            self.products,
        )
    }
}

impl Figures {
    pub fn verified(&self) -> bool {
        self.verified
    }
}
