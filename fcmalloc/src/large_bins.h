// A heap's free runs of pages: where spans and large blocks come from and go to.
//
// Freed runs lie in bins by size and are taken again as they are: repeating an allocation costs
// no splitting, no merging and no page fault. The last few freed are not merged with their
// neighbours until that is needed (loose). What was never used is the tail of the heap's region
// (top to end). Every heap's large bins have a lock of their own; another thread takes it only to
// steal, and only if it is free.

#ifndef FC_LARGE_BINS_H
#define FC_LARGE_BINS_H

#include "space.h"

#define FC_BINS 256
#define FC_LOOSE 64

struct fc_large_bins {
    struct fc_lock lock;
    // Pages in the bins and in the message queues: what a thief may hope for. Read without the
    // lock.
    _Atomic size_t idle;
    _Atomic size_t incoming;
    char *top;
    char *end;
    bool huge;            // huge pages were asked for from `top` on
    size_t taken;         // bytes of regions so far
    _Atomic size_t used;  // bytes of them ever used
    size_t large;         // pages in large blocks now
    size_t large_peak;    // most that has been
    uint32_t last_scan;   // milliseconds, when decay last looked
    unsigned loose_next;
    char *loose[FC_LOOSE];
    struct fc_run *spare;  // descriptors not in use
    uint64_t filled[FC_BINS / 64];
    struct fc_run *bins[FC_BINS];
};

// A run of `pages` for the heap, a span or a large block, from its large bins, from another's, or
// fresh. `alignment` is a power of two; the run starts at a multiple of it. NULL where neither the
// limit nor the kernel leaves any.
struct fc_run *fc_large_bins_take(struct fc_heap *heap, enum fc_run_kind kind, uint32_t pages,
                                  size_t alignment);

// Puts a run that the heap is home to into its large bins.
void fc_large_bins_put(struct fc_heap *heap, struct fc_run *run);

// Makes a large run longer or shorter where it lies. False where what follows is in use.
bool fc_large_bins_resize(struct fc_run *run, uint32_t pages);

// Gives the physical memory of all free runs back. Returns bytes.
size_t fc_large_bins_purge(struct fc_heap *heap);

// Gives the heap `bytes` of address space in a row.
bool fc_large_bins_claim(struct fc_heap *heap, size_t bytes);

// Brings the memory of free runs to where the heap's policy wants it.
void fc_large_bins_bring(struct fc_heap *heap);

// First-touches fresh pages of `bytes`, which go into the bins. False where the machine has too
// few.
bool fc_large_bins_prepare(struct fc_heap *heap, size_t bytes);

#endif
