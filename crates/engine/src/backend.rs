//! Interface between a counting job and the backend that runs it.
//!
//! A [`Backend`] turns a [`Job`] into a [`RunningJob`], which the server's threads advance one step at a time. The
//! backend decides how to cut a job into tasks and where they run. A step of the CPU computes; one of remote workers
//! takes results that have arrived. `docs/backends.md` has the full contract.

pub(crate) mod cpu;

use crate::plan::Plan;
use crate::source::{Source, segments_of};
use oboro_format::wording::MEMORY;
use oboro_residency::{Panel, Reads, ResidencyError};
use oboro_ring::{Blocks, Factor, Limb};
use std::error::Error;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use thiserror::Error;

/// Starts counting jobs.
pub trait Backend<S>: Send + Sync {
    /// Starts a job. Called on a thread that must not block. `reserve` is called for the memory of its plan piece by
    /// piece: at most one piece is not reserved yet. Panels and moments in flight are not included.
    ///
    /// # Errors
    /// The job is impossible, or does not fit into memory.
    fn start(
        &self,
        job: Job<S>,
        reserve: &mut Reserve<'_>,
    ) -> Result<Box<dyn RunningJob>, EngineError>;
}

/// Callback that reserves more bytes, or returns the error that [`Backend::start`] must return.
pub type Reserve<'r> = dyn FnMut(usize) -> Result<(), EngineError> + 'r;

/// Moments to be counted.
pub struct Job<S> {
    /// Dataset.
    pub source: Arc<S>,
    /// Moments.
    pub plan: Arc<Plan>,
    /// Runs of blocks, none empty; every moment of the plan is computed over each of them.
    pub shards: Vec<Blocks>,
    /// Callback, on any thread, for when [`RunningJob::has_task`] may have become true other than by a step.
    pub wake: Wake,
}

/// Wakes the scheduler: the job may be runnable again.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Takes moments; a break stops the job.
pub type Sink<'s> = dyn FnMut(Moments<'_>) -> ControlFlow<()> + 's;

/// Job in progress. Dropping it cancels the rest.
pub trait RunningJob: Send + Sync {
    /// Returns true if a step would do work now, or report an error.
    fn has_task(&self) -> bool;

    /// Runs a task, if one is ready, on the calling thread, which runs on `node`, and lends its moments to `sink`. Any
    /// number of threads may step concurrently. Moments come in any order and in any batches, each moment of each shard
    /// once.
    ///
    /// # Errors
    /// The job cannot continue; no moments follow.
    fn step(&self, node: usize, sink: &mut Sink<'_>) -> Result<Step, EngineError>;

    /// Reads from local disk and hits in memory so far; `None` if nothing is read.
    fn reads(&self) -> Option<Reads> {
        None
    }
}

/// Outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Task done; the sink has taken its moments.
    Advanced,
    /// Last task done; the sink has taken all moments of the job. Exactly one step returns this.
    Finished,
    /// No task: the remaining ones are not ready.
    Waiting,
    /// No task: all are claimed already, or the job was stopped.
    Exhausted,
}

/// Some moments of a plan over one shard, lent by the backend that computed them.
#[derive(Debug, PartialEq, Eq)]
pub struct Moments<'w> {
    /// Index of the shard among those of the job.
    pub shard: usize,
    /// Numbers of the moments, ascending in canonical order: scalars come first.
    pub moments: &'w [usize],
    /// Number of scalars among them.
    pub scalars: usize,
    /// Number of limbs.
    pub limbs: usize,
    /// Residues, moment after moment, each limb after limb. A scalar has one, the sum of its evaluation form; a
    /// polynomial has `N`, in evaluation form. The borrower may use them as scratch space.
    pub residues: &'w mut [u32],
}

impl Moments<'_> {
    /// Iterates over the moments: number and residues, limb after limb.
    pub fn each(&mut self) -> impl Iterator<Item = (usize, &mut [u32])> {
        let (scalars, polynomials) = self.residues.split_at_mut(self.scalars * self.limbs);
        let each = polynomials.len() / (self.moments.len() - self.scalars).max(1);
        let residues = scalars
            .chunks_exact_mut(self.limbs)
            .chain(polynomials.chunks_exact_mut(each.max(1)));
        self.moments.iter().copied().zip(residues)
    }
}

/// Error that stops a job.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum EngineError {
    #[error(transparent)]
    Residency(#[from] ResidencyError),
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
    /// Error specific to the backend.
    #[error(transparent)]
    Backend(Box<dyn Error + Send + Sync>),
}

/// Panels of some factors over one shard modulo one limb: the form in which a backend gets residues. Refilling it for
/// the next shard allocates nothing.
#[derive(Default)]
pub struct Batch {
    factors: usize,
    /// Panel of each factor, for each segment that has blocks of the shard.
    panels: Vec<Arc<Panel>>,
    /// The shard's blocks in each such segment, counted from the segment's first.
    blocks: Vec<Range<usize>>,
}

impl Batch {
    /// Takes the panels of a shard, given the source's segments.
    ///
    /// # Errors
    /// A panel cannot be read; the batch is then empty.
    pub fn fill<S: Source + ?Sized>(
        &mut self,
        source: &S,
        segments: &[Blocks],
        shard: Blocks,
        limb: Limb,
        factors: &[Factor],
    ) -> Result<(), ResidencyError> {
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

    /// Iterates over blocks, and in each over factors: the `degree` residues, in evaluation form.
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
