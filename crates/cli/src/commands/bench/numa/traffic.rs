//! From where to where residues travel when the engine counts, by placement.
//!
//! Where a dataset lies and which node counts what follow from the placement and the schedule, not from
//! speed, so they can be seen on a machine with fewer nodes as well: there, nodes are *logical*, several
//! of them in one memory, and take steps in turn, as nodes of the same speed would.

use super::Arguments;
use crate::commands::bench::itemsets::trie_nodes;
use crate::commands::bench::workload::temporary_directory;
use crate::output::{Failure, Output, bytes};
use oboro_engine::{Count, Plan, Workspace};
use oboro_machine::{Distances, Topology};
use oboro_mining::Itemset;
use oboro_ring::moment::Itemsets;
use oboro_ring::{Parameters, Seed};
use oboro_store::{
    BLOCKS_PER_SEGMENT, Bundle, DatasetId, Manifest, Placement, Policy, SegmentDescription,
    Snapshot, Store,
};
use serde::Serialize;
use std::fs;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;

/// The nodes of a machine that has one itself.
const USUAL_NODES: usize = 4;
const GROUPS_PER_NODE: u64 = 4;
/// The distance between logical nodes; 10 is that of a node from itself.
const FAR: u32 = 20;
/// The same in every run, since random placement and the first node follow from it.
const DATASET: DatasetId = DatasetId(*b"oboro bench numa");
const NAME: &str = "traffic";

/// What one placement led to. Bytes are those of residues that tasks read.
#[derive(Serialize)]
pub struct Row {
    bench: &'static str,
    placement: String,
    /// Whether there are fewer nodes on this machine.
    logical: bool,
    nodes: usize,
    groups: u64,
    /// `traffic[reader][home]`.
    traffic: Vec<Vec<u64>>,
    /// Tasks that ran on the node that has most of their input.
    at_home: u64,
    stolen: u64,
    /// Those that were stolen by a node with work of its own.
    stolen_needlessly: u64,
    /// All residues, masks included; tasks read many of them more than once.
    ciphertext_bytes: u64,
    /// What they compute, of [`trie_nodes`].
    multiply_adds: u64,
}

/// The nodes that count, by the kernel's numbers of those that they are on.
struct Nodes {
    numbers: Vec<u32>,
    distances: Distances,
    logical: bool,
}

impl Nodes {
    fn of(topology: &Topology, wanted: Option<usize>) -> Result<Self, Failure> {
        let real: Vec<u32> = topology.nodes().iter().map(|node| node.number).collect();
        let usual = if real.len() > 1 {
            real.len()
        } else {
            USUAL_NODES
        };
        let count = wanted.unwrap_or(usual);
        let logical = count != real.len();
        let distance = |a, b| if a == b { 10 } else { FAR };
        let row = |a| (0..count).map(|b| distance(a, b)).collect();
        Ok(Self {
            numbers: real.into_iter().cycle().take(count).collect(),
            distances: match logical {
                true => Distances::new((0..count).map(row).collect())?,
                false => topology.distances().clone(),
            },
            logical,
        })
    }
}

/// Counts all pairs in made-up residues of as many items as the arguments say, with every policy.
pub fn measure(
    topology: &Topology,
    arguments: &Arguments,
    output: Output,
) -> Result<Vec<Row>, Failure> {
    let nodes = Nodes::of(topology, arguments.nodes.map(usize::from))?;
    let workload = arguments.workload();
    let (items, itemsets) = (workload.items, workload.itemsets()?);
    let directory = temporary_directory()?;
    let store = directory.path().join("store");
    let groups = GROUPS_PER_NODE * nodes.numbers.len() as u64;
    fill(
        &store,
        &make(&directory.path().join("bundle"), items, groups)?,
    )?;
    let mut rows = Vec::new();
    for policy in Policy::ALL {
        let placement = Placement::on(nodes.numbers.clone(), policy);
        let snapshot = Store::open_on(&store, placement)?.snapshot(NAME)?;
        let parameters = snapshot.manifest().parameters.clone();
        let residues =
            snapshot.block_count() * parameters.degree() as u64 * parameters.limb_count() as u64;
        let flat = itemsets.iter().flat_map(Itemset::items).copied().collect();
        let question = Itemsets::new(itemsets[0].len(), flat, items)?;
        let plan = Plan::new(&question, parameters.limb_count());
        let count = Count::new(snapshot, plan, &nodes.distances)?;
        advance(&count, topology, &nodes)?;
        let counters = count.counters();
        let row = Row {
            bench: "numa traffic",
            placement: policy.to_string(),
            logical: nodes.logical,
            nodes: nodes.numbers.len(),
            groups,
            traffic: count.traffic().bytes(),
            at_home: counters.at_home,
            stolen: counters.stolen,
            stolen_needlessly: counters.stolen_needlessly,
            ciphertext_bytes: (u64::from(items) + 1) * residues * size_of::<u32>() as u64,
            multiply_adds: trie_nodes(&itemsets, items)? * residues,
        };
        output.result(&row, || row.text())?;
        rows.push(row);
    }
    Ok(rows)
}

/// Counts to the end, on a thread for each node if the machine has them.
fn advance(count: &Count<Snapshot>, topology: &Topology, nodes: &Nodes) -> Result<(), Failure> {
    let threads = nodes.numbers.len();
    if !nodes.logical {
        let threads = NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN);
        count.run(&topology.workers(threads), &|_| ControlFlow::Continue(()))?;
        return Ok(());
    }
    let mut workspaces: Vec<Workspace> = (0..threads).map(Workspace::on).collect();
    while !count.is_exhausted() {
        for workspace in &mut workspaces {
            count.step(workspace, |_| ControlFlow::Continue(()))?;
        }
    }
    Ok(())
}

/// A dataset of whole groups of small blocks: residues need not be encryptions to be counted.
fn make(directory: &Path, columns: u32, groups: u64) -> Result<Bundle, Failure> {
    let parameters = Parameters::new(10, 1, 12_289)?;
    let blocks = groups * parameters.group_blocks();
    let mut manifest = Manifest {
        dataset: DATASET,
        key_check: [0; 16],
        generation: [0; 16],
        max_len: 2,
        columns,
        version: 1,
        segments: Vec::new(),
        parameters,
    };
    let bundle = Bundle::create(directory)?;
    for first_block in (0..blocks).step_by(BLOCKS_PER_SEGMENT as usize) {
        let here = (blocks - first_block).min(BLOCKS_PER_SEGMENT.into());
        let segment = bundle.segment(SegmentDescription {
            dataset: DATASET,
            index: manifest.segments.len() as u32,
            first_block,
            columns,
            parameters: manifest.parameters.clone(),
            seeds: vec![Seed([0; 32]); here as usize],
        })?;
        let residues = here as usize * manifest.parameters.degree();
        for (limb, modulus) in manifest.parameters.limb_moduli().iter().enumerate() {
            for column in 0..columns as usize {
                let panel: Vec<u32> = (0..residues as u32)
                    .map(|index| index.wrapping_mul(0x9e37_79b9) % modulus.value())
                    .collect();
                segment.write_panel(limb, column, &panel)?;
            }
        }
        manifest.segments.push(segment.finish()?);
    }
    Ok(bundle.commit(&manifest, &[])?)
}

/// Has a store in this directory publish the dataset.
fn fill(directory: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let store = Store::open(directory)?;
    let upload = store.begin_upload(NAME, &bundle.manifest().encode())?;
    for segment in upload.segments {
        let path = bundle.segment_path(segment.index);
        let bytes = fs::read(&path)
            .map_err(|error| format!("cannot read {}: {error}; start again", path.display()))?;
        let mut receiver = store.receive_segment(DATASET, segment.index, 0)?;
        receiver.write(&bytes)?;
        receiver.finish()?;
    }
    store.publish(DATASET)?;
    Ok(())
}

impl Row {
    fn text(&self) -> String {
        let all: u64 = self.traffic.iter().flatten().sum();
        let near: u64 = (0..self.nodes).map(|node| self.traffic[node][node]).sum();
        format!(
            "traffic of {} {}nodes  {:<11}  {:>10} read, {:>5.1} % of it near; {} tasks at home, {} stolen\n",
            self.nodes,
            if self.logical { "logical " } else { "" },
            self.placement,
            bytes(all),
            100.0 * near as f64 / all as f64,
            self.at_home,
            self.stolen,
        )
    }
}
