//! The allocator of the process: fcmalloc, or without the feature of that name the system's.

#[cfg(feature = "fcmalloc")]
#[global_allocator]
static ALLOCATOR: fcmalloc::FcMalloc = fcmalloc::FcMalloc;

/// Returns free memory to the kernel.
pub fn release_memory() {
    #[cfg(feature = "fcmalloc")]
    fcmalloc::trim();
}
