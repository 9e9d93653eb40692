//! Times the engine alone: all itemsets of a length over residues in memory. One JSON object per
//! line, the summary last. `cargo bench --bench engine -- COLUMNS TRANSACTIONS LENGTH THREADS`.

use oboro_arena::{Arena, Backing, Topology};
use oboro_engine::{Count, Plan, Source};
use oboro_residency::{Panel, ResidencyError};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::vector::{self, Kernels, LEAVES, PREFIXES};
use oboro_ring::{Blocks, Column, Factor, Limb, Parameters};
use serde_json::json;
use std::error::Error;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

const SEGMENT_BLOCKS: u64 = 64;
const RUNS: usize = 7;

/// Random residues instead of a dataset.
struct Memory {
    parameters: Parameters,
    columns: u32,
    segments: Vec<Blocks>,
    /// For each segment and limb: the columns, then the mask.
    panels: Vec<Arc<Panel>>,
}

impl Memory {
    fn new(parameters: Parameters, columns: u32, blocks: u64) -> Result<Self, ResidencyError> {
        let segments = Vec::from_iter(Blocks::from(0..blocks).runs(SEGMENT_BLOCKS));
        let mut panels = Vec::new();
        let mut state = 1u64;
        for segment in &segments {
            let len = segment.len() as usize * parameters.degree();
            let panel_count = parameters.limb_count() * (columns as usize + 1);
            let arena = Arena::reserve(panel_count * Panel::footprint(len), Backing::default())?;
            for q in parameters.limb_moduli() {
                for column in 0..=columns {
                    let panel = Panel::build(&arena, len, column as usize, |out| {
                        for residue in out {
                            state = state
                                .wrapping_mul(6_364_136_223_846_793_005)
                                .wrapping_add(1_442_695_040_888_963_407);
                            *residue = (((state >> 36) * u64::from(q.value())) >> 28) as u32;
                        }
                        Ok::<_, ResidencyError>(())
                    });
                    panels.push(Arc::new(panel?));
                }
            }
        }
        Ok(Self {
            parameters,
            columns,
            segments,
            panels,
        })
    }
}

impl Source for Memory {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn columns(&self) -> u32 {
        self.columns
    }

    fn segments(&self) -> Vec<Blocks> {
        self.segments.clone()
    }

    fn panel(
        &self,
        segment: usize,
        limb: Limb,
        factor: Factor,
    ) -> Result<Arc<Panel>, ResidencyError> {
        let column = match factor {
            Factor::Mask => self.columns,
            Factor::Column(column) => column.0,
        };
        let row = segment * self.parameters.limb_count() + limb.0;
        let at = row * (self.columns as usize + 1) + column as usize;
        Ok(Arc::clone(&self.panels[at]))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let number = |i: usize, default| numbers.get(i).copied().unwrap_or(default);
    let (columns, transactions) = (number(0, 18) as u32, number(1, 1_943_424));
    let (length, threads) = (number(2, 2) as usize, number(3, 2) as usize);
    // The planner's choice for large data: one limb per item.
    let log_degree = if length <= 4 { 12 } else { 13 };
    let parameters = Parameters::new(log_degree, length.max(1), 114_689)?;
    let blocks = transactions.div_ceil(parameters.degree() as u64);
    let source = Arc::new(Memory::new(parameters, columns, blocks)?);
    let itemsets = Itemsets::all_of(&Vec::from_iter(Column::first(columns)), length)?;
    let index = Arc::new(MomentIndex::new(&itemsets));
    let slots = blocks * source.parameters.degree() as u64;
    // For pairs only the sums, which is all that an owner requests; for other lengths all moments.
    let moments = match length {
        2 => index.rank(0),
        _ => 0..index.len(),
    };
    let multiply_adds = moments.len() as u64 * slots * length as u64;
    let panels = if length == 2 { columns } else { columns + 1 };
    let bytes = u64::from(panels) * slots * length as u64 * 4;
    let threads = NonZero::new(threads).ok_or("at least one thread")?;
    let topology = Topology::of_this_machine();
    let assignments = topology.workers(threads);
    let mut seconds = Vec::new();
    for run in 0..RUNS {
        let begun = Instant::now();
        let plan = Plan::of_moments(&index, length, moments.clone());
        let count = Count::new(Arc::clone(&source), &plan, topology.distances())?;
        count.run(&assignments, &|moments| {
            std::hint::black_box(moments.residues);
            ControlFlow::Continue(())
        })?;
        seconds.push(begun.elapsed().as_secs_f64());
        println!("{}", json!({ "run": run, "seconds": seconds[run] }));
    }
    let median = median(seconds);
    let reading = median_of_reading(&source, threads.get());
    let issuing = multiply_adds as f64 / best_rate_of_issuing(threads.get());
    let limit = reading.max(issuing);
    println!(
        "{}",
        json!({
            "bench": "engine",
            "columns": columns,
            "transactions": transactions,
            "length": length,
            "threads": threads,
            "kernels": Kernels::current().name(),
            "moments": moments.len(),
            "multiply_adds": multiply_adds,
            "bytes": bytes,
            "seconds": median,
            "gmacs_per_second": multiply_adds as f64 / median / 1e9,
            "gigabytes_per_second": bytes as f64 / median / 1e9,
            "reading_gigabytes_per_second": bytes as f64 / reading / 1e9,
            "issuing_gmacs_per_second": multiply_adds as f64 / issuing / 1e9,
            "limit_seconds": limit,
            "fraction_of_limit": limit / median,
        })
    );
    Ok(())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Seconds for reading every residue once, the panels divided among the threads: a lower bound for
/// counting.
fn median_of_reading(source: &Memory, threads: usize) -> f64 {
    let read = |panels: &[Arc<Panel>]| {
        for panel in panels {
            for piece in panel.pieces() {
                std::hint::black_box(piece.iter().fold(0, |all, residue| all ^ residue));
            }
        }
    };
    let seconds = (0..RUNS).map(|_| {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for share in source.panels.chunks(source.panels.len().div_ceil(threads)) {
                scope.spawn(move || read(share));
            }
        });
        begun.elapsed().as_secs_f64()
    });
    median(seconds.collect())
}

/// The highest rate of multiply-adds of a register tile, with operands in the L1 cache.
fn best_rate_of_issuing(threads: usize) -> f64 {
    const SLOTS: usize = 1024;
    const ROUNDS: usize = 20_000;
    let issue = || {
        let operands = vec![vec![1u32 << 27; SLOTS]; PREFIXES + LEAVES];
        let slices: Vec<&[u32]> = operands.iter().map(Vec::as_slice).collect();
        let (prefixes, leaves) = slices.split_at(PREFIXES);
        let mut sums = [vector::Sum::default(); PREFIXES * LEAVES];
        for _ in 0..ROUNDS {
            vector::dots(std::hint::black_box(prefixes), leaves, &mut sums, &[]);
        }
        std::hint::black_box(sums);
    };
    let rates = (0..RUNS).map(|_| {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(issue)));
        });
        let multiply_adds = threads * ROUNDS * PREFIXES * LEAVES * SLOTS;
        multiply_adds as f64 / begun.elapsed().as_secs_f64()
    });
    rates.fold(0.0, f64::max)
}
