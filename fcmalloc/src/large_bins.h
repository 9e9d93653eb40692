// A heap's free page runs: where spans and large blocks come from and go to.
//
// Freed runs are binned by size and reused whole: repeating an allocation costs no splitting, no
// coalescing and no page fault. Coalescing the last few freed runs is deferred until it is needed.
// The part of the heap's region that was never used is its tail (top to end). The large bins of
// every heap have a lock of their own; another thread takes it only to steal, and only if it is
// free.

#ifndef FC_LARGE_BINS_H
#define FC_LARGE_BINS_H

#include "space.h"

#define FC_BINS 256
#define FC_DEFERRED 64

struct fc_large_bins {
    struct fc_lock lock;
    // Pages in the bins and in the message queues: an upper bound for a thief. Read without the
    // lock.
    _Atomic size_t idle;
    _Atomic size_t incoming;
    // The heap's own region: never used from `top` to `end`, but ready for use up to `ready`.
    char *top;
    char *ready;
    char *end;
    size_t taken;  // bytes of such regions so far
    // Its slice of what small heaps share.
    struct {
        char *top;
        char *end;
        bool touched;
        size_t taken;  // bytes of slices so far
    } shared;
    _Atomic size_t used;  // bytes of regions and slices that were ever used
    size_t large;         // pages in large blocks now
    size_t large_peak;    // the most that `large` was
    uint32_t last_scan;   // milliseconds, when decay last looked
    unsigned deferred_next;
    char *deferred[FC_DEFERRED];
    struct fc_run *spare;  // descriptors not in use
    uint64_t filled[FC_BINS / 64];
    struct fc_run *bins[FC_BINS];
};

// Bytes of the heap's regions and slices that were ever used.
static inline size_t fc_large_bins_used(const struct fc_large_bins *large_bins) {
    return atomic_load_explicit(&large_bins->used, memory_order_relaxed);
}

// A run of `pages` for the heap, a span or a large block, from its large bins, from another's, or
// fresh. `alignment` is a power of two; the run starts at a multiple of it. `prefault` says that
// all of it will be used soon, so that it may be touched ahead. NULL where neither the limit nor
// the kernel leaves any.
struct fc_run *fc_large_bins_take(struct fc_heap *heap, enum fc_run_kind kind, uint32_t pages,
                                  size_t alignment, bool prefault);

// Puts a run owned by the heap into its large bins.
void fc_large_bins_put(struct fc_heap *heap, struct fc_run *run);

// Grows or shrinks a large run in place. False where what follows is in use.
bool fc_large_bins_resize(struct fc_run *run, uint32_t pages);

// Releases the physical memory of all free runs to the OS. Returns bytes.
size_t fc_large_bins_purge(struct fc_heap *heap);

// Gives the heap `bytes` of contiguous address space.
bool fc_large_bins_claim(struct fc_heap *heap, size_t bytes);

// Moves the memory of free runs to where the heap's policy wants it.
void fc_large_bins_migrate(struct fc_heap *heap);

// First-touches fresh pages of `bytes`, which go into the bins. False where the machine has too
// few.
bool fc_large_bins_prepare(struct fc_heap *heap, size_t bytes);

#endif
