// The ways between heaps: every heap has one channel from every other.
//
// Only the sender's thread puts into a channel, in batches; whoever acts for the receiver takes all
// of it at once. Neither waits for the other. A bit of the receiver's mail tells it which channels
// are not empty; it is set after the batch is in place and cleared before the channel is emptied,
// so that no batch stays unseen. fcmalloc/model/channel.pml proves it for small numbers.

#ifndef FC_CHANNEL_H
#define FC_CHANNEL_H

#include "space.h"

// A parcel is sent when it holds this many blocks or bytes.
#define FC_PARCEL_BLOCKS 64
#define FC_PARCEL_BYTES ((uint32_t)64 << 10)

#define FC_HEAPS_MAX 4096

struct fc_channel {
    _Atomic(struct fc_block *) blocks;
    _Atomic(struct fc_run *) runs;
} __attribute__((aligned(64)));

// Blocks of one other heap, waiting to be sent.
struct fc_parcel {
    struct fc_block *first;
    struct fc_block *last;
    uint32_t count;
    uint32_t bytes;
};

struct fc_sub {
    struct fc_parcel *parcels;            // one for each heap there may be
    uint64_t waiting[FC_HEAPS_MAX / 64];  // parcels that are not empty
};

struct fc_inbox {
    struct fc_channel *channels;  // one from each heap there may be
    _Atomic uint64_t block_mail[FC_HEAPS_MAX / 64];
    _Atomic uint64_t run_mail[FC_HEAPS_MAX / 64];
};

// Bytes that the parcels and channels take for each heap there may be.
#define FC_CHANNEL_BYTES (sizeof(struct fc_channel) + sizeof(struct fc_parcel))

// Puts a freed block that `owner` owns, of `bytes`, into the calling thread's sub heap.
void fc_channel_post(struct fc_heap *heap, struct fc_heap *owner, struct fc_block *block,
                     uint32_t bytes);
// Sends every parcel.
void fc_channel_flush(struct fc_heap *heap);
// Takes the blocks that others sent. Only for the heap's thread. False if there were none.
bool fc_channel_collect(struct fc_heap *heap);
bool fc_channel_has_mail(struct fc_heap *heap);

// Sends a large run home.
void fc_channel_post_run(struct fc_heap *heap, struct fc_run *run);
// The runs that others sent, linked by `next`. For whoever holds the lock of the shelf.
struct fc_run *fc_channel_collect_runs(struct fc_heap *heap);

#endif
