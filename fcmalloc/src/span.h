// Spans: page runs cut into blocks of one class, and their free lists.
//
// A span is the current one of its class, or listed (it has free blocks), or full. Blocks are
// carved off it a page at a time, so that what is not needed is not touched.

#ifndef FC_SPAN_H
#define FC_SPAN_H

#include "heap.h"

// Makes a span of the class with a free block the current one. False if the heap has none.
bool fc_span_refill(struct fc_heap *heap, unsigned class);

// Makes a new span the current one. False without memory.
bool fc_span_add(struct fc_heap *heap, unsigned class);

// Lists a span of the heap again that was full and no longer is.
void fc_span_relist(struct fc_heap *heap, struct fc_run *span);

// Puts the runs of spans without a block in use back into the large bins. False if there were none.
bool fc_span_retire(struct fc_heap *heap);

// A run as from fc_large_bins_take. Now and then while the heap grows, and before it fails, empty
// spans are reclaimed, its own and those of dead heaps.
struct fc_run *fc_span_take_run(struct fc_heap *heap, enum fc_run_kind kind, uint32_t pages,
                                size_t alignment, bool prefault);

// Makes `heap` the owner of every span of `dead`, which no thread has.
void fc_span_inherit(struct fc_heap *heap, struct fc_heap *dead);

// Moves spans that no block was ever taken from to where the heap's policy wants them.
void fc_span_migrate(struct fc_heap *heap);

// Makes and first-touches spans for that many blocks more. False without memory.
bool fc_span_prepare(struct fc_heap *heap, unsigned class, size_t blocks);

// Pops a block off the free list of a span that has one.
static inline struct fc_block *fc_span_pop(struct fc_run *span) {
    struct fc_block *block = span->free;
    span->free = fc_block_next(block);
    span->used++;
    block->check = 0;
    *fc_space_bits(block) |= fc_space_bit(block);
    return block;
}

// Pushes a block whose bit is already cleared on its span's free list. Only for the owner's thread.
static inline void fc_span_link(struct fc_heap *heap, struct fc_run *span, struct fc_block *block) {
    struct fc_block *next = span->free;
    fc_block_link(block, next);
    span->free = block;
    span->used--;
    if (FC_UNLIKELY(next == NULL)) {
        fc_span_relist(heap, span);
    }
}

// Pushes a freed block on its span's free list. Only for the owner's thread. False where no block
// in use starts there.
static inline bool fc_span_put(struct fc_heap *heap, struct fc_run *span, void *p) {
    struct fc_block *block = p;
    uint64_t *bits = fc_space_bits(p);
    uint64_t bit = fc_space_bit(p);
    if (FC_UNLIKELY((*bits & bit) == 0)) {
        return false;
    }
    *bits &= ~bit;
    fc_span_link(heap, span, block);
    return true;
}

#endif
