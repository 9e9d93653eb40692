//! The traffic between nodes when the engine counts, by placement.
//!
//! Where a dataset is and which node counts what follow from the placement and the schedule, not from speed, so traffic
//! can be measured on a machine with fewer nodes as well: there, nodes are *logical*, several of them in one memory,
//! and take steps in turn, as nodes of equal speed would.

use super::Arguments;
use super::nodes::Nodes;
use super::placed::{Placed, Policy};
use crate::itemsets::trie_nodes;
use crate::output::{Failure, Output, bytes};
use crate::workload::{Workload, temporary_directory};
use oboro_arena::Topology;
use oboro_engine::{Count, Plan, Workspace};
use oboro_format::{
    BLOCKS_PER_SEGMENT, Bundle, CELL_SEAL_BYTES, DatasetId, Manifest, SegmentDescription,
};
use oboro_mining::Itemset;
use oboro_ring::moment::Itemsets;
use oboro_ring::{Column, Limb, Parameters, Seed};
use oboro_store::Store;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const GROUPS_PER_NODE: u64 = 4;
const DATASET: DatasetId = DatasetId(*b"oboro bench numa");
pub const NAME: &str = "traffic";

/// The result of one placement. Bytes are those of residues that tasks read.
#[derive(Serialize)]
pub struct Row {
    bench: &'static str,
    placement: String,
    /// Whether some of the nodes are simulated.
    logical: bool,
    nodes: usize,
    groups: u64,
    /// `traffic[reader][home]`.
    traffic: Vec<Vec<u64>>,
    /// Tasks that ran on the node with most of their input.
    at_home: u64,
    stolen: u64,
    /// Tasks stolen by a node with ready tasks of its own.
    stolen_needlessly: u64,
    /// For each node by the kernel's number, the bytes of residues that it has, as the kernel reports; null if it does
    /// not.
    resident: Option<BTreeMap<u32, usize>>,
    /// The part of them on another node than intended; null where nodes are simulated.
    misplaced_share: Option<f64>,
    /// All residues, masks included; tasks read many of them more than once.
    ciphertext_bytes: u64,
    /// The tasks' multiply-adds, by [`trie_nodes`].
    multiply_adds: u64,
}

/// Counts all pairs in synthetic residues of the requested number of items, with every policy.
pub fn measure(
    topology: &Topology,
    arguments: &Arguments,
    output: Output,
) -> Result<Vec<Row>, Failure> {
    let nodes = Nodes::of(topology, arguments.nodes.map(usize::from))?;
    let directory = temporary_directory()?;
    let residues = Residues::make(directory.path(), &arguments.workload(), &nodes)?;
    let mut rows = Vec::new();
    for policy in Policy::ALL {
        let row = residues.count(policy, topology, &nodes)?;
        output.result(&row, || row.text())?;
        rows.push(row);
    }
    Ok(rows)
}

/// A dataset in a store, and the query for pairs of its items. Counting works on any residues, not only on encryptions.
struct Residues {
    store: PathBuf,
    items: u32,
    groups: u64,
    pairs: Vec<Itemset>,
}

impl Residues {
    /// In this directory, with enough groups for these nodes.
    fn make(directory: &Path, workload: &Workload, nodes: &Nodes) -> Result<Self, Failure> {
        let made = Self {
            store: directory.join("store"),
            items: workload.items,
            groups: GROUPS_PER_NODE * nodes.numbers.len() as u64,
            pairs: workload.itemsets()?,
        };
        let bundle = bundle(&directory.join("bundle"), made.items, made.groups)?;
        publish(&made.store, &bundle)?;
        Ok(made)
    }

    fn count(&self, policy: Policy, topology: &Topology, nodes: &Nodes) -> Result<Row, Failure> {
        let snapshot = Store::open(&self.store)?.access().snapshot(NAME)?;
        let parameters = &snapshot.manifest().parameters;
        let limbs = parameters.limb_count();
        let residues = snapshot.block_count() * parameters.degree() as u64 * limbs as u64;
        let placed = Placed::copy(&snapshot, nodes, policy)?;
        let pairs = self.pairs.iter().flat_map(Itemset::items);
        let plan = Plan::new(
            &Itemsets::new(2, pairs.copied().map(Column).collect(), self.items)?,
            limbs,
        );
        let placed = Arc::new(placed);
        let count = Count::new(Arc::clone(&placed), &plan, &nodes.distances)?;
        advance(&count, topology, nodes)?;
        let counters = count.counters();
        Ok(Row {
            bench: "numa traffic",
            placement: policy.to_string(),
            logical: nodes.logical,
            nodes: nodes.numbers.len(),
            groups: self.groups,
            traffic: count.traffic().bytes(),
            at_home: counters.at_home,
            stolen: counters.stolen,
            stolen_needlessly: counters.stolen_needlessly,
            resident: placed.resident().ok(),
            misplaced_share: (!nodes.logical)
                .then(|| placed.misplaced_share().ok())
                .flatten(),
            ciphertext_bytes: (u64::from(self.items) + 1) * residues * size_of::<u32>() as u64,
            multiply_adds: trie_nodes(&self.pairs, self.items)? * residues,
        })
    }
}

/// Counts to the end, on one thread per node if the machine has them.
fn advance(count: &Count<Placed>, topology: &Topology, nodes: &Nodes) -> Result<(), Failure> {
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

/// Whole groups of small blocks.
fn bundle(directory: &Path, columns: u32, groups: u64) -> Result<Bundle, Failure> {
    let parameters = Parameters::new(10, 1, 12_289)?;
    let blocks = groups * parameters.shard_blocks();
    let mut manifest = Manifest {
        dataset: DATASET,
        key_check: [0; 16],
        generation: [0; 16],
        max_len: 2,
        columns,
        row_id_bytes: 0,
        version: 1,
        next_segment: 0,
        earlier_roots: Vec::new(),
        segments: Vec::new(),
        parameters,
    };
    let bundle = Bundle::create(directory)?;
    for first_block in (0..blocks).step_by(BLOCKS_PER_SEGMENT as usize) {
        let here = (blocks - first_block).min(BLOCKS_PER_SEGMENT.into());
        let segment = bundle.segment(SegmentDescription {
            dataset: DATASET,
            number: manifest.next_segment,
            first_block,
            columns,
            row_id_bytes: 0,
            parameters: manifest.parameters.clone(),
            seeds: vec![Seed([0; 32]); here as usize],
        })?;
        let residues = here as usize * manifest.parameters.degree();
        for (limb, modulus) in manifest.parameters.limb_moduli().iter().enumerate() {
            for column in Column::first(columns) {
                let panel: Vec<u32> = (0..residues as u32)
                    .map(|index| index.wrapping_mul(0x9e37_79b9) % modulus.value())
                    .collect();
                segment.write_panel(Limb(limb), column, &panel)?;
            }
        }
        let cells = vec![0; residues / 8 + CELL_SEAL_BYTES];
        for column in Column::first(columns) {
            segment.write_cells(column, &cells)?;
        }
        manifest.segments.push(segment.finish()?);
        manifest.next_segment += 1;
    }
    Ok(bundle.commit(&manifest, &[], &[])?)
}

/// Publishes the dataset in a store in this directory.
pub fn publish(directory: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let store = Store::open(directory)?;
    let (dataset, root) = (bundle.manifest().dataset, bundle.manifest().root());
    let upload = store
        .access()
        .begin_upload(NAME, &bundle.manifest().encode())?;
    for segment in upload.segments {
        let path = bundle.segment_path(segment.index);
        let bytes = fs::read(&path)
            .map_err(|error| format!("cannot read {}: {error}; start again", path.display()))?;
        let mut receiver = store
            .access()
            .receive_segment(dataset, root, segment.index, 0)?;
        receiver.write(&bytes)?;
        receiver.finish()?;
    }
    store.access().publish(dataset, root)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    const WORKLOAD: Workload = Workload {
        items: 3,
        transactions: 1,
        max_len: 2,
        seed: 0,
        threads: NonZeroUsize::MIN,
    };

    /// The results of counting with each policy.
    fn rows(wanted: Option<usize>) -> Vec<Row> {
        let topology = Topology::of_this_machine();
        let nodes = Nodes::of(&topology, wanted).unwrap();
        let directory = temporary_directory().unwrap();
        let residues = Residues::make(directory.path(), &WORKLOAD, &nodes).unwrap();
        let count = |policy| residues.count(policy, &topology, &nodes).unwrap();
        Policy::ALL.map(count).into()
    }

    fn all(row: &Row) -> u64 {
        row.traffic.iter().flatten().sum()
    }

    fn near(row: &Row) -> u64 {
        (0..row.nodes).map(|node| row.traffic[node][node]).sum()
    }

    #[test]
    fn transactions_keep_all_reading_near() {
        let rows = rows(Some(8));
        let [transaction, others @ ..] = rows.as_slice() else {
            unreachable!("there are four policies");
        };
        assert!(transaction.logical);
        assert_eq!(
            (transaction.stolen, near(transaction)),
            (0, all(transaction))
        );
        for row in others {
            assert_eq!(all(row), all(transaction), "{}", row.placement);
            assert!(near(row) < all(row) / 2, "{}", row.placement);
        }
    }

    /// On four nodes of the emulated machine: see `make test-numa`.
    #[test]
    fn nodes_of_this_machine_steal_only_when_idle() {
        let machine = Topology::of_this_machine().nodes().len();
        let rows = rows(None);
        for row in &rows {
            assert_eq!(row.logical, machine == 1);
            assert_eq!(row.nodes, if machine == 1 { 4 } else { machine });
            assert_eq!(row.stolen_needlessly, 0);
            assert_eq!(all(row), all(&rows[0]), "{}", row.placement);
        }
        // Tasks that were not stolen read local memory.
        assert!(rows[0].stolen > 0 || near(&rows[0]) == all(&rows[0]));
    }
}
