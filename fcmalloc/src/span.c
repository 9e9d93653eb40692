#include "span.h"

#include <string.h>

#include "guard.h"
#include "numa.h"
#include "os.h"

// Empty spans are searched for each time the heap has used this share more fresh memory.
#define RECLAIM_SHARE 8
#define RECLAIM_LEAST ((size_t)1 << 20)

static void append(struct fc_heap *heap, struct fc_run *span) {
    struct fc_run *last = heap->last[span->class];
    span->listed = true;
    span->next = NULL;
    span->previous = last;
    *(last != NULL ? &last->next : &heap->first[span->class]) = span;
    heap->last[span->class] = span;
}

static void unlist(struct fc_heap *heap, struct fc_run *span) {
    struct fc_run *next = span->next;
    struct fc_run *previous = span->previous;
    span->listed = false;
    *(previous != NULL ? &previous->next : &heap->first[span->class]) = next;
    *(next != NULL ? &next->previous : &heap->last[span->class]) = previous;
}

static void set_full(struct fc_heap *heap, struct fc_run *span) {
    span->next = heap->full;
    span->previous = NULL;
    if (heap->full != NULL) {
        heap->full->previous = span;
    }
    heap->full = span;
}

static void unset_full(struct fc_heap *heap, struct fc_run *span) {
    *(span->previous != NULL ? &span->previous->next : &heap->full) = span->next;
    if (span->next != NULL) {
        span->next->previous = span->previous;
    }
}

void fc_span_relist(struct fc_heap *heap, struct fc_run *span) {
    if (span == heap->current[span->class] || span->listed) {
        return;
    }
    unset_full(heap, span);
    append(heap, span);
}

#if FC_SECURE
static void shuffle(uint16_t *order, unsigned count) {
    uint16_t random[256];
    for (unsigned done = 0; done < count; done += 256) {
        unsigned some = count - done < 256 ? count - done : 256;
        fc_os_random(random, some * sizeof *random);
        for (unsigned i = 0; i < some; i++) {
            unsigned a = done + i;
            unsigned b = a + random[i] % (count - a);
            uint16_t swapped = order[a];
            order[a] = order[b];
            order[b] = swapped;
        }
    }
}
#else
static void shuffle(uint16_t *order, unsigned count) {
    (void)order;
    (void)count;
}
#endif

// Puts the next page's worth of blocks on the free list. False if there are no more.
static bool carve(struct fc_heap *heap, struct fc_run *span) {
    unsigned count = fc_run_stride(span) < FC_PAGE ? (unsigned)(FC_PAGE / fc_run_stride(span)) : 1;
    unsigned left = (unsigned)(span->capacity - span->carved);
    count = count < left ? count : left;
    if (count == 0) {
        return false;
    }
    uint16_t order[FC_PAGE / FC_ALIGNMENT];
    for (unsigned i = 0; i < count; i++) {
        order[i] = (uint16_t)i;
    }
    shuffle(order, count);
    char *start = span->start + (size_t)span->carved * fc_run_stride(span);
    struct fc_block *list = span->free;
    for (unsigned i = count; i-- > 0;) {
        struct fc_block *block =
            (struct fc_block *)(start + (size_t)order[i] * fc_run_stride(span));
        fc_block_link(block, list);
        list = block;
    }
    span->free = list;
    span->carved = (uint16_t)(span->carved + count);
    heap->carved[span->class] += count;
    if (heap->carved[span->class] > heap->demand[span->class]) {
        heap->demand[span->class] = heap->carved[span->class];
    }
    return true;
}

// Makes the run a span of the class. NULL, and the run is back in the large bins, on failure.
static struct fc_run *cut_up(struct fc_heap *heap, unsigned class, struct fc_run *span) {
    size_t stride = fc_class_stride(class);
    size_t bytes = fc_run_bytes(span) - FC_GUARD_PAGES * FC_PAGE;
    if (!fc_guard(span)) {
        fc_large_bins_put(heap, span);
        return NULL;
    }
    fc_poison_open(span->start, bytes);
    span->free = NULL;
    span->steps = (uint16_t)(stride / FC_ALIGNMENT);
    span->used = 0;
    span->carved = 0;
    // A run may be a little longer than what was asked for; the free list counts in 16 bits.
    size_t capacity = bytes / stride;
    span->capacity = (uint16_t)(capacity < UINT16_MAX ? capacity : UINT16_MAX);
    span->class = (uint8_t)class;
    span->listed = false;
    atomic_store_explicit(&span->reciprocal, ((uint64_t)1 << 40) / stride + 1,
                          memory_order_relaxed);
    for (uint32_t page = 0; page < span->pages; page++) {
        fc_space_name(span->start + (size_t)page * FC_PAGE, span);
    }
    atomic_store_explicit(&span->owner, heap, memory_order_release);
    heap->spans++;
    return span;
}

static struct fc_run *make(struct fc_heap *heap, unsigned class, bool prefault) {
    uint32_t pages = fc_class_pages(class);
    struct fc_run *run = fc_span_take_run(heap, FC_RUN_SPAN, pages, FC_PAGE, prefault);
    return run != NULL ? cut_up(heap, class, run) : NULL;
}

// Replaces the current span of the class by `span`, keeping it where it belongs.
static void replace(struct fc_heap *heap, struct fc_run *span) {
    struct fc_run *current = heap->current[span->class];
    if (current != &fc_no_span) {
        if (current->free != NULL || current->carved < current->capacity) {
            append(heap, current);
        } else {
            set_full(heap, current);
        }
    }
    heap->current[span->class] = span;
}

bool fc_span_refill(struct fc_heap *heap, unsigned class) {
    if (fc_channel_collect(heap) && heap->current[class]->free != NULL) {
        return true;
    }
    // Freed blocks before blocks never touched.
    struct fc_run *listed = heap->first[class];
    if (listed != NULL && listed->free != NULL) {
        unlist(heap, listed);
        replace(heap, listed);
        return true;
    }
    if (heap->current[class] != &fc_no_span && carve(heap, heap->current[class])) {
        return true;
    }
    if (listed == NULL) {
        return false;
    }
    unlist(heap, listed);
    replace(heap, listed);
    return carve(heap, listed);
}

bool fc_span_add(struct fc_heap *heap, unsigned class) {
    // A class that has filled a span will use this one, too: one call instead of a fault for each
    // page.
    bool prefault = heap->carved[class] * fc_class_stride(class) >= FC_SPAN_LEAST;
    struct fc_run *span = make(heap, class, prefault);
    if (span == NULL) {
        return false;
    }
    if (span->zero && prefault && !span->touched) {
        (void)fc_os_touch(span->start, fc_run_bytes(span) - FC_GUARD_PAGES * FC_PAGE);
    }
    span->zero = false;
    replace(heap, span);
    return carve(heap, span);
}

static void retire(struct fc_heap *heap, struct fc_run *span) {
    fc_unguard(span);
    atomic_store_explicit(&span->owner, NULL, memory_order_relaxed);
    heap->spans--;
    heap->carved[span->class] -= span->carved;
    fc_large_bins_put(heap, span);
}

bool fc_span_retire(struct fc_heap *heap) {
    size_t before = heap->spans;
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        for (struct fc_run *span = heap->first[class]; span != NULL;) {
            struct fc_run *next = span->next;
            if (span->used == 0) {
                unlist(heap, span);
                retire(heap, span);
            }
            span = next;
        }
        struct fc_run *current = heap->current[class];
        if (current != &fc_no_span && current->used == 0) {
            heap->current[class] = &fc_no_span;
            retire(heap, current);
        }
    }
    return heap->spans < before;
}

static bool reclaim(struct fc_heap *heap) {
    bool rows = heap->sub.large_pages > 0;
    fc_sub_flush(heap);
    bool absorbed = fc_heap_absorb(heap);
    fc_channel_collect(heap);
    return fc_span_retire(heap) || absorbed || rows;
}

// As reclaim, and what only the last resort may take.
static bool reclaim_all(struct fc_heap *heap) {
    bool reclaimed = reclaim(heap);
    return fc_heap_clear_others(heap) || reclaimed;
}

struct fc_run *fc_span_take_run(struct fc_heap *heap, enum fc_run_kind kind, uint32_t pages,
                                size_t alignment, bool prefault) {
    size_t used = fc_large_bins_used(&heap->large_bins);
    if (used >= heap->reclaim_at) {
        reclaim(heap);
        heap->reclaim_at = used + used / RECLAIM_SHARE + RECLAIM_LEAST;
    }
    struct fc_run *run = fc_large_bins_take(heap, kind, pages, alignment, prefault);
    if (run == NULL && reclaim_all(heap)) {
        run = fc_large_bins_take(heap, kind, pages, alignment, prefault);
    }
    return run;
}

static void adopt(struct fc_heap *heap, struct fc_run *span) {
    atomic_store_explicit(&span->owner, heap, memory_order_release);
    heap->carved[span->class] += span->carved;
    if (span->free != NULL || span->carved < span->capacity) {
        append(heap, span);
    } else {
        set_full(heap, span);
    }
}

void fc_span_inherit(struct fc_heap *heap, struct fc_heap *dead) {
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        struct fc_run *current = dead->current[class];
        if (current != &fc_no_span) {
            dead->current[class] = &fc_no_span;
            adopt(heap, current);
        }
        while (dead->first[class] != NULL) {
            struct fc_run *span = dead->first[class];
            unlist(dead, span);
            adopt(heap, span);
        }
    }
    while (dead->full != NULL) {
        struct fc_run *span = dead->full;
        unset_full(dead, span);
        adopt(heap, span);
    }
    memset(dead->carved, 0, sizeof dead->carved);
    heap->spans += dead->spans;
    dead->spans = 0;
}

static void migrate(struct fc_heap *heap, struct fc_run *span) {
    uint64_t policy = atomic_load_explicit(&heap->policy, memory_order_relaxed);
    fc_numa_migrate(span->start, fc_run_bytes(span), policy);
}

void fc_span_migrate(struct fc_heap *heap) {
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        for (struct fc_run *span = heap->first[class]; span != NULL; span = span->next) {
            if (span->carved == 0) {
                migrate(heap, span);
            }
        }
    }
}

bool fc_span_prepare(struct fc_heap *heap, unsigned class, size_t blocks) {
    uint32_t pages = fc_class_pages(class);
    while (blocks > 0) {
        // Not through fc_span_take_run: spans prepared before are empty, and have to stay.
        struct fc_run *run = fc_large_bins_take(heap, FC_RUN_SPAN, pages, FC_PAGE, false);
        if (run == NULL) {
            return false;
        }
        struct fc_run *span = cut_up(heap, class, run);
        if (span == NULL) {
            return false;
        }
        append(heap, span);
        size_t some = blocks < span->capacity ? blocks : span->capacity;
        size_t bytes = fc_round_up(some * fc_run_stride(span), FC_PAGE);
        if (!fc_os_populate(span->start, bytes)) {
            return false;
        }
        migrate(heap, span);
        blocks -= some;
    }
    return true;
}
