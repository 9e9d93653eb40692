//! Residents: loaded once, shared, and right.

use super::*;
use crate::Placement;
use crate::testing::{ID, description, residues, two_limbs, write_segment};
use oboro_fcmalloc::Backing;
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
        cell.get(|| Err(StoreError::Misuse { what: "no".into() }))
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
    let homes = Arc::new(Placement::default().homes("a", ID));
    let resident = ResidentSegment::new(Segment::open(&path).unwrap(), homes).unwrap();
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
