#include "channel.h"

#include "heap.h"
#include "span.h"

static unsigned words(void) { return (fc_heap_count() + 63) / 64; }

static void announce(_Atomic uint64_t *pending, unsigned sender) {
    atomic_fetch_or_explicit(&pending[sender / 64], (uint64_t)1 << sender % 64,
                             memory_order_release);
}

void fc_channel_send(struct fc_heap *heap, struct fc_heap *owner, struct fc_block *first,
                     struct fc_block *last) {
    struct fc_channel *channel = &owner->inbox.channels[heap->id];
    struct fc_block *before = atomic_load_explicit(&channel->blocks, memory_order_relaxed);
    do {
        fc_block_link(last, before);
    } while (!atomic_compare_exchange_weak_explicit(&channel->blocks, &before, first,
                                                    memory_order_release, memory_order_relaxed));
    if (before == NULL) {
        announce(owner->inbox.pending_blocks, heap->id);
    }
    heap->batches++;
}

void fc_channel_suspect_all(struct fc_heap *heap) {
    for (unsigned word = 0; word < words(); word++) {
        atomic_store_explicit(&heap->inbox.pending_blocks[word], UINT64_MAX, memory_order_relaxed);
    }
}

bool fc_channel_has_messages(struct fc_heap *heap) {
    for (unsigned word = 0; word < words(); word++) {
        if (atomic_load_explicit(&heap->inbox.pending_blocks[word], memory_order_relaxed) != 0) {
            return true;
        }
    }
    return false;
}

// Puts a received block where it belongs.
typedef void put_block(struct fc_heap *heap, struct fc_run *span, struct fc_block *block);

static inline void receive(struct fc_heap *heap, struct fc_block *block, put_block *put) {
    while (block != NULL) {
        struct fc_block *next = fc_block_next(block);
        __builtin_prefetch(next, 1);
        struct fc_run *span = fc_space_run(block);
        heap->received += fc_run_stride(span);
        put(heap, span, block);
        block = next;
    }
}

// Empties the channels of an inbox whose pending flags are set.
static inline bool empty(struct fc_heap *heap, struct fc_inbox *inbox, put_block *put) {
    bool any = false;
    for (unsigned word = 0; word < words(); word++) {
        if (atomic_load_explicit(&inbox->pending_blocks[word], memory_order_relaxed) == 0) {
            continue;
        }
        uint64_t pending =
            atomic_exchange_explicit(&inbox->pending_blocks[word], 0, memory_order_acquire);
        for (; pending != 0; pending &= pending - 1) {
            unsigned sender = word * 64 + (unsigned)__builtin_ctzll(pending);
            receive(heap,
                    atomic_exchange_explicit(&inbox->channels[sender].blocks, NULL,
                                             memory_order_acquire),
                    put);
            any = true;
        }
    }
    return any;
}

// Spans may have moved to other heaps since their blocks were sent.
bool fc_channel_collect(struct fc_heap *heap) { return empty(heap, &heap->inbox, fc_sub_put); }

static void intercept(struct fc_heap *heap, struct fc_run *span, struct fc_block *block) {
    struct fc_heap *owner = fc_run_owner(span);
    if (owner == heap) {
        fc_sub_put(heap, span, block);
    } else if (!fc_block_is_lent(block)) {
        fc_die("block %p was freed already", block);
    } else {
        fc_sub_keep(&heap->sub, span, block);
    }
}

bool fc_channel_intercept(struct fc_heap *heap, unsigned class) {
    size_t used = fc_large_bins_used(&heap->large_bins);
    if (fc_sub_surplus(&heap->sub) > FC_INTERCEPT_BYTES + used / FC_INTERCEPT_SHARE) {
        return false;
    }
    unsigned count = fc_heap_count();
    uint64_t policy = atomic_load_explicit(&heap->policy, memory_order_relaxed);
    for (unsigned i = 1; i < count && heap->sub.caches[class].count == 0; i++) {
        struct fc_heap *other = fc_heap_at((heap->id + i) % count);
        if (atomic_load_explicit(&other->policy, memory_order_relaxed) == policy) {
            empty(heap, &other->inbox, intercept);
        }
    }
    return heap->sub.caches[class].count > 0;
}

void fc_channel_send_run(struct fc_heap *heap, struct fc_run *run) {
    struct fc_heap *owner = fc_run_heap(run);
    struct fc_channel *channel = &owner->inbox.channels[heap->id];
    atomic_fetch_add_explicit(&owner->large_bins.incoming, run->pages, memory_order_relaxed);
    struct fc_run *before = atomic_load_explicit(&channel->runs, memory_order_relaxed);
    do {
        run->next = before;
    } while (!atomic_compare_exchange_weak_explicit(&channel->runs, &before, run,
                                                    memory_order_release, memory_order_relaxed));
    if (before == NULL) {
        announce(owner->inbox.pending_runs, heap->id);
    }
    heap->remote_frees++;
    heap->batches++;
}

struct fc_run *fc_channel_collect_runs(struct fc_heap *heap) {
    struct fc_inbox *inbox = &heap->inbox;
    struct fc_run *all = NULL;
    for (unsigned word = 0; word < words(); word++) {
        if (atomic_load_explicit(&inbox->pending_runs[word], memory_order_relaxed) == 0) {
            continue;
        }
        uint64_t pending =
            atomic_exchange_explicit(&inbox->pending_runs[word], 0, memory_order_acquire);
        for (; pending != 0; pending &= pending - 1) {
            unsigned sender = word * 64 + (unsigned)__builtin_ctzll(pending);
            struct fc_run *run =
                atomic_exchange_explicit(&inbox->channels[sender].runs, NULL, memory_order_acquire);
            while (run != NULL) {
                struct fc_run *next = run->next;
                run->next = all;
                all = run;
                run = next;
            }
        }
    }
    return all;
}
