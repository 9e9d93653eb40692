//! Moments agree with their definition, whatever the question, the segments and the threads.

use oboro_engine::{Count, Factor, Outcome, Plan, Segment, Source, Step, Workspace};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Parameters, vector};
use oboro_store::{Panel, StoreError};
use proptest::prelude::*;
use std::convert::Infallible;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// Residues in memory: a dataset that was never encrypted.
struct Memory {
    parameters: Parameters,
    columns: u32,
    segments: Vec<Segment>,
    seed: u64,
}

impl Memory {
    fn new(segment_blocks: &[u64], columns: u32, seed: u64) -> Self {
        let mut segments = Vec::new();
        let mut first_block = 0;
        for &blocks in segment_blocks {
            segments.push(Segment {
                first_block,
                blocks,
            });
            first_block += blocks;
        }
        // N = 2048 and t = 12289: groups of six blocks, so that groups straddle segments.
        Self {
            parameters: Parameters::new(11, 2, 12289).unwrap(),
            columns,
            segments,
            seed,
        }
    }

    fn residues(&self, block: u64, limb: usize, factor: Factor) -> Vec<u32> {
        let column = match factor {
            Factor::Mask => u64::MAX,
            Factor::Column(c) => c.into(),
        };
        let q = self.parameters.limb_moduli()[limb].value();
        let mut state = self.seed ^ block << 40 ^ column << 20 ^ limb as u64;
        (0..self.parameters.degree())
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32 % q
            })
            .collect()
    }

    fn blocks(&self) -> u64 {
        self.segments.iter().map(|s| s.blocks).sum()
    }

    /// `Σ_b a_b^r Π c_{b,i}` by definition, the scalar as the sum of its evaluation form.
    fn moment(
        &self,
        limb: usize,
        r: usize,
        columns: &[u32],
        blocks: std::ops::Range<u64>,
    ) -> Vec<u32> {
        let q = &self.parameters.limb_moduli()[limb];
        let mut sum = vec![0; self.parameters.degree()];
        for block in blocks {
            let factors = columns
                .iter()
                .map(|&c| Factor::Column(c))
                .chain(std::iter::repeat_n(Factor::Mask, r));
            let mut product = vec![1; self.parameters.degree()];
            for factor in factors {
                for (p, x) in product.iter_mut().zip(self.residues(block, limb, factor)) {
                    *p = q.mul(*p, x);
                }
            }
            vector::add_assign(q, &product, &mut sum);
        }
        if r == 0 {
            vec![vector::sum(q, &sum)]
        } else {
            sum
        }
    }
}

impl Source for Memory {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn columns(&self) -> u32 {
        self.columns
    }

    fn segments(&self) -> Vec<Segment> {
        self.segments.clone()
    }

    fn panel(&self, segment: usize, limb: usize, factor: Factor) -> Result<Arc<Panel>, StoreError> {
        let Segment {
            first_block,
            blocks,
        } = self.segments[segment];
        let degree = self.parameters.degree();
        let built = Panel::build(blocks as usize * degree, 0, |out| {
            for (i, block) in out.chunks_exact_mut(degree).enumerate() {
                block.copy_from_slice(&self.residues(first_block + i as u64, limb, factor));
            }
            Ok::<_, Infallible>(())
        });
        let Ok(panel) = built;
        Ok(Arc::new(panel))
    }
}

/// What a count hands out, kept.
struct Part {
    limb: usize,
    blocks: std::ops::Range<u64>,
    moments: std::ops::Range<usize>,
    residues: Vec<u32>,
}

fn parts(source: Arc<Memory>, plan: Plan, threads: usize) -> Vec<Part> {
    let parts = Mutex::new(Vec::new());
    let count = Count::new(source, plan).unwrap();
    let outcome = count.run(NonZero::new(threads).unwrap(), &|part| {
        parts.lock().unwrap().push(Part {
            limb: part.limb,
            blocks: part.blocks,
            moments: part.moments,
            residues: part.residues.to_vec(),
        });
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.unwrap(), Outcome::Complete);
    parts.into_inner().unwrap()
}

fn check(source: Memory, itemsets: &Itemsets, threads: usize) {
    let source = Arc::new(source);
    let index = MomentIndex::new(itemsets);
    let group = source.parameters.group_blocks();
    let mut covered = vec![0; 2 * index.len()];
    for part in parts(Arc::clone(&source), Plan::new(itemsets, 2), threads) {
        assert_eq!(
            part.blocks.start / group,
            (part.blocks.end - 1) / group,
            "a part lies in one group"
        );
        let each = part.residues.len() / part.moments.len();
        for (moment, residues) in part.moments.clone().zip(part.residues.chunks_exact(each)) {
            let (r, columns) = index.get(moment);
            let expected = source.moment(part.limb, r, columns, part.blocks.clone());
            assert!(
                residues == expected,
                "limb {}, moment {columns:?}, r = {r}, blocks {:?}",
                part.limb,
                part.blocks
            );
            covered[part.limb * index.len() + moment] += part.blocks.end - part.blocks.start;
        }
    }
    assert!(covered.iter().all(|&blocks| blocks == source.blocks()));
}

#[test]
fn a_single_item_needs_its_sum_and_the_mask() {
    check(
        Memory::new(&[1], 1, 1),
        &Itemsets::new(1, vec![0], 1).unwrap(),
        1,
    );
}

#[test]
fn more_polynomials_than_fit_a_tile() {
    let flat: Vec<u32> = (0..70).flat_map(|i| [i, 70]).collect();
    check(
        Memory::new(&[2, 1], 71, 2),
        &Itemsets::new(2, flat, 71).unwrap(),
        2,
    );
}

#[test]
fn asks_for_no_more_limbs_than_there_are() {
    let plan = Plan::new(&Itemsets::new(1, vec![0], 1).unwrap(), 3);
    let error = Count::new(Arc::new(Memory::new(&[1], 1, 1)), plan).err();
    assert!(error.unwrap().to_string().contains("3 limbs"));
}

#[test]
fn counts_nothing_on_no_blocks() {
    let plan = Plan::new(&Itemsets::new(1, vec![0], 1).unwrap(), 1);
    let error = Count::new(Arc::new(Memory::new(&[], 1, 1)), plan).err();
    assert!(error.unwrap().to_string().contains("no blocks"));
}

/// A count of several tasks: two limbs, five groups.
fn several_tasks() -> Count<Memory> {
    let itemsets = Itemsets::new(1, vec![0], 1).unwrap();
    let source = Arc::new(Memory::new(&[30], 1, 1));
    let plan = Plan::new(&itemsets, 2);
    Count::new(source, plan).unwrap()
}

#[test]
fn stops_when_nobody_listens() {
    let count = several_tasks();
    let calls = Mutex::new(0);
    let outcome = count.run(NonZero::<usize>::MIN, &|_| {
        *calls.lock().unwrap() += 1;
        ControlFlow::Break(())
    });
    assert_eq!(outcome.unwrap(), Outcome::Stopped);
    assert_eq!(*calls.lock().unwrap(), 1);
    assert!(count.is_exhausted());
}

#[test]
fn one_step_ends_the_count() {
    let count = several_tasks();
    let mut workspace = Workspace::default();
    let mut step = || {
        let step = count.step(&mut workspace, |_| ControlFlow::Continue(()));
        step.unwrap()
    };
    let end = std::iter::repeat_with(&mut step).find(|&step| step != Step::Advanced);
    assert_eq!(end, Some(Step::Finished));
    assert_eq!(step(), Step::Exhausted);
}

#[test]
fn a_count_that_was_stopped_starts_no_task() {
    let count = several_tasks();
    assert!(!count.is_exhausted());
    count.stop();
    assert!(count.is_exhausted());
    let step = count.step(&mut Workspace::default(), |_| panic!("nothing to take"));
    assert_eq!(step.unwrap(), Step::Exhausted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn moments_agree_with_their_definition(
        segments in prop::collection::vec(1u64..6, 1..4),
        sets in (1usize..=4).prop_flat_map(|k| prop::collection::btree_set(prop::collection::btree_set(0u32..6, k), 1..8)),
        threads in 1usize..4,
        seed: u64,
    ) {
        let length = sets.iter().next().unwrap().len();
        let flat = sets.iter().flatten().copied().collect();
        check(Memory::new(&segments, 6, seed), &Itemsets::new(length, flat, 6).unwrap(), threads);
    }
}
