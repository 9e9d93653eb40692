//! Runs a plan: a [`Count`] is a schedule of tasks that any thread may advance, one step at a time.
//!
//! A task is a tile over one group of blocks; its moments, modulo all limbs, leave through the sink
//! at once, so that memory in use does not grow with the answer. The sink may end the count (its
//! client went away): no further task starts then.
//!
//! A *unit* is one run of the plan over one group, the input that tasks refer to and that has a home:
//! the node that holds most of the group. A thread takes tasks of its own node first, all those of one
//! unit after another, so that one pass reads each panel while it is in reach of all tiles. The schedule
//! has one task for each unit, in as many parts as there are tiles: nothing is kept for each of both.
//!
//! Where the source has not everything in memory, units become ready as their panels
//! [arrive](crate::arrivals) and are given up with their last task. Runs are done over the groups that
//! begin in one segment after another: these share its panels, and the next run some of the columns.

use crate::arrivals::Arrivals;
use crate::evaluate::Workspace;
use crate::plan::{Factor, Plan, Run, Tile};
use crate::source::{Segment, Source, segments_of_groups};
use crate::traffic::Traffic;
use oboro_machine::{Distances, Seat};
use oboro_store::{self as store, Reads, StoreError, Stream};
use oboro_tasks::{Claim, Graph, Input, Order, Schedule};
use std::collections::HashMap;
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

/// Some moments of a plan over one group of blocks, lent by the workspace that they were computed in.
#[derive(Debug, PartialEq, Eq)]
pub struct Moments<'w> {
    /// The group, from 0.
    pub group: u64,
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
    blocks: u64,
    units: Box<[Unit]>,
    /// Groups before the last ones, whose tasks are smaller.
    groups_of_whole_tiles: u64,
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
    group: u64,
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
    /// The count that evaluates `plan` on `source`, on nodes with these distances; nothing is computed
    /// yet.
    ///
    /// # Errors
    /// More limbs than there are, a source without blocks, a plan of so many runs that its units would take
    /// much memory.
    ///
    /// # Panics
    /// If the source has residues on a node that is none of these.
    pub fn new(
        source: Arc<S>,
        plan: impl Into<Arc<Plan>>,
        distances: &Distances,
    ) -> Result<Self, EngineError> {
        Self::of_groups(source, plan, distances, 0..u64::MAX)
    }

    /// The same over those of these groups that there are.
    ///
    /// # Errors
    /// As [`new`](Self::new); none of the groups is there.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn of_groups(
        source: Arc<S>,
        plan: impl Into<Arc<Plan>>,
        distances: &Distances,
        wanted: Range<u64>,
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
        let last = segments.last().ok_or(EngineError::Empty)?;
        let blocks = last.first_block + last.blocks;
        let groups = segments_of_groups(&segments, source.parameters().group_blocks());
        let wanted = wanted.start..wanted.end.min(groups.len() as u64);
        if wanted.is_empty() {
            return Err(EngineError::Empty);
        }
        let count = (wanted.end - wanted.start) as usize * plan.runs().len();
        if count > MOST_UNITS {
            return Err(EngineError::Units {
                wanted: count,
                most: MOST_UNITS,
            });
        }
        let nodes = distances.nodes();
        // So that every node ends on small tasks.
        let groups_of_whole_tiles = wanted.end.saturating_sub(nodes as u64);
        let homes: HashMap<u64, Option<usize>> = wanted
            .clone()
            .map(|group| (group, home_of(&*source, group, nodes)))
            .collect();
        let units = units(&groups, wanted, plan.runs().len());
        let tiles = |unit: &Unit| tiles_of(&plan, unit, groups_of_whole_tiles).len();
        let is_resident = source.room().is_none();
        let mut graph = Graph::new();
        let mut inputs = Vec::new();
        for unit in &units {
            let input = graph.input(Input {
                home: homes[&unit.group],
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
                        segments: groups[unit.group as usize].clone(),
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
            blocks,
            units,
            groups_of_whole_tiles,
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
        let group = unit.group;
        let plan = self.plan_on(node);
        let tile = &tiles_of(plan, unit, self.groups_of_whole_tiles)[claim.part as usize];
        self.evaluate(tile, group, workspace).inspect_err(|_| {
            workspace.let_go();
            self.stop();
        })?;
        if let Some(streaming) = &self.streaming {
            streaming.task_done(claim.task.index());
        }
        let taken = sink(Moments {
            group,
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

    /// What the scheduler has handed out so far. It knows groups and not their bytes: those are in
    /// [`traffic`](Self::traffic).
    pub fn counters(&self) -> oboro_tasks::Counters {
        self.schedule().counters()
    }

    /// Steps on a thread for each seat until no task is left; `sink` is called from any of them.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run(
        &self,
        seats: &[Seat],
        sink: &(dyn Fn(Moments<'_>) -> ControlFlow<()> + Sync),
    ) -> Result<Outcome, EngineError> {
        let work = |seat: &Seat| -> Result<(), EngineError> {
            // Elsewhere it counts as well, only from further away.
            let _ = seat.take();
            let mut workspace = Workspace::on(seat.node);
            while let Some(claim) = self.schedule().claim_or_wait(seat.node) {
                self.carry_out(&claim, &mut workspace, sink)?;
            }
            self.failure().map_or(Ok(()), Err)
        };
        thread::scope(|scope| {
            // Whoever waits for a group would wait for ever for one that panicked with another.
            let work = |seat| {
                catch_unwind(AssertUnwindSafe(|| work(seat))).unwrap_or_else(|panic| {
                    self.stop();
                    resume_unwind(panic)
                })
            };
            let threads: Vec<_> = seats
                .iter()
                .map(|seat| scope.spawn(move || work(seat)))
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
        group: u64,
        workspace: &mut Workspace,
    ) -> Result<(), StoreError> {
        let parameters = self.source.parameters();
        let first = group * parameters.group_blocks();
        let blocks = first..self.blocks.min(first + parameters.group_blocks());
        self.note_traffic(workspace.node(), tile, group, &blocks);
        workspace.begin(tile, self.plan.limbs(), parameters.degree());
        if self.streaming.is_none() {
            let (limbs, factors) = (self.plan.limbs(), &tile.factors);
            for segment in self.segments_with(&blocks) {
                self.source.fetch_ahead(segment, limbs, factors);
            }
            for segment in self.segments_with(&blocks) {
                self.source.load_ahead(segment, limbs, factors)?;
            }
        }
        for limb in 0..self.plan.limbs() {
            for (segment, s) in self.segments.iter().enumerate() {
                let start = blocks.start.max(s.first_block);
                let end = blocks.end.min(s.first_block + s.blocks);
                if start < end {
                    let local = (start - s.first_block) as usize..(end - s.first_block) as usize;
                    for &factor in &tile.factors {
                        workspace.read(self.source.panel(segment, limb, factor)?);
                    }
                    workspace.read_blocks(local);
                }
            }
            workspace.evaluate(tile, &parameters.limb_moduli()[limb], limb);
        }
        Ok(())
    }

    /// The segments that have some of these blocks.
    fn segments_with(&self, blocks: &Range<u64>) -> impl Iterator<Item = usize> {
        let has_some =
            |s: &Segment| blocks.start < s.first_block + s.blocks && s.first_block < blocks.end;
        let segments = self.segments.iter().enumerate();
        segments.filter_map(move |(number, segment)| has_some(segment).then_some(number))
    }

    fn note_traffic(&self, node: usize, tile: &Tile, group: u64, blocks: &Range<u64>) {
        let residues = (blocks.end - blocks.start) * self.source.parameters().degree() as u64;
        let bytes = residues * self.plan.limbs() as u64 * size_of::<u32>() as u64;
        if self.plans.len() == 1 {
            return self
                .traffic
                .add(node, Some(0), bytes * tile.factors.len() as u64);
        }
        for &factor in &tile.factors {
            let home = self.source.home(group, factor);
            self.traffic.add(node, home, bytes);
        }
    }
}

/// The tiles of a unit.
fn tiles_of<'p>(plan: &'p Plan, unit: &Unit, groups_of_whole_tiles: u64) -> &'p [Tile] {
    let run = &plan.runs()[unit.run];
    match unit.group < groups_of_whole_tiles {
        true => run.tiles(),
        false => run.last_tiles(),
    }
}

/// All runs over the wanted groups, given the segments of all groups: those that begin in one segment
/// together.
fn units(groups: &[Range<usize>], wanted: Range<u64>, runs: usize) -> Box<[Unit]> {
    let segments = &groups[wanted.start as usize..wanted.end as usize];
    let mut units = Vec::with_capacity(segments.len() * runs);
    let mut first = wanted.start;
    for neighbours in segments.chunk_by(|a, b| a.start == b.start) {
        let end = first + neighbours.len() as u64;
        units.extend((0..runs).flat_map(|run| (first..end).map(move |group| Unit { group, run })));
        first = end;
    }
    units.into()
}

/// The node that has more than half of a group's panels.
fn home_of(source: &impl Source, group: u64, nodes: usize) -> Option<usize> {
    if nodes == 1 {
        return Some(0);
    }
    let mut panels = vec![0u32; nodes];
    let columns = (0..source.columns()).map(Factor::Column);
    for factor in columns.chain([Factor::Mask]) {
        panels[source.home(group, factor)?] += 1;
    }
    let all: u32 = panels.iter().sum();
    panels.iter().position(|&there| there > all / 2)
}
