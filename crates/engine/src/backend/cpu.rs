//! Backend that counts on the threads that advance it: a [`Count`] has tasks, and any thread runs the next one, one per
//! step.
//!
//! A task is a tile over one [shard](crate::shards). Its moments, modulo all limbs, leave through the sink at once:
//! memory in use does not grow with the answer. The sink may stop the count (its client disconnected); no further task
//! starts then.
//!
//! A *unit* is one pass of the plan over one shard. Its home is the node that holds most of the shard. [`Units`]
//! decides which unit is next: those of a thread's own node first, tile after tile. One pass thus reads each panel
//! while it is cached for all tiles. A unit has as many parts as the pass has tiles; pairs of them need no state.
//!
//! If the source does not have everything in memory, units become ready as their panels arrive and are released with
//! their last task. Passes run over the shards that start in one segment after another: these share its panels. The
//! next pass shares some of the columns.

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
use crate::source::{MemoryNeeds, Source, segments_of};
use oboro_arena::{CpuAssignment, Distances};
use oboro_residency::{Reads, ResidencyError, Stream, WorkUnit};
use oboro_ring::{Blocks, Column, Factor, Limb};
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use tiles::{Pass, Tile};

/// Approximate bytes per unit, here and in the source.
const UNIT_BYTES: usize = 200;
/// Largest number of units of one count; more would read its columns hundreds of times.
const MOST_UNITS: usize = 1 << 18;

/// Counts on the threads that advance it.
pub struct Cpu {
    distances: Distances,
    workspaces: Arc<Workspaces>,
}

impl Cpu {
    /// Returns a backend for nodes with these distances.
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
        // Each of several nodes makes a copy of the tiles.
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

/// Count advanced by threads without workspaces of their own.
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

/// Idle workspaces, by node: as many as threads were ever in a step at a time.
struct Workspaces(Box<[Mutex<Vec<Workspace>>]>);

impl Workspaces {
    fn of(nodes: usize) -> Self {
        Self((0..nodes).map(|_| Mutex::default()).collect())
    }

    /// Runs `work` with a workspace for a thread on a node. A panic drops the workspace.
    fn lend<T>(&self, node: usize, work: impl FnOnce(&mut Workspace) -> T) -> T {
        let idle = self.0[node].lock().pop();
        let mut workspace = idle.unwrap_or_else(|| Workspace::on(node));
        let done = work(&mut workspace);
        self.0[node].lock().push(workspace);
        done
    }
}

/// Outcome of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All moments went to the sink.
    Complete,
    /// The sink stopped the count.
    Stopped,
}

/// Count in progress, on a machine with one or more nodes.
pub struct Count<S> {
    source: Arc<S>,
    /// Copy for each node, made by the first of its threads that needs it.
    copies: Box<[OnceLock<Tiles>]>,
    tiles: Arc<Tiles>,
    segments: Vec<Blocks>,
    shards: Vec<Blocks>,
    shard_passes: Box<[ShardPass]>,
    /// Number of shards before the last ones, whose tasks are smaller.
    shards_of_whole_tiles: usize,
    /// Scheduling of the units.
    units: Arc<Units>,
    /// Stream of panels, unless everything is in memory.
    streaming: Option<Streaming>,
    /// Number of tasks whose moments the sink has not taken.
    left: AtomicUsize,
    traffic: Traffic,
}

/// Unit: the least that is in memory at a time.
struct ShardPass {
    shard: usize,
    pass: usize,
}

/// Units in flight, and units in memory as long as they have tasks.
struct Streaming {
    stream: Stream,
    /// Number of unfinished tasks of each unit.
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
    /// Prepares the evaluation of `plan` on all of `source`, on nodes with these distances; computes nothing yet.
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

    /// As [`new`](Self::new), over these shards only, of which none overlaps the next.
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

    /// As [`of_shards`](Self::of_shards), for a plan already cut into tiles.
    ///
    /// # Errors
    /// The plan has more limbs than the source, no shard is given, or a shard has blocks that do not exist. The passes
    /// are too many for the memory of their units.
    ///
    /// # Panics
    /// If the source has residues on none of these nodes.
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
        // Every node ends with small tasks.
        let shards_of_whole_tiles = shards.len().saturating_sub(nodes);
        let home = |&shard: &Blocks| home_of(&*source, shard, nodes);
        let homes: Vec<Option<usize>> = shards.iter().map(home).collect();
        let shard_passes = shard_passes(&of_shards, tiles.passes().len());
        let parts =
            |shard_pass: &ShardPass| tiles_of(&tiles, shard_pass, shards_of_whole_tiles).len();
        let tasks = shard_passes.iter().map(parts).sum();
        let wanted = || MemoryNeeds {
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

    /// Claims the next task, evaluates it in `workspace` on the calling thread and lends its moments to `sink`. Any
    /// number of threads may step concurrently, each with its own workspace; moments come in no particular order. A
    /// sink that breaks stops the count.
    ///
    /// # Errors
    /// A panel cannot be read; the count is stopped.
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

    /// Returns true if a step would do work now: a task is ready, or an error is pending.
    pub fn has_task(&self) -> bool {
        self.units.has_ready()
    }

    /// Registers `on_ready`, called on any thread whenever [`has_task`](Self::has_task) may have become true. Later
    /// calls keep the first callback.
    pub fn on_ready(&self, on_ready: impl Fn() + Send + Sync + 'static) {
        if self.streaming.is_some() {
            self.units.on_ready(on_ready);
        }
    }

    /// Reads from disk and hits in memory so far; `None` if everything was in memory.
    pub fn reads(&self) -> Option<Reads> {
        let streaming = self.streaming.as_ref();
        streaming.map(|streaming| streaming.stream.reads())
    }

    /// Stops the count: no further task starts; those in flight finish.
    pub fn stop(&self) {
        self.units.stop();
    }

    /// Returns true if no task is left to claim: no step does anything from now on.
    pub fn is_exhausted(&self) -> bool {
        self.units.is_exhausted()
    }

    /// Bytes of residues that tasks have read so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Counts of tasks so far by where they ran. [`traffic`](Self::traffic) has the bytes that they read.
    pub fn counters(&self) -> Counters {
        self.units.counters()
    }

    /// Runs steps on a thread for each CPU assignment until no task is left; any of them calls `sink`.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run(
        &self,
        assignments: &[CpuAssignment],
        sink: &(dyn Fn(Moments<'_>) -> ControlFlow<()> + Sync),
    ) -> Result<Outcome, EngineError> {
        let work = |assignment: &CpuAssignment| -> Result<(), EngineError> {
            // An unpinned thread counts as well, only farther from the memory.
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
            // Without this, the other threads would wait forever for a shard whose thread panicked.
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

    /// The node's copy of the tiles if the machine has several nodes.
    fn tiles_on(&self, node: usize) -> &Tiles {
        match self.copies.len() {
            1 => &self.tiles,
            _ => self.copies[node].get_or_init(|| Tiles::clone(&self.tiles)),
        }
    }

    /// Evaluates a task; leaves the residues in the workspace.
    fn evaluate(
        &self,
        tile: &Tile,
        blocks: Blocks,
        workspace: &mut Workspace,
    ) -> Result<(), ResidencyError> {
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

/// Tiles of a unit.
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

/// Orders all passes over all shards, given the segments of each: shards that start in one segment are grouped.
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

/// Node that has more than half of the panels where a shard starts.
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
