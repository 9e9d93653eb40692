// The message queues between heaps: every heap has one channel from every other.
//
// Only the sender's thread puts into a channel, in batches; whoever empties it takes everything at
// once: the receiver, or a heap that would otherwise need fresh memory. Neither waits for the
// other. The receiver's pending flags say which channels are not empty; a flag is set after its
// batch is in place and cleared before the channel is emptied, so that no batch goes unseen.
// fcmalloc/model/channel.pml proves it for small numbers.

#ifndef FC_CHANNEL_H
#define FC_CHANNEL_H

#include "space.h"

#define FC_HEAPS_MAX 4096

struct fc_channel {
    _Atomic(struct fc_block *) blocks;
    _Atomic(struct fc_run *) runs;
} __attribute__((aligned(64)));

struct fc_inbox {
    struct fc_channel *channels;  // one from each heap there may be
    _Atomic uint64_t pending_blocks[FC_HEAPS_MAX / 64];
    _Atomic uint64_t pending_runs[FC_HEAPS_MAX / 64];
};

// Sends the blocks from `first` to `last` to the heap that owns them.
void fc_channel_send(struct fc_heap *heap, struct fc_heap *owner, struct fc_block *first,
                     struct fc_block *last);
// Takes the blocks that others sent. Only for the heap's thread. False if there were none.
bool fc_channel_collect(struct fc_heap *heap);
// Takes blocks that were sent to another heap and that its thread has not collected, until the
// thread cache has one of the class. False if there is none, or if the cache is too large.
bool fc_channel_intercept(struct fc_heap *heap, unsigned class);
bool fc_channel_has_messages(struct fc_heap *heap);
// Makes the next to empty the inbox look into every channel. For a process just forked: a thread
// that no longer exists may have cleared pending flags without emptying the channels.
void fc_channel_suspect_all(struct fc_heap *heap);

// Sends a large run to its owner.
void fc_channel_send_run(struct fc_heap *heap, struct fc_run *run);
// The runs that others sent, linked by `next`. The caller holds the lock of the large bins.
struct fc_run *fc_channel_collect_runs(struct fc_heap *heap);

#endif
