//! fcmalloc as the allocator of a Rust program.

#![allow(unsafe_code)]

use crate::ffi::{self, Stats};
use std::alloc::{GlobalAlloc, Layout};
use std::error::Error;
use std::fmt;
use std::io;

/// The alignment of every block of fcmalloc.
const BLOCK_ALIGNMENT: usize = 16;

/// The allocator: `#[global_allocator] static ALLOCATOR: FcMalloc = FcMalloc;`. Its options come from
/// the environment; fcmalloc's README.md lists them.
#[derive(Debug, Clone, Copy, Default)]
pub struct FcMalloc;

// SAFETY: fcmalloc keeps the contract of C's allocation functions, of which these are the callers:
// blocks are as large and as aligned as asked for, disjoint, and stay until they are freed; a failure
// gives null and unwinds nothing. Blocks are freed with the size and alignment of their allocation.
unsafe impl GlobalAlloc for FcMalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (align, size) = (layout.align(), layout.size());
        // SAFETY: allocating asks nothing of the caller.
        let block = unsafe {
            if align <= BLOCK_ALIGNMENT {
                ffi::fc_malloc(size)
            } else {
                ffi::fc_aligned_alloc(align, size)
            }
        };
        block.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (align, size) = (layout.align(), layout.size());
        // SAFETY: by the caller's promise this is a block of `alloc` or `realloc` with this layout, which
        // chose the function by its alignment.
        unsafe {
            if align <= BLOCK_ALIGNMENT {
                ffi::fc_free_sized(block.cast(), size);
            } else {
                ffi::fc_free_aligned_sized(block.cast(), align, size);
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= BLOCK_ALIGNMENT {
            // SAFETY: allocating asks nothing of the caller.
            return unsafe { ffi::fc_calloc(1, layout.size()).cast() };
        }
        // SAFETY: the caller keeps `alloc`'s contract; a block has its size.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= BLOCK_ALIGNMENT {
            // SAFETY: by the caller's promise this is a block of `alloc` or `realloc`.
            return unsafe { ffi::fc_realloc(block.cast(), size).cast() };
        }
        // SAFETY: the caller promises that the new size makes a layout; blocks are disjoint, and as
        // large as their layouts.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// What fcmalloc holds and has done in this process.
pub fn stats() -> Stats {
    let mut stats = Stats::default();
    // SAFETY: `Stats` has the layout of `struct fc_stats`, which the call fills.
    unsafe { ffi::fc_stats(&raw mut stats) };
    stats
}

/// Releases the physical memory of everything free to the kernel. Returns the bytes released.
pub fn trim() -> usize {
    // SAFETY: asks nothing of the caller.
    unsafe { ffi::fc_trim() }
}

/// Maps `bytes` more memory, touched in parallel, so that allocating up to that much causes no page fault.
pub fn reserve(bytes: usize) -> Result<(), ReserveError> {
    // SAFETY: asks nothing of the caller.
    match unsafe { ffi::fc_reserve(bytes) } {
        0 => Ok(()),
        code => Err(ReserveError {
            bytes,
            source: io::Error::from_raw_os_error(code),
        }),
    }
}

/// [`reserve`] failed.
#[derive(Debug)]
pub struct ReserveError {
    bytes: usize,
    source: io::Error,
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no {} bytes more can be reserved: {}. Reserve less, free some memory, or raise FCMALLOC_LIMIT.",
            self.bytes, self.source
        )
    }
}

impl Error for ReserveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
