//! The cost of the scheduler, and the benefit of its order. One JSON object per line, the summary last.
//! `cargo bench --bench tasks -- ITEMS TRANSACTIONS`.
//!
//! *Overhead*: claiming and completing empty tasks, relative to a task of a millisecond.
//! *Reuse*: Figure 4-6 of the paper scaled up, the products of all pairs of items of each transaction; an item of a
//! transaction is a vector of 16 KiB. The reuse distance of a read is the bytes of distinct vectors that its node has
//! read since it last read the same one, itself included; a cache of that size would still hold it. Tasks come in
//! program order, transaction by transaction, or shuffled.
//! *Idle*: tasks of very different weights on two workers.
//! *Remote*: items dealt to four nodes, read in place and copied ahead. On a machine with one node this shows the cost
//! of copying, not its benefit.
//!
//! For external event counters, with a third argument (an order's name, as in the output) and a fourth (`natural` or
//! `shuffled`) the program only computes these products on one thread, for `perf stat -e cache-misses`. The vectors are
//! created in the same process, at the same cost for every order.

use oboro_arena::{CpuAssignment, Distances, Topology};
use oboro_ring::{Modulus, Parameters, vector};
use oboro_tasks::{Assignment, Datum, Graph, Input, Order, Remote, Schedule, run};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::error::Error;
use std::num::NonZero;
use std::time::Instant;

const RUNS: usize = 5;
/// Residues of a vector, 16 KiB.
const SLOTS: usize = 4096;
const VECTOR_BYTES: u64 = 4 * SLOTS as u64;
const L2_BYTES: u64 = 1 << 20;
const NODES: usize = 4;
/// The baseline comes first.
const ORDERS: [Order; 3] = [
    Order::FirstInFirstOut,
    Order::MostReferenced,
    Order::MostReferencedNearby,
];
const IN_PLACE: Remote<'static, Vec<u32>> = Remote::InPlace;

type Assigned<'a> = Assignment<'a, Vec<u32>>;

fn main() -> Result<(), Box<dyn Error>> {
    let is_flag = |word: &String| word.starts_with("--");
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !is_flag(word))
        .collect();
    let number = |i: usize, default| words.get(i).map_or(Ok(default), |word| word.parse());
    let (items, transactions) = (number(0, 18)?, number(1, 200)?);
    let parameters = Parameters::new(12, 1, 114_689)?;
    let vectors = Vectors::new(&parameters.limb_moduli()[0], items * transactions);
    let pairs = Pairs {
        items,
        transactions,
        ..Pairs::default()
    };
    if let [_, _, order, arrival] = &words[..] {
        let order = ORDERS.into_iter().find(|&known| name(known) == order);
        Pairs {
            order: order.ok_or_else(|| format!("an order is one of {:?}", ORDERS.map(name)))?,
            is_shuffled: arrival == "shuffled",
            ..pairs
        }
        .run(&vectors);
        return Ok(());
    }
    let overhead = overhead();
    let reuse = reuse(pairs, &vectors);
    let reuse_never_longer: BTreeMap<_, _> = ORDERS[1..]
        .iter()
        .map(|&order| {
            (
                name(order),
                reuse.values().all(|case| case[name(order)] <= 1.0),
            )
        })
        .collect();
    let idle = idle(&vectors);
    remote(pairs, &vectors);
    println!(
        "{}",
        json!({
            "bench": "tasks",
            "items": items,
            "transactions": transactions,
            "overhead_share_of_a_millisecond": overhead,
            "overhead_below_1_percent": overhead < 0.01,
            "idle_share": idle,
            "idle_below_5_percent": idle < 0.05,
            "reuse_distance_to_first_in_first_out": reuse,
            "reuse_never_longer": reuse_never_longer,
        })
    );
    Ok(())
}

/// The highest cost of claiming and completing a task, relative to a millisecond.
fn overhead() -> f64 {
    let mut most: f64 = 0.0;
    for transactions in [7, 654] {
        for threads in [1, 2] {
            for order in ORDERS {
                let pairs = Pairs {
                    transactions,
                    order,
                    ..Pairs::default()
                };
                let runs = (0..RUNS).map(|_| {
                    let begun = Instant::now();
                    let schedule = pairs.schedule();
                    let build = begun.elapsed().as_secs_f64();
                    let report = run(&schedule, &cpu_assignments(threads, 1), IN_PLACE, |_| {
                        |_: Assigned<'_>| Ok::<_, Infallible>(())
                    });
                    let Ok(report) = report;
                    (build, report.wall.as_secs_f64() * threads as f64)
                });
                let (build, wall): (Vec<_>, Vec<_>) = runs.unzip();
                let tasks = pairs.tasks().len() as f64;
                let share = median(wall) / tasks / 1e-3;
                most = most.max(share);
                println!(
                    "{}",
                    json!({
                        "case": "overhead",
                        "order": name(order),
                        "tasks": tasks,
                        "threads": threads,
                        "build_microseconds_per_task": median(build) / tasks * 1e6,
                        "microseconds_per_task": share * 1e3,
                        "share_of_a_millisecond": share,
                    })
                );
            }
        }
    }
    most
}

/// For each case, the mean reuse distance of each order relative to first in, first out.
fn reuse(pairs: Pairs, vectors: &Vectors) -> BTreeMap<String, BTreeMap<&'static str, f64>> {
    let mut multiples: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    for (nodes, is_shuffled) in [(1, false), (1, true), (NODES, false), (NODES, true)] {
        let cases = ORDERS.map(|order| Pairs {
            nodes,
            order,
            is_shuffled,
            ..pairs
        });
        let mut seconds = ORDERS.map(|_| Vec::new());
        for _ in 0..RUNS {
            for (pairs, seconds) in cases.iter().zip(&mut seconds) {
                seconds.push(pairs.run(vectors));
            }
        }
        let case = format!("{nodes} nodes, {}", arrival(is_shuffled));
        let reuses = cases.map(|pairs| Reuse::of(&pairs.reads()));
        for ((order, reuse), seconds) in ORDERS.into_iter().zip(&reuses).zip(seconds) {
            println!(
                "{}",
                json!({
                    "case": "reuse",
                    "order": name(order),
                    "tasks_come": arrival(is_shuffled),
                    "nodes": nodes,
                    "mean_distance_bytes": reuse.mean,
                    "median_distance_bytes": reuse.median,
                    "share_of_reads_beyond_l2": reuse.beyond_l2,
                    "seconds": median(seconds),
                })
            );
            let of_case = multiples.entry(case.clone()).or_default();
            of_case.insert(name(order), reuse.mean / reuses[0].mean);
        }
    }
    multiples
}

/// The larger share of idle time of two workers: on one node, and with all data on one of two.
fn idle(vectors: &Vectors) -> f64 {
    let mut random = Random(3);
    // Half of the weights are 1, a quarter 2, and so on, up to 64.
    let mut weight = || 1 << random.next().trailing_ones().min(6);
    let weights: Vec<u32> = (0..400).map(|_| weight()).collect();
    let mut most: f64 = 0.0;
    for nodes in [1, 2] {
        let mut shares = Vec::new();
        for _ in 0..RUNS {
            let mut graph = Graph::new();
            for &weight in &weights {
                let block = graph.input(resident(0));
                graph.task(&[block], weight);
            }
            let schedule = Schedule::new(graph, equally_far(nodes), Order::MostReferenced);
            let Ok(report) = run(&schedule, &cpu_assignments(2, nodes), IN_PLACE, |_| {
                let mut out = vec![0; SLOTS];
                let weights = &weights;
                move |assignment: Assigned<'_>| {
                    let block = assignment.task.index();
                    for other in 0..300 * weights[block] as usize {
                        vectors.multiply(vectors.get(block), vectors.get(other), &mut out);
                    }
                    Ok::<_, Infallible>(())
                }
            });
            shares.push(report.idle_share());
            let idle_seconds = [0, 1].map(|worker| report.idle(worker).as_secs_f64());
            println!(
                "{}",
                json!({
                    "case": "idle",
                    "nodes": nodes,
                    "workers": report.workers.len(),
                    "tasks": weights.len(),
                    "stolen": schedule.counters().stolen,
                    "seconds": report.wall.as_secs_f64(),
                    "idle_seconds": idle_seconds,
                    "idle_share": report.idle_share(),
                })
            );
        }
        most = most.max(median(shares));
    }
    most
}

/// Items dealt to the nodes.
fn remote(pairs: Pairs, vectors: &Vectors) {
    let pairs = Pairs {
        nodes: NODES,
        order: Order::MostReferencedNearby,
        are_items_dealt: true,
        ..pairs
    };
    let copy = |datum: Datum| vectors.get(datum.index()).to_vec();
    for (remote, name) in [(IN_PLACE, "in place"), (Remote::CopyAhead(&copy), "copied")] {
        let schedule = pairs.schedule();
        let report = pairs.execute(&schedule, vectors, remote);
        let read = schedule.counters().read;
        let local: u64 = (0..NODES).map(|node| read[node][node]).sum();
        let workers = &report.workers;
        println!(
            "{}",
            json!({
                "case": "remote",
                "inputs": name,
                "nodes": NODES,
                "threads": workers.len(),
                "remote_bytes": read.iter().flatten().sum::<u64>() - local,
                "copied_bytes": workers.iter().map(|worker| worker.copied_bytes).sum::<u64>(),
                "copying_seconds": workers.iter().map(|w| w.copying.as_secs_f64()).sum::<f64>(),
                "seconds": report.wall.as_secs_f64(),
            })
        );
    }
}

/// All pairs of items of each transaction: the paper's tasks.
#[derive(Clone, Copy)]
struct Pairs {
    items: usize,
    transactions: usize,
    nodes: usize,
    order: Order,
    is_shuffled: bool,
    /// Items instead of transactions are dealt to the nodes.
    are_items_dealt: bool,
}

impl Default for Pairs {
    fn default() -> Self {
        Self {
            items: 18,
            transactions: 200,
            nodes: 1,
            order: Order::MostReferenced,
            is_shuffled: false,
            are_items_dealt: false,
        }
    }
}

impl Pairs {
    /// Two vectors of one transaction each, by number: grouped by transaction, then by item.
    fn tasks(&self) -> Vec<[usize; 2]> {
        let mut tasks = Vec::new();
        for first in (0..self.transactions).map(|transaction| transaction * self.items) {
            for i in first..first + self.items {
                tasks.extend((i + 1..first + self.items).map(|j| [i, j]));
            }
        }
        if self.is_shuffled {
            let mut random = Random(1);
            for end in (1..tasks.len()).rev() {
                tasks.swap(end, random.next() as usize % (end + 1));
            }
        }
        tasks
    }

    fn schedule(&self) -> Schedule {
        let mut graph = Graph::new();
        let vectors = 0..self.items * self.transactions;
        let data: Vec<Datum> = vectors
            .map(|vector| {
                let (transaction, item) = (vector / self.items, vector % self.items);
                let dealt = if self.are_items_dealt {
                    item
                } else {
                    transaction
                };
                graph.input(resident(dealt % self.nodes))
            })
            .collect();
        for pair in self.tasks() {
            graph.task(&pair.map(|vector| data[vector]), 1);
        }
        Schedule::new(graph, equally_far(self.nodes), self.order)
    }

    /// The sequence of vectors that each node reads, with one worker per node and equal speeds.
    fn reads(&self) -> Vec<Vec<Datum>> {
        let schedule = self.schedule();
        let mut reads = vec![Vec::new(); self.nodes];
        while !schedule.is_done() {
            for (node, reads) in reads.iter_mut().enumerate() {
                if let Some(claim) = schedule.claim(node) {
                    reads.extend(schedule.graph().inputs(claim.task));
                    schedule.complete(claim.task, node);
                }
            }
        }
        reads
    }

    /// Seconds for all products, with one thread per node.
    fn run(&self, vectors: &Vectors) -> f64 {
        let report = self.execute(&self.schedule(), vectors, IN_PLACE);
        report.wall.as_secs_f64()
    }

    fn execute(
        &self,
        schedule: &Schedule,
        vectors: &Vectors,
        remote: Remote<'_, Vec<u32>>,
    ) -> oboro_tasks::Report {
        let Ok(report) = run(
            schedule,
            &cpu_assignments(self.nodes, self.nodes),
            remote,
            |_| {
                let mut out = vec![0; SLOTS];
                move |assignment: Assigned<'_>| {
                    let residues = |&datum: &Datum| match assignment.copy(datum) {
                        Some(copy) => &copy[..],
                        None => vectors.get(datum.index()),
                    };
                    if let [a, b] = schedule.graph().inputs(assignment.task) {
                        vectors.multiply(residues(a), residues(b), &mut out);
                    }
                    Ok::<_, Infallible>(())
                }
            },
        );
        report
    }
}

/// Reuse distances.
struct Reuse {
    /// Over repeated reads, in bytes.
    mean: f64,
    /// Likewise.
    median: u64,
    /// The share of reads that miss a cache of L2's size, first reads included.
    beyond_l2: f64,
}

impl Reuse {
    /// From the nodes' sequences of reads.
    fn of(reads: &[Vec<Datum>]) -> Self {
        let mut distances: Vec<u64> = reads
            .iter()
            .flat_map(|reads| stack_distances(reads))
            .collect();
        distances.sort_unstable();
        let all: usize = reads.iter().map(Vec::len).sum();
        let within = distances.partition_point(|&distance| distance <= L2_BYTES);
        Self {
            mean: distances.iter().sum::<u64>() as f64 / distances.len() as f64,
            median: distances[distances.len() / 2],
            beyond_l2: 1.0 - within as f64 / all as f64,
        }
    }
}

/// For each repeated read, the bytes of distinct vectors read since the last one, itself included.
fn stack_distances(reads: &[Datum]) -> Vec<u64> {
    // A Fenwick tree with a one at the last read of each vector.
    let mut tree = vec![0i64; reads.len() + 1];
    let add = |tree: &mut [i64], mut at: usize, value| {
        while at < tree.len() {
            tree[at] += value;
            at += at & at.wrapping_neg();
        }
    };
    let up_to = |tree: &[i64], mut at: usize| {
        let mut sum = 0;
        while at > 0 {
            sum += tree[at];
            at &= at - 1;
        }
        sum
    };
    let mut last = HashMap::new();
    let mut distances = Vec::new();
    for (time, datum) in (1..).zip(reads) {
        if let Some(before) = last.insert(datum, time) {
            let since = up_to(&tree, time - 1) - up_to(&tree, before - 1);
            distances.push(since as u64 * VECTOR_BYTES);
            add(&mut tree, before, -1);
        }
        add(&mut tree, time, 1);
    }
    distances
}

/// Random residues instead of ciphertext.
struct Vectors {
    modulus: Modulus,
    residues: Vec<u32>,
}

impl Vectors {
    fn new(modulus: &Modulus, count: usize) -> Self {
        let mut random = Random(2);
        Self {
            modulus: *modulus,
            residues: (0..count * SLOTS)
                .map(|_| modulus.reduce(random.next()))
                .collect(),
        }
    }

    /// A vector by number, modulo their count.
    fn get(&self, number: usize) -> &[u32] {
        let number = number % (self.residues.len() / SLOTS);
        &self.residues[number * SLOTS..][..SLOTS]
    }

    fn multiply(&self, a: &[u32], b: &[u32], out: &mut [u32]) {
        vector::multiply(&self.modulus, a, b, out);
        std::hint::black_box(out);
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn resident(node: usize) -> Input {
    Input {
        home: Some(node),
        bytes: VECTOR_BYTES,
        resident: true,
    }
}

fn equally_far(nodes: usize) -> Distances {
    Distances::new(vec![vec![10; nodes]; nodes]).expect("a square")
}

/// Cores of this machine, assigned to nodes that may not exist.
fn cpu_assignments(threads: usize, nodes: usize) -> Vec<CpuAssignment> {
    let threads = NonZero::new(threads).expect("at least one thread");
    let cpu_assignments = Topology::of_this_machine().workers(threads).into_iter();
    let dealt = |(i, cpu_assignment)| CpuAssignment {
        node: i % nodes,
        ..cpu_assignment
    };
    cpu_assignments.enumerate().map(dealt).collect()
}

fn name(order: Order) -> &'static str {
    match order {
        Order::MostReferenced => "most-referenced",
        Order::MostReferencedNearby => "most-referenced-nearby",
        Order::FirstInFirstOut => "first-in-first-out",
    }
}

fn arrival(is_shuffled: bool) -> &'static str {
    if is_shuffled { "shuffled" } else { "natural" }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
