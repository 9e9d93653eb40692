//! Streams load the data that were written, within the budget.

use super::*;
use crate::Snapshot;
use crate::testing::{COLUMNS, bundle, open_version, residues, two_limbs};
use oboro_format::Bundle;
use oboro_ring::{Column, Factor, Limb};
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Blocks of the segments of the dataset.
const BLOCKS: [u32; 3] = [3, 2, 3];

fn parts(limbs: usize) -> Vec<PanelKey> {
    let of_limb = |limb| {
        let columns = Column::first(COLUMNS).map(Factor::Column);
        let factors = [Factor::Mask].into_iter().chain(columns);
        factors.map(move |factor| PanelKey::new(limb, factor))
    };
    Limb::first(limbs).flat_map(of_limb).collect()
}

/// Returns the bytes of a tier that holds this many panels of three blocks.
fn room_for(panels: usize) -> u64 {
    let bytes = panels * Panel::footprint(3 * two_limbs().degree());
    bytes as u64 * GAPS / (GAPS - 1) + GAPS
}

/// Tier, and a dataset in a bundle.
struct Setting {
    tier: Arc<Tier>,
    bundle: Bundle,
}

impl Setting {
    /// Creates a tier that holds this many panels of three blocks.
    fn new(directory: &Path, panels: usize) -> Self {
        Self::placed(directory, panels, &Placement::default())
    }

    fn placed(directory: &Path, panels: usize, placement: &Placement) -> Self {
        Self::of(directory, panels, placement, &BLOCKS)
    }

    /// Creates a tier that holds this many panels of three blocks, with a dataset of segments of these blocks.
    fn of(directory: &Path, panels: usize, placement: &Placement, blocks: &[u32]) -> Self {
        Self {
            tier: Arc::new(Tier::new(Some(room_for(panels)), placement).unwrap()),
            bundle: bundle(&directory.join("bundle"), &two_limbs(), blocks),
        }
    }

    fn snapshot(&self) -> Snapshot {
        open_version(&self.tier, &self.bundle, None).unwrap()
    }
}

fn stream(
    snapshot: &Snapshot,
    parts: Vec<PanelKey>,
    units: Vec<Range<usize>>,
) -> Result<(Stream, Receiver<Arrival>), ResidencyError> {
    let (said, heard) = channel();
    let said = Mutex::new(said);
    // A listener that unsubscribed needs no more events.
    let listener = Arc::new(move |arrival| drop(said.lock().send(arrival)));
    let unit = |segments| WorkUnit { segments, pass: 0 };
    let units = units.into_iter().map(unit).collect();
    let stream = snapshot.stream(vec![parts], units, listener)?;
    Ok((stream, heard))
}

fn unit(heard: &Receiver<Arrival>) -> usize {
    match heard.recv().unwrap() {
        Arrival::Unit(unit) => unit,
        Arrival::Failed(error) => panic!("{error}"),
    }
}

#[test]
fn groups_arrive_with_what_was_written() {
    let directory = TempDir::new().unwrap();
    // Two segments of six panels at a time.
    assert_groups_arrive(&Setting::new(directory.path(), 12));
}

#[test]
fn they_arrive_wherever_they_lie() {
    let directory = TempDir::new().unwrap();
    // Spare bytes for gaps between more pieces.
    let placement = Placement::on(vec![0; 3]);
    assert_groups_arrive(&Setting::placed(directory.path(), 16, &placement));
}

fn assert_groups_arrive(setting: &Setting) {
    let snapshot = &setting.snapshot();
    let units = vec![0..1, 0..2, 1..2, 1..3, 2..3];
    let (stream, heard) = stream(snapshot, parts(2), units.clone()).unwrap();
    let degree = two_limbs().degree();
    for _ in 0..units.len() {
        let arrived = unit(&heard);
        for segment in units[arrived].clone() {
            let description = snapshot.segment(segment).description();
            for limb in Limb::first(2) {
                for column in Column::first(COLUMNS) {
                    let panel = snapshot.panel(segment, limb, column).unwrap();
                    let all: Vec<u32> = panel.pieces().flatten().copied().collect();
                    assert!(all == residues(description, limb, column));
                }
                let masks = snapshot.panel(segment, limb, Factor::Mask).unwrap();
                let mut expected = vec![0; degree];
                for (block, seed) in description.seeds.iter().enumerate() {
                    mask::expand(seed, &description.parameters, limb, &mut expected);
                    assert_eq!(masks.blocks(block..block + 1, degree), expected);
                }
            }
        }
        stream.release(arrived);
    }
    let file_bytes = |segment| snapshot.segment(segment).header().part_extent(0).len as u64;
    let bytes: u64 = (0..3).map(|segment| 4 * file_bytes(segment)).sum();
    let reads = stream.reads();
    assert_eq!(
        (reads.bytes, reads.panels, reads.masks, reads.found),
        (bytes, 12, 6, 0)
    );
}

#[test]
fn what_is_in_memory_is_not_read_again() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 18);
    let snapshot = setting.snapshot();
    let count = |limbs| {
        let (stream, heard) = stream(&snapshot, parts(limbs), vec![0..2, 1..3]).unwrap();
        for _ in 0..2 {
            stream.release(unit(&heard));
        }
        stream.reads()
    };
    let [fewer, all, again] = [1, 2, 2].map(count);
    assert_eq!((fewer.panels, fewer.masks, fewer.found), (6, 3, 0));
    assert_eq!((all.panels, all.masks, all.found), (6, 3, 9));
    assert_eq!((again.panels, again.masks, again.found), (0, 0, 18));
    let report = snapshot.placement().unwrap();
    assert_eq!((report.resident_panels, report.panels), (18, 18));
}

#[test]
fn panels_of_many_sizes_find_room_among_each_other() {
    let directory = TempDir::new().unwrap();
    let blocks = [[1; 12].as_slice(), &[16], &[1; 12], &[9]].concat();
    let setting = Setting::of(directory.path(), 36, &Placement::default(), &blocks);
    let snapshot = setting.snapshot();
    // Evicted panels of the second limb leave small gaps, so large ones are in many pieces.
    for segments in [0..12, 12..13, 13..25, 25..26, 0..12, 25..26, 12..13] {
        let units: Vec<_> = segments.map(|segment| segment..segment + 1).collect();
        let (stream, heard) = stream(&snapshot, parts(2), units.clone()).unwrap();
        for _ in units {
            stream.release(unit(&heard));
        }
    }
}

#[test]
fn where_gaps_are_of_no_use_kept_panels_go() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 18);
    let snapshot = setting.snapshot();
    let bring_in = |segments| {
        let (stream, heard) = stream(&snapshot, parts(2), vec![segments]).unwrap();
        stream.release(unit(&heard));
    };
    bring_in(0..1);
    let block = || {
        setting.tier.arenas.as_ref().unwrap()[0]
            .unplaced_block(two_limbs().degree())
            .ok()
    };
    let _of_others: Vec<_> = std::iter::from_fn(block).collect();
    bring_in(1..2);
    let report = snapshot.placement().unwrap();
    assert!(report.resident_panels < 12, "{}", report.resident_panels);
}

#[test]
fn whoever_leaves_expands_no_masks_for_others() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 4);
    let snapshot = setting.snapshot();
    let threads = Arc::new(Mutex::new(Vec::new()));
    let both = [0, 1].map(|limb| {
        let limb = Limb(limb);
        let (threads, (said, heard)) = (Arc::clone(&threads), channel());
        let said = Mutex::new(said);
        let listener: Listener = Arc::new(move |_| {
            threads.lock().push(thread::current().id());
            let _ = said.lock().send(());
        });
        let segments = 0..3;
        let units = vec![WorkUnit { segments, pass: 0 }];
        let masks = vec![vec![PanelKey::new(limb, Factor::Mask)]];
        (snapshot.stream(masks, units, listener).unwrap(), heard)
    });
    // One of them fits.
    let [first, second] = both;
    first.1.recv().unwrap();
    drop(first);
    second.1.recv().unwrap();
    assert_ne!(threads.lock()[1], thread::current().id());
}

#[test]
fn a_group_beyond_the_budget_is_refused_with_what_would_do() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 4);
    let snapshot = setting.snapshot();
    let refused = stream(&snapshot, parts(2), vec![0..1, 2..3]).err().unwrap();
    assert_eq!(refused.kind(), oboro_format::ErrorKind::MemoryFull);
    assert!(refused.to_string().contains("--memory"), "{refused}");
    assert!(stream(&snapshot, parts(1), vec![0..1, 2..3]).is_ok());
}

#[test]
fn a_damaged_panel_ends_the_streams_that_need_it_and_no_other() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 18);
    let snapshot = setting.snapshot();
    let file = snapshot.segment(1);
    let offset = file
        .header()
        .part_extent(file.panel_number(Limb(1), Column(0)))
        .offset;
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes[offset as usize + 5] ^= 1;
    std::fs::write(file.path(), bytes).unwrap();
    let failed = |heard: &Receiver<Arrival>| {
        heard.iter().find_map(|arrival| match arrival {
            Arrival::Failed(error) => Some(error.to_string()),
            Arrival::Unit(_) => None,
        })
    };
    let both = [(); 2].map(|()| stream(&snapshot, parts(2), vec![0..1, 1..2]).unwrap());
    for (_stream, heard) in both {
        let message = failed(&heard).unwrap();
        assert!(
            message.contains("panel (limb 1, column 0) of segment 1"),
            "{message}"
        );
    }
    let (other, heard) = stream(&snapshot, parts(1), vec![0..2, 1..3]).unwrap();
    let mut arrived = [(); 2].map(|()| unit(&heard));
    arrived.sort();
    assert_eq!(arrived, [0, 1]);
    drop(other);
    assert_eq!(setting.tier.state.lock().ledger.streams(), 0);
}

#[test]
fn streams_that_go_away_give_all_back() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 12);
    let snapshot = setting.snapshot();
    for _ in 0..20 {
        // The second waits for the first, and both are dropped before they are done.
        let gone = [(); 2].map(|()| stream(&snapshot, parts(2), vec![0..2, 1..3]).unwrap());
        drop(gone);
    }
    let (stream, heard) = stream(&snapshot, parts(2), vec![0..2, 1..3]).unwrap();
    for _ in 0..2 {
        stream.release(unit(&heard));
    }
    drop(stream);
    // A closed dataset leaves nothing in memory.
    drop(snapshot);
    assert_eq!(setting.tier.state.lock().ledger.used(), 0);
}

#[test]
fn what_is_not_read_yet_for_a_stream_that_is_gone_stays_on_disk() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 18);
    // One buffer, which is lent.
    let reader = &setting.tier.reader;
    let bytes = 1 << 20;
    reader.provide(NonZero::<usize>::MIN, bytes).unwrap();
    *setting.tier.buffers.lock() = Buffers {
        bytes,
        are_allocated: true,
    };
    let (go, gone) = channel::<()>();
    reader.submit(
        &"".into(),
        Work::Read(Read {
            open: Box::new(|| Ok(Arc::new(tempfile::tempfile().unwrap()))),
            offset: 0,
            len: 4096,
            is_wanted: Box::new(|| true),
            then: Box::new(move |_| {
                let _ = gone.recv();
            }),
        }),
    );
    let snapshot = setting.snapshot();
    let column = |column| PanelKey::new(Limb(0), Column(column));
    let (first, _) = stream(&snapshot, vec![column(0)], vec![0..2, 1..3]).unwrap();
    let (second, heard) = stream(&snapshot, vec![column(1)], vec![0..1, 1..2]).unwrap();
    drop(first);
    drop(go);
    assert_eq!(unit(&heard) + unit(&heard), 1);
    assert_eq!(second.reads().panels, 2);
    assert_eq!(snapshot.placement().unwrap().resident_panels, 2);
    let panel = |blocks| Panel::footprint(blocks * two_limbs().degree()) as u64;
    assert_eq!(setting.tier.state.lock().ledger.used(), panel(3) + panel(2));
}

#[test]
fn buffers_are_for_the_largest_panel_there_is() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 12);
    assert_eq!(setting.tier.buffers.lock().bytes, 0);
    let _snapshot = setting.snapshot();
    // Three blocks are 21 KiB, and 64 would be 448.
    assert_eq!(setting.tier.buffers.lock().bytes, 32 << 10);
}

#[test]
fn who_needs_larger_buffers_than_there_is_memory_for_harms_nobody_else() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 12);
    let snapshot = setting.snapshot();
    for (limb, bytes) in [1 << 50, 4096].into_iter().enumerate() {
        let refused = setting.tier.ensure_buffers(bytes).is_err();
        assert_eq!(refused, bytes > 4096);
        let of_limb = parts(2).into_iter().filter(|part| part.limb == Limb(limb));
        let (stream, heard) = stream(&snapshot, of_limb.collect(), vec![0..1, 0..2]).unwrap();
        assert_eq!(unit(&heard) + unit(&heard), 1);
        assert_eq!(stream.reads().panels, 2 * u64::from(COLUMNS));
    }
}

#[test]
fn a_panic_while_a_panel_is_built_is_its_error() {
    let directory = TempDir::new().unwrap();
    let setting = Setting::new(directory.path(), 18);
    let _snapshot = setting.snapshot();
    let tier = &setting.tier;
    let part = parts(1)[1];
    let load = tier
        .state
        .lock()
        .segments
        .values()
        .next()
        .map(|segment| Load {
            key: Key {
                segment: segment.number,
                panel: part,
            },
            segment: Arc::clone(segment),
        });
    let built = tier.build(&load.unwrap(), |_| panic!("as it should"));
    let message = built.unwrap_err().to_string();
    assert!(message.contains("column 0 of segment"), "{message}");
}

#[test]
fn what_was_read_through_the_systems_cache_does_not_stay_there() {
    use rustix::fs::{Advice, fadvise};
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let directory = TempDir::new().unwrap();
    let written = bundle(&directory.path().join("bundle"), &two_limbs(), &BLOCKS);
    let segment = written.open_segment(0).unwrap();
    // Single pages from here on, which are dropped one by one: larger folios of the cache may extend beyond a panel.
    let file = segment.file().file().unwrap();
    file.sync_all().unwrap();
    oboro_format::forget_cached(&file, 0, file.metadata().unwrap().len());
    fadvise(&*file, 0, None, Advice::Random).unwrap();
    let place = segment.header().part_extent(0);
    let segment = StreamedSegment {
        owner: "".into(),
        number: 0,
        file: FileToRead::Forgotten,
        arenas: Arc::new([]),
        homes: Arc::new(Placement::default().homes(crate::testing::ID)),
        panels: Box::default(),
        segment: StoredSegment::new(segment),
    };
    let is_cached = || {
        let mut byte = [0];
        let bytes = &mut [io::IoSliceMut::new(&mut byte)];
        let read = preadv2(
            segment.file_to_read().unwrap(),
            bytes,
            place.offset,
            ReadWriteFlags::NOWAIT,
        );
        match read {
            Ok(read) => Some(read == 1),
            Err(Errno::AGAIN) => Some(false),
            Err(_) => None,
        }
    };
    segment.segment.local().verify().unwrap();
    if is_cached() != Some(true) {
        println!("skipped: the system does not say what its cache has");
        return;
    }
    // Checking may bring it back, and other programs may delay its eviction from the page cache for a while.
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        segment.forget_cached(place);
        if is_cached() == Some(false) {
            return;
        }
        assert!(Instant::now() < deadline, "it stays in the system's cache");
        thread::yield_now();
    }
}
