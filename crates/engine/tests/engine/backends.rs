//! The backend interface is sufficient: a backend that computes by definition, out of order and in odd batches, agrees
//! with the CPU's.

use oboro_arena::{Arena, Backing, Distances};
use oboro_engine::{
    Backend, Batch, Cpu, EngineError, Job, Moments, Plan, Reserve, RunningJob, Sink, Source, Step,
    Wake,
};
use oboro_residency::{Panel, ResidencyError};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Blocks, Column, Factor, Limb, Parameters, vector};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Source whose residues follow from their position; the panels of one column cannot be read.
struct Made {
    parameters: Parameters,
    unreadable: Option<u32>,
}

impl Made {
    fn new() -> Self {
        Self {
            parameters: Parameters::new(11, 2, 12_289).unwrap(),
            unreadable: None,
        }
    }
}

impl Source for Made {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn columns(&self) -> u32 {
        4
    }

    fn segments(&self) -> Vec<Blocks> {
        [0..5, 5..13, 13..15].map(Blocks::from).into()
    }

    fn panel(
        &self,
        segment: usize,
        limb: Limb,
        factor: Factor,
    ) -> Result<Arc<Panel>, ResidencyError> {
        let column = match factor {
            Factor::Mask => 4,
            Factor::Column(column) => column.0,
        };
        if self.unreadable == Some(column) {
            return Err(ResidencyError::Storage("unreadable".into()));
        }
        let q = self.parameters.limb_moduli()[limb].value();
        let len = self.segments()[segment].len() as usize * self.parameters.degree();
        let arena = Arena::reserve(Panel::footprint(len), Backing::default())?;
        let panel = Panel::build(&arena, len, column as usize, |out| {
            for (number, residue) in (0u32..).zip(out) {
                let position =
                    number ^ column << 24 ^ (segment as u32) << 20 ^ (limb.0 as u32) << 28;
                *residue = position.wrapping_mul(2_654_435_761) % q;
            }
            Ok::<_, ResidencyError>(())
        });
        panel.map(Arc::new)
    }
}

/// Backend that computes shards from the last to the first on its own thread, a moment at a time.
struct Scrambled;

/// Finished work: some moments of a shard and their residues.
type Done = (usize, Vec<usize>, Vec<u32>);

struct ScrambledRun {
    limbs: usize,
    index: Arc<MomentIndex>,
    done: Arc<Mutex<Vec<Result<Done, ResidencyError>>>>,
    /// Number of moments of shards that the sink has not taken.
    left: AtomicUsize,
}

impl Backend<Made> for Scrambled {
    fn start(
        &self,
        job: Job<Made>,
        reserve: &mut Reserve<'_>,
    ) -> Result<Box<dyn RunningJob>, EngineError> {
        reserve(job.plan.bytes())?;
        let done = Arc::default();
        let run = ScrambledRun {
            limbs: job.plan.limbs(),
            index: Arc::clone(job.plan.index()),
            left: AtomicUsize::new(job.shards.len() * job.plan.moments().len()),
            done: Arc::clone(&done),
        };
        thread::spawn(move || {
            for (shard, &blocks) in job.shards.iter().enumerate().rev() {
                // Batches of one, two and three moments, the last first.
                let mut moments = job.plan.moments();
                for size in [1, 2, 3].into_iter().cycle() {
                    let (before, some) = moments.split_at(moments.len().saturating_sub(size));
                    let residues = by_definition(&job.source, &job.plan, blocks, some);
                    let found = residues.map(|residues| (shard, some.to_vec(), residues));
                    done.lock().unwrap().push(found);
                    (job.wake)();
                    moments = before;
                    if moments.is_empty() {
                        break;
                    }
                }
            }
        });
        Ok(Box::new(run))
    }
}

impl RunningJob for ScrambledRun {
    fn has_task(&self) -> bool {
        !self.done.lock().unwrap().is_empty()
    }

    fn step(&self, _: usize, sink: &mut Sink<'_>) -> Result<Step, EngineError> {
        let Some(found) = self.done.lock().unwrap().pop() else {
            return Ok(match self.left.load(Ordering::SeqCst) {
                0 => Step::Exhausted,
                _ => Step::Waiting,
            });
        };
        let (shard, moments, mut residues) =
            found.map_err(|error| EngineError::Backend(Box::new(error)))?;
        let taken = sink(Moments {
            shard,
            scalars: moments.partition_point(|&moment| self.index.get(moment).0 == 0),
            moments: &moments,
            limbs: self.limbs,
            residues: &mut residues,
        });
        if taken.is_break() {
            return Ok(Step::Exhausted);
        }
        let left = self.left.fetch_sub(moments.len(), Ordering::SeqCst);
        Ok(match left - moments.len() {
            0 => Step::Finished,
            _ => Step::Advanced,
        })
    }
}

/// Computes `Σ_b a_b^r Π c_{b,i}`, the scalar as the sum of its evaluation form, with the panels of each moment in a
/// batch.
fn by_definition(
    source: &Made,
    plan: &Plan,
    blocks: Blocks,
    moments: &[usize],
) -> Result<Vec<u32>, ResidencyError> {
    let degree = source.parameters.degree();
    let mut batch = Batch::default();
    let mut all = Vec::new();
    for &moment in moments {
        let (power, columns) = plan.index().get(moment);
        let masks = std::iter::repeat_n(Factor::Mask, power);
        let columns = columns.iter().copied().map(Factor::Column);
        let factors: Vec<Factor> = masks.chain(columns).collect();
        for limb in 0..plan.limbs() {
            let q = &source.parameters.limb_moduli()[limb];
            batch.fill(source, &source.segments(), blocks, Limb(limb), &factors)?;
            let rows: Vec<&[u32]> = batch.rows(degree).collect();
            let mut sum = vec![0; degree];
            for block in rows.chunks(factors.len()) {
                let mut product = vec![1; degree];
                for row in block {
                    for (product, &residue) in product.iter_mut().zip(*row) {
                        *product = q.mul(*product, residue);
                    }
                }
                vector::add_assign(q, &product, &mut sum);
            }
            match power {
                0 => all.push(vector::sum(q, &sum)),
                _ => all.extend(sum),
            }
        }
    }
    Ok(all)
}

/// Runs a job to its end on this thread, which sleeps while nothing is ready. Returns each moment of each shard,
/// sorted.
fn run(
    backend: &dyn Backend<Made>,
    source: Made,
    itemsets: &Itemsets,
) -> Result<Vec<(usize, usize, Vec<u32>)>, EngineError> {
    let (said, heard) = std::sync::mpsc::channel();
    let wake: Wake = Arc::new(move || said.send(()).unwrap_or_default());
    let job = Job {
        source: Arc::new(source),
        plan: Arc::new(Plan::new(itemsets, 2)),
        // Within a segment, over an edge, a single block.
        shards: [0..4, 4..13, 14..15].map(Blocks::from).into(),
        wake,
    };
    let run = backend.start(job, &mut |_| Ok(()))?;
    let mut found = Vec::new();
    loop {
        let step = run.step(0, &mut |mut moments| {
            assert!(moments.moments.is_sorted());
            let shard = moments.shard;
            found.extend(
                moments
                    .each()
                    .map(|(moment, it)| (shard, moment, it.to_vec())),
            );
            ControlFlow::Continue(())
        });
        match step? {
            Step::Advanced => {}
            Step::Waiting => heard.recv().unwrap(),
            Step::Finished => break,
            Step::Exhausted => panic!("a run ends once"),
        }
    }
    assert!(!run.has_task());
    found.sort_unstable();
    Ok(found)
}

fn triples() -> Itemsets {
    Itemsets::new(3, [0, 1, 2, 0, 1, 3, 1, 2, 3].map(Column).to_vec(), 4).unwrap()
}

#[test]
fn backends_agree() {
    let cpu = Cpu::new(Distances::one_node());
    let expected = run(&cpu, Made::new(), &triples()).unwrap();
    assert_eq!(expected.len(), 3 * MomentIndex::new(&triples()).len());
    assert!(run(&Scrambled, Made::new(), &triples()).unwrap() == expected);
}

#[test]
fn a_panel_that_cannot_be_read_ends_the_run() {
    let cpu = Cpu::new(Distances::one_node());
    for backend in [&cpu as &dyn Backend<Made>, &Scrambled] {
        let source = Made {
            unreadable: Some(2),
            ..Made::new()
        };
        let error = run(backend, source, &triples()).unwrap_err();
        assert!(error.to_string().contains("unreadable"), "{error}");
    }
}
