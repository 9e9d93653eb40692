//! Runs a plan: a [`Count`] is a row of tasks that any thread may advance, one step at a time.
//!
//! A task is a tile over one group of blocks modulo one limb; its moments leave through the sink
//! at once, so that memory in use does not grow with the answer. The sink may end the count (its
//! client went away): no further task starts then.

use crate::evaluate::{Piece, Workspace, evaluate};
use crate::plan::{Plan, Tile};
use crate::source::{Segment, Source};
use oboro_store::StoreError;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use thiserror::Error;

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
}

/// A part of the moments of a plan, lent by the workspace that it was computed in. Parts with the
/// same moments and limb over other blocks of the same group add up modulo the limb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moments<'w> {
    /// The limb the residues belong to.
    pub limb: usize,
    /// The blocks summed over; within one group.
    pub blocks: Range<u64>,
    /// Which moments, in canonical order; all with the same power of the mask.
    pub moments: Range<usize>,
    /// One residue for each scalar moment, `N` in evaluation form for each polynomial one.
    pub residues: &'w [u32],
}

/// What one step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A task: the sink has taken its moments.
    Advanced,
    /// The last task to end: the sink has taken all moments of the count. One step says so.
    Finished,
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

/// A question being answered. Its tasks are numbered limb by limb, since limbs share no data, then
/// group by group, so that one pass reads each panel while it is in reach of all tiles.
pub struct Count<S> {
    source: Arc<S>,
    plan: Plan,
    segments: Vec<Segment>,
    blocks: u64,
    tasks: usize,
    /// The first task that nobody has claimed.
    next: AtomicUsize,
    /// Tasks whose moments the sink has not taken.
    left: AtomicUsize,
    stopped: AtomicBool,
}

struct Task<'c> {
    tile: &'c Tile,
    limb: usize,
    blocks: Range<u64>,
}

impl<S: Source> Count<S> {
    /// The count that evaluates `plan` on `source`; nothing is computed yet.
    ///
    /// # Errors
    /// More limbs than there are, a source without blocks.
    pub fn new(source: Arc<S>, plan: Plan) -> Result<Self, EngineError> {
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
        let groups = blocks.div_ceil(source.parameters().group_blocks()) as usize;
        let tasks = plan.limbs() * groups * plan.tiles().len();
        Ok(Self {
            source,
            plan,
            segments,
            blocks,
            tasks,
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(tasks),
            stopped: AtomicBool::new(false),
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
        mut sink: impl FnMut(Moments<'_>) -> ControlFlow<()>,
    ) -> Result<Step, EngineError> {
        let Some(task) = self.claim() else {
            return Ok(Step::Exhausted);
        };
        let residues = task
            .residues(self, workspace)
            .inspect_err(|_| self.stop())?;
        let taken = sink(Moments {
            limb: task.limb,
            blocks: task.blocks,
            moments: task.tile.moments.clone(),
            residues: &residues,
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

    /// No further task starts; those under way end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether there is nothing left to claim: no step does anything from now on.
    pub fn is_exhausted(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.next.load(Ordering::Relaxed) >= self.tasks
    }

    /// Steps on `threads` threads until no task is left; `sink` is called from any of them.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run(
        &self,
        threads: NonZero<usize>,
        sink: &(dyn Fn(Moments<'_>) -> ControlFlow<()> + Sync),
    ) -> Result<Outcome, EngineError> {
        let work = || -> Result<(), EngineError> {
            let mut workspace = Workspace::default();
            while self.step(&mut workspace, sink)? != Step::Exhausted {}
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads.get().min(self.tasks))
                .map(|_| scope.spawn(work))
                .collect();
            let own = work();
            others
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .fold(own, Result::and)
        })?;
        Ok(match self.left.load(Ordering::Acquire) {
            0 => Outcome::Complete,
            _ => Outcome::Stopped,
        })
    }

    fn claim(&self) -> Option<Task<'_>> {
        if self.is_exhausted() {
            return None;
        }
        let task = self.next.fetch_add(1, Ordering::Relaxed);
        let (tiles, group) = (self.plan.tiles(), self.source.parameters().group_blocks());
        (task < self.tasks).then(|| {
            let tasks_per_limb = self.tasks / self.plan.limbs();
            let (limb, task) = (task / tasks_per_limb, task % tasks_per_limb);
            let start = (task / tiles.len()) as u64 * group;
            Task {
                tile: &tiles[task % tiles.len()],
                limb,
                blocks: start..self.blocks.min(start + group),
            }
        })
    }
}

impl Task<'_> {
    fn residues<S: Source>(
        &self,
        count: &Count<S>,
        workspace: &mut Workspace,
    ) -> Result<Vec<u32>, StoreError> {
        let parameters = count.source.parameters();
        let pieces = count
            .segments
            .iter()
            .enumerate()
            .filter_map(|(segment, s)| {
                let start = self.blocks.start.max(s.first_block);
                let end = self.blocks.end.min(s.first_block + s.blocks);
                (start < end).then(|| {
                    (
                        segment,
                        (start - s.first_block) as usize..(end - s.first_block) as usize,
                    )
                })
            })
            .map(|(segment, blocks)| {
                let panels = self
                    .tile
                    .factors
                    .iter()
                    .map(|&f| count.source.panel(segment, self.limb, f))
                    .collect::<Result<_, _>>()?;
                Ok(Piece { blocks, panels })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        let q = &parameters.limb_moduli()[self.limb];
        Ok(evaluate(
            self.tile,
            q,
            parameters.degree(),
            &pieces,
            workspace,
        ))
    }
}
