// The interface: each function's fast path in a few lines, and the slow paths behind it.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fcmalloc.h"
#include "guard.h"
#include "heap.h"
#include "numa.h"
#include "options.h"
#include "os.h"
#include "poison.h"
#include "report.h"
#include "shared.h"
#include "span.h"

// Bytes reserved for the staggered start of a large block: all lines of a page but the first.
#define STAGGER_ROOM (FC_PAGE - FC_LINE)
// Odd and near 64/φ: few neighbouring blocks are spread well over the lines, and 64 perfectly.
#define STAGGER_LINES 39

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

// ---- Large blocks ----

// Pages are counted in 32 bits; two are for the staggered start and the guard.
static bool too_large(size_t size) { return size > (size_t)(UINT32_MAX - 2) << FC_PAGE_SHIFT; }

static uint32_t large_pages(size_t bytes) {
    return (uint32_t)((bytes + FC_PAGE - 1) >> FC_PAGE_SHIFT) + FC_GUARD_PAGES;
}

// Bytes of the run from the beginning of the block.
static size_t large_capacity(const struct fc_run *run) {
    return (size_t)(fc_run_end(run) - run->payload) - FC_GUARD_PAGES * FC_PAGE;
}

// `*zero` is whether the block reads as zeros.
static void *large_alloc(struct fc_heap *heap, size_t size, size_t alignment, bool *zero) {
    if (too_large(size)) {
        return no_memory();
    }
    bool staggered = alignment <= FC_LINE;
    uint32_t pages = large_pages(size + (staggered ? STAGGER_ROOM : 0));
    struct fc_run *run = alignment <= FC_PAGE ? fc_sub_take_large(&heap->sub, pages) : NULL;
    if (run == NULL) {
        fc_sub_extend_large(&heap->sub, pages);
        run = fc_span_take_run(heap, FC_RUN_LARGE, pages, alignment, true);
        if (run == NULL) {
            return no_memory();
        }
        if (!fc_guard(run)) {
            fc_large_bins_put(heap, run);
            return no_memory();
        }
    }
    // A run used again keeps its line: the lines from there on are in the cache. A block that was
    // not staggered has none.
    bool coloured = run->payload > run->start && run->payload < run->start + FC_PAGE;
    if (!staggered || !coloured) {
        size_t line = staggered ? heap->colour++ * STAGGER_LINES % (FC_PAGE / FC_LINE) : 0;
        run->payload = run->start + line * FC_LINE;
    }
    *zero = run->zero;
    run->zero = false;
    return run->payload;
}

static void large_free(struct fc_heap *heap, struct fc_run *run) {
    if (!fc_heap_shares_policy(fc_run_heap(run)) || !fc_sub_keep_large(&heap->sub, run)) {
        fc_sub_put_large(heap, run);
    }
}

// The usable size of a block in use.
static size_t usable(const struct fc_run *run) {
    return fc_run_kind(run) == FC_RUN_LARGE ? large_capacity(run) : fc_run_stride(run);
}

// ---- Allocation ----

static inline void *given(void *block, size_t size, bool zero) {
    if (FC_POISONS && block != NULL) {
        fc_poison_give(block, size, usable(fc_space_run(block)), zero);
    }
    return block;
}

// Whether the current span of the class has a block, or another of the heap's spans that replaces
// it.
static bool has_free(struct fc_heap *heap, unsigned class) {
    if (heap->current[class]->free != NULL) {
        return true;
    }
    fc_sub_extend(heap, class);
    return fc_span_refill(heap, class);
}

static void *alloc_from(struct fc_heap *heap, size_t size, bool *zero) {
    if (size > FC_SMALL_MAX) {
        return large_alloc(heap, size, FC_ALIGNMENT, zero);
    }
    unsigned class = fc_class_of(size);
    fc_sub_settle(heap);
    struct fc_block *cached = fc_sub_take(&heap->sub, class);
    if (cached == NULL && !has_free(heap, class)) {
        // What other heaps have not collected is used before fresh memory.
        if (fc_channel_intercept(heap, class)) {
            cached = fc_sub_take(&heap->sub, class);
        } else if (!has_free(heap, class) && !fc_span_add(heap, class) && !has_free(heap, class)) {
            return no_memory();
        }
    }
    return cached != NULL ? cached : fc_span_pop(heap->current[class]);
}

static void *alloc_slow(size_t size, bool *zero) {
    struct fc_heap *heap = fc_heap_enter();
    if (heap == NULL) {
        return no_memory();
    }
    void *block = given(alloc_from(heap, size, zero), size, *zero);
    fc_heap_leave(heap);
    return block;
}

static __attribute__((noinline)) void *malloc_slow(size_t size) {
    bool zero = false;
    return alloc_slow(size, &zero);
}

void *fc_malloc(size_t size) {
    if (FC_LIKELY(size <= FC_SMALL_MAX)) {
        struct fc_heap *heap = fc_self;
        unsigned class = fc_class_of(size);
        struct fc_run *span = heap->current[class];
        if (FC_LIKELY(heap->sub.caches[class].first != NULL)) {
            // When a cache was full, blocks that are in it may be in the queue as well.
            if (FC_LIKELY(fc_sub_can_keep(&heap->sub, class))) {
                return given(fc_sub_take(&heap->sub, class), size, false);
            }
        } else if (FC_LIKELY(span->free != NULL)) {
            return given(fc_span_pop(span), size, false);
        }
    }
    return malloc_slow(size);
}

void *fc_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return no_memory();
    }
    bool zero = false;
    void *block = bytes <= FC_SMALL_MAX ? fc_malloc(bytes) : alloc_slow(bytes, &zero);
    return block != NULL && !zero ? memset(block, 0, bytes) : block;
}

static void *aligned_from(struct fc_heap *heap, size_t alignment, size_t size) {
    bool zero;
    if (alignment > fc_space.whole) {
        return no_memory();
    }
    // Blocks of a class lie at multiples of its stride from the beginning of a page.
    if (alignment <= FC_PAGE && size <= FC_SMALL_MAX) {
        size_t rounded = fc_round_up(size, alignment);
        for (unsigned class = fc_class_of(rounded);
             class < FC_CLASSES && fc_class_size(class) <= 2 * rounded; class++) {
            if (fc_class_stride(class) % alignment == 0) {
                return alloc_from(heap, fc_class_size(class), &zero);
            }
        }
    }
    return large_alloc(heap, size, alignment, &zero);
}

// For a power of two.
static void *aligned(size_t alignment, size_t size) {
    if (alignment <= FC_ALIGNMENT) {
        return fc_malloc(size);
    }
    struct fc_heap *heap = fc_heap_enter();
    if (heap == NULL) {
        return no_memory();
    }
    void *block = given(aligned_from(heap, alignment, size > 0 ? size : 1), size, false);
    fc_heap_leave(heap);
    return block;
}

static bool power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

int fc_posix_memalign(void **out, size_t alignment, size_t size) {
    if (!power_of_two(alignment) || alignment % sizeof(void *) != 0) {
        return EINVAL;
    }
    int saved = errno;
    void *block = aligned(alignment, size);
    errno = saved;
    if (block == NULL) {
        return ENOMEM;
    }
    *out = block;
    return 0;
}

void *fc_aligned_alloc(size_t alignment, size_t size) {
    if (!power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return aligned(alignment, size);
}

void *fc_memalign(size_t alignment, size_t size) {
    // As the C library does: the next power of two.
    size_t power = FC_ALIGNMENT;
    while (power < alignment) {
        power *= 2;
        if (power == 0) {
            errno = EINVAL;
            return NULL;
        }
    }
    return aligned(power, size);
}

void *fc_valloc(size_t size) { return aligned(FC_PAGE, size); }

void *fc_pvalloc(size_t size) {
    if (too_large(size)) {
        return no_memory();
    }
    return aligned(FC_PAGE, fc_round_up(size > 0 ? size : 1, FC_PAGE));
}

// ---- Freeing ----

static _Noreturn void die_foreign(const void *p) { fc_die("pointer %p was not allocated here", p); }

static _Noreturn void die_interior(const void *p) {
    fc_die("pointer %p is not the beginning of a block", p);
}

static _Noreturn void die_freed(const void *p) { fc_die("block %p was freed already", p); }

// The run of a block in use that begins at `p`; ends the program where there is none.
static struct fc_run *run_of(const void *p) {
    if (!fc_space_holds(p)) {
        die_foreign(p);
    }
    // Pages inside a large block may have no entry, or a stale one.
    struct fc_run *run = fc_space_run(p);
    if (run == NULL) {
        die_interior(p);
    }
    switch (fc_run_kind(run)) {
        case FC_RUN_SPAN:
            if (!fc_block_begins(run, p, run->capacity)) {
                die_interior(p);
            }
            if (fc_block_is_freed(p)) {
                die_freed(p);
            }
            return run;
        case FC_RUN_LARGE:
            if (run->payload != p) {
                die_interior(p);
            }
            return run;
        case FC_RUN_TRANSIT:
        case FC_RUN_FREE:
            if ((const char *)p >= run->start && (const char *)p < fc_run_end(run)) {
                die_freed(p);
            }
            break;
        case FC_RUN_NONE:
            break;
    }
    die_interior(p);
}

// Puts a block known to be in use, which the fast path did not keep, into the thread cache if its
// memory lies where the heap's does, and where it belongs otherwise.
static void put_small(struct fc_heap *heap, struct fc_run *span, void *p) {
    struct fc_heap *owner = fc_run_owner(span);
    bool keep = owner != heap && fc_numa_matters() ? fc_sub_is_short(&heap->sub, span->class)
                                                   : fc_sub_can_keep(&heap->sub, span->class);
    if (keep && fc_heap_shares_policy(owner)) {
        fc_sub_keep(&heap->sub, span, p);
    } else {
        fc_sub_put(heap, span, p);
    }
}

static __attribute__((noinline)) void free_slow(void *p) {
    if (p == NULL) {
        return;
    }
    struct fc_run *run = run_of(p);
    struct fc_heap *heap = fc_heap_enter();
    if (heap == NULL) {
        return;  // memory is exhausted to the last descriptor: the block stays where it is
    }
    if (fc_run_kind(run) == FC_RUN_LARGE) {
        large_free(heap, run);
    } else if (fc_block_is_lent(p)) {
        put_small(heap, run, p);
    } else {
        die_freed(p);
    }
    fc_heap_leave(heap);
}

// Frees a block for which the cache is full.
static __attribute__((noinline)) void free_full(struct fc_heap *heap, void *p) {
    if (fc_run_owner(fc_space_run(p)) == heap) {
        fc_sub_queue(heap, p);
    } else {
        free_slow(p);
    }
}

// Frees a small block in use of at least `size` bytes. False where `p` is not one, or may not be.
static inline __attribute__((always_inline)) bool free_small(void *p, size_t size) {
    struct fc_run *span = fc_space_holds(p) ? fc_space_run(p) : NULL;
    // The bits of large blocks were never touched: reading them would cause a page fault.
    if (FC_LIKELY(span != NULL && fc_run_owner(span) != NULL && fc_block_is_lent(p) &&
                  size <= fc_run_stride(span))) {
        struct fc_heap *heap = fc_self;
        if (FC_UNLIKELY(!fc_sub_can_keep(&heap->sub, span->class))) {
            free_full(heap, p);
            return true;
        }
        if (FC_LIKELY(!fc_block_is_freed(p))) {
            fc_sub_keep(&heap->sub, span, p);
            return true;
        }
    }
    return false;
}

void fc_free(void *p) {
    if (FC_POISONS && p != NULL) {
        fc_poison_take(p, usable(run_of(p)));
    }
    if (FC_UNLIKELY(!free_small(p, 0))) {
        free_slow(p);
    }
}

size_t fc_malloc_usable_size(const void *p) {
    size_t size = p != NULL ? usable(run_of(p)) : 0;
    fc_poison_open(p, size);
    return size;
}

static __attribute__((noinline)) void free_sized_slow(void *p, size_t size) {
    if (p != NULL && usable(run_of(p)) < size) {
        fc_die("block %p is smaller than the size it was freed with", p);
    }
    fc_free(p);
}

void fc_free_sized(void *p, size_t size) {
    if (FC_POISONS || FC_UNLIKELY(!free_small(p, size))) {
        free_sized_slow(p, size);
    }
}

void fc_free_aligned_sized(void *p, size_t alignment, size_t size) {
    if (alignment > 1 && (uintptr_t)p % alignment != 0) {
        fc_die("block %p is not aligned as it was said to be when freed", p);
    }
    fc_free_sized(p, size);
}

// ---- Reallocation ----

// Whether the block can hold `size` bytes in place.
static bool resize(struct fc_run *run, size_t size) {
    size_t capacity = usable(run);
    bool fits = size <= capacity;
    if (fits && size >= capacity / 2) {
        return true;
    }
    if (fc_run_kind(run) != FC_RUN_LARGE || size <= FC_SMALL_MAX || too_large(size)) {
        return false;
    }
    if (!fits && !fc_heap_shares_policy(fc_run_heap(run))) {
        return false;  // what follows it does not lie where new memory belongs
    }
    fc_unguard(run);
    bool done = fc_large_bins_resize(run, large_pages((size_t)(run->payload - run->start) + size));
    if (!fc_guard(run)) {
        fc_die("block %p, made longer or shorter, cannot be guarded", run->payload);
    }
    return done || fits;
}

void *fc_realloc(void *p, size_t size) {
    if (p == NULL) {
        return fc_malloc(size);
    }
    struct fc_run *run = run_of(p);
    if (!FC_POISONS && resize(run, size)) {
        return p;
    }
    void *moved = fc_malloc(size);
    if (moved == NULL) {
        return size <= usable(run) ? p : NULL;
    }
    size_t old_size = usable(run);
    fc_poison_open(p, old_size);
    memcpy(moved, p, old_size < size ? old_size : size);
    fc_free(p);
    return moved;
}

void *fc_reallocarray(void *p, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return no_memory();
    }
    return fc_realloc(p, bytes);
}

// ---- Trimming, reserving ----

size_t fc_trim(void) {
    struct fc_heap *here = fc_heap_here();
    if (here == NULL) {
        return 0;
    }
    fc_sub_flush(here);
    fc_channel_collect(here);
    while (fc_heap_absorb(here)) {
    }
    fc_channel_collect(here);  // what dead heaps had in the thread cache
    fc_span_retire(here);
    fc_heap_clear_others(here);
    size_t bytes = 0;
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        bytes += fc_large_bins_purge(fc_heap_at(id));
    }
    return bytes + fc_shared_release();
}

void fc_policy_changed(void) {
    fc_numa_forget();
    fc_heap_follow_policy();
}

int fc_reserve(size_t bytes) {
    if (fc_heap_here() == NULL || !fc_space_populate(bytes)) {
        return ENOMEM;
    }
    (void)fc_shared_release();  // heaps take what is reserved instead
    return 0;
}
