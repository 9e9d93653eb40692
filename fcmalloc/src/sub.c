#include "sub.h"

#include "guard.h"
#include "heap.h"
#include "numa.h"
#include "options.h"
#include "span.h"

// The most blocks of the class that a cache may hold.
static uint32_t max_capacity(unsigned class) {
    size_t blocks = FC_CACHE_BYTES / fc_class_stride(class);
    blocks = blocks > 0 ? blocks : 1;
    return (uint32_t)(blocks < FC_CACHE_BLOCKS ? blocks : FC_CACHE_BLOCKS);
}

bool fc_sub_is_short(const struct fc_sub *sub, unsigned class) {
    return sub->caches[class].count < max_capacity(class);
}

static void set_capacity(struct fc_heap *heap, unsigned class, uint32_t capacity) {
    uint32_t most = max_capacity(class);
    heap->sub.caches[class].capacity = capacity < most ? capacity : most;
}

void fc_sub_open(struct fc_heap *heap) {
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        set_capacity(heap, class, fc_numa_matters() ? 0 : FC_CACHE_BLOCKS_FIRST);
    }
}

void fc_sub_extend(struct fc_heap *heap, unsigned class) {
    set_capacity(heap, class, 2 * heap->sub.caches[class].capacity);
}

FC_READS_WHILE_OTHERS_WRITE size_t fc_sub_cached(const struct fc_sub *sub) {
    size_t bytes = 0;
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        bytes += sub->caches[class].count * fc_class_stride(class);
    }
    for (unsigned i = 0; i < FC_QUEUE; i++) {
        const struct fc_block *block = sub->queue[i];
        bytes += block != NULL ? fc_run_stride(fc_space_run(block)) : 0;
    }
    return bytes;
}

bool fc_sub_keep_large(struct fc_sub *sub, struct fc_run *run) {
    if (run->pages >= FC_CACHE_LARGE_PAGES || sub->large_pages + run->pages > sub->large_capacity ||
        FC_UNLIKELY(fc_options.decay != 0)) {
        return false;
    }
    fc_run_become(run, FC_RUN_TRANSIT);
    run->next = sub->large[run->pages];
    sub->large[run->pages] = run;
    sub->large_filled |= (uint64_t)1 << run->pages;
    sub->large_pages += run->pages;
    return true;
}

struct fc_run *fc_sub_take_large(struct fc_sub *sub, uint32_t pages) {
    if (pages >= FC_CACHE_LARGE_PAGES) {
        return NULL;
    }
    // This length and those up to an eighth longer.
    uint64_t lengths = sub->large_filled >> pages & (((uint64_t)2 << pages / 8) - 1);
    if (lengths == 0) {
        return NULL;
    }
    uint32_t length = pages + (uint32_t)__builtin_ctzll(lengths);
    struct fc_run *run = sub->large[length];
    sub->large[length] = run->next;
    if (run->next == NULL) {
        sub->large_filled &= ~((uint64_t)1 << length);
    }
    sub->large_pages -= length;
    fc_run_become(run, FC_RUN_LARGE);
    return run;
}

void fc_sub_extend_large(struct fc_sub *sub, uint32_t pages) {
    if (pages < FC_CACHE_LARGE_PAGES) {
        size_t capacity = sub->large_capacity + FC_CACHE_LARGE_STEP * pages;
        sub->large_capacity = capacity < FC_CACHE_LARGE_MAX ? capacity : FC_CACHE_LARGE_MAX;
    }
}

void fc_sub_put_large(struct fc_heap *heap, struct fc_run *run) {
    fc_unguard(run);
    if (fc_run_heap(run) == heap) {
        fc_large_bins_put(heap, run);
    } else {
        fc_run_become(run, FC_RUN_TRANSIT);
        fc_channel_send_run(heap, run);
    }
}

static void return_large(struct fc_heap *heap) {
    for (uint32_t pages = 0; pages < FC_CACHE_LARGE_PAGES; pages++) {
        for (;;) {
            struct fc_run *run = fc_sub_take_large(&heap->sub, pages);
            if (run == NULL) {
                break;
            }
            fc_sub_put_large(heap, run);
        }
    }
}

size_t fc_sub_surplus(const struct fc_sub *sub) {
    size_t bytes = 0;
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        const struct fc_cache *cache = &sub->caches[class];
        uint32_t more = cache->count > cache->capacity ? cache->count - cache->capacity : 0;
        bytes += more * fc_class_stride(class);
    }
    return bytes;
}

static void send(struct fc_heap *heap, unsigned receiver) {
    struct fc_batch *batch = &heap->sub.batches[receiver];
    fc_channel_send(heap, fc_heap_at(receiver), batch->first, batch->last);
    heap->sub.waiting[receiver / 64] &= ~((uint64_t)1 << receiver % 64);
    *batch = (struct fc_batch){0};
}

// Puts a block of `bytes` into the batch for its owner.
static void forward(struct fc_heap *heap, struct fc_heap *owner, struct fc_block *block,
                    uint32_t bytes) {
    struct fc_batch *batch = &heap->sub.batches[owner->id];
    fc_block_link(block, batch->first);
    if (batch->first == NULL) {
        batch->last = block;
        heap->sub.waiting[owner->id / 64] |= (uint64_t)1 << owner->id % 64;
    }
    batch->first = block;
    heap->remote_frees++;
    batch->count++;
    batch->bytes += bytes;
    heap->sent += bytes;
    if (batch->count >= FC_BATCH_BLOCKS || batch->bytes >= FC_BATCH_BYTES) {
        send(heap, owner->id);
    }
}

void fc_sub_put(struct fc_heap *heap, struct fc_run *span, struct fc_block *block) {
    struct fc_heap *owner = fc_run_owner(span);
    if (owner != heap) {
        forward(heap, owner, block, (uint32_t)fc_run_stride(span));
    } else if (!fc_span_put(heap, span, block)) {
        fc_die("block %p was freed already", block);
    }
}

static void put_queued(struct fc_heap *heap, struct fc_block *block) {
    if (fc_block_is_freed(block)) {
        fc_die("block %p was freed already", block);
    }
    fc_span_link(heap, fc_space_run(block), block);
}

void fc_sub_queue(struct fc_heap *heap, struct fc_block *block) {
    struct fc_sub *sub = &heap->sub;
    *fc_space_bits(block) &= ~fc_space_bit(block);
    struct fc_block **slot = &sub->queue[sub->queued++ % FC_QUEUE];
    struct fc_block *first = *slot;
    *slot = block;
    __builtin_prefetch(block, 1);
    if (first != NULL) {
        put_queued(heap, first);
    }
}

void fc_sub_settle(struct fc_heap *heap) {
    struct fc_sub *sub = &heap->sub;
    if (sub->queued == 0) {
        return;
    }
    sub->queued = 0;
    for (unsigned i = 0; i < FC_QUEUE; i++) {
        struct fc_block *block = sub->queue[i];
        sub->queue[i] = NULL;
        if (block != NULL) {
            put_queued(heap, block);
        }
    }
}

void fc_sub_send(struct fc_heap *heap) {
    fc_sub_settle(heap);
    return_large(heap);
    for (unsigned word = 0; word < (fc_heap_count() + 63) / 64; word++) {
        while (heap->sub.waiting[word] != 0) {
            send(heap, word * 64 + (unsigned)__builtin_ctzll(heap->sub.waiting[word]));
        }
    }
}

void fc_sub_flush(struct fc_heap *heap) {
    fc_sub_settle(heap);
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        for (;;) {
            struct fc_block *block = fc_sub_take(&heap->sub, class);
            if (block == NULL) {
                break;
            }
            fc_sub_put(heap, fc_space_run(block), block);
        }
    }
    fc_sub_send(heap);
}
