//! The interface between a question and the backend that answers it.
//!
//! A [`Backend`] is given a [`Job`] and makes a [`RunningJob`] of it, which the server's threads advance one step at a time.
//! How a job is cut into tasks, where they run and what a step does are up to the backend: the CPU's steps compute,
//! those of remote workers take what has arrived. The contract in full is in `docs/backends.md`.

pub(crate) mod cpu;

use crate::plan::Plan;
use crate::source::{Source, segments_of};
use oboro_format::wording::MEMORY;
use oboro_ring::{Blocks, Factor, Limb};
use oboro_store::{Panel, Reads, StoreError};
use std::error::Error;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use thiserror::Error;

/// Counts.
pub trait Backend<S>: Send + Sync {
    /// Starts a job. Called on a thread that must not block. `reserve` is asked for the memory of its plan piece by
    /// piece, so that at most the piece being made is not reserved yet. Panels and moments in flight are not included.
    ///
    /// # Errors
    /// A job that is impossible, or does not fit into memory.
    fn start(
        &self,
        job: Job<S>,
        reserve: &mut Reserve<'_>,
    ) -> Result<Box<dyn RunningJob>, EngineError>;
}

/// Reserves this many more bytes, or returns the error that [`Backend::start`] must return.
pub type Reserve<'r> = dyn FnMut(usize) -> Result<(), EngineError> + 'r;

/// What is to be counted.
pub struct Job<S> {
    /// The dataset.
    pub source: Arc<S>,
    /// Which moments.
    pub plan: Arc<Plan>,
    /// Over these runs of blocks, none empty: every moment of the plan over each of them.
    pub shards: Vec<Blocks>,
    /// To be called, on any thread, whenever [`RunningJob::has_task`] may have become true other than by a step.
    pub wake: Wake,
}

/// Tells whoever advances a run that it may have a task again.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Takes moments; one that breaks stops the run.
pub type Sink<'s> = dyn FnMut(Moments<'_>) -> ControlFlow<()> + 's;

/// A job in progress. Dropping it cancels the rest.
pub trait RunningJob: Send + Sync {
    /// Whether a step would do something now, or report an error.
    fn has_task(&self) -> bool;

    /// Does a task on the calling thread, which runs on `node`, if one is ready, and lends its moments to `sink`. Steps may
    /// run on any number of threads at a time. Moments come in any order and in any batches, each
    /// moment of each shard once.
    ///
    /// # Errors
    /// A job that cannot continue; no moments follow.
    fn step(&self, node: usize, sink: &mut Sink<'_>) -> Result<Step, EngineError>;

    /// What was read from local disk and what was found in memory; `None` if nothing is read.
    fn reads(&self) -> Option<Reads> {
        None
    }
}

/// What one step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A task: the sink has taken its moments.
    Advanced,
    /// The last task to end: the sink has taken all moments of the job. Exactly one step returns this.
    Finished,
    /// Nothing: the remaining tasks are not ready.
    Waiting,
    /// Nothing: every task is claimed already, or the run was stopped.
    Exhausted,
}

/// Some moments of a plan over one shard, lent by the backend that computed them.
#[derive(Debug, PartialEq, Eq)]
pub struct Moments<'w> {
    /// The index of the shard among those of the job.
    pub shard: usize,
    /// Which moments, ascending in canonical order: scalars come first.
    pub moments: &'w [usize],
    /// How many of them are scalars.
    pub scalars: usize,
    /// The number of limbs.
    pub limbs: usize,
    /// Moment after moment, each limb after limb: one residue of a scalar, the sum of its evaluation form, and `N` of a
    /// polynomial in evaluation form. The borrower may use it as scratch space.
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

/// A job that could not be done.
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
        "with the memory that the server may use, counting these itemsets would take {wanted} passes over shards, \
         more than {most}; request fewer itemsets at a time, or have the server given more memory ({MEMORY})"
    )]
    Units { wanted: usize, most: usize },
    /// An error of the backend's own.
    #[error(transparent)]
    Backend(Box<dyn Error + Send + Sync>),
}

/// The panels of some factors over one shard modulo one limb: the form in which a backend gets residues. If it is
/// reused for the next shard, filling it allocates nothing.
#[derive(Default)]
pub struct Batch {
    factors: usize,
    /// For each segment that has blocks of the shard, the panel of each factor.
    panels: Vec<Arc<Panel>>,
    /// For each such segment the shard's blocks in it, counted from the segment's first.
    blocks: Vec<Range<usize>>,
}

impl Batch {
    /// Takes the panels of a shard, given the source's segments.
    ///
    /// # Errors
    /// A panel that cannot be read; the batch is empty then.
    pub fn fill<S: Source + ?Sized>(
        &mut self,
        source: &S,
        segments: &[Blocks],
        shard: Blocks,
        limb: Limb,
        factors: &[Factor],
    ) -> Result<(), StoreError> {
        self.clear();
        self.factors = factors.len();
        for segment in segments_of(segments, shard) {
            for &factor in factors {
                let panel = source.panel(segment, limb, factor);
                let panel = panel.inspect_err(|_| self.clear())?;
                self.panels.push(panel);
            }
            let blocks = segments[segment];
            let here = shard.intersection(blocks);
            self.blocks.push(here.indices_in(blocks));
        }
        Ok(())
    }

    /// Drops the panels.
    pub fn clear(&mut self) {
        self.panels.clear();
        self.blocks.clear();
    }

    /// Block after block, and in it factor after factor: the `degree` residues, in evaluation form.
    pub fn rows(&self, degree: usize) -> impl Iterator<Item = &[u32]> {
        let segments = self.panels.chunks(self.factors.max(1)).zip(&self.blocks);
        segments.flat_map(move |(panels, blocks)| {
            let of_block = move |block: usize| {
                let panels = panels.iter();
                panels.map(move |panel| panel.blocks(block..block + 1, degree))
            };
            blocks.clone().flat_map(of_block)
        })
    }
}
