// The one range of address space that all memory comes from.
//
//   | pages ............ | page map | block bits | descriptors | heaps |
//
// Pages are handed to heaps in regions, from low addresses to high, and never return. The page map
// names, for every page that a pointer to the start of a block may lie in, the run that the page
// belongs to. A pointer is ours exactly if it lies among the pages; entries of pages inside a run
// may be stale, so every reader checks an entry against the run. The block bits say for every 16
// bytes whether a small block in use starts there: they tell blocks from other addresses without
// reading what lies there.

#ifndef FC_SPACE_H
#define FC_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "class.h"
#include "lock.h"

// For functions whose reads race with other threads' writes, and tolerate it.
#if defined(__SANITIZE_THREAD__)
#define FC_READS_WHILE_OTHERS_WRITE __attribute__((no_sanitize("thread")))
#else
#define FC_READS_WHILE_OTHERS_WRITE
#endif

struct fc_heap;

// Freed memory, as the lists of free blocks see it.
struct fc_block {
    struct fc_block *next;
    // fc_block_check of the block and `next`: tells a freed block from one in use, and a list that
    // the program has written to from one that it has not.
    uint64_t check;
};

enum fc_run_kind {
    FC_RUN_NONE,     // descriptor not in use
    FC_RUN_FREE,     // in large bins
    FC_RUN_SPAN,     // cut into blocks of one class
    FC_RUN_LARGE,    // one block of the program
    FC_RUN_TRANSIT,  // a freed large block in the thread cache, or on its way to its owner
};

// A run of pages. Access to the fields follows the run: those of a span belong to the owner's
// thread, those of a free run to the holder of its owner's large-bins lock. The first cache line
// has what other threads read when they free a block of the run: allocating from it does not modify
// that line.
struct fc_run {
    // Spans: the heap whose thread may allocate from it. NULL for every other kind.
    _Atomic(struct fc_heap *) owner;
    char *start;
    char *payload;  // large: what the program was given
    union {
        _Atomic uint64_t reciprocal;     // spans: 2^40 / stride, rounded up
        _Atomic(struct fc_heap *) heap;  // others: the heap whose large bins it belongs to
    };
    uint32_t pages;
    uint16_t steps;     // spans: bytes between blocks, in units of FC_ALIGNMENT
    uint16_t capacity;  // spans: blocks in all
    uint8_t class;
    _Atomic uint8_t kind;
    bool zero;     // reads as zeros and is not charged: never used, or released
    bool touched;  // resident before anybody used it, or in part

    // Spans: blocks ready to hand out.
    _Alignas(FC_LINE) struct fc_block *free;
    // Neighbours in the list that the run is in.
    struct fc_run *next;
    struct fc_run *previous;
    uint16_t used;      // spans: blocks not on the free list, of those carved
    uint16_t carved;    // spans: blocks that were ever put on the free list
    bool listed;        // spans: on its class's list of spans with free blocks
    uint32_t freed_at;  // free: milliseconds when it became free, where decay asks
};

_Static_assert(sizeof(struct fc_run) == 2 * FC_LINE, "a descriptor fills two cache lines");

struct fc_space {
    // Read by every free.
    uintptr_t base;
    _Atomic size_t size;  // bytes that are readable, from `base`
    _Atomic(struct fc_run *) *map;
    uint64_t *bits;
    uint64_t secret;

    struct fc_lock lock;  // guards what follows
    size_t whole;         // bytes of pages that there may be
    size_t granule;       // regions are multiples of it
    uintptr_t frontier;   // first page not handed to a heap
    uintptr_t populated;  // first page beyond the frontier not first-touched
    uintptr_t claimed;    // first page beyond that which nobody is about to first-touch
    char *descriptors;    // first never used
    char *descriptors_committed;
    char *descriptors_end;
    char *heaps;
    size_t heap_bytes;
    unsigned heaps_max;

    _Atomic size_t footprint;  // bytes of pages and descriptors handed out, less those purged
    _Atomic size_t footprint_peak;
    _Atomic size_t metadata;
    _Atomic size_t released;
    _Atomic size_t reserved;
};

extern struct fc_space fc_space;

// Reserves the address space for heaps of `heap_bytes + channel_bytes × (number of heaps)` bytes.
// False where the kernel refuses even a little.
bool fc_space_open(size_t heap_bytes, size_t channel_bytes);

// At least `bytes` of pages, `wish` if possible.
// `*touched` is where the first-touched part ends. NULL where none is left.
char *fc_space_grow(size_t bytes, size_t wish, size_t *granted, char **touched);

// The next `bytes` of the frontier, or NULL. Under the lock.
char *fc_space_advance(size_t bytes);

// First-touches that much beyond the frontier. False where the kernel refuses.
bool fc_space_populate(size_t bytes);

// The word of block bits that holds the address, and its bit in there. Only the owner of the span
// writes a word.
static inline uint64_t *fc_space_bits(const void *p) {
    return &fc_space.bits[((uintptr_t)p - fc_space.base) >> 10];
}

static inline uint64_t fc_space_bit(const void *p) {
    return (uint64_t)1 << ((uintptr_t)p >> 4 & 63);
}

// The first page after the run.
static inline char *fc_run_end(const struct fc_run *run) {
    return run->start + ((size_t)run->pages << FC_PAGE_SHIFT);
}

static inline size_t fc_run_bytes(const struct fc_run *run) {
    return (size_t)run->pages << FC_PAGE_SHIFT;
}

// Bytes between the blocks of a span.
static inline size_t fc_run_stride(const struct fc_run *span) { return span->steps * FC_ALIGNMENT; }

static inline enum fc_run_kind fc_run_kind(const struct fc_run *run) {
    return (enum fc_run_kind)atomic_load_explicit(&run->kind, memory_order_acquire);
}

static inline void fc_run_become(struct fc_run *run, enum fc_run_kind kind) {
    atomic_store_explicit(&run->kind, (uint8_t)kind, memory_order_release);
}

// A heap read from here is completely initialised, even one just made by another thread.
static inline struct fc_heap *fc_run_owner(const struct fc_run *run) {
    return atomic_load_explicit(&run->owner, memory_order_acquire);
}

static inline struct fc_heap *fc_run_heap(const struct fc_run *run) {
    return atomic_load_explicit(&run->heap, memory_order_relaxed);
}

static inline void fc_run_settle(struct fc_run *run, struct fc_heap *heap) {
    atomic_store_explicit(&run->heap, heap, memory_order_relaxed);
}

// A list, linked by `next`, of unused descriptors, or NULL.
struct fc_run *fc_space_descriptors(void);

// Memory of heap `id`, zeroed, or NULL.
void *fc_space_heap(unsigned id);

// Charges bytes about to be touched for the first time. False where that would exceed the limit.
bool fc_space_charge(size_t bytes);
void fc_space_refund(size_t bytes);

// Whether the address lies among the pages that heaps may have.
static inline bool fc_space_holds(const void *p) {
    return (uintptr_t)p - fc_space.base <
           atomic_load_explicit(&fc_space.size, memory_order_relaxed);
}

static inline struct fc_run *fc_space_run(const void *p) {
    return atomic_load_explicit(&fc_space.map[((uintptr_t)p - fc_space.base) >> FC_PAGE_SHIFT],
                                memory_order_relaxed);
}

static inline void fc_space_name(const void *page, struct fc_run *run) {
    atomic_store_explicit(&fc_space.map[((uintptr_t)page - fc_space.base) >> FC_PAGE_SHIFT], run,
                          memory_order_relaxed);
}

#endif
