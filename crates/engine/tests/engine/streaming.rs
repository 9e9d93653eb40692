//! Counts on data that exceed memory equal those on resident data, and read no more than they need.

use oboro_arena::{CpuAssignment, Distances, Topology};
use oboro_engine::{Count, EngineError, Outcome, Plan, Step, Workspace};
use oboro_format::{Bundle, CELL_SEAL_BYTES, DatasetId, Manifest, SegmentDescription};
use oboro_residency::{Panel, Placement, Reads, ResidencyError, Snapshot, StoredSegment, Tier};
use oboro_ring::moment::Itemsets;
use oboro_ring::{Column, Limb, Parameters, Seed};
use proptest::prelude::*;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const COLUMNS: u32 = 4;
const LIMBS: usize = 2;

/// Returns N = 2048 and t = 12289: groups of six blocks, which straddle segments.
fn parameters() -> Parameters {
    Parameters::new(11, LIMBS, 12_289).unwrap()
}

/// Writes a dataset of these segments to `directory`, every residue a function of its place.
fn write(directory: &Path, segment_blocks: &[u32]) {
    write_columns(directory, segment_blocks, COLUMNS);
}

fn write_columns(directory: &Path, segment_blocks: &[u32], columns: u32) {
    let parameters = parameters();
    let writer = Bundle::create(&directory.join("bundle")).unwrap();
    let mut manifest = Manifest {
        dataset: DatasetId([7; 16]),
        key_check: [0; 16],
        generation: [0; 16],
        parameters: parameters.clone(),
        max_len: 3,
        columns,
        row_id_bytes: 0,
        version: 1,
        next_segment: segment_blocks.len() as u32,
        earlier_roots: Vec::new(),
        segments: Vec::new(),
    };
    for (number, &blocks) in (0..).zip(segment_blocks) {
        let segment = writer
            .segment(SegmentDescription {
                dataset: manifest.dataset,
                number,
                first_block: manifest.block_count(),
                columns,
                row_id_bytes: 0,
                parameters: parameters.clone(),
                seeds: (0..blocks)
                    .map(|block| Seed([(number + block) as u8; 32]))
                    .collect(),
            })
            .unwrap();
        for limb in 0..LIMBS {
            let q = parameters.limb_moduli()[limb].value();
            for column in 0..columns {
                let mut state = u64::from(number) << 32 | (limb as u64) << 16 | u64::from(column);
                let mut residue = || {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 33) as u32 % q
                };
                let residues: Vec<u32> = (0..blocks as usize * parameters.degree())
                    .map(|_| residue())
                    .collect();
                segment
                    .write_panel(Limb(limb), Column(column), &residues)
                    .unwrap();
            }
        }
        let slots = blocks as usize * parameters.degree();
        let cells = vec![0; slots / 8 + CELL_SEAL_BYTES];
        for column in Column::first(columns) {
            segment.write_cells(column, &cells).unwrap();
        }
        manifest.segments.push(segment.finish().unwrap());
    }
    writer.commit(&manifest, b"sealed", &[]).unwrap();
}

/// Opens the dataset in a directory without a budget, or within one.
fn snapshot(directory: &Path, budget: Option<u64>) -> Arc<Snapshot> {
    placed_snapshot(directory, budget, &Placement::default())
}

fn placed_snapshot(directory: &Path, budget: Option<u64>, placement: &Placement) -> Arc<Snapshot> {
    let bundle = Bundle::open(&directory.join("bundle")).unwrap();
    let tier = Arc::new(Tier::new(budget, placement).unwrap());
    let open = |_: &Manifest, index| -> Result<_, ResidencyError> {
        Ok(StoredSegment::new(bundle.open_segment(index)?))
    };
    let charge = tier.headers().charge(0);
    let manifest = bundle.manifest().clone();
    let opened = tier.open("".into(), "a".into(), manifest, None, charge, open);
    Arc::new(opened.unwrap())
}

/// Number of bytes of memory for panels of these blocks in all, of a given number of factors modulo all limbs.
fn budget_for(segment_blocks: &[u32], factors: usize) -> u64 {
    let bytes: usize = segment_blocks
        .iter()
        .map(|&blocks| Panel::footprint(blocks as usize * parameters().degree()))
        .sum();
    // Part of the budget is for gaps.
    (bytes * factors * LIMBS) as u64 * 16 / 15 + 16
}

/// Largest need of one group: two neighbouring segments, or one with more.
fn least_budget(segment_blocks: &[u32], factors: usize) -> u64 {
    let (mut most, mut first) = (0, 0);
    let group = parameters().shard_blocks();
    let starts: Vec<u64> = segment_blocks
        .iter()
        .map(|&blocks| {
            first += u64::from(blocks);
            first - u64::from(blocks)
        })
        .collect();
    for begin in (0..first).step_by(group as usize) {
        let has = |segment: usize| {
            starts[segment] < begin + group
                && starts[segment] + u64::from(segment_blocks[segment]) > begin
        };
        let blocks: Vec<u32> = (0..starts.len())
            .filter(|&s| has(s))
            .map(|s| segment_blocks[s])
            .collect();
        most = most.max(budget_for(&blocks, factors));
    }
    most
}

fn pairs(columns: u32) -> Itemsets {
    Itemsets::all_of(&Vec::from_iter(Column::first(columns)), 2).unwrap()
}

fn assignments(threads: usize) -> Vec<CpuAssignment> {
    Topology::of_this_machine().workers(NonZero::new(threads).unwrap())
}

type Found = Vec<(usize, usize, Vec<u32>)>;

/// Returns all moments in order, and the reads for them.
fn count(
    source: &Arc<Snapshot>,
    plan: &Plan,
    threads: usize,
) -> Result<(Found, Option<Reads>), EngineError> {
    count_on(source, plan, &assignments(threads), &Distances::one_node())
}

fn count_on(
    source: &Arc<Snapshot>,
    plan: &Plan,
    assignments: &[CpuAssignment],
    distances: &Distances,
) -> Result<(Found, Option<Reads>), EngineError> {
    let found = Mutex::new(Vec::new());
    let count = Count::new(Arc::clone(source), plan, distances)?;
    let outcome = count.run(assignments, &|mut part| {
        let shard = part.shard;
        let mut found = found.lock().unwrap();
        found.extend(
            part.each()
                .map(|(moment, residues)| (shard, moment, residues.to_vec())),
        );
        ControlFlow::Continue(())
    })?;
    assert_eq!(outcome, Outcome::Complete);
    let mut found = found.into_inner().unwrap();
    found.sort_unstable();
    Ok((found, count.reads()))
}

/// Number of bytes of one column on disk, modulo all limbs.
fn column_bytes(segment_blocks: &[u32]) -> u64 {
    let blocks: u32 = segment_blocks.iter().sum();
    // Two residues in seven bytes; panels of this degree need no padding.
    u64::from(blocks) * parameters().degree() as u64 / 2 * 7 * LIMBS as u64
}

#[test]
fn half_of_the_columns_are_half_of_the_bytes_and_fewer_limbs_are_fewer() {
    let directory = TempDir::new().unwrap();
    let blocks = [8, 8, 8];
    write(directory.path(), &blocks);
    for (itemsets, limbs, share) in [(pairs(4), 2, 4.0), (pairs(2), 2, 2.0), (pairs(4), 1, 2.0)] {
        let source = snapshot(directory.path(), Some(budget_for(&blocks, 5)));
        let (_, reads) = count(&source, &Plan::new(&itemsets, limbs), 1).unwrap();
        assert_eq!(
            reads.unwrap().bytes as f64,
            share * column_bytes(&blocks) as f64
        );
    }
}

#[test]
fn what_fits_is_read_once() {
    let directory = TempDir::new().unwrap();
    let blocks = [8, 8, 3];
    write(directory.path(), &blocks);
    let source = snapshot(directory.path(), Some(budget_for(&blocks, 5)));
    let plan = Plan::new(&pairs(4), LIMBS);
    let (first, reads) = count(&source, &plan, 2).unwrap();
    let reads = reads.unwrap();
    assert_eq!((reads.panels, reads.masks, reads.found), (24, 6, 0));
    let (second, reads) = count(&source, &plan, 2).unwrap();
    let reads = reads.unwrap();
    assert_eq!(
        (reads.bytes, reads.panels, reads.masks, reads.found),
        (0, 0, 0, 30)
    );
    assert_eq!(first, second);
}

#[test]
fn what_lies_on_several_nodes_is_counted_alike() {
    let directory = TempDir::new().unwrap();
    let blocks = [8, 8, 3, 8];
    write(directory.path(), &blocks);
    let plan = Plan::new(&pairs(4), LIMBS);
    let (expected, _) = count(&snapshot(directory.path(), None), &plan, 1).unwrap();
    let distances = Distances::new(vec![vec![10, 20], vec![20, 10]]).unwrap();
    let assignments: Vec<CpuAssignment> = (0..)
        .zip(assignments(2))
        .map(|(node, assignment)| CpuAssignment { node, ..assignment })
        .collect();
    // A shard needs two segments; panels are in more pieces than one.
    let budget = budget_for(&blocks[..3], 5);
    let source = placed_snapshot(directory.path(), Some(budget), &Placement::on(vec![0, 0]));
    let (found, reads) = count_on(&source, &plan, &assignments, &distances).unwrap();
    assert!(found == expected);
    let reads = reads.unwrap();
    assert_eq!(reads.panels + reads.masks, 40);
}

#[test]
fn a_question_of_which_not_even_one_itemset_fits_is_refused() {
    let directory = TempDir::new().unwrap();
    let blocks = [8, 8];
    write(directory.path(), &blocks);
    let of_budget = |budget| {
        let source = snapshot(directory.path(), Some(budget));
        count(&source, &Plan::new(&pairs(4), LIMBS), 1)
    };
    let refused = of_budget(budget_for(&blocks, 2) - 32).err().unwrap();
    assert!(refused.to_string().contains("--memory"), "{refused}");
    let (found, _) = of_budget(budget_for(&blocks, 2)).unwrap();
    let resident = snapshot(directory.path(), None);
    assert!(found == count(&resident, &Plan::new(&pairs(4), LIMBS), 1).unwrap().0);
}

#[test]
fn a_wide_question_reads_little_more_than_its_rows() {
    let directory = TempDir::new().unwrap();
    let (blocks, columns) = ([8; 3], 47);
    write_columns(directory.path(), &blocks, columns);
    let resident = snapshot(directory.path(), None);
    let (expected, _) = count(&resident, &Plan::new(&pairs(columns), LIMBS), 2).unwrap();
    // Of the needs of a group, which has two segments: a quarter, a half, all but a panel.
    for (share, bound) in [(12, 6.0), (24, 3.0), (47, 1.2)] {
        let source = snapshot(directory.path(), Some(budget_for(&blocks[1..], share)));
        let plan = Plan::new(&pairs(columns), LIMBS);
        let (found, reads) = count(&source, &plan, 2).unwrap();
        assert!(found == expected);
        let once = u64::from(columns) * column_bytes(&blocks);
        let factor = reads.unwrap().bytes as f64 / once as f64;
        println!("memory for {share} of 48: each byte is read {factor:.2} times");
        assert!(factor < bound, "{factor}");
    }
}

#[test]
fn a_damaged_panel_stops_the_count_and_is_named() {
    let directory = TempDir::new().unwrap();
    let blocks = [8, 8, 8];
    write(directory.path(), &blocks);
    let source = snapshot(directory.path(), Some(budget_for(&blocks[1..], 5)));
    let path = source.segment(1).path();
    let mut bytes = std::fs::read(path).unwrap();
    // The last panel, in front of the sealed cells of four columns, a page each.
    let last = bytes.len() - 4 * 4096 - 1;
    bytes[last] ^= 1;
    std::fs::write(path, bytes).unwrap();
    // Each contending stream gets the error.
    let failed = || {
        let error = count(&source, &Plan::new(&pairs(4), LIMBS), 2).err();
        error.unwrap().to_string()
    };
    let messages: Vec<String> = std::thread::scope(|scope| {
        let clients = [(); 4].map(|()| scope.spawn(failed));
        clients.map(|client| client.join().unwrap()).into()
    });
    for message in messages {
        assert!(
            message.contains("panel (limb 1, column 3) of segment 1"),
            "{message}"
        );
    }
    // Counts of other panels still succeed.
    count(&source, &Plan::new(&pairs(3), LIMBS), 2).unwrap();
}

#[test]
fn waiting_is_reported_and_cancelling_returns_everything() {
    let directory = TempDir::new().unwrap();
    let blocks = [8, 8, 8];
    write(directory.path(), &blocks);
    let source = snapshot(directory.path(), Some(budget_for(&blocks[1..], 5)));
    let begin = || {
        Count::new(
            Arc::clone(&source),
            &Plan::new(&pairs(4), LIMBS),
            &Distances::one_node(),
        )
        .unwrap()
    };
    let (first, second) = (begin(), begin());
    let (said, heard) = std::sync::mpsc::channel();
    second.on_ready(move || said.send(()).unwrap_or_default());
    // The first reserves all of the budget.
    let mut workspace = Workspace::default();
    let mut step = |count: &Count<Snapshot>| {
        count
            .step(&mut workspace, |_| ControlFlow::Continue(()))
            .unwrap()
    };
    assert!(!second.has_task());
    assert_eq!(step(&second), Step::Waiting);
    drop(first);
    let mut tasks = 0;
    loop {
        match step(&second) {
            Step::Waiting => heard.recv().unwrap(),
            Step::Advanced => tasks += 1,
            Step::Finished | Step::Exhausted => break,
        }
    }
    assert!(tasks > 3, "{tasks}");
    assert_eq!(step(&second), Step::Exhausted);
}

#[test]
#[should_panic(expected = "a sink that fails")]
fn a_panic_ends_those_who_wait() {
    let directory = TempDir::new().unwrap();
    let blocks = [8, 8, 8, 8];
    write(directory.path(), &blocks);
    let source = snapshot(directory.path(), Some(budget_for(&blocks[2..], 5)));
    let plan = Plan::new(&pairs(4), LIMBS);
    let count = Count::new(source, &plan, &Distances::one_node()).unwrap();
    let _ = count.run(&assignments(2), &|moments| {
        assert_ne!(moments.shard, 0, "a sink that fails");
        ControlFlow::Continue(())
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_budget_that_is_enough_gives_the_moments_of_a_resident_dataset(
        blocks in prop::collection::vec(1u32..9, 1..6),
        columns in 2..=COLUMNS,
        factors in 2usize..6,
        limbs in 1..=LIMBS,
        more in 0u64..200_000,
        threads in 1usize..4,
        counts in 1usize..4,
    ) {
        let directory = TempDir::new().unwrap();
        write(directory.path(), &blocks);
        let plan = Plan::new(&pairs(columns), limbs);
        let all = columns as usize + 1;
        let resident = snapshot(directory.path(), None);
        let (expected, reads) = count(&resident, &plan, threads).unwrap();
        let Reads { panels, masks, .. } = reads.unwrap();
        prop_assert_eq!(panels + masks, (blocks.len() * all * limbs) as u64);
        // Panels in memory are neither read nor requested again.
        let (again, reads) = count(&resident, &plan, threads).unwrap();
        prop_assert!(again == expected && reads.is_none());
        let factors = factors.min(all);
        let budget = least_budget(&blocks, factors) * limbs as u64 / LIMBS as u64 + 16 + more;
        let source = snapshot(directory.path(), Some(budget));
        let found: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..counts).map(|_| scope.spawn(|| count(&source, &plan, threads).unwrap())).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        for (found, reads) in found {
            prop_assert!(found == expected);
            let reads = reads.unwrap();
            let panels = (blocks.len() * all * limbs) as u64;
            let taken = reads.panels + reads.masks + reads.found;
            if factors == all {
                prop_assert_eq!(taken, panels)
            } else {
                prop_assert!(taken >= panels)
            }
        }
    }
}
