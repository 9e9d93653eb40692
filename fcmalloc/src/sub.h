// The sub heap: what a thread freed, or intercepted, and will hand out again or send home.
//
// Freed blocks, whoever owns them, are kept in the thread cache, class by class, and handed out
// again before any others: what comes and goes between threads stays where it was used last. To its
// owner a block in the thread cache is in use. What a class's cache has no room for goes to its
// span, if this heap owns that, and else into a remote-free batch for the owner, which is sent home
// when it is full. A cache has little room until the thread asks for more blocks of the class than
// it finds, so that a thread that only frees keeps next to nothing.

#ifndef FC_SUB_H
#define FC_SUB_H

#include "block.h"
#include "channel.h"

// A batch is sent when it holds this many blocks or bytes.
#define FC_BATCH_BLOCKS 64
#define FC_BATCH_BYTES ((uint32_t)64 << 10)

// Blocks that a class's cache has room for: at first, and at most. Never more than this many bytes,
// but one block.
#define FC_CACHE_BLOCKS_FIRST 32
#define FC_CACHE_BLOCKS 128
#define FC_CACHE_BYTES ((size_t)32 << 10)

// Rows, large blocks of fewer pages than this, are kept likewise. There is room for none at first,
// for as many pages more as these rows would have whenever a row is not found, and for so many at
// most.
#define FC_ROW_PAGES 33
#define FC_CACHE_ROWS 4
#define FC_CACHE_PAGES 256

// A heap intercepts nothing more while its cache is larger than this share of its own memory, and
// this many bytes: what it keeps without need, the owners replace by fresh memory.
#define FC_INTERCEPT_SHARE 8
#define FC_INTERCEPT_BYTES ((size_t)1 << 20)

// Blocks that wait for their cache line.
#define FC_QUEUE 32

struct fc_cache {
    struct fc_block *first;
    uint32_t count;
    uint32_t room;  // a freed block is kept while there are fewer
};

struct fc_batch {
    struct fc_block *first;
    struct fc_block *last;
    uint32_t count;
    uint32_t bytes;
};

struct fc_sub {
    struct fc_cache caches[FC_CLASSES];
    struct fc_run *rows[FC_ROW_PAGES];    // by length
    size_t row_pages;                     // in all of them
    size_t row_room;                      // what that may become
    struct fc_block *queue[FC_QUEUE];     // a ring
    size_t queued;                        // blocks that came since it was empty
    struct fc_batch *batches;             // one for each heap there may be
    uint64_t waiting[FC_HEAPS_MAX / 64];  // batches that are not empty
};

// Gives every cache its first room. Where memory has several nodes that is none, so that whoever
// frees a block looks at whose it is.
void fc_sub_open(struct fc_heap *heap);
// Gives the cache of the class more room: it was empty when the heap had no block of its own.
void fc_sub_extend(struct fc_heap *heap, unsigned class);
// Whether the cache of the class may become larger, whatever room it has.
bool fc_sub_is_short(const struct fc_sub *sub, unsigned class);

// Puts a large block of the program, of any heap, in the thread cache. False where there is no
// room.
bool fc_sub_keep_row(struct fc_sub *sub, struct fc_run *run);
// Takes a row of as many pages to hand out again, or NULL. What guards it stayed.
struct fc_run *fc_sub_take_row(struct fc_sub *sub, uint32_t pages);
// Gives rows more room: one of so many pages was not found.
void fc_sub_extend_rows(struct fc_sub *sub, uint32_t pages);
// Puts a large block that is free where it belongs: in its large bins, or on its way there.
void fc_sub_put_row(struct fc_heap *heap, struct fc_run *run);

// Takes a block of the class to hand out again, or NULL.
static inline struct fc_block *fc_sub_take(struct fc_sub *sub, unsigned class) {
    struct fc_cache *cache = &sub->caches[class];
    struct fc_block *block = cache->first;
    if (block != NULL) {
        cache->first = fc_block_next(block);
        cache->count--;
        block->check = 0;
    }
    return block;
}

static inline bool fc_sub_has_room(const struct fc_sub *sub, unsigned class) {
    return sub->caches[class].count < sub->caches[class].room;
}

// Puts a block of the span in the thread cache.
static inline void fc_sub_keep(struct fc_sub *sub, const struct fc_run *span,
                               struct fc_block *block) {
    struct fc_cache *cache = &sub->caches[span->class];
    fc_block_link(block, cache->first);
    cache->first = block;
    cache->count++;
}

// Puts a freed block where it belongs: on the list of the span, or, where another heap owns that,
// into the batch for the owner.
void fc_sub_put(struct fc_heap *heap, struct fc_run *span, struct fc_block *block);
// Puts a block of a span of the heap's own, which may be in the thread cache already, on its way
// there. The block is looked at later, when its cache line has come: when FC_QUEUE more are in the
// queue, or when it is emptied, as it must be before a block is taken from a full cache. By then
// nobody gets the block: its bit is cleared at once.
void fc_sub_queue(struct fc_heap *heap, struct fc_block *block);
// Empties the queue.
void fc_sub_settle(struct fc_heap *heap);
// Bytes of small blocks in the thread cache and in the queue.
size_t fc_sub_cached(const struct fc_sub *sub);
// Bytes of blocks in the thread cache for which there is no room: more were intercepted than were
// needed.
size_t fc_sub_surplus(const struct fc_sub *sub);
// Sends all batches, and puts what is in the queue and all rows where they belong.
void fc_sub_send(struct fc_heap *heap);
// Sends everything, what is in the thread cache too.
void fc_sub_flush(struct fc_heap *heap);

#endif
