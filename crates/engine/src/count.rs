//! Runs a plan: a [`Count`] is a row of tasks that any thread may advance, one step at a time.
//!
//! A task is a tile over one group of blocks; its moments, modulo all limbs, leave through the sink
//! at once, so that memory in use does not grow with the answer. The sink may end the count (its
//! client went away): no further task starts then.

use crate::evaluate::Workspace;
use crate::plan::{Plan, Tile};
use crate::source::{Segment, Source};
use oboro_store::StoreError;
use std::num::NonZero;
use std::ops::ControlFlow;
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

/// A question being answered. Its tasks are numbered group by group, so that one pass reads each panel
/// while it is in reach of all tiles; those of the last group are smaller.
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
    group: u64,
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
        let tasks = (groups - 1) * plan.tiles().len() + plan.last_tiles().len();
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
        task.evaluate(self, workspace)
            .inspect_err(|_| self.stop())?;
        let taken = sink(Moments {
            group: task.group,
            moments: &task.tile.moments,
            scalars: task.tile.scalar_count,
            limbs: self.plan.limbs(),
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
        let (tiles, last) = (self.plan.tiles(), self.plan.last_tiles());
        let before_last = self.tasks - last.len();
        (task < self.tasks).then(|| match task.checked_sub(before_last) {
            None => Task {
                tile: &tiles[task % tiles.len()],
                group: (task / tiles.len()) as u64,
            },
            Some(place) => Task {
                tile: &last[place],
                group: (before_last / tiles.len().max(1)) as u64,
            },
        })
    }
}

impl Task<'_> {
    /// Leaves the residues in the workspace.
    fn evaluate<S: Source>(
        &self,
        count: &Count<S>,
        workspace: &mut Workspace,
    ) -> Result<(), StoreError> {
        let parameters = count.source.parameters();
        let first = self.group * parameters.group_blocks();
        let blocks = first..count.blocks.min(first + parameters.group_blocks());
        workspace.begin(self.tile, count.plan.limbs(), parameters.degree());
        for limb in 0..count.plan.limbs() {
            for (segment, s) in count.segments.iter().enumerate() {
                let start = blocks.start.max(s.first_block);
                let end = blocks.end.min(s.first_block + s.blocks);
                if start < end {
                    let local = (start - s.first_block) as usize..(end - s.first_block) as usize;
                    for &factor in &self.tile.factors {
                        workspace.read(count.source.panel(segment, limb, factor)?);
                    }
                    workspace.read_blocks(local);
                }
            }
            workspace.evaluate(self.tile, &parameters.limb_moduli()[limb], limb);
        }
        Ok(())
    }
}
