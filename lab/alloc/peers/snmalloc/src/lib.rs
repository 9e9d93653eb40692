//! snmalloc as shipped in its crate, under the standard names.

use core::ffi::{c_int, c_void};

// Links the allocator itself; its functions are declared below.
use snmalloc_sys as _;

#[macro_use]
#[path = "../../standard_names.rs"]
mod names;

standard_names! {
    malloc(size: usize) -> *mut c_void => sn_malloc;
    calloc(count: usize, size: usize) -> *mut c_void => sn_calloc;
    realloc(block: *mut c_void, size: usize) -> *mut c_void => sn_realloc;
    free(block: *mut c_void) => sn_free;
    posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int => sn_posix_memalign;
    aligned_alloc(alignment: usize, size: usize) -> *mut c_void => sn_aligned_alloc;
    memalign(alignment: usize, size: usize) -> *mut c_void => sn_memalign;
    valloc(size: usize) -> *mut c_void => sn_valloc;
    pvalloc(size: usize) -> *mut c_void => sn_pvalloc;
    malloc_usable_size(block: *const c_void) -> usize => sn_malloc_usable_size;
}
