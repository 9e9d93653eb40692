// The sub heap: what a thread freed, or intercepted, and will hand out again or send to its owner.
//
// Freed blocks, whoever owns them, are kept in the thread cache, by class, and handed out before
// any others: what passes between threads stays where it was last used. To its owner, a block in
// the thread cache is in use. A block for which the cache of its class is full goes to its span, if
// this heap owns that, and otherwise into a remote-free batch for the owner, which is sent when it
// is full. A cache has a small capacity until the thread asks for more blocks of the class than it
// finds, so that a thread that only frees keeps next to nothing.

#ifndef FC_SUB_H
#define FC_SUB_H

#include "block.h"
#include "channel.h"

// A batch is sent when it holds this many blocks or bytes.
#define FC_BATCH_BLOCKS 64
#define FC_BATCH_BYTES ((uint32_t)64 << 10)

// The initial and the largest number of blocks that a class's cache holds. Never more than this
// many bytes, except for one block.
#define FC_CACHE_BLOCKS_FIRST 32
#define FC_CACHE_BLOCKS 128
#define FC_CACHE_BYTES ((size_t)32 << 10)

// Large blocks of fewer pages than this are cached likewise. The capacity is 0 at first; each miss
// adds as many pages as this many such blocks have, up to a limit.
#define FC_CACHE_LARGE_PAGES 33
_Static_assert(FC_CACHE_LARGE_PAGES <= 64, "a bit for every length");
#define FC_CACHE_LARGE_STEP 4
#define FC_CACHE_LARGE_MAX 256

// A heap intercepts nothing more while its cache is larger than this share of its own memory, and
// this many bytes: what it hoards, the owners replace by fresh memory.
#define FC_INTERCEPT_SHARE 8
#define FC_INTERCEPT_BYTES ((size_t)1 << 20)

// Blocks whose cache line is being prefetched.
#define FC_QUEUE 32

struct fc_cache {
    struct fc_block *first;
    uint32_t count;
    uint32_t capacity;  // a freed block is kept while there are fewer
};

struct fc_batch {
    struct fc_block *first;
    struct fc_block *last;
    uint32_t count;
    uint32_t bytes;
};

struct fc_sub {
    struct fc_cache caches[FC_CLASSES];
    struct fc_run *large[FC_CACHE_LARGE_PAGES];  // by length
    uint64_t large_filled;                       // the lengths of which there are some
    size_t large_pages;                          // in all of them
    size_t large_capacity;                       // the most they may become
    struct fc_block *queue[FC_QUEUE];            // a ring
    size_t queued;                               // blocks queued since it was empty
    struct fc_batch *batches;                    // one for each heap there may be
    uint64_t waiting[FC_HEAPS_MAX / 64];         // batches that are not empty
};

// Gives every cache its initial capacity: none on a machine with several nodes, so that every free
// looks at the owner of the block.
void fc_sub_open(struct fc_heap *heap);
// Grows the cache of the class: it was empty when the heap had no block of its own.
void fc_sub_extend(struct fc_heap *heap, unsigned class);
// Whether the cache of the class may grow, whatever its present capacity.
bool fc_sub_is_short(const struct fc_sub *sub, unsigned class);

// Puts a large block of the program, of any heap, into the thread cache. False if that is full.
bool fc_sub_keep_large(struct fc_sub *sub, struct fc_run *run);
// Takes a cached large block of this many pages, or of an eighth more at most, to hand out again,
// or NULL. Its guard page is still in place.
struct fc_run *fc_sub_take_large(struct fc_sub *sub, uint32_t pages);
// Grows the cache of large blocks: one of this many pages was not found.
void fc_sub_extend_large(struct fc_sub *sub, uint32_t pages);
// Puts a free large block where it belongs: into its large bins, or on its way to its owner.
void fc_sub_put_large(struct fc_heap *heap, struct fc_run *run);

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

static inline bool fc_sub_can_keep(const struct fc_sub *sub, unsigned class) {
    return sub->caches[class].count < sub->caches[class].capacity;
}

// Puts a block of the span in the thread cache.
static inline void fc_sub_keep(struct fc_sub *sub, const struct fc_run *span,
                               struct fc_block *block) {
    struct fc_cache *cache = &sub->caches[span->class];
    fc_block_link(block, cache->first);
    cache->first = block;
    cache->count++;
}

// Puts a freed block where it belongs: on the free list of the span or, if another heap owns that,
// into the batch for the owner.
void fc_sub_put(struct fc_heap *heap, struct fc_run *span, struct fc_block *block);
// Queues a block of one of the heap's own spans to be put there, even if it is in the thread cache
// already. The block is looked at later, when its cache line has arrived: when FC_QUEUE more are
// queued, or when the queue is emptied, as it must be before a block is taken from a full cache.
// Nobody can get the block in between: its bit is cleared at once.
void fc_sub_queue(struct fc_heap *heap, struct fc_block *block);
// Empties the queue.
void fc_sub_settle(struct fc_heap *heap);
// Bytes of small blocks in the thread cache and in the queue.
size_t fc_sub_cached(const struct fc_sub *sub);
// Bytes of blocks in the thread cache beyond its capacity: more were intercepted than were needed.
size_t fc_sub_surplus(const struct fc_sub *sub);
// Sends all batches, and puts the queued blocks and the cached large blocks where they belong.
void fc_sub_send(struct fc_heap *heap);
// Sends everything, the contents of the thread cache included.
void fc_sub_flush(struct fc_heap *heap);

#endif
