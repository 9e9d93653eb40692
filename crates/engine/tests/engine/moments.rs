//! Moments agree with their definition, for any question, segments and threads.

use oboro_arena::{Arena, Backing, CpuAssignment, Distances, Topology};
use oboro_engine::{Count, EngineError, Outcome, Plan, Source, Step, Workspace};
use oboro_residency::{Panel, ResidencyError};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Blocks, Column, Factor, Limb, Parameters, vector};
use proptest::prelude::*;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// Assigns CPUs of this machine round-robin to `nodes` imaginary nodes.
fn assignments(threads: usize, nodes: usize) -> Vec<CpuAssignment> {
    let assignments = Topology::of_this_machine().workers(NonZero::new(threads).unwrap());
    let dealt = (0..nodes).cycle().zip(assignments);
    dealt
        .map(|(node, assignment)| CpuAssignment { node, ..assignment })
        .collect()
}

/// Makes `nodes` nodes, all equally far from each other.
fn distances(nodes: usize) -> Distances {
    let row = |from| {
        (0..nodes)
            .map(|to| if to == from { 10 } else { 20 })
            .collect()
    };
    Distances::new((0..nodes).map(row).collect()).unwrap()
}

/// Makes a panel in its own arena.
fn panel(len: usize, fill: impl FnOnce(&mut [u32])) -> Result<Arc<Panel>, ResidencyError> {
    let arena = Arena::reserve(Panel::footprint(len), Backing::default())?;
    let filled = Panel::build(&arena, len, 0, |out| {
        fill(out);
        Ok::<_, ResidencyError>(())
    });
    filled.map(Arc::new)
}

/// Source of residues in memory: a dataset that was never encrypted.
struct Memory {
    parameters: Parameters,
    columns: u32,
    segments: Vec<Blocks>,
    seed: u64,
    nodes: usize,
    home: fn(u64, Factor) -> Option<usize>,
}

/// Number of a factor among those of a group.
fn number(factor: Factor) -> u64 {
    match factor {
        Factor::Mask => 6,
        Factor::Column(c) => c.0.into(),
    }
}

impl Memory {
    fn new(segment_blocks: &[u64], columns: u32, seed: u64) -> Self {
        let mut segments = Vec::new();
        let mut first_block = 0;
        for &blocks in segment_blocks {
            segments.push(Blocks::from_start(first_block, blocks));
            first_block += blocks;
        }
        // N = 2048 and t = 12289: groups of six blocks, which straddle segments.
        Self {
            parameters: Parameters::new(11, 2, 12289).unwrap(),
            columns,
            segments,
            seed,
            nodes: 1,
            home: |_, _| None,
        }
    }

    /// Sets a home for each group of each factor: any number, from which the node follows.
    fn placed(self, nodes: usize, home: fn(u64, Factor) -> Option<usize>) -> Self {
        Self {
            nodes,
            home,
            ..self
        }
    }

    fn residues(&self, block: u64, limb: usize, factor: Factor) -> Vec<u32> {
        let column = match factor {
            Factor::Mask => u64::MAX,
            Factor::Column(c) => c.0.into(),
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
        self.segments.iter().map(|it| it.len()).sum()
    }

    /// Computes `Σ_b a_b^r Π c_{b,i}` by definition, the scalar as the sum of its evaluation form.
    fn moment(&self, limb: usize, r: usize, columns: &[Column], blocks: Blocks) -> Vec<u32> {
        let q = &self.parameters.limb_moduli()[limb];
        let mut sum = vec![0; self.parameters.degree()];
        for block in blocks.numbers() {
            let factors = columns
                .iter()
                .copied()
                .map(Factor::Column)
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

    fn segments(&self) -> Vec<Blocks> {
        self.segments.clone()
    }

    fn panel(
        &self,
        segment: usize,
        Limb(limb): Limb,
        factor: Factor,
    ) -> Result<Arc<Panel>, ResidencyError> {
        let blocks = self.segments[segment];
        let degree = self.parameters.degree();
        panel(blocks.len() as usize * degree, |out| {
            for (block, out) in blocks.numbers().zip(out.chunks_exact_mut(degree)) {
                out.copy_from_slice(&self.residues(block, limb, factor));
            }
        })
    }

    fn home(&self, block: u64, factor: Factor) -> Option<usize> {
        let group = block / self.parameters.shard_blocks();
        Some((self.home)(group, factor)? % self.nodes)
    }
}

/// Returns shard, moment and residues of all that a count hands out.
fn moments(source: Arc<Memory>, plan: Plan, threads: usize) -> Vec<(usize, usize, Vec<u32>)> {
    let nodes = source.nodes;
    let count = Count::new(source, &plan, &distances(nodes)).unwrap();
    moments_of(&count, threads, nodes)
}

fn moments_of(
    count: &Count<Memory>,
    threads: usize,
    nodes: usize,
) -> Vec<(usize, usize, Vec<u32>)> {
    let all = Mutex::new(Vec::new());
    let outcome = count.run(&assignments(threads, nodes), &|mut part| {
        let shard = part.shard;
        let mut all = all.lock().unwrap();
        all.extend(
            part.each()
                .map(|(m, residues)| (shard, m, residues.to_vec())),
        );
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.unwrap(), Outcome::Complete);
    assert_eq!(count.counters().stolen_needlessly, 0);
    all.into_inner().unwrap()
}

#[test]
fn shards_are_whatever_runs_of_blocks_are_wanted() {
    let itemsets = Itemsets::new(2, [0, 1, 0, 4, 2, 3].map(Column).to_vec(), 5).unwrap();
    let index = MomentIndex::new(&itemsets);
    let plan = Plan::new(&itemsets, 2);
    let source = Arc::new(Memory::new(&[9, 7, 10], 5, 11));
    let over =
        |shards: Vec<Blocks>| Count::of_shards(Arc::clone(&source), &plan, &distances(1), shards);
    // Within a segment, over an edge, a single block, all.
    let shards = [1..4, 8..17, 25..26, 0..26].map(Blocks::from).to_vec();
    let mut found = moments_of(&over(shards.clone()).unwrap(), 2, 1);
    found.sort_unstable();
    let of = |(shard, blocks): (usize, Blocks)| {
        let (source, index) = (&source, &index);
        (0..index.len()).map(move |moment| {
            let (r, columns) = index.get(moment);
            let residues = |limb| source.moment(limb, r, columns, blocks);
            (
                shard,
                moment,
                (0..2).flat_map(residues).collect::<Vec<u32>>(),
            )
        })
    };
    assert!(shards.into_iter().enumerate().flat_map(of).eq(found));
    for none in [vec![], vec![0..27], vec![3..3]] {
        let none = none.into_iter().map(Blocks::from).collect();
        assert!(matches!(over(none).err(), Some(EngineError::Empty)));
    }
}

fn check(source: Memory, itemsets: &Itemsets, threads: usize) {
    check_some(source, itemsets, threads, |_| true);
}

/// Checks that a count gives each wanted moment once, as it is defined.
fn check_some(source: Memory, itemsets: &Itemsets, threads: usize, wanted: impl Fn(usize) -> bool) {
    let source = Arc::new(source);
    let index = Arc::new(MomentIndex::new(itemsets));
    let wanted: Vec<usize> = (0..index.len()).filter(|&moment| wanted(moment)).collect();
    let plan = Plan::of_moments(&index, 2, wanted.iter().copied());
    let mut found = moments(Arc::clone(&source), plan, threads);
    found.sort_unstable();
    let group = source.parameters.shard_blocks();
    let mut found = found.into_iter();
    for first in (0..source.blocks()).step_by(group as usize) {
        let blocks = Blocks::from(first..source.blocks().min(first + group));
        for &moment in &wanted {
            let (r, columns) = index.get(moment);
            let residues: Vec<u32> = (0..2)
                .flat_map(|limb| source.moment(limb, r, columns, blocks))
                .collect();
            let expected = ((first / group) as usize, moment, residues);
            assert!(
                found.next() == Some(expected),
                "moment {columns:?}, r = {r}, blocks {blocks:?}"
            );
        }
    }
    assert!(found.next().is_none());
}

#[test]
fn a_single_item_needs_its_sum_and_the_mask() {
    check(
        Memory::new(&[1], 1, 1),
        &Itemsets::new(1, vec![Column(0)], 1).unwrap(),
        1,
    );
}

#[test]
fn more_polynomials_than_fit_a_tile() {
    let flat = (0..70).flat_map(|i| [i, 70]).map(Column).collect();
    check(
        Memory::new(&[2, 1], 71, 2),
        &Itemsets::new(2, flat, 71).unwrap(),
        2,
    );
}

/// Source whose every residue is the largest possible.
struct Largest(Parameters);

const LARGEST_BLOCKS: [u64; 2] = [300, 301];

impl Source for Largest {
    fn parameters(&self) -> &Parameters {
        &self.0
    }

    fn columns(&self) -> u32 {
        2
    }

    fn segments(&self) -> Vec<Blocks> {
        let [first, second] = LARGEST_BLOCKS;
        [0..first, first..first + second].map(Blocks::from).into()
    }

    fn panel(
        &self,
        segment: usize,
        Limb(limb): Limb,
        _: Factor,
    ) -> Result<Arc<Panel>, ResidencyError> {
        let residue = self.0.limb_moduli()[limb].value() - 1;
        let length = LARGEST_BLOCKS[segment] as usize * self.0.degree();
        panel(length, |out| out.fill(residue))
    }
}

#[test]
fn sums_of_many_blocks_are_folded_before_they_overflow() {
    // A 64-bit sum holds 256 squares of the largest residue.
    let parameters = Parameters::new(12, 1, 40_961).unwrap();
    let q = parameters.limb_moduli()[0];
    let plan = Plan::new(
        &Itemsets::new(2, [0, 1].map(Column).to_vec(), 2).unwrap(),
        1,
    );
    let blocks: u64 = LARGEST_BLOCKS.iter().sum();
    let (source, node) = (Arc::new(Largest(parameters)), Distances::one_node());
    let count = Count::of_shards(source, &plan, &node, vec![(0..blocks).into()]).unwrap();
    let mut found = Vec::new();
    let mut workspace = Workspace::default();
    let mut step = || {
        let step = count.step(&mut workspace, |mut part| {
            found.extend(part.each().map(|(_, residues)| residues.to_vec()));
            ControlFlow::Continue(())
        });
        step.unwrap()
    };
    while step() == Step::Advanced {}
    // (−1)² = 1 for every slot of every block.
    let polynomial = vec![blocks as u32; 4096];
    let scalar = vec![q.reduce(blocks * 4096)];
    let expected = [scalar, polynomial.clone(), polynomial.clone(), polynomial];
    assert!(found == expected);
}

#[test]
fn asks_for_no_more_limbs_than_there_are() {
    let plan = Plan::new(&Itemsets::new(1, vec![Column(0)], 1).unwrap(), 3);
    let error = Count::new(
        Arc::new(Memory::new(&[1], 1, 1)),
        &plan,
        &Distances::one_node(),
    )
    .err();
    assert!(error.unwrap().to_string().contains("3 limbs"));
}

#[test]
fn counts_nothing_on_no_blocks() {
    let plan = Plan::new(&Itemsets::new(1, vec![Column(0)], 1).unwrap(), 1);
    let error = Count::new(
        Arc::new(Memory::new(&[], 1, 1)),
        &plan,
        &Distances::one_node(),
    )
    .err();
    assert!(error.unwrap().to_string().contains("no blocks"));
}

/// Source of endless blocks, of which three factors fit into memory at a time and no panel is ever needed.
struct Endless(Parameters);

impl Source for Endless {
    fn parameters(&self) -> &Parameters {
        &self.0
    }

    fn columns(&self) -> u32 {
        30
    }

    fn segments(&self) -> Vec<Blocks> {
        let blocks = self.0.shard_blocks() << 12;
        vec![(0..blocks).into()]
    }

    fn panel(&self, _: usize, _: Limb, _: Factor) -> Result<Arc<Panel>, ResidencyError> {
        unreachable!("nothing is counted")
    }

    fn factors_at_a_time(&self, _: usize, _: &[Blocks]) -> usize {
        3
    }
}

#[test]
fn a_question_in_too_many_pieces_is_refused() {
    let itemsets = Itemsets::all_of(&Vec::from_iter(Column::first(30)), 2).unwrap();
    let plan = Plan::new(&itemsets, 1);
    let source = Arc::new(Endless(Parameters::new(11, 1, 12_289).unwrap()));
    let error = Count::new(source, &plan, &Distances::one_node())
        .err()
        .unwrap();
    assert!(matches!(error, EngineError::Units { .. }), "{error}");
    assert!(error.to_string().contains("--memory"), "{error}");
}

/// Makes a count of several tasks: five groups.
fn several_tasks() -> Count<Memory> {
    let itemsets = Itemsets::new(1, vec![Column(0)], 1).unwrap();
    let source = Arc::new(Memory::new(&[30], 1, 1));
    let plan = Plan::new(&itemsets, 2);
    Count::new(source, &plan, &Distances::one_node()).unwrap()
}

#[test]
fn stops_when_nobody_listens() {
    let count = several_tasks();
    let calls = Mutex::new(0);
    let outcome = count.run(&assignments(1, 1), &|_| {
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

type Home = fn(u64, Factor) -> Option<usize>;

fn by_group(group: u64, _: Factor) -> Option<usize> {
    Some(group as usize)
}

fn by_item(_: u64, factor: Factor) -> Option<usize> {
    Some(number(factor) as usize)
}

fn at_random(group: u64, factor: Factor) -> Option<usize> {
    Some((((7 * group + number(factor)) * 2_654_435_769) >> 16) as usize)
}

fn nowhere(_: u64, _: Factor) -> Option<usize> {
    None
}

/// Counts pairs of four columns in 26 blocks (five groups), with a thread on each of three nodes, or on all but the
/// first. Returns the blocks of factors that each node read from each.
fn traffic(home: Home, first_node_works: bool) -> Vec<Vec<u64>> {
    let pairs = Itemsets::all_of(&Column::first(4).collect::<Vec<_>>(), 2).unwrap();
    let plan = Plan::new(&pairs, 2);
    let source = Arc::new(Memory::new(&[20, 6], 4, 1).placed(3, home));
    let count = Count::new(source, &plan, &distances(3)).unwrap();
    let mut workspaces = [0, 1, 2].map(Workspace::on);
    let working = usize::from(!first_node_works)..3;
    // Round-robin, like threads of the same speed.
    while !count.is_exhausted() {
        for workspace in &mut workspaces[working.clone()] {
            let step = count.step(workspace, |_| ControlFlow::Continue(()));
            step.unwrap();
        }
    }
    let counters = count.counters();
    assert_eq!(counters.stolen_needlessly, 0);
    assert!(counters.at_home > 0);
    // One block, modulo both limbs.
    let panel = 2 * 2048 * size_of::<u32>() as u64;
    let bytes = count.traffic().bytes();
    let panels = |row: Vec<u64>| row.into_iter().map(|bytes| bytes / panel).collect();
    bytes.into_iter().map(panels).collect()
}

/// Number of panels read by another node than their home.
fn remote(traffic: &[Vec<u64>]) -> u64 {
    let rows = traffic.iter().enumerate();
    let others = |(node, row): (usize, &Vec<u64>)| row.iter().sum::<u64>() - row[node];
    rows.map(others).sum()
}

#[test]
fn a_node_with_work_of_its_own_reads_its_own_memory() {
    let traffic = traffic(by_group, true);
    assert_eq!(remote(&traffic), 0, "{traffic:?}");
    assert!(traffic.iter().enumerate().all(|(node, row)| row[node] > 0));
}

#[test]
fn the_work_of_an_idle_node_is_done_by_others() {
    let traffic = traffic(by_group, false);
    assert_eq!(traffic[0], [0; 3]);
    let of_the_idle: u64 = traffic.iter().map(|row| row[0]).sum();
    assert_eq!(remote(&traffic), of_the_idle, "{traffic:?}");
    assert!(of_the_idle > 0);
}

#[test]
fn items_on_several_nodes_are_read_from_all() {
    for home in [by_item, at_random, nowhere] {
        let traffic = traffic(home, true);
        assert!(remote(&traffic) > traffic[0][0], "{traffic:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn moments_agree_with_their_definition(
        segments in prop::collection::vec(1u64..6, 1..4),
        sets in (1usize..=4).prop_flat_map(|k| prop::collection::btree_set(prop::collection::btree_set(0u32..6, k), 1..8)),
        threads in 1usize..4,
        nodes in 1usize..4,
        home in prop::sample::select(vec![by_group, by_item, at_random, nowhere]),
        known: u64,
        seed: u64,
    ) {
        let length = sets.iter().next().unwrap().len();
        let flat = sets.iter().flatten().copied().map(Column).collect();
        let itemsets = Itemsets::new(length, flat, 6).unwrap();
        // All moments, or those that are not known already.
        let wanted = |moment: usize| known % 2 == 0 || known >> (moment % 64) & 1 == 0;
        let source = Memory::new(&segments, 6, seed).placed(nodes, home);
        check_some(source, &itemsets, threads, wanted);
    }
}
