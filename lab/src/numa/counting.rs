//! Table 6-3 of the paper: the time for counting all pairs, by placement, with Oboro and with an ordinary library for
//! homomorphic encryption.
//!
//! Oboro's engine counts ciphertext that the lab has placed, since the product has a single placement. The placements
//! alternate, so that a machine that slows down affects all of them.

use super::library::{Library, WAYS, Way};
use super::nodes::Nodes;
use super::placed::{Placed, Policy};
use super::supports::Supports;
use super::{Arguments, paper, traffic};
use crate::output::{Failure, Output, seconds};
use crate::workload::{Workload, plaintext_supports, temporary_directory};
use crate::{timed, trimmed_mean};
use oboro_arena::Topology;
use oboro_dataset::Dataset;
use oboro_engine::{Count, Moments, Plan};
use oboro_input::Transactions;
use oboro_mining::{Bitmap, Itemset};
use oboro_store::Store;
use serde::Serialize;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// All measurements, and the machine.
#[derive(Serialize)]
pub struct Figures {
    /// Whether only one node has usable memory.
    placements_coincide: bool,
    notes: Vec<String>,
    items: u32,
    transactions: u64,
    /// The part of the paper's transactions that these are.
    paper_fraction: f64,
    itemsets: usize,
    threads: usize,
    runs: u16,
    paper_machine: &'static str,
    rows: Vec<Row>,
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    library: &'static str,
    placement: String,
    /// Counting time: the mean of the runs without the shortest and the longest, as in the paper.
    seconds: f64,
    least_seconds: f64,
    most_seconds: f64,
    /// The part of the transactions that was counted; the times are scaled to all.
    measured_fraction: f64,
    verified: bool,
    paper_library: &'static str,
    paper_seconds: f64,
}

/// One run of a library with a placement.
#[derive(Serialize)]
struct Measured {
    table: &'static str,
    library: &'static str,
    placement: String,
    run: u16,
    /// Counting time.
    seconds: f64,
    verified: bool,
    /// Of the resident pages, as reported by the kernel, if there are several nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    misplaced_share: Option<f64>,
    /// The part of the transactions that was counted; the time is scaled to all.
    measured_fraction: f64,
    /// Of two ciphertexts, of which Oboro computes none.
    products: u64,
    /// The part of the library's ciphertext that lies on the node that reads it, if the kernel reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    near_share: Option<f64>,
}

const OBORO: &str = "Oboro, fcmalloc";

/// Counts with each placement in turn, as often as the arguments say.
pub fn measure(
    topology: &Topology,
    arguments: &Arguments,
    library: Option<&Library>,
    output: Output,
) -> Result<Figures, Failure> {
    let workload = arguments.workload();
    let query = TimedQuery::new(&workload)?;
    let mut all = Vec::new();
    let mut note = |measured: Measured| {
        output.result(&measured, || measured.text())?;
        all.push(measured);
        Ok::<_, Failure>(())
    };
    for run in 1..=arguments.runs() {
        for placement in paper::PLACEMENTS {
            note(query.measure(topology, placement, run)?)?;
            for (library, way) in library
                .iter()
                .flat_map(|it| it.ways().map(move |way| (it, way)))
            {
                note(measure_library(library, way, &workload, placement, run)?)?;
            }
        }
    }
    Ok(Figures {
        placements_coincide: topology.nodes().len() == 1,
        notes: notes(topology, library.is_some()),
        items: workload.items,
        transactions: workload.transactions,
        paper_fraction: workload.transactions as f64 / paper::TRANSACTIONS as f64,
        itemsets: query.itemsets.len(),
        threads: workload.threads.get(),
        runs: arguments.runs(),
        paper_machine: paper::MACHINE,
        rows: rows(&all),
    })
}

/// Notes for readers of the figures.
fn notes(topology: &Topology, has_library: bool) -> Vec<String> {
    let coincide = (topology.nodes().len() == 1).then_some(
        "there is one NUMA node: the placements coincide, and differences between them are chance",
    );
    let left_out = (!has_library).then_some(
        "the ordinary library is left out: make bench-numa installs it and gives its program as --library",
    );
    [coincide, left_out]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect()
}

/// The table, without libraries that were not measured.
fn rows(all: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    let libraries = WAYS.iter().map(|way| (way.name, way.paper));
    for (library, paper) in libraries.chain([(OBORO, paper::PROPOSED)]) {
        for (placement, paper_seconds) in paper::PLACEMENTS.into_iter().zip(paper.seconds) {
            let placement = placement.to_string();
            let runs: Vec<&Measured> = all
                .iter()
                .filter(|run| run.library == library && run.placement == placement)
                .collect();
            if runs.is_empty() {
                continue;
            }
            let times = runs.iter().map(|run| run.seconds);
            rows.push(Row {
                library,
                placement,
                seconds: trimmed_mean(times.clone().collect()),
                least_seconds: times.clone().fold(f64::INFINITY, f64::min),
                most_seconds: times.fold(0.0, f64::max),
                measured_fraction: runs[0].measured_fraction,
                verified: runs.iter().all(|run| run.verified),
                paper_library: paper.library,
                paper_seconds,
            });
        }
    }
    rows
}

/// Oboro's query, and the right answer.
struct TimedQuery<'w> {
    workload: &'w Workload,
    transactions: Transactions,
    itemsets: Vec<Itemset>,
    supports: Vec<u64>,
}

impl<'w> TimedQuery<'w> {
    fn new(workload: &'w Workload) -> Result<Self, Failure> {
        let transactions = workload.generate()?;
        let itemsets = workload.itemsets()?;
        let bitmap = Bitmap::new(&transactions);
        Ok(Self {
            supports: plaintext_supports(&bitmap, &itemsets, workload.threads),
            workload,
            transactions,
            itemsets,
        })
    }

    /// Encrypts and places anew, and counts twice what an owner requests, the sums alone; the second time is measured.
    fn measure(&self, topology: &Topology, policy: Policy, run: u16) -> Result<Measured, Failure> {
        let directory = temporary_directory()?;
        let bundle = directory.path().join("bench.oboro");
        let dataset = self.workload.encrypt(&self.transactions, &bundle)?;
        let placed = self.place(topology, policy, &dataset)?;
        let supports = Supports::new(&dataset, &self.itemsets)?;
        let sums = Plan::of_moments(supports.index(), supports.limbs(), supports.index().rank(0));
        let assignments = topology.workers(self.workload.threads);
        let count = |plan: &Plan, take: &(dyn Fn(Moments<'_>) + Sync)| {
            let (source, shards) = (Arc::clone(&placed), supports.shards().to_vec());
            let count = Count::of_shards(source, plan, topology.distances(), shards)?;
            count.run(&assignments, &|moments| {
                take(moments);
                ControlFlow::Continue(())
            })
        };
        count(&sums, &|_| {})?;
        let (counted, took) = timed(|| count(&sums, &|moments| supports.add(moments)));
        counted?;
        let rest = Plan::of_moments(
            supports.index(),
            supports.limbs(),
            supports.index().rank(0).end..supports.index().len(),
        );
        count(&rest, &|moments| supports.add(moments))?;
        let is_placed = topology.nodes().len() > 1;
        Ok(Measured {
            table: "6-3",
            library: OBORO,
            placement: policy.to_string(),
            run,
            seconds: took.as_secs_f64(),
            verified: supports.combine()? == self.supports,
            misplaced_share: is_placed.then(|| placed.misplaced_share()).transpose()?,
            measured_fraction: 1.0,
            products: 0,
            near_share: None,
        })
    }

    fn place(
        &self,
        topology: &Topology,
        policy: Policy,
        dataset: &Dataset,
    ) -> Result<Arc<Placed>, Failure> {
        let directory = temporary_directory()?;
        traffic::publish(directory.path(), dataset.bundle())?;
        let snapshot = Store::open(directory.path())?
            .access()
            .snapshot(traffic::NAME)?;
        Ok(Arc::new(Placed::copy(
            &snapshot,
            &Nodes::real(topology),
            policy,
        )?))
    }
}

fn measure_library(
    library: &Library,
    way: Way,
    workload: &Workload,
    placement: Policy,
    run: u16,
) -> Result<Measured, Failure> {
    let counted = library.count(way, workload, placement)?;
    Ok(Measured {
        table: "6-3",
        library: way.name,
        placement: placement.to_string(),
        run,
        seconds: counted.seconds,
        verified: counted.verified,
        misplaced_share: None,
        measured_fraction: counted.measured_fraction,
        products: counted.products,
        near_share: counted.near_share,
    })
}

impl Measured {
    fn text(&self) -> String {
        let part = if self.measured_fraction < 1.0 {
            let percent = 100.0 * self.measured_fraction;
            format!(", scaled from {percent:.1} % of the data")
        } else {
            String::new()
        };
        format!(
            "table 6-3  run {:>2}  {:<24}  {:<11}  {:>9}{part}\n",
            self.run,
            self.library,
            self.placement,
            time(self.seconds),
        )
    }
}

impl Figures {
    pub fn verified(&self) -> bool {
        self.rows.iter().all(|row| row.verified)
    }

    pub fn text(&self) -> String {
        let mut text = format!(
            "\ntable 6-3: {} pairs, {} transactions × {} items, {} threads, {} runs\n",
            self.itemsets, self.transactions, self.items, self.threads, self.runs
        );
        for row in &self.rows {
            text += &format!(
                "{:<24}  {:<11}  {:>9}   paper ({}): {} s\n",
                row.library,
                row.placement,
                time(row.seconds),
                row.paper_library,
                row.paper_seconds,
            );
        }
        for note in &self.notes {
            text += &format!("{note}\n");
        }
        text
    }
}

fn time(of: f64) -> String {
    seconds(Duration::from_secs_f64(of))
}
