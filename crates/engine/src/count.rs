//! Runs a plan: tasks over threads, moments out as they are done.
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
use std::sync::Mutex;
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
}

/// A part of the moments of a plan. Parts with the same moments and limb over other blocks of the
/// same group add up modulo the limb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moments {
    /// The limb the residues belong to.
    pub limb: usize,
    /// The blocks summed over; within one group.
    pub blocks: Range<u64>,
    /// Which moments, in canonical order; all with the same power of the mask.
    pub moments: Range<usize>,
    /// One residue for each scalar moment, `N` in evaluation form for each polynomial one.
    pub residues: Vec<u32>,
}

/// How a count ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All moments went to the sink.
    Complete,
    /// The sink wanted no more.
    Stopped,
}

/// Evaluates `plan` on `threads` threads, each with its own buffers; `sink` takes the parts from
/// any of them, in no particular order.
pub fn count<S: Source>(
    source: &S,
    plan: &Plan,
    threads: NonZero<usize>,
    sink: &(dyn Fn(Moments) -> ControlFlow<()> + Sync),
) -> Result<Outcome, EngineError> {
    let limbs = source.parameters().limb_count();
    if plan.limbs() > limbs {
        return Err(EngineError::Limbs {
            wanted: plan.limbs(),
            limbs,
        });
    }
    let segments = source.segments();
    let tasks = Tasks::new(source, plan, &segments);
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let work = || {
        let mut workspace = Workspace::default();
        while !stopped.load(Ordering::Relaxed) {
            let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let sent = task.run(source, &segments, &mut workspace).map(sink);
            match sent {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => stopped.store(true, Ordering::Relaxed),
                Err(error) => {
                    stopped.store(true, Ordering::Relaxed);
                    failure
                        .lock()
                        .expect("no thread panics with the lock")
                        .get_or_insert(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.get().min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    match failure
        .into_inner()
        .expect("no thread panics with the lock")
    {
        Some(error) => Err(error.into()),
        None if stopped.into_inner() => Ok(Outcome::Stopped),
        None => Ok(Outcome::Complete),
    }
}

/// All tasks of a plan, numbered: limb by limb, since limbs share no data, then group by group,
/// so that one pass reads each panel while it is in reach of all tiles.
struct Tasks<'a> {
    plan: &'a Plan,
    blocks: u64,
    group: u64,
}

struct Task<'a> {
    tile: &'a Tile,
    limb: usize,
    blocks: Range<u64>,
}

impl<'a> Tasks<'a> {
    fn new(source: &impl Source, plan: &'a Plan, segments: &[Segment]) -> Self {
        let blocks = segments.last().map_or(0, |s| s.first_block + s.blocks);
        Self {
            plan,
            blocks,
            group: source.parameters().group_blocks(),
        }
    }

    fn groups(&self) -> usize {
        self.blocks.div_ceil(self.group) as usize
    }

    fn len(&self) -> usize {
        self.plan.limbs() * self.groups() * self.plan.tiles().len()
    }

    fn get(&self, task: usize) -> Option<Task<'a>> {
        let tiles = self.plan.tiles();
        (task < self.len()).then(|| {
            let (limb, task) = (
                task / (self.groups() * tiles.len()),
                task % (self.groups() * tiles.len()),
            );
            let start = (task / tiles.len()) as u64 * self.group;
            Task {
                tile: &tiles[task % tiles.len()],
                limb,
                blocks: start..self.blocks.min(start + self.group),
            }
        })
    }
}

impl Task<'_> {
    fn run(
        &self,
        source: &impl Source,
        segments: &[Segment],
        workspace: &mut Workspace,
    ) -> Result<Moments, StoreError> {
        let parameters = source.parameters();
        let pieces = segments
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
                    .map(|&f| source.panel(segment, self.limb, f))
                    .collect::<Result<_, _>>()?;
                Ok(Piece { blocks, panels })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        let q = &parameters.limb_moduli()[self.limb];
        let residues = evaluate(self.tile, q, parameters.degree(), &pieces, workspace);
        Ok(Moments {
            limb: self.limb,
            blocks: self.blocks.clone(),
            moments: self.tile.moments.clone(),
            residues,
        })
    }
}
