//! A program whose allocator is fcmalloc.

#![allow(unsafe_code)]

use fcmalloc::{FcMalloc, reserve, stats, trim};
use proptest::prelude::*;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

#[global_allocator]
static ALLOCATOR: FcMalloc = FcMalloc;

/// Tests look at figures of the whole process, so they run one after another.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block whose every byte has one value, checked when it goes.
struct Block {
    at: *mut u8,
    layout: Layout,
    value: u8,
}

impl Block {
    fn new(layout: Layout, value: u8) -> Self {
        // SAFETY: the layout has a size.
        let at = unsafe { alloc(layout) };
        Self::filled(at, layout, value)
    }

    fn zeroed(layout: Layout, value: u8) -> Self {
        // SAFETY: the layout has a size; what is read was zeroed.
        let at = unsafe {
            let at = alloc_zeroed(layout);
            assert!(
                std::slice::from_raw_parts(at, layout.size())
                    .iter()
                    .all(|&byte| byte == 0)
            );
            at
        };
        Self::filled(at, layout, value)
    }

    fn resized(self, size: usize) -> Self {
        let kept = size.min(self.layout.size());
        let layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        let value = self.value;
        // SAFETY: the block is given up for the new one, whose first bytes are the old ones.
        let at = unsafe {
            let at = realloc(self.at, self.layout, size);
            assert!(
                std::slice::from_raw_parts(at, kept)
                    .iter()
                    .all(|&byte| byte == value)
            );
            at
        };
        std::mem::forget(self);
        Self::filled(at, layout, value)
    }

    fn filled(at: *mut u8, layout: Layout, value: u8) -> Self {
        assert!(!at.is_null() && at.addr().is_multiple_of(layout.align()));
        // SAFETY: the block has the layout's size.
        unsafe { at.write_bytes(value, layout.size()) };
        Self { at, layout, value }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block was filled and is nobody else's.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.at, self.layout.size());
            assert!(bytes.iter().all(|&byte| byte == self.value));
            dealloc(self.at, self.layout);
        }
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    let size = prop_oneof![1usize..200, 1usize..40_000, 1usize..3_000_000];
    let log_align = prop_oneof![4 => 0u32..5, 2 => 5u32..13, 1 => 13u32..22];
    (size, log_align).prop_map(|(size, log)| Layout::from_size_align(size, 1 << log).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn blocks_are_aligned_and_disjoint_and_keep_their_bytes(
        wanted in prop::collection::vec((layouts(), 0u8..4, 1usize..100_000), 1..60)
    ) {
        let _alone = alone();
        let mut blocks: HashMap<usize, Block> = HashMap::new();
        for (i, (layout, action, size)) in wanted.into_iter().enumerate() {
            let value = i as u8;
            match (action, blocks.remove(&(size % (i + 1)))) {
                (0, _) => blocks.insert(i, Block::zeroed(layout, value)),
                (1 | 2, Some(block)) => blocks.insert(i, block.resized(size)),
                _ => blocks.insert(i, Block::new(layout, value)),
            };
        }
    }
}

#[test]
fn blocks_may_be_freed_by_other_threads() {
    let _alone = alone();
    let before = stats().remote_frees;
    let (sender, receiver) = mpsc::channel::<Vec<Vec<u8>>>();
    let freeing = thread::spawn(move || {
        receiver
            .iter()
            .flatten()
            .map(|block| block.len())
            .sum::<usize>()
    });
    for round in 0..50 {
        sender
            .send((0..200).map(|i| vec![round; i * 37]).collect())
            .unwrap();
    }
    drop(sender);
    assert_eq!(freeing.join().unwrap(), 50 * 37 * 199 * 200 / 2);
    assert!(stats().remote_frees >= before + 5000);
}

#[test]
fn stats_tell_blocks_that_are_in_use() {
    let _alone = alone();
    const BYTES: u64 = 64 << 20;
    let before = stats();
    let block = vec![1u8; BYTES as usize];
    let during = stats();
    assert!(during.in_use_large >= BYTES && during.in_use_large > before.in_use_large);
    assert!(during.footprint >= BYTES && during.footprint_peak >= during.footprint);
    assert!(during.minor_faults > 0 && during.heaps > 0 && during.system_calls > 0);
    drop(block);
}

#[test]
fn free_memory_goes_back_when_asked_and_only_then() {
    let _alone = alone();
    const BYTES: u64 = 32 << 20;
    drop(vec![1u8; BYTES as usize]);
    let before = stats();
    assert!(trim() as u64 >= BYTES);
    assert!(stats().released >= before.released + BYTES);
}

#[test]
fn reserving_is_counted_and_can_be_refused() {
    let _alone = alone();
    let before = stats().reserved;
    reserve(8 << 20).unwrap();
    assert!(stats().reserved >= before + (8 << 20));
    let error = reserve(1 << 60).unwrap_err().to_string();
    assert!(error.contains("Reserve less"), "{error}");
}
