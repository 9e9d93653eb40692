//! With grown buffers and resident panels, evaluating a tile allocates nothing, faults on no page and makes no system
//! call. The memory that a plan reports equals the memory that it has allocated.
//!
//! The global allocator counts allocations and the kernel counts faults. System calls are forbidden: strict secure
//! computing mode kills a thread for any but `read`, `write` and its own end.

#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

use oboro_arena::{Arena, Backing, Distances};
use oboro_engine::{Count, Plan, Source, Step, Tiles, Workspace, shards};
use oboro_residency::{Panel, ResidencyError};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Blocks, Column, Factor, Limb, Parameters};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{BufRead, BufReader, PipeWriter, Read, Write, pipe};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Allocator of the system that counts bytes.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static FREED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; counting touches a thread-local that needs neither
// allocation nor destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        FREED.set(FREED.get() + layout.size());
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + size);
        FREED.set(FREED.get() + layout.size());
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const COLUMNS: u32 = 9;
const SEGMENTS: usize = 3;
const SEGMENT_BLOCKS: usize = 64;

/// Source of resident panels.
struct Resident {
    parameters: Parameters,
    panels: Vec<Arc<Panel>>,
}

impl Resident {
    fn new() -> Self {
        let parameters = Parameters::new(11, 2, 12289).unwrap();
        let q = parameters.limb_moduli()[1].value();
        let len = SEGMENT_BLOCKS * parameters.degree();
        let bytes = (COLUMNS as usize + 1) * Panel::footprint(len);
        let arena = Arena::reserve(bytes, Backing::default()).unwrap();
        let panels = (0..=COLUMNS).map(|column| {
            let panel = Panel::build(&arena, len, column as usize, |out| {
                for (i, residue) in (0u32..).zip(out) {
                    *residue = i.wrapping_mul(2_654_435_761 + column) % q;
                }
                Ok::<_, ResidencyError>(())
            });
            Arc::new(panel.unwrap())
        });
        Self {
            panels: panels.collect(),
            parameters,
        }
    }
}

impl Source for Resident {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn columns(&self) -> u32 {
        COLUMNS
    }

    fn segments(&self) -> Vec<Blocks> {
        (0..SEGMENTS as u64)
            .map(|i| Blocks::from_start(i * SEGMENT_BLOCKS as u64, SEGMENT_BLOCKS as u64))
            .collect()
    }

    fn panel(&self, _: usize, _: Limb, factor: Factor) -> Result<Arc<Panel>, ResidencyError> {
        let column = match factor {
            Factor::Mask => COLUMNS,
            Factor::Column(column) => column.0,
        };
        Ok(Arc::clone(&self.panels[column as usize]))
    }
}

/// Plans all triples: tiles with products of two factors, scalars and polynomials.
fn plan_of_triples() -> Plan {
    let itemsets = Itemsets::all_of(&Vec::from_iter(Column::first(COLUMNS)), 3).unwrap();
    Plan::new(&itemsets, 2)
}

fn triples() -> Count<Resident> {
    let source = Arc::new(Resident::new());
    Count::new(source, &plan_of_triples(), &Distances::one_node()).unwrap()
}

/// Steps to the end; returns the number of tasks.
fn run(count: &Count<Resident>, workspace: &mut Workspace) -> u64 {
    let mut tasks = 0;
    loop {
        let step = count.step(workspace, |moments| {
            std::hint::black_box(moments.residues);
            ControlFlow::Continue(())
        });
        match step {
            Ok(Step::Advanced) => tasks += 1,
            Ok(Step::Finished) => return tasks + 1,
            Ok(Step::Waiting | Step::Exhausted) | Err(_) => return 0,
        }
    }
}

/// Minor and major page faults of the calling thread so far.
fn faults() -> i64 {
    // SAFETY: an all-zero `rusage` is one, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt + usage.ru_majflt
    }
}

#[test]
fn tiles_neither_allocate_nor_fault() {
    let mut workspace = Workspace::default();
    let tasks = run(&triples(), &mut workspace);
    assert!(tasks > 50, "{tasks} tasks");
    let count = triples();
    // The new count's panels were touched when they were made.
    let before = (ALLOCATED.get(), faults());
    assert_eq!(run(&count, &mut workspace), tasks);
    assert_eq!((ALLOCATED.get(), faults()), before);
}

#[test]
fn a_count_of_more_moments_needs_no_more_memory_of_its_own() {
    let source = Arc::new(Resident::new());
    let blocks = (SEGMENTS * SEGMENT_BLOCKS) as u64;
    let shards = shards(&[(0..blocks).into()], source.parameters().shard_blocks());
    let allocated = |plan: Plan| {
        let (tiles, shards) = (Arc::new(Tiles::new(&plan, usize::MAX)), shards.clone());
        let before = ALLOCATED.get();
        let count = Count::of_tiles(Arc::clone(&source), tiles, &Distances::one_node(), shards);
        let after = ALLOCATED.get();
        drop(count.unwrap());
        after - before
    };
    let one = Plan::new(&Itemsets::new(1, vec![Column(0)], COLUMNS).unwrap(), 2);
    assert_eq!(allocated(plan_of_triples()), allocated(one));
}

/// Warms up, reports its thread id, gives up system calls for good, counts, and reports the result.
fn count_without_system_calls(mut answer: PipeWriter, offend: bool) {
    let mut workspace = Workspace::default();
    let tasks = run(&triples(), &mut workspace);
    let count = triples();
    // SAFETY: takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    let _ = answer.write_all(&thread.to_ne_bytes());
    // SAFETY: affects the calling thread only.
    let strict = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
    let same = run(&count, &mut workspace) == tasks;
    if offend {
        thread::yield_now();
    }
    let _ = answer.write_all(match (strict, same) {
        (0, true) => b"counted",
        (0, false) => b"differs",
        _ => b"refused",
    });
    // SAFETY: ends this thread only, which is never joined; its data are never touched again.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Returns the report of a thread under strict mode before it ended; nothing if it was killed.
fn answer_of_a_strict_thread(offend: bool) -> Vec<u8> {
    let (mut reader, writer) = pipe().unwrap();
    let ours = writer.try_clone().unwrap();
    thread::spawn(move || count_without_system_calls(writer, offend));
    let mut number = [0; 4];
    reader.read_exact(&mut number).unwrap();
    let task = format!("/proc/self/task/{}", i32::from_ne_bytes(number));
    while std::fs::exists(&task).unwrap() {
        thread::sleep(Duration::from_millis(2));
    }
    // A mark ends the thread's report: its own end of the pipe stays open.
    (&ours).write_all(b".").unwrap();
    let mut answer = Vec::new();
    BufReader::new(reader)
        .read_until(b'.', &mut answer)
        .unwrap();
    answer.pop();
    answer
}

#[test]
fn tiles_make_no_system_call() {
    assert_eq!(answer_of_a_strict_thread(false), b"counted");
}

/// Checks that the test above would fail on a system call.
#[test]
fn a_system_call_would_be_noticed() {
    assert_eq!(answer_of_a_strict_thread(true), b"");
}

/// Returns the result of `make`, and the number of bytes that it holds.
fn held<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let held = || ALLOCATED.get() - FREED.get();
    let before = held();
    let made = make();
    (made, held() - before)
}

#[test]
fn what_is_planned_takes_what_it_says() {
    let itemsets = Itemsets::all_of(&Vec::from_iter(Column::first(60)), 3).unwrap();
    let (index, bytes) = held(|| MomentIndex::new(&itemsets));
    assert_eq!(index.bytes(), bytes);
    let index = Arc::new(index);
    let (plan, bytes) = held(|| Plan::of_moments(&index, 2, 0..index.len()));
    assert_eq!(plan.bytes(), bytes);
    for factors in [usize::MAX, 20] {
        let (tiles, bytes) = held(|| Tiles::new(&plan, factors));
        assert_eq!(tiles.bytes(), bytes);
        // As many bytes are reserved along the way, and pieces that are not granted are not made.
        let mut reserved = 0;
        let reserve = |bytes| {
            reserved += bytes;
            Ok(())
        };
        Tiles::within(&plan, factors, &mut { reserve }).unwrap();
        assert_eq!(reserved, bytes);
        let mut left = bytes / 10;
        let mut most = |bytes: usize| {
            left = left
                .checked_sub(bytes)
                .ok_or(oboro_engine::EngineError::Empty)?;
            Ok(())
        };
        let (refused, held) = held(|| Tiles::within(&plan, factors, &mut most));
        assert!(refused.is_err() && held == 0);
    }
}
