//! Allocator of the process: fcmalloc, or the system's without the feature of that name.

#[cfg(feature = "fcmalloc")]
#[global_allocator]
static ALLOCATOR: fcmalloc::FcMalloc = fcmalloc::FcMalloc;

/// Returns free memory to the kernel.
#[cfg(feature = "serve")]
pub fn release_memory() {
    #[cfg(feature = "fcmalloc")]
    fcmalloc::trim();
}
