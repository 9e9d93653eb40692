// The sub heap: blocks that a thread freed, or intercepted, and another heap owns.
//
// Freed blocks are collected in parcels, one for each owner, and a parcel is sent when it is full.
// Intercepted blocks are kept in stock and handed out again; to its owner a block in stock is in
// use.

#ifndef FC_SUB_H
#define FC_SUB_H

#include "channel.h"

// A parcel is sent when it holds this many blocks or bytes.
#define FC_PARCEL_BLOCKS 64
#define FC_PARCEL_BYTES ((uint32_t)64 << 10)

// A heap intercepts nothing more while its stock is larger than this share of its own memory, and
// this many bytes: what it keeps without need, the owners replace by fresh memory.
#define FC_STOCK_SHARE 8
#define FC_STOCK_BYTES ((size_t)1 << 20)

struct fc_stock {
    struct fc_block *first;
    size_t count;
};

struct fc_parcel {
    struct fc_block *first;
    struct fc_block *last;
    uint32_t count;
    uint32_t bytes;
};

struct fc_sub {
    struct fc_stock stocks[FC_CLASSES];
    size_t stocked;                       // bytes in all of them
    struct fc_parcel *parcels;            // one for each heap there may be
    uint64_t waiting[FC_HEAPS_MAX / 64];  // parcels that are not empty
};

// Puts a freed block of the span, which another heap owns, into the calling thread's sub heap.
void fc_sub_put(struct fc_heap *heap, struct fc_run *span, struct fc_block *block);
// Puts a block that was on its way to its owner in stock.
void fc_sub_keep(struct fc_heap *heap, struct fc_run *span, struct fc_block *block);
// Puts a block of `bytes` into the parcel for its owner.
void fc_sub_forward(struct fc_heap *heap, struct fc_heap *owner, struct fc_block *block,
                    uint32_t bytes);
// A block of the class to hand out again, or NULL.
struct fc_block *fc_sub_take(struct fc_heap *heap, unsigned class);
// Sends everything.
void fc_sub_flush(struct fc_heap *heap);

#endif
