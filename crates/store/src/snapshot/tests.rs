//! Residents: loaded once, shared, and right.

use super::*;
use crate::Placement;
use crate::testing::{
    COLUMNS, ID, description, four_nodes, one_limb, residues, two_limbs, write_segment,
};
use oboro_format::Segment;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Room for one panel of 16 residues.
fn small_arena() -> Arena {
    Arena::reserve(Panel::footprint(16), Backing::default()).unwrap()
}

#[test]
fn concurrent_first_uses_load_once() {
    let (cell, loads, barrier) = (Cell::default(), AtomicUsize::new(0), Barrier::new(8));
    let arena = small_arena();
    let get = || {
        barrier.wait();
        cell.get(|| {
            loads.fetch_add(1, Ordering::Relaxed);
            Panel::build(&arena, 16, 0, |_| Ok(()))
        })
        .unwrap()
    };
    let panels: Vec<Arc<Panel>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(get)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(loads.into_inner(), 1);
    assert!(panels.iter().all(|panel| Arc::ptr_eq(panel, &panels[0])));
}

#[test]
fn a_failed_load_is_tried_again() {
    let (cell, arena) = (Cell::default(), small_arena());
    assert!(
        cell.get(|| Err(FormatError::Misuse { what: "no".into() }.into()))
            .is_err()
    );
    assert!(cell.get(|| Panel::build(&arena, 16, 0, |_| Ok(()))).is_ok());
}

#[test]
fn panels_and_masks_are_what_was_written() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let description = description(&two_limbs(), 0, 0, 3);
    write_segment(&path, description.clone());
    let homes = Arc::new(Placement::default().homes(ID));
    let resident =
        ResidentSegment::new(StoredSegment::new(Segment::open(&path).unwrap()), homes).unwrap();
    let n = description.parameters.degree();
    for limb in 0..2 {
        for column in 0..2 {
            let panel = resident.panel(limb, column).unwrap().unwrap();
            assert_eq!(panel.blocks(0..3, n), residues(&description, limb, column));
        }
        let masks = resident.mask(limb).unwrap().unwrap();
        let mut mask = vec![0; n];
        for (block, seed) in description.seeds.iter().enumerate() {
            mask::expand(seed, &description.parameters, limb, &mut mask);
            assert_eq!(masks.blocks(block..block + 1, n), mask);
        }
    }
    assert!(
        resident.panel(2, 0).is_none()
            && resident.panel(0, 2).is_none()
            && resident.mask(2).is_none()
    );
}

#[test]
fn what_another_thread_loads_is_left_to_it() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let description = description(&one_limb(), 0, 0, 3);
    write_segment(&path, description.clone());
    let homes = Arc::new(Placement::default().homes(ID));
    let resident =
        ResidentSegment::new(StoredSegment::new(Segment::open(&path).unwrap()), homes).unwrap();
    let loading = resident.panels[1].loading.lock().unwrap();
    for column in [Some(0), Some(1), None] {
        resident.load_unless_begun(0, column).unwrap();
    }
    assert!(resident.has(0, 0) && !resident.has(0, 1));
    assert!(resident.masks[0].panel.get().is_some());
    drop(loading);
    resident.load_unless_begun(0, Some(1)).unwrap();
    for column in 0..2 {
        let loaded = resident.panels[column].panel.get().unwrap();
        let asked = resident.panel(0, column).unwrap().unwrap();
        assert!(Arc::ptr_eq(loaded, &asked));
        let n = description.parameters.degree();
        assert_eq!(asked.blocks(0..3, n), residues(&description, 0, column));
    }
}

#[test]
fn the_pieces_of_a_panel_are_where_its_groups_have_their_homes() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let description = description(&one_limb(), 1, 5, 64);
    write_segment(&path, description.clone());
    let n = description.parameters.degree();
    let homes = Arc::new(Placement::on(vec![0; 3]).homes(ID));
    let segment = StoredSegment::new(Segment::open(&path).unwrap());
    let resident = ResidentSegment::new(segment, homes.clone()).unwrap();
    let lies_in = |residues: &[u32]| {
        let address = residues.as_ptr().cast();
        let has = |arena: &Option<Arena>| {
            let opened = arena.as_ref().map(|arena| arena.opened());
            opened.is_some_and(|opened| opened.contains(&address))
        };
        resident.arenas.iter().position(has).unwrap()
    };
    for column in 0..=COLUMNS as usize {
        let panel = match column < COLUMNS as usize {
            true => resident.panel(0, column).unwrap().unwrap(),
            false => resident.mask(0).unwrap().unwrap(),
        };
        for block in 0..64 {
            let group = (5 + block as u64) / description.parameters.shard_blocks();
            let home = homes.home(group);
            let residues = panel.blocks(block..block + 1, n);
            assert_eq!(lies_in(residues), home.unwrap());
        }
    }
}

#[test]
fn panels_of_a_node_that_has_been_forbidden_lie_on_another() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    let description = description(&one_limb(), 0, 0, 64);
    write_segment(&path, description.clone());
    let homes = Arc::new(Placement::on(vec![1000, 0]).homes(ID));
    let resident =
        ResidentSegment::new(StoredSegment::new(Segment::open(&path).unwrap()), homes).unwrap();
    let panel = resident.panel(0, 0).unwrap().unwrap();
    let whole: Vec<u32> = panel.pieces().flatten().copied().collect();
    assert!(whole == residues(&description, 0, 0));
}

#[test]
fn no_piece_of_a_damaged_panel_is_used_or_kept() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    write_segment(&path, description(&one_limb(), 0, 0, 64));
    let whole = std::fs::read(&path).unwrap();
    let homes = Arc::new(Placement::on(vec![0; 3]).homes(ID));
    let resident =
        ResidentSegment::new(StoredSegment::new(Segment::open(&path).unwrap()), homes).unwrap();
    // In the last piece of column 0: those before it were unpacked when that is found out.
    let mut damaged = whole.clone();
    damaged[whole.len() * 2 / 5] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    for _ in 0..3 {
        let error = resident.panel(0, 0).unwrap().unwrap_err();
        assert!(
            matches!(error, StoreError::Format(FormatError::Damaged { .. })),
            "{error}"
        );
        let error = resident.load_unless_begun(0, Some(0)).unwrap_err();
        assert!(
            matches!(error, StoreError::Format(FormatError::Damaged { .. })),
            "{error}"
        );
    }
    // The arenas have room for one of each panel and no more.
    std::fs::write(&path, whole).unwrap();
    let panels = [0, 1].map(|column| resident.panel(0, column).unwrap().unwrap());
    assert!(panels.iter().all(|panel| panel.pieces().count() == 6));
    resident.mask(0).unwrap().unwrap();
}

#[test]
fn the_placement_of_pages_on_the_wrong_one_of_four_nodes_is_reported() {
    let Some([a, b, c, d]) = four_nodes() else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.seg");
    write_segment(&path, description(&one_limb(), 0, 0, 64));
    let homes = |nodes: [u32; 4]| {
        let placement = Placement::on(nodes.into());
        Arc::new(placement.homes(ID))
    };
    let segment = StoredSegment::new(Segment::open(&path).unwrap());
    let mut resident = ResidentSegment::new(segment, homes([a, b, c, d])).unwrap();
    let _panels = [0, 1].map(|column| resident.panel(0, column).unwrap().unwrap());
    let mut report_against = |nodes| {
        resident.homes = homes(nodes);
        let mut report = resident.homes.report();
        resident.report(&mut report).unwrap();
        report
    };
    let right = report_against([a, b, c, d]);
    assert_eq!(right.misplaced, 0, "{right:?}");
    let swapped = report_against([a, b, d, c]);
    let exchanged = right.nodes[&c].resident + right.nodes[&d].resident;
    assert_eq!(swapped.misplaced, exchanged);
    assert_eq!(swapped.nodes[&c].intended, right.nodes[&d].intended);
    let turned = report_against([b, c, d, a]);
    assert!(turned.misplaced_share() >= 0.99, "{turned:?}");
}
