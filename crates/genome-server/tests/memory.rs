//! Preparing a window takes no more memory than announced, and not much less: servers reserve that amount.

#![allow(unsafe_code)]

use oboro_genome_server::{
    Collections, Existing, GenomeError, Rows, SyntheticPanel, Window, generate_panel,
    import_reference,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Allocator of the system that counts the bytes held by this thread.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.set(HELD.get() + bytes);
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call goes to the system's allocator as it came; counting touches thread-locals that need
// neither allocation nor destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // If an allocation cannot grow in place, both exist for a moment.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Largest number of bytes held while the rows are read and sorted, beyond those before.
fn peak_of(read: impl FnOnce() -> Result<Rows, GenomeError>) -> u64 {
    let before = HELD.get();
    PEAK.set(before);
    let window = Window::new(read().unwrap());
    let kept = HELD.get() - before;
    assert_eq!(kept, window.bytes() as isize);
    let (rows, length, bits) = (
        window.rows().len(),
        window.rows().length(),
        window.rows().bits(),
    );
    assert_eq!(Window::bytes_of(rows, length, bits), kept as u64);
    (PEAK.get() - before) as u64
}

fn assert_predicted(predicted: u64, peak: u64) {
    assert!(
        peak <= predicted && peak >= predicted * 2 / 3,
        "{peak} bytes where {predicted} were predicted"
    );
}

#[test]
fn a_window_of_a_panel_takes_what_was_predicted() {
    let directory = tempfile::tempdir().unwrap();
    let collections = Collections::open(directory.path());
    let shape = SyntheticPanel {
        haplotypes: 50_000,
        sites: 300,
        seed: 1,
    };
    generate_panel(&collections, "p", &shape, Existing::Keep).unwrap();
    let panel = collections.panel("p").unwrap();
    for length in [1, 16, 64, 65, 256] {
        let peak = peak_of(|| panel.window(7..7 + length));
        assert_predicted(panel.preparation_bytes(length), peak);
    }
}

#[test]
fn a_window_of_a_reference_takes_what_was_predicted() {
    let directory = tempfile::tempdir().unwrap();
    let collections = Collections::open(directory.path());
    let fasta = directory.path().join("r.fa");
    std::fs::write(&fasta, format!(">s\n{}\n", "ACGGTTNA".repeat(5_000))).unwrap();
    import_reference(&collections, "r", &fasta, Existing::Keep).unwrap();
    let reference = collections.reference("r").unwrap();
    for length in [16, 100] {
        let peak = peak_of(|| Ok(reference.windows(length)));
        assert_predicted(reference.preparation_bytes(length), peak);
    }
}
