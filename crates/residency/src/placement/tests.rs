//! Homes are stable, balanced, equal for every caller, and match the kernel's report of pages.
//!
//! Tests of homes alone use node 0 several times in place of several nodes. The location of pages is tested on four
//! real nodes; `make test-numa` emulates them.

use super::*;
use crate::testing::{
    COLUMNS, ID, append, bundle, description, four_nodes, one_limb, open_version, snapshot,
};
use crate::{Arrival, PanelKey, Snapshot, Tier, WorkUnit};
use oboro_format::{Bundle, ErrorKind};
use oboro_ring::{Column, Factor, Limb};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use tempfile::TempDir;

/// Columns, and the mask after them.
const PANELS: usize = COLUMNS as usize + 1;

fn homes(nodes: usize, dataset: DatasetId) -> Homes {
    Placement::on(vec![0; nodes]).homes(dataset)
}

/// Creates a dataset whose segments have these numbers of blocks.
fn written(directory: &TempDir, blocks: &[u32]) -> Bundle {
    bundle(&directory.path().join("a.oboro"), &one_limb(), blocks)
}

/// Returns the panels of a dataset of one limb, segment by segment, the masks after the columns.
fn panels(snapshot: &Snapshot) -> Vec<Arc<crate::Panel>> {
    let segments = 0..snapshot.manifest().segments.len();
    let panel = |segment, column| {
        let factor = if column < COLUMNS {
            Factor::Column(Column(column))
        } else {
            Factor::Mask
        };
        snapshot.panel(segment, Limb(0), factor).unwrap()
    };
    segments
        .flat_map(|segment| (0..PANELS as u32).map(move |column| panel(segment, column)))
        .collect()
}

#[test]
fn with_one_node_nothing_is_placed() {
    for nodes in [vec![], vec![1000]] {
        let placement = Placement::on(nodes);
        placement.check().unwrap();
        let homes = placement.homes(ID);
        assert_eq!(homes.home(3), None);
        assert_eq!(homes.arena_count(), 1);
        assert_eq!(homes.backing(0).policy, MemoryPolicy::Inherit);
    }
}

#[test]
fn a_node_without_memory_for_us_is_refused() {
    let error = Placement::on(vec![0, 1000]).check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    for part in ["NUMA node 1000", "has_memory", "Mems_allowed_list"] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn small_datasets_do_not_all_begin_on_one_node() {
    let first = |id| homes(4, DatasetId([id; 16])).home(0);
    let nodes: HashSet<_> = (0..64).map(first).collect();
    assert_eq!(nodes.len(), 4);
}

proptest! {
    #[test]
    fn appends_keep_the_balance_and_move_nothing(
        id in any::<[u8; 16]>(),
        nodes in 2usize..9,
        segments in prop::collection::vec(1u32..=64, 1..8),
    ) {
        let homes = homes(nodes, DatasetId(id));
        let stripe_blocks = one_limb().shard_blocks();
        let mut placed: Vec<usize> = Vec::new();
        let mut first_block = 0;
        for (index, blocks) in (0..).zip(segments) {
            let segment = description(&one_limb(), index, first_block, blocks);
            for stretch in homes.stretches(&segment) {
                let home = stretch.home.unwrap();
                for block in stretch.blocks {
                    let stripe = ((first_block + block as u64) / stripe_blocks) as usize;
                    if stripe == placed.len() {
                        placed.push(home);
                    }
                    prop_assert_eq!(placed[stripe], home);
                }
            }
            first_block += u64::from(blocks);
            let stripes = |node| placed.iter().filter(|&&home| home == node).count();
            let (least, most) = ((0..nodes).map(stripes).min(), (0..nodes).map(stripes).max());
            prop_assert!(most.unwrap() - least.unwrap() <= 1, "{:?}", placed);
        }
    }

    #[test]
    fn a_segment_is_cut_where_homes_change_and_nowhere_else(
        nodes in 1usize..6,
        first_block in 0u64..200,
        blocks in 1u32..=64,
    ) {
        let homes = homes(nodes, ID);
        let segment = description(&one_limb(), 0, first_block, blocks);
        let stretches: Vec<Stretch> = homes.stretches(&segment).collect();
        let mut block = 0;
        for stretch in &stretches {
            prop_assert_eq!(stretch.blocks.start, block);
            for _ in stretch.blocks.clone() {
                let stripe = (first_block + block as u64) / one_limb().shard_blocks();
                prop_assert_eq!(homes.home(stripe), stretch.home);
                block += 1;
            }
        }
        prop_assert_eq!(block, blocks as usize);
        for pair in stretches.windows(2) {
            prop_assert_ne!(pair[0].home, pair[1].home);
        }
    }
}

#[test]
fn panels_are_the_same_wherever_they_lie() {
    let directory = TempDir::new().unwrap();
    let bundle = written(&directory, &[5, 64, 30]);
    let whole = |snapshot: &Snapshot| -> Vec<Vec<u32>> {
        let panels = panels(snapshot);
        let whole = |panel: &Arc<crate::Panel>| panel.pieces().flatten().copied().collect();
        panels.iter().map(whole).collect()
    };
    let expected = whole(&snapshot(&bundle, None, &Placement::default()).unwrap());
    for nodes in 1..=5 {
        let placement = Placement::on(vec![0; nodes]);
        let snapshot = snapshot(&bundle, None, &placement).unwrap();
        assert!(whole(&snapshot) == expected, "on {nodes}");
    }
}

#[test]
fn every_part_of_a_group_is_one_slice() {
    let directory = TempDir::new().unwrap();
    let bundle = written(&directory, &[5, 64, 30]);
    let stripe_blocks = one_limb().shard_blocks();
    let snapshot = snapshot(&bundle, None, &Placement::on(vec![0; 4])).unwrap();
    let panels = panels(&snapshot);
    let by_segment = panels.chunks_exact(PANELS);
    for (entry, panels) in snapshot.manifest().segments.iter().zip(by_segment) {
        let end = entry.first_block + u64::from(entry.blocks);
        let mut start = entry.first_block;
        while start < end {
            let next = end.min((start / stripe_blocks + 1) * stripe_blocks);
            let [from, to] = [start, next].map(|b| (b - entry.first_block) as usize);
            for panel in panels {
                assert_eq!(panel.blocks(from..to, 1024).len(), (to - from) * 1024);
            }
            start = next;
        }
    }
}

#[test]
fn an_append_leaves_panels_in_memory_where_they_are() {
    let directory = TempDir::new().unwrap();
    let bundle = written(&directory, &[20, 7]);
    let tier = Arc::new(Tier::new(None, &Placement::on(vec![0; 3])).unwrap());
    let old = open_version(&tier, &bundle, None).unwrap();
    let before = panels(&old);
    let new = open_version(&tier, &append(&bundle, &[40]), Some(&old)).unwrap();
    let after = panels(&new);
    assert!(before.iter().zip(&after).all(|(a, b)| Arc::ptr_eq(a, b)));
    for stripe in 0..3 {
        assert_eq!(old.home(stripe), new.home(stripe));
    }
    let report = new.placement().unwrap();
    assert_eq!((report.resident_panels, report.panels), (9, 9));
}

/// Returns pages on nodes 0, 1, 2, in bytes.
fn pages(pages: [usize; 3]) -> BTreeMap<u32, usize> {
    (0..)
        .zip(pages.map(|pages| pages * page_size()))
        .filter(|&(_, bytes)| bytes > 0)
        .collect()
}

fn node(resident: u64, intended: u64) -> NodePages {
    NodePages { resident, intended }
}

#[test]
fn a_report_counts_pages_at_home_and_elsewhere() {
    let homes = Placement::on(vec![0, 1]).homes(ID);
    let mut report = homes.report();
    homes.add_to(&mut report, 0, &pages([90, 0, 10]));
    homes.add_to(&mut report, 1, &pages([50, 50, 0]));
    let expected = [(0, node(140, 100)), (1, node(50, 100)), (2, node(10, 0))];
    assert_eq!(report.nodes, expected.into());
    assert_eq!((report.pages(), report.misplaced), (200, 60));
    assert_eq!(report.misplaced_share(), 0.3);
}

#[test]
fn where_nothing_is_placed_nothing_is_misplaced() {
    let homes = Placement::default().homes(ID);
    let mut report = homes.report();
    assert_eq!(report.misplaced_share(), 0.0);
    homes.add_to(&mut report, 0, &pages([0, 5, 7]));
    assert_eq!((report.is_placed, report.misplaced), (false, 0));
    assert_eq!(report.nodes, [(1, node(5, 0)), (2, node(7, 0))].into());
}

/// Loads all panels of a dataset of one limb into the tier, whose budget holds them.
fn bring_in(snapshot: &Snapshot) {
    let columns = Column::first(COLUMNS).map(Factor::Column);
    let key = |factor: Factor| PanelKey::new(Limb(0), factor);
    let parts = iter::once(Factor::Mask).chain(columns).map(key).collect();
    let (said, heard) = channel();
    let segments = 0..snapshot.manifest().segments.len();
    let listener = Arc::new(move |arrival| said.send(arrival).unwrap());
    let unit = WorkUnit { segments, pass: 0 };
    let _stream = snapshot.stream(vec![parts], vec![unit], listener).unwrap();
    assert!(matches!(heard.recv().unwrap(), Arrival::Unit(0)));
}

#[test]
fn on_four_nodes_99_percent_of_the_pages_are_where_they_belong() {
    let Some(nodes) = four_nodes() else { return };
    let directory = TempDir::new().unwrap();
    let bundle = written(&directory, &[64, 30, 64]);
    for budget in [None, Some(32 << 20)] {
        let placement = Placement::on(nodes.into());
        let snapshot = snapshot(&bundle, budget, &placement).unwrap();
        assert_eq!(snapshot.placement().unwrap().pages(), 0);
        if budget.is_some() {
            bring_in(&snapshot);
        }
        let _panels = panels(&snapshot);
        let report = snapshot.placement().unwrap();
        assert!(report.misplaced_share() <= 0.01, "{report:?}");
        assert_eq!(report.panels, report.resident_panels);
        let intended: u64 = report.nodes.values().map(|node| node.intended).sum();
        assert_eq!(intended, report.pages());

        let mut least = [0; 4];
        for block in 0..snapshot.block_count() {
            let stripe = block / one_limb().shard_blocks();
            let home = snapshot.home(stripe).unwrap();
            least[home] += PANELS * 1024 * size_of::<u32>();
        }
        for (node, least) in nodes.into_iter().zip(least) {
            let bytes = report.nodes.get(&node).map_or(0, |node| node.resident) as usize;
            let bytes = bytes * page_size();
            assert!(bytes * 100 >= least * 99, "{report:?}");
        }
    }
}
