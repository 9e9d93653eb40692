//! Runs a plan: a [`Count`] is a schedule of tasks that any thread may advance, one step at a time.
//!
//! A task is a tile over one [shard](crate::shards); its moments, modulo all limbs, leave through the sink
//! at once, so that memory in use does not grow with the answer. The sink may end the count (its
//! client went away): no further task starts then.
//!
//! A *unit* is one run of the plan over one shard, the input that tasks refer to and that has a home:
//! the node that holds most of the shard. A thread takes tasks of its own node first, all those of one
//! unit after another, so that one pass reads each panel while it is in reach of all tiles. The schedule
//! has one task for each unit, in as many parts as there are tiles: nothing is kept for each of both.
//!
//! Where the source has not everything in memory, units become ready as their panels
//! [arrive](crate::arrivals) and are given up with their last task. Runs are done over the shards that
//! begin in one segment after another: these share its panels, and the next run some of the columns.

use crate::arrivals::Arrivals;
use crate::evaluate::Workspace;
use crate::plan::{Factor, Plan, Run, Tile};
use crate::source::{Segment, Source, segments_of};
use crate::traffic::Traffic;
use oboro_arena::{CpuAssignment, Distances};
use oboro_store::{self as store, Reads, StoreError, Stream};
use oboro_tasks::{Claim, Graph, Input, Order, Schedule};
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use thiserror::Error;

/// The most units of one count: what is kept for each, here and by those who bring it in, takes about 200
/// bytes, and a count of more would read its columns hundreds of times.
const MOST_UNITS: usize = 1 << 18;

/// A count that could not be done.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{wanted} limbs were asked for, but the dataset has {limbs}; ask for no more than that"
    )]
    Limbs { wanted: usize, limbs: usize },
    #[error("the dataset has no blocks to count; upload it again")]
    Empty,
    #[error(
        "the itemsets have so little room in memory together that they would be counted in {wanted} pieces, more \
         than {most}; ask for fewer at a time, or have the server given more memory (--memory)"
    )]
    Units { wanted: usize, most: usize },
}

/// Some moments of a plan over one shard, lent by the workspace that they were computed in.
#[derive(Debug, PartialEq, Eq)]
pub struct Moments<'w> {
    /// The place of the shard among those that are counted.
    pub shard: usize,
    /// Which moments, ascending in canonical order: scalars come first.
    pub moments: &'w [usize],
    /// How many of them are scalars.
    pub scalars: usize,
    /// The number of limbs.
    pub limbs: usize,
    /// Moment after moment, for each limb after limb: one residue of a scalar, the sum of its evaluation
    /// form, and `N` of a polynomial in evaluation form. The borrower may compute in it.
    pub residues: &'w mut [u32],
}

impl Moments<'_> {
    /// Every moment: its number and its residues, limb after limb.
    pub fn each(&mut self) -> impl Iterator<Item = (usize, &mut [u32])> {
        let (scalars, polynomials) = self.residues.split_at_mut(self.scalars * self.limbs);
        let each = polynomials.len() / (self.moments.len() - self.scalars).max(1);
        let residues = scalars
            .chunks_exact_mut(self.limbs)
            .chain(polynomials.chunks_exact_mut(each.max(1)));
        self.moments.iter().copied().zip(residues)
    }
}

/// What one step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A task: the sink has taken its moments.
    Advanced,
    /// The last task to end: the sink has taken all moments of the count. One step says so.
    Finished,
    /// Nothing: the panels of the tasks that are left are on their way.
    Waiting,
    /// Nothing: every task is claimed already, or the count was stopped.
    Exhausted,
}

/// How a count ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All moments went to the sink.
    Complete,
    /// The sink wanted no more.
    Stopped,
}

/// A question being answered, on a machine of one or more nodes.
pub struct Count<S> {
    source: Arc<S>,
    /// A copy for each node, made by the first of its threads that needs it.
    plans: Box<[OnceLock<Plan>]>,
    plan: Arc<Plan>,
    segments: Vec<Segment>,
    shards: Vec<Range<u64>>,
    units: Box<[Unit]>,
    /// Shards before the last ones, whose tasks are smaller.
    shards_of_whole_tiles: usize,
    /// What becomes ready when.
    arrivals: Arc<Arrivals>,
    /// Where not everything is in memory.
    streaming: Option<Streaming>,
    /// Tasks whose moments the sink has not taken.
    left: AtomicUsize,
    traffic: Traffic,
}

/// What is in memory at a time, at least.
struct Unit {
    shard: usize,
    run: usize,
}

/// Units on their way, and in memory as long as they have tasks.
struct Streaming {
    stream: Stream,
    /// For each unit the tasks that are not done.
    left: Box<[AtomicUsize]>,
}

impl Streaming {
    fn task_done(&self, unit: usize) {
        if self.left[unit].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stream.release(unit);
        }
    }
}

impl<S: Source> Count<S> {
    /// The count that evaluates `plan` on all of `source`, on nodes with these distances; nothing is computed yet.
    ///
    /// # Errors
    /// As [`of_shards`](Self::of_shards).
    ///
    /// # Panics
    /// As [`of_shards`](Self::of_shards).
    pub fn new(
        source: Arc<S>,
        plan: impl Into<Arc<Plan>>,
        distances: &Distances,
    ) -> Result<Self, EngineError> {
        let end = |last: &Segment| last.first_block + last.blocks;
        let all = 0..source.segments().last().map_or(0, end);
        let shards = shards(&[all], source.parameters().shard_blocks());
        Self::of_shards(source, plan, distances, shards)
    }

    /// The same over these shards, of which none overlaps the next.
    ///
    /// # Errors
    /// More limbs than there are, no shard, shards with blocks that there are not, a plan of so many runs that its
    /// units would take much memory.
    ///
    /// # Panics
    /// If the source has residues on a node that is none of these.
    pub fn of_shards(
        source: Arc<S>,
        plan: impl Into<Arc<Plan>>,
        distances: &Distances,
        shards: Vec<Range<u64>>,
    ) -> Result<Self, EngineError> {
        let plan = plan.into();
        let limbs = source.parameters().limb_count();
        if plan.limbs() > limbs {
            return Err(EngineError::Limbs {
                wanted: plan.limbs(),
                limbs,
            });
        }
        let segments = source.segments();
        let blocks = segments.last().map_or(0, |it| it.first_block + it.blocks);
        if shards.is_empty() || shards.iter().any(|it| it.is_empty() || it.end > blocks) {
            return Err(EngineError::Empty);
        }
        let of_shards: Vec<Range<usize>> =
            shards.iter().map(|it| segments_of(&segments, it)).collect();
        let count = shards.len() * plan.runs().len();
        if count > MOST_UNITS {
            return Err(EngineError::Units {
                wanted: count,
                most: MOST_UNITS,
            });
        }
        let nodes = distances.nodes();
        // So that every node ends on small tasks.
        let shards_of_whole_tiles = shards.len().saturating_sub(nodes);
        let home = |shard: &Range<u64>| home_of(&*source, shard, nodes);
        let homes: Vec<Option<usize>> = shards.iter().map(home).collect();
        let units = units(&of_shards, plan.runs().len());
        let tiles = |unit: &Unit| tiles_of(&plan, unit, shards_of_whole_tiles).len();
        let is_resident = source.room().is_none();
        let mut graph = Graph::new();
        let mut inputs = Vec::new();
        for unit in &units {
            let input = graph.input(Input {
                home: homes[unit.shard],
                bytes: 0,
                resident: is_resident,
            });
            inputs.push(input);
            graph.task_in_parts(&[input], 1, tiles(unit) as u32);
        }
        let tasks = units.iter().map(tiles).sum();
        let schedule = Schedule::new(graph, distances.clone(), Order::MostReferenced);
        let arrivals = Arc::new(Arrivals::new(schedule, inputs));
        let streaming = match is_resident || tasks == 0 {
            true => None,
            false => Some(Streaming {
                left: units.iter().map(|unit| tiles(unit).into()).collect(),
                stream: {
                    let factors: Vec<_> = plan.runs().iter().map(Run::factors).collect();
                    let unit = |unit: &Unit| store::Unit {
                        segments: of_shards[unit.shard].clone(),
                        run: unit.run,
                    };
                    let arrivals = Arc::clone(&arrivals);
                    source.stream(
                        plan.limbs(),
                        &factors,
                        units.iter().map(unit).collect(),
                        Arc::new(move |arrival| arrivals.take(arrival)),
                    )?
                },
            }),
        };
        Ok(Self {
            plans: (0..nodes).map(|_| OnceLock::new()).collect(),
            arrivals,
            streaming,
            traffic: Traffic::new(nodes),
            left: AtomicUsize::new(tasks),
            source,
            plan,
            segments,
            shards,
            units,
            shards_of_whole_tiles,
        })
    }

    /// Claims the next task, evaluates it in `workspace` and lends its moments to `sink`, on the
    /// calling thread. Steps may run on any number of threads at a time, each with a workspace of
    /// its own; moments come in no particular order. A sink that breaks stops the count.
    ///
    /// # Errors
    /// A panel that cannot be read; the count is stopped.
    pub fn step(
        &self,
        workspace: &mut Workspace,
        sink: impl FnMut(Moments<'_>) -> ControlFlow<()>,
    ) -> Result<Step, EngineError> {
        match self.schedule().claim(workspace.node()) {
            Some(claim) => self.carry_out(&claim, workspace, sink),
            None => match self.failure() {
                Some(error) => Err(error),
                None if self.is_exhausted() => Ok(Step::Exhausted),
                None => Ok(Step::Waiting),
            },
        }
    }

    fn carry_out(
        &self,
        claim: &Claim,
        workspace: &mut Workspace,
        mut sink: impl FnMut(Moments<'_>) -> ControlFlow<()>,
    ) -> Result<Step, EngineError> {
        let node = workspace.node();
        let unit = &self.units[claim.task.index()];
        let shard = unit.shard;
        let plan = self.plan_on(node);
        let tile = &tiles_of(plan, unit, self.shards_of_whole_tiles)[claim.part as usize];
        self.evaluate(tile, &self.shards[shard], workspace)
            .inspect_err(|_| {
                workspace.let_go();
                self.stop();
            })?;
        if let Some(streaming) = &self.streaming {
            streaming.task_done(claim.task.index());
        }
        let taken = sink(Moments {
            shard,
            moments: &tile.moments,
            scalars: tile.scalar_count,
            limbs: plan.limbs(),
            residues: workspace.residues(),
        });
        if taken.is_break() {
            self.stop();
            return Ok(Step::Exhausted);
        }
        self.schedule().complete(claim.task, node);
        Ok(match self.left.fetch_sub(1, Ordering::AcqRel) {
            1 => Step::Finished,
            _ => Step::Advanced,
        })
    }

    fn schedule(&self) -> &Schedule {
        &self.arrivals.schedule
    }

    /// Why panels stay away, if nobody was told yet.
    fn failure(&self) -> Option<EngineError> {
        self.arrivals.failure().take().map(EngineError::Store)
    }

    /// Whether a step would do something now: a task is ready, or there is an error to tell.
    pub fn has_task(&self) -> bool {
        self.schedule().has_ready() || self.arrivals.failure().is_some()
    }

    /// Calls `news`, on any thread, whenever [`has_task`](Self::has_task) may have become true. Only the
    /// first who asks is told.
    pub fn on_news(&self, news: impl Fn() + Send + Sync + 'static) {
        if self.streaming.is_some() {
            self.arrivals.tell(Box::new(news));
        }
    }

    /// What was read from disk so far and what was found in memory; `None` where all of it is resident.
    pub fn reads(&self) -> Option<Reads> {
        let streaming = self.streaming.as_ref();
        streaming.map(|streaming| streaming.stream.reads())
    }

    /// No further task starts; those under way end.
    pub fn stop(&self) {
        self.schedule().stop();
    }

    /// Whether there is nothing left to claim: no step does anything from now on.
    pub fn is_exhausted(&self) -> bool {
        self.schedule().is_exhausted()
    }

    /// The bytes of residues that tasks have read so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What the scheduler has handed out so far. It knows shards and not their bytes: those are in
    /// [`traffic`](Self::traffic).
    pub fn counters(&self) -> oboro_tasks::Counters {
        self.schedule().counters()
    }

    /// Steps on a thread for each CPU assignment until no task is left; `sink` is called from any of them.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run(
        &self,
        assignments: &[CpuAssignment],
        sink: &(dyn Fn(Moments<'_>) -> ControlFlow<()> + Sync),
    ) -> Result<Outcome, EngineError> {
        let work = |assignment: &CpuAssignment| -> Result<(), EngineError> {
            // Elsewhere it counts as well, only from further away.
            let _ = assignment.apply();
            let mut workspace = Workspace::on(assignment.node);
            while let Some(claim) = self.schedule().claim_or_wait(assignment.node) {
                self.carry_out(&claim, &mut workspace, sink)?;
            }
            self.failure().map_or(Ok(()), Err)
        };
        thread::scope(|scope| {
            // Whoever waits for a shard would wait for ever for one that panicked with another.
            let work = |assignment| {
                catch_unwind(AssertUnwindSafe(|| work(assignment))).unwrap_or_else(|panic| {
                    self.stop();
                    resume_unwind(panic)
                })
            };
            let threads: Vec<_> = assignments
                .iter()
                .map(|assignment| scope.spawn(move || work(assignment)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .fold(Ok(()), Result::and)
        })?;
        Ok(match self.left.load(Ordering::Acquire) {
            0 => Outcome::Complete,
            _ => Outcome::Stopped,
        })
    }

    /// The plan in the memory of a node, if there are several.
    fn plan_on(&self, node: usize) -> &Plan {
        match self.plans.len() {
            1 => &self.plan,
            _ => self.plans[node].get_or_init(|| Plan::clone(&self.plan)),
        }
    }

    /// Leaves the residues in the workspace.
    fn evaluate(
        &self,
        tile: &Tile,
        blocks: &Range<u64>,
        workspace: &mut Workspace,
    ) -> Result<(), StoreError> {
        let parameters = self.source.parameters();
        self.note_traffic(workspace.node(), tile, blocks);
        workspace.begin(tile, self.plan.limbs(), parameters.degree());
        if self.streaming.is_none() {
            let (limbs, factors) = (self.plan.limbs(), &tile.factors);
            for segment in segments_of(&self.segments, blocks) {
                self.source.fetch_ahead(segment, limbs, factors);
            }
            for segment in segments_of(&self.segments, blocks) {
                self.source.load_ahead(segment, limbs, factors)?;
            }
        }
        for limb in 0..self.plan.limbs() {
            for segment in segments_of(&self.segments, blocks) {
                let s = self.segments[segment];
                let start = blocks.start.max(s.first_block) - s.first_block;
                let end = blocks.end.min(s.first_block + s.blocks) - s.first_block;
                for &factor in &tile.factors {
                    workspace.read(self.source.panel(segment, limb, factor)?);
                }
                workspace.read_blocks(start as usize..end as usize);
            }
            workspace.evaluate(tile, &parameters.limb_moduli()[limb], limb);
        }
        Ok(())
    }

    fn note_traffic(&self, node: usize, tile: &Tile, blocks: &Range<u64>) {
        let residues = (blocks.end - blocks.start) * self.source.parameters().degree() as u64;
        let bytes = residues * self.plan.limbs() as u64 * size_of::<u32>() as u64;
        if self.plans.len() == 1 {
            return self
                .traffic
                .add(node, Some(0), bytes * tile.factors.len() as u64);
        }
        for &factor in &tile.factors {
            let home = self.source.home(blocks.start, factor);
            self.traffic.add(node, home, bytes);
        }
    }
}

/// The tiles of a unit.
fn tiles_of<'p>(plan: &'p Plan, unit: &Unit, shards_of_whole_tiles: usize) -> &'p [Tile] {
    let run = &plan.runs()[unit.run];
    match unit.shard < shards_of_whole_tiles {
        true => run.tiles(),
        false => run.last_tiles(),
    }
}

/// All runs over all shards, given the segments of each: those that begin in one segment together.
fn units(shards: &[Range<usize>], runs: usize) -> Box<[Unit]> {
    let mut units = Vec::with_capacity(shards.len() * runs);
    let mut first = 0;
    for neighbours in shards.chunk_by(|a, b| a.start == b.start) {
        let end = first + neighbours.len();
        units.extend((0..runs).flat_map(|run| (first..end).map(move |shard| Unit { shard, run })));
        first = end;
    }
    units.into()
}

/// The node that has more than half of the panels where a shard begins.
fn home_of(source: &impl Source, shard: &Range<u64>, nodes: usize) -> Option<usize> {
    if nodes == 1 {
        return Some(0);
    }
    let mut panels = vec![0u32; nodes];
    let columns = (0..source.columns()).map(Factor::Column);
    for factor in columns.chain([Factor::Mask]) {
        panels[source.home(shard.start, factor)?] += 1;
    }
    let all: u32 = panels.iter().sum();
    panels.iter().position(|&there| there > all / 2)
}

/// Cuts ranges of blocks into shards: runs of at most `most` blocks that no range's edge crosses, ascending, each
/// block once. Sums over a range are those of its shards, added.
pub fn shards(ranges: &[Range<u64>], most: u64) -> Vec<Range<u64>> {
    let mut edges: Vec<u64> = ranges.iter().flat_map(|it| [it.start, it.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let is_covered = |run: &Range<u64>| {
        let mut ranges = ranges.iter();
        ranges.any(|range| range.start <= run.start && run.end <= range.end)
    };
    let runs = edges.windows(2).map(|it| it[0]..it[1]).filter(is_covered);
    let cut = |run: Range<u64>| {
        let starts = run.clone().step_by(most as usize);
        starts.map(move |start| start..run.end.min(start + most))
    };
    runs.flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cross_no_edge_and_have_every_block_once() {
        let total_and_sample = shards(&[0..70, 0..28, 70..71], 28);
        assert_eq!(total_and_sample, [0..28, 28..56, 56..70, 70..71]);
        assert_eq!(shards(&[5..9, 20..22], 3), [5..8, 8..9, 20..22]);
        assert_eq!(shards(&[0..4, 2..6], 10), [0..2, 2..4, 4..6]);
        assert!(shards(&[], 28).is_empty() && shards(&[3..3, 7..7], 28).is_empty());
    }
}
