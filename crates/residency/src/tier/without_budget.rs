//! Without a budget, panels are loaded once, shared, kept, and correct.

use super::*;
use crate::Placement;
use crate::testing::{
    COLUMNS, ID, description, four_nodes, one_limb, residues, two_limbs, write_segment,
};
use oboro_format::Segment;
use oboro_ring::{Column, Factor, Limb, Parameters};
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use tempfile::TempDir;

/// File of one segment.
struct Setting {
    _directory: TempDir,
    path: PathBuf,
    description: SegmentDescription,
}

impl Setting {
    fn new(parameters: &Parameters, index: u32, first_block: u64, blocks: u32) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("a.seg");
        let description = description(parameters, index, first_block, blocks);
        write_segment(&path, description.clone());
        Self {
            _directory: directory,
            path,
            description,
        }
    }

    fn open(&self, homes: &Arc<Homes>) -> Arc<OpenSegment> {
        let tier = Arc::new(Tier::new(None, &Placement::default()).unwrap());
        let segment = StoredSegment::new(Segment::open(&self.path).unwrap());
        let charge = tier.headers().charge(0);
        let opened = tier.register(&"".into(), segment, Arc::clone(homes), charge);
        Arc::new(opened.unwrap())
    }
}

fn homes(nodes: impl Into<Vec<u32>>) -> Arc<Homes> {
    Arc::new(Placement::on(nodes.into()).homes(ID))
}

fn column(limb: usize, column: u32) -> PanelKey {
    PanelKey::new(Limb(limb), Column(column))
}

fn mask_of(limb: usize) -> PanelKey {
    PanelKey::new(Limb(limb), Factor::Mask)
}

#[test]
fn concurrent_first_uses_load_once() {
    let setting = Setting::new(&one_limb(), 0, 0, 3);
    let segment = setting.open(&homes([]));
    for part in [column(0, 1), mask_of(0)] {
        let barrier = Barrier::new(8);
        let load = || {
            barrier.wait();
            segment.load(part).unwrap()
        };
        let panels: Vec<Arc<Panel>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(panels.iter().all(|panel| Arc::ptr_eq(panel, &panels[0])));
    }
}

#[test]
fn panels_and_masks_are_what_was_written() {
    let setting = Setting::new(&two_limbs(), 0, 0, 3);
    let (description, segment) = (&setting.description, setting.open(&homes([])));
    let n = description.parameters.degree();
    for limb in 0..2 {
        for number in 0..2 {
            let panel = segment.load(column(limb, number)).unwrap();
            let expected = residues(description, Limb(limb), Column(number));
            assert_eq!(panel.blocks(0..3, n), expected);
        }
        let masks = segment.load(mask_of(limb)).unwrap();
        let mut mask = vec![0; n];
        for (block, seed) in description.seeds.iter().enumerate() {
            mask::expand(seed, &description.parameters, Limb(limb), &mut mask);
            assert_eq!(masks.blocks(block..block + 1, n), mask);
        }
    }
    for part in [column(2, 0), column(0, 2), mask_of(2)] {
        assert!(!segment.contains(part));
    }
}

#[test]
fn what_was_loaded_stays_as_long_as_the_segment() {
    let setting = Setting::new(&two_limbs(), 0, 0, 3);
    let segment = setting.open(&homes([]));
    let (tier, all) = (Arc::clone(&segment.tier), [column(0, 0), mask_of(1)]);
    let first = segment.load(all[0]).unwrap();
    assert!(segment.keeps(&all[..1]) && !segment.keeps(&all));
    segment.load(all[1]).unwrap();
    assert!(segment.keeps(&all));
    assert!(Arc::ptr_eq(&first, &segment.load(all[0]).unwrap()));
    let arenas = Arc::downgrade(&segment.segment.arenas);
    assert!(tier.state.lock().ledger.used() > 0);
    drop((segment, first));
    assert_eq!(tier.state.lock().ledger.used(), 0);
    assert!(tier.state.lock().segments.is_empty());
    // The thread that loaded last drops it asynchronously.
    let begun = std::time::Instant::now();
    while arenas.strong_count() > 0 {
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(60),
            "something still has the arenas"
        );
        thread::yield_now();
    }
}

#[test]
fn what_another_stream_loads_is_found() {
    let setting = Setting::new(&two_limbs(), 0, 0, 3);
    let segment = setting.open(&homes([]));
    let parts = vec![mask_of(0), column(0, 0), column(0, 1)];
    let begin = || {
        let (said, heard) = channel();
        let segments = vec![Arc::clone(&segment)];
        let units = vec![WorkUnit {
            segments: 0..1,
            pass: 0,
        }];
        let listener = Arc::new(move |arrival| said.send(arrival).unwrap());
        let stream = Stream::begin(segments, vec![parts.clone()], units, listener).unwrap();
        (stream, heard)
    };
    let both = [(); 2].map(|()| begin());
    let reads = both.map(|(stream, heard)| {
        assert!(matches!(heard.recv().unwrap(), Arrival::Unit(0)));
        stream.reads()
    });
    assert_eq!(
        reads.map(|it| (it.panels, it.masks, it.found)),
        [(2, 1, 0), (0, 0, 3)]
    );
}

#[test]
fn the_pieces_of_a_panel_are_where_its_groups_have_their_homes() {
    let setting = Setting::new(&one_limb(), 1, 5, 64);
    let n = setting.description.parameters.degree();
    let homes = homes([0; 3]);
    let segment = setting.open(&homes);
    let lies_in = |residues: &[u32]| {
        let address = residues.as_ptr().cast();
        let mut arenas = segment.segment.arenas.iter();
        arenas.position(|it| it.opened().contains(&address))
    };
    let columns = (0..COLUMNS).map(|number| column(0, number));
    for part in columns.chain([mask_of(0)]) {
        let panel = segment.load(part).unwrap();
        for block in 0..64 {
            let stripe = (5 + block as u64) / setting.description.parameters.shard_blocks();
            let residues = panel.blocks(block..block + 1, n);
            assert_eq!(lies_in(residues), homes.home(stripe));
        }
    }
}

#[test]
fn panels_of_a_node_that_has_been_forbidden_lie_on_another() {
    let setting = Setting::new(&one_limb(), 0, 0, 64);
    let segment = setting.open(&homes([1000, 0]));
    let panel = segment.load(column(0, 0)).unwrap();
    let whole: Vec<u32> = panel.pieces().flatten().copied().collect();
    assert!(whole == residues(&setting.description, Limb(0), Column(0)));
}

#[test]
fn no_piece_of_a_damaged_panel_is_used_or_kept() {
    let setting = Setting::new(&one_limb(), 0, 0, 64);
    let whole = std::fs::read(&setting.path).unwrap();
    let segment = setting.open(&homes([0; 3]));
    // In the last piece of column 0: those before it are unpacked by the time this is detected.
    let mut damaged = whole.clone();
    damaged[whole.len() * 2 / 5] ^= 1;
    std::fs::write(&setting.path, damaged).unwrap();
    for _ in 0..3 {
        let error = segment.load(column(0, 0)).unwrap_err();
        assert!(
            matches!(error, ResidencyError::Format(FormatError::Damaged { .. })),
            "{error}"
        );
        assert!(!segment.segment.has(column(0, 0)));
    }
    // The arenas hold one of each panel and no more.
    std::fs::write(&setting.path, whole).unwrap();
    let panels = [0, 1].map(|number| segment.load(column(0, number)).unwrap());
    assert!(panels.iter().all(|panel| panel.pieces().count() == 6));
    segment.load(mask_of(0)).unwrap();
}

#[test]
fn the_placement_of_pages_on_the_wrong_one_of_four_nodes_is_reported() {
    let Some([a, b, c, d]) = four_nodes() else {
        return;
    };
    let setting = Setting::new(&one_limb(), 0, 0, 64);
    let segment = setting.open(&homes([a, b, c, d]));
    let _panels = [0, 1].map(|number| segment.load(column(0, number)).unwrap());
    let report_against = |nodes: [u32; 4]| {
        let homes = homes(nodes);
        let mut report = homes.report();
        segment.report_against(&homes, &mut report).unwrap();
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
