//! The backend that counts on the threads that advance it: a [`Count`] has tasks, and any thread may do the next one,
//! one per step.
//!
//! A task is a tile over one [shard](crate::shards); its moments, modulo all limbs, leave through the sink at once, so
//! that memory in use does not grow with the answer. The sink may end the count (its client disconnected): no further
//! task starts then.
//!
//! A *unit* is one pass of the plan over one shard. Its home is the node that holds most of the shard. [`Units`]
//! decides which unit is next: those of a thread's own node first, one tile after another, so that one pass reads each
//! panel while it is in reach of all tiles. A unit has as many parts as there are tiles: no state is kept for each pair
//! of them.
//!
//! If the source does not have everything in memory, units become ready as their panels arrive and are released with
//! their last task. Passes run over the shards that start in one segment after another: these share its panels, and the
//! next pass some of the columns.

mod evaluate;
mod passes;
mod program;
mod tiles;
mod traffic;

pub use evaluate::Workspace;
pub use tiles::Tiles;
pub use traffic::Traffic;

use crate::backend::{self, Backend, EngineError, Job, Moments, Reserve, Sink, Step};
use crate::plan::{Plan, shards};
use crate::queue::{Claim, Counters, Units};
use crate::source::{Source, Wanted, segments_of};
use oboro_arena::{CpuAssignment, Distances};
use oboro_ring::{Blocks, Column, Factor, Limb};
use oboro_store::{Reads, StoreError, Stream, WorkUnit};
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use tiles::{Pass, Tile};

/// Approximate bytes kept for a unit, here and in the source.
const UNIT_BYTES: usize = 200;
/// The most units of one count: with more it would read its columns hundreds of times.
const MOST_UNITS: usize = 1 << 18;

/// Counts on the threads that advance it.
pub struct Cpu {
    distances: Distances,
    workspaces: Arc<Workspaces>,
}

impl Cpu {
    /// On nodes with these distances.
    pub fn new(distances: Distances) -> Self {
        Self {
            workspaces: Arc::new(Workspaces::of(distances.nodes())),
            distances,
        }
    }
}

impl<S: Source + 'static> Backend<S> for Cpu {
    fn start(
        &self,
        job: Job<S>,
        reserve: &mut Reserve<'_>,
    ) -> Result<Box<dyn backend::RunningJob>, EngineError> {
        // With several nodes each makes a copy of the tiles.
        let copies = match self.distances.nodes() {
            1 => 1,
            nodes => 1 + nodes,
        };
        let limbs = job.plan.limbs();
        let factors = job.source.factors_at_a_time(limbs, &job.shards);
        let tiles = Tiles::within(&job.plan, factors, &mut |bytes| reserve(copies * bytes))?;
        reserve(job.shards.len() * tiles.passes().len() * UNIT_BYTES)?;
        let count = Count::of_tiles(job.source, tiles, &self.distances, job.shards)?;
        let wake = job.wake;
        count.on_ready(move || wake());
        let workspaces = Arc::clone(&self.workspaces);
        Ok(Box::new(CpuRun { count, workspaces }))
    }
}

/// A count that threads advance without workspaces of their own.
struct CpuRun<S> {
    count: Count<S>,
    workspaces: Arc<Workspaces>,
}

impl<S: Source> backend::RunningJob for CpuRun<S> {
    fn has_task(&self) -> bool {
        self.count.has_task()
    }

    fn step(&self, node: usize, sink: &mut Sink<'_>) -> Result<Step, EngineError> {
        let step = |workspace: &mut Workspace| self.count.step(workspace, sink);
        self.workspaces.lend(node, step)
    }

    fn reads(&self) -> Option<Reads> {
        self.count.reads()
    }
}

/// The idle workspaces, by node: as many as threads have ever been in a step at a time.
struct Workspaces(Box<[Mutex<Vec<Workspace>>]>);

impl Workspaces {
    fn of(nodes: usize) -> Self {
        Self((0..nodes).map(|_| Mutex::default()).collect())
    }

    /// Runs `work` with a workspace for a thread on a node. If it panics the workspace is dropped.
    fn lend<T>(&self, node: usize, work: impl FnOnce(&mut Workspace) -> T) -> T {
        let idle = self.0[node].lock().pop();
        let mut workspace = idle.unwrap_or_else(|| Workspace::on(node));
        let done = work(&mut workspace);
        self.0[node].lock().push(workspace);
        done
    }
}

/// How a count ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All moments went to the sink.
    Complete,
    /// The sink stopped it.
    Stopped,
}

/// A question being answered, on a machine with one or more nodes.
pub struct Count<S> {
    source: Arc<S>,
    /// A copy for each node, made by the first of its threads that needs it.
    copies: Box<[OnceLock<Tiles>]>,
    tiles: Arc<Tiles>,
    segments: Vec<Blocks>,
    shards: Vec<Blocks>,
    shard_passes: Box<[ShardPass]>,
    /// Shards before the last ones, whose tasks are smaller.
    shards_of_whole_tiles: usize,
    /// Which unit is next.
    units: Arc<Units>,
    /// If not everything is in memory.
    streaming: Option<Streaming>,
    /// Tasks whose moments the sink has not taken.
    left: AtomicUsize,
    traffic: Traffic,
}

/// A unit: the least that is in memory at a time.
struct ShardPass {
    shard: usize,
    pass: usize,
}

/// Units in flight, and units in memory as long as they have tasks.
struct Streaming {
    stream: Stream,
    /// For each unit, the number of unfinished tasks.
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
    /// As [`of_tiles`](Self::of_tiles).
    ///
    /// # Panics
    /// As [`of_tiles`](Self::of_tiles).
    pub fn new(source: Arc<S>, plan: &Plan, distances: &Distances) -> Result<Self, EngineError> {
        let end = source.segments().last().map_or(0, |it| it.end);
        let shards = shards(&[(0..end).into()], source.parameters().shard_blocks());
        Self::of_shards(source, plan, distances, shards)
    }

    /// The same over these shards, of which none overlaps the next.
    ///
    /// # Errors
    /// As [`of_tiles`](Self::of_tiles).
    ///
    /// # Panics
    /// As [`of_tiles`](Self::of_tiles).
    pub fn of_shards(
        source: Arc<S>,
        plan: &Plan,
        distances: &Distances,
        shards: Vec<Blocks>,
    ) -> Result<Self, EngineError> {
        let factors = source.factors_at_a_time(plan.limbs(), &shards);
        Self::of_tiles(source, Tiles::new(plan, factors), distances, shards)
    }

    /// The same of a plan that was cut into tiles already.
    ///
    /// # Errors
    /// More limbs than there are, no shard, shards with blocks that do not exist, a plan with so many passes that its
    /// units would take too much memory.
    ///
    /// # Panics
    /// If the source has residues on a node that is none of these.
    pub fn of_tiles(
        source: Arc<S>,
        tiles: impl Into<Arc<Tiles>>,
        distances: &Distances,
        shards: Vec<Blocks>,
    ) -> Result<Self, EngineError> {
        let tiles = tiles.into();
        let limbs = source.parameters().limb_count();
        if tiles.limbs() > limbs {
            return Err(EngineError::Limbs {
                wanted: tiles.limbs(),
                limbs,
            });
        }
        let segments = source.segments();
        let blocks = segments.last().map_or(0, |it| it.end);
        if shards.is_empty() || shards.iter().any(|it| it.is_empty() || it.end > blocks) {
            return Err(EngineError::Empty);
        }
        let of_shards: Vec<Range<usize>> = shards
            .iter()
            .map(|&it| segments_of(&segments, it))
            .collect();
        let count = shards.len() * tiles.passes().len();
        if count > MOST_UNITS {
            return Err(EngineError::Units {
                wanted: count,
                most: MOST_UNITS,
            });
        }
        let nodes = distances.nodes();
        // So that every node ends with small tasks.
        let shards_of_whole_tiles = shards.len().saturating_sub(nodes);
        let home = |&shard: &Blocks| home_of(&*source, shard, nodes);
        let homes: Vec<Option<usize>> = shards.iter().map(home).collect();
        let shard_passes = shard_passes(&of_shards, tiles.passes().len());
        let parts =
            |shard_pass: &ShardPass| tiles_of(&tiles, shard_pass, shards_of_whole_tiles).len();
        let tasks = shard_passes.iter().map(parts).sum();
        let wanted = || Wanted {
            passes: tiles.passes().iter().map(Pass::factors).collect(),
            units: shard_passes
                .iter()
                .map(|shard_pass| WorkUnit {
                    segments: of_shards[shard_pass.shard].clone(),
                    pass: shard_pass.pass,
                })
                .collect(),
        };
        let is_resident = tasks == 0 || source.is_in_memory(tiles.limbs(), &wanted);
        let of_passes = shard_passes.iter().map(|it| (homes[it.shard], parts(it)));
        let units = Arc::new(Units::new(distances, of_passes, is_resident));
        let streaming = if is_resident {
            None
        } else {
            Some(Streaming {
                left: shard_passes
                    .iter()
                    .map(|shard_pass| parts(shard_pass).into())
                    .collect(),
                stream: {
                    let units = Arc::clone(&units);
                    let listener = Arc::new(move |arrival| units.take(arrival));
                    source.stream(tiles.limbs(), wanted(), listener)?
                },
            })
        };
        Ok(Self {
            copies: (0..nodes).map(|_| OnceLock::new()).collect(),
            units,
            streaming,
            traffic: Traffic::new(nodes),
            left: AtomicUsize::new(tasks),
            source,
            tiles,
            segments,
            shards,
            shard_passes,
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
        match self.units.claim(workspace.node()) {
            Some(claim) => self.carry_out(&claim, workspace, sink),
            None => match self.units.take_failure() {
                Some(error) => Err(error.into()),
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
        let shard_pass = &self.shard_passes[claim.unit];
        let shard = shard_pass.shard;
        let tiles = self.tiles_on(node);
        let tile = &tiles_of(tiles, shard_pass, self.shards_of_whole_tiles)[claim.part];
        self.evaluate(tile, self.shards[shard], workspace)
            .inspect_err(|_| self.stop())?;
        if let Some(streaming) = &self.streaming {
            streaming.task_done(claim.unit);
        }
        let taken = sink(Moments {
            shard,
            moments: &tile.moments,
            scalars: tile.scalar_count,
            limbs: tiles.limbs(),
            residues: workspace.residues(),
        });
        if taken.is_break() {
            self.stop();
            return Ok(Step::Exhausted);
        }
        Ok(match self.left.fetch_sub(1, Ordering::AcqRel) {
            1 => Step::Finished,
            _ => Step::Advanced,
        })
    }

    /// Whether a step would do something now: a task is ready, or there is an error to report.
    pub fn has_task(&self) -> bool {
        self.units.has_ready()
    }

    /// Calls `on_ready`, on any thread, whenever [`has_task`](Self::has_task) may have become true. Only the
    /// first who asks is told.
    pub fn on_ready(&self, on_ready: impl Fn() + Send + Sync + 'static) {
        if self.streaming.is_some() {
            self.units.on_ready(on_ready);
        }
    }

    /// What was read from disk so far and what was found in memory; `None` if everything was in memory.
    pub fn reads(&self) -> Option<Reads> {
        let streaming = self.streaming.as_ref();
        streaming.map(|streaming| streaming.stream.reads())
    }

    /// No further task starts; those in flight finish.
    pub fn stop(&self) {
        self.units.stop();
    }

    /// Whether nothing is left to claim: no step does anything from now on.
    pub fn is_exhausted(&self) -> bool {
        self.units.is_exhausted()
    }

    /// The bytes of residues that tasks have read so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Where tasks ran so far. The bytes that they read are in [`traffic`](Self::traffic).
    pub fn counters(&self) -> Counters {
        self.units.counters()
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
            // Unpinned it counts as well, only farther from the memory.
            let _ = assignment.apply();
            let mut workspace = Workspace::on(assignment.node);
            loop {
                let seen = self.units.signal.now();
                match self.step(&mut workspace, sink)? {
                    Step::Advanced => {}
                    Step::Waiting => self.units.signal.wait(seen),
                    Step::Finished | Step::Exhausted => {
                        // Sleeping threads have to end too.
                        self.units.signal.wake_all();
                        return Ok(());
                    }
                }
            }
        };
        thread::scope(|scope| {
            // The other threads would wait for ever for a shard whose thread panicked.
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

    /// The node's copy of the tiles, if there are several nodes.
    fn tiles_on(&self, node: usize) -> &Tiles {
        match self.copies.len() {
            1 => &self.tiles,
            _ => self.copies[node].get_or_init(|| Tiles::clone(&self.tiles)),
        }
    }

    /// Leaves the residues in the workspace.
    fn evaluate(
        &self,
        tile: &Tile,
        blocks: Blocks,
        workspace: &mut Workspace,
    ) -> Result<(), StoreError> {
        let parameters = self.source.parameters();
        self.note_traffic(workspace.node(), tile, blocks);
        workspace.begin(tile, self.tiles.limbs(), parameters.degree());
        for limb in Limb::first(self.tiles.limbs()) {
            let batch = workspace.batch();
            batch.fill(&*self.source, &self.segments, blocks, limb, &tile.factors)?;
            workspace.evaluate(tile, &parameters.limb_moduli()[limb], limb.0);
        }
        Ok(())
    }

    fn note_traffic(&self, node: usize, tile: &Tile, blocks: Blocks) {
        let residues = blocks.len() * self.source.parameters().degree() as u64;
        let bytes = residues * self.tiles.limbs() as u64 * size_of::<u32>() as u64;
        if self.copies.len() == 1 {
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
fn tiles_of<'t>(
    tiles: &'t Tiles,
    shard_pass: &ShardPass,
    shards_of_whole_tiles: usize,
) -> &'t [Tile] {
    let pass = &tiles.passes()[shard_pass.pass];
    if shard_pass.shard < shards_of_whole_tiles {
        pass.tiles()
    } else {
        pass.last_tiles()
    }
}

/// All passes over all shards, given the segments of each: shards that start in one segment are grouped.
fn shard_passes(shards: &[Range<usize>], passes: usize) -> Box<[ShardPass]> {
    let mut shard_passes = Vec::with_capacity(shards.len() * passes);
    let mut first = 0;
    for neighbours in shards.chunk_by(|a, b| a.start == b.start) {
        let end = first + neighbours.len();
        shard_passes.extend(
            (0..passes).flat_map(|pass| (first..end).map(move |shard| ShardPass { shard, pass })),
        );
        first = end;
    }
    shard_passes.into()
}

/// The node that has more than half of the panels where a shard starts.
fn home_of(source: &impl Source, shard: Blocks, nodes: usize) -> Option<usize> {
    if nodes == 1 {
        return Some(0);
    }
    let mut panels = vec![0u32; nodes];
    let columns = Column::first(source.columns()).map(Factor::Column);
    for factor in columns.chain([Factor::Mask]) {
        panels[source.home(shard.start, factor)?] += 1;
    }
    let all: u32 = panels.iter().sum();
    panels.iter().position(|&there| there > all / 2)
}
