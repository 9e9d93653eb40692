// fcmalloc: malloc for programs that own the machine and repeat the same allocations.
//
// libfcmalloc.so and libfcmalloc.a define the standard names (malloc, free, ... and the C++
// operators). Every function is also exported with the prefix fc_; libfcmalloc-prefixed.a has only
// those, for programs that embed the allocator beside another. A block may be freed by any thread.
// Options come from the environment; fcmalloc/README.md lists them.

#ifndef FCMALLOC_H
#define FCMALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define FC_VERSION "0.1.0"

#define FC_ATTR_MALLOC __attribute__((malloc, warn_unused_result))

// The standard functions, with the standard's semantics: blocks are aligned to 16 bytes, size 0
// gives a unique pointer, failure gives NULL and errno ENOMEM.
void *fc_malloc(size_t size) FC_ATTR_MALLOC;
void fc_free(void *block);
void *fc_calloc(size_t count, size_t size) FC_ATTR_MALLOC;
void *fc_realloc(void *block, size_t size) __attribute__((warn_unused_result));
void *fc_reallocarray(void *block, size_t count, size_t size) __attribute__((warn_unused_result));
int fc_posix_memalign(void **out, size_t alignment, size_t size);
void *fc_aligned_alloc(size_t alignment, size_t size) FC_ATTR_MALLOC;
void *fc_memalign(size_t alignment, size_t size) FC_ATTR_MALLOC;
void *fc_valloc(size_t size) FC_ATTR_MALLOC;
void *fc_pvalloc(size_t size) FC_ATTR_MALLOC;
size_t fc_malloc_usable_size(const void *block);

// C23. The size, and for fc_free_aligned_sized the alignment, must be those of the allocation.
void fc_free_sized(void *block, size_t size);
void fc_free_aligned_sized(void *block, size_t alignment, size_t size);

// Releases the physical memory of everything free to the kernel, except what other running threads
// hold in their caches. Returns the number of bytes released.
size_t fc_trim(void);

// Maps and first-touches `bytes` more, in parallel, so that allocating up to that much causes no
// page fault. Returns 0, or ENOMEM where the machine or FCMALLOC_LIMIT does not allow it.
int fc_reserve(size_t bytes);

// What the allocator holds and has done since the program started. Byte counts refer to address
// space that was ever handed out; what is touched ahead of that, up to 64 MiB and a huge page for
// each heap, can be resident, too.
struct fc_stats {
    uint64_t in_use_small;     // bytes in blocks of the size classes, handed to the program
    uint64_t in_use_large;     // bytes in large blocks, handed to the program
    uint64_t free_small;       // bytes in spans that no block of the program occupies
    uint64_t free_large;       // bytes in free runs
    uint64_t in_transit;       // bytes in transit to the heaps that own them
    uint64_t metadata;         // bytes of descriptors, heaps and the page map
    uint64_t footprint;        // bytes ever taken from the kernel and not released
    uint64_t footprint_peak;   // peak of `footprint`
    uint64_t reserved;         // bytes first-touched ahead of use
    uint64_t released;         // bytes released by fc_trim, malloc_trim or decay
    uint64_t heaps;            // local heaps made
    uint64_t heaps_adopted;    // times that a thread took over the heap of a dead one
    uint64_t remote_frees;     // blocks sent to the heaps that own them
    uint64_t batches;          // batches in which they were sent
    uint64_t steals;           // runs that a heap stole from another
    uint64_t contended_waits;  // times that a thread waited for a lock
    uint64_t system_calls;     // memory system calls made by the allocator
    uint64_t minor_faults;     // of the whole process, from getrusage
    uint64_t major_faults;
};
void fc_stats(struct fc_stats *out);

// Writes the figures of fc_stats and a table by size class to a file descriptor, as one JSON object
// on one line. Returns 0 or an errno value.
int fc_stats_json(int descriptor);

// On a machine with several NUMA nodes, a thread's blocks, reused ones included, lie where its
// memory policy (numactl, set_mempolicy) asks: by default on the node it runs on. Memory is placed
// by first touch, as everywhere: a block that another thread fills first lies where that thread's
// policy asks.
//
// Call this after set_mempolicy, unless that was called through the C function of that name or
// through libnuma, which uses it: from then on every block honours the policy. A move to another
// node is noticed with the thread's next large block (above 16 KiB), and when its small blocks have
// used up the memory at hand, at most 64 KiB of each size it keeps freeing and allocating; at once
// if this is called.
void fc_policy_changed(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
