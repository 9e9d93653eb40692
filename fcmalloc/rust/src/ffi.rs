//! The declarations of `include/fcmalloc.h` that this crate uses.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    pub(crate) fn fc_malloc(size: usize) -> *mut c_void;
    pub(crate) fn fc_calloc(count: usize, size: usize) -> *mut c_void;
    pub(crate) fn fc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub(crate) fn fc_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub(crate) fn fc_free_sized(block: *mut c_void, size: usize);
    pub(crate) fn fc_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);
    pub(crate) fn fc_trim() -> usize;
    pub(crate) fn fc_reserve(bytes: usize) -> c_int;
    pub(crate) fn fc_stats(out: *mut Stats);
}

/// What fcmalloc holds and has done since the program started. Byte counts refer to address space
/// that was ever handed out, which is what can be resident.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes in blocks of the size classes, handed to the program.
    pub in_use_small: u64,
    /// Bytes in large blocks, handed to the program.
    pub in_use_large: u64,
    /// Bytes in spans that no block of the program occupies.
    pub free_small: u64,
    /// Bytes in free runs.
    pub free_large: u64,
    /// Bytes in transit to the heaps that own them.
    pub in_transit: u64,
    /// Bytes of descriptors, heaps and the page map.
    pub metadata: u64,
    /// Bytes ever taken from the kernel and not released.
    pub footprint: u64,
    /// The most that `footprint` has been.
    pub footprint_peak: u64,
    /// Bytes touched ahead of use.
    pub reserved: u64,
    /// Bytes released by [`trim`](crate::trim) or decay.
    pub released: u64,
    /// Local heaps made.
    pub heaps: u64,
    /// Times that a thread took over the heap of a dead one.
    pub heaps_adopted: u64,
    /// Blocks sent to the heaps that own them.
    pub remote_frees: u64,
    /// Batches in which they were sent.
    pub batches: u64,
    /// Runs that a heap took from another's large bins.
    pub steals: u64,
    /// Times that a thread waited for a lock.
    pub contended_waits: u64,
    /// Memory system calls made by the allocator.
    pub system_calls: u64,
    /// Minor page faults of the whole process.
    pub minor_faults: u64,
    /// Major page faults of the whole process.
    pub major_faults: u64,
}
