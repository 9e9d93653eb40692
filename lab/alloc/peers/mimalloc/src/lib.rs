//! mimalloc as shipped in its crate, under the standard names.

use core::ffi::{c_int, c_void};

// Links the allocator itself; its functions are declared below.
use libmimalloc_sys as _;

#[macro_use]
#[path = "../../standard_names.rs"]
mod names;

standard_names! {
    malloc(size: usize) -> *mut c_void => mi_malloc;
    calloc(count: usize, size: usize) -> *mut c_void => mi_calloc;
    realloc(block: *mut c_void, size: usize) -> *mut c_void => mi_realloc;
    reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void => mi_reallocarray;
    free(block: *mut c_void) => mi_free;
    posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int => mi_posix_memalign;
    aligned_alloc(alignment: usize, size: usize) -> *mut c_void => mi_aligned_alloc;
    memalign(alignment: usize, size: usize) -> *mut c_void => mi_memalign;
    valloc(size: usize) -> *mut c_void => mi_valloc;
    pvalloc(size: usize) -> *mut c_void => mi_pvalloc;
    malloc_usable_size(block: *const c_void) -> usize => mi_malloc_usable_size;
}
