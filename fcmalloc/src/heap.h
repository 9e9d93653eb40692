// A local heap: everything that one thread allocates from.
//
// The main heap is what the thread allocates from: its own spans and its large bins. The sub heap
// caches what it frees, and sends blocks of other heaps to their owners through its own channel to
// each. A thread has one heap, and a heap at most one thread. When a thread ends, its heap waits
// for the next thread that starts.

#ifndef FC_HEAP_H
#define FC_HEAP_H

#include "channel.h"
#include "large_bins.h"
#include "sub.h"

enum fc_heap_state {
    FC_HEAP_MADE,  // ahead of the thread that will get it; listed for that thread
    FC_HEAP_LIVE,  // a thread has it
    FC_HEAP_DEAD,  // its thread ended; listed for the next
    FC_HEAP_LOST,  // its thread did not survive a fork; its spans may be torn
};

struct fc_heap {
    // The span of each class that blocks are taken from; never NULL.
    struct fc_run *current[FC_CLASSES];

    unsigned id;
    enum fc_heap_state state;  // under the registry's lock
    bool ahead;                // made ahead of its thread, with memory meant for it
    struct fc_heap *next_dead;
    _Atomic uint64_t policy;  // the memory policy of the threads that it is for; see numa.h
    unsigned colour;          // where in its page the next large block starts

    // Spans with free blocks, other than the current ones: taken from the front, put at the back.
    struct fc_run *first[FC_CLASSES];
    struct fc_run *last[FC_CLASSES];
    // Full spans.
    struct fc_run *full;
    size_t spans;
    size_t reclaim_at;  // when the large bins have used this much, empty spans are looked for
    uint64_t carved[FC_CLASSES];  // blocks in spans of the class that were ever used
    uint64_t demand[FC_CLASSES];  // peak of `carved`

    struct fc_large_bins large_bins;

    uint64_t sent;      // bytes of blocks put into batches
    uint64_t received;  // bytes of blocks taken from channels
    uint64_t remote_frees;
    uint64_t batches;
    uint64_t steals;
    uint64_t adoptions;

    struct fc_sub sub;
    struct fc_inbox inbox;
};

// The calling thread's heap; fc_no_heap if it has none yet, or no longer.
extern _Thread_local struct fc_heap *fc_self;
extern struct fc_heap fc_no_heap;
// The span of fc_no_heap and of classes that a heap has no span of: always full.
extern struct fc_run fc_no_span;

// The calling thread's heap, which it gets here if it has none. NULL where it can have none: it is
// about to end, too many threads run, or memory is exhausted.
struct fc_heap *fc_heap_here(void);

// The heap to allocate from and free to until fc_heap_leave: the calling thread's, or one that all
// threads without a heap share under a lock. Where the thread's memory policy has changed, its heap
// is exchanged for one of the present policy, or moves with it if it was hardly used. NULL where
// there is no memory for any.
struct fc_heap *fc_heap_enter(void);
void fc_heap_leave(struct fc_heap *heap);

// As fc_heap_enter, if the calling thread has a heap of its own.
void fc_heap_follow_policy(void);

// Whether the heap's memory lies where that of the calling thread's heap does.
bool fc_heap_shares_policy(const struct fc_heap *heap);

// Takes over spans left by dead heaps of its policy. False where there are none.
bool fc_heap_absorb(struct fc_heap *heap);

// Puts the empty spans left by dead heaps of other policies into their large bins. False if there
// are none.
bool fc_heap_clear_others(struct fc_heap *heap);

// Makes heap 0, 1, ... until there are `count`, for threads to come.
bool fc_heap_make(unsigned count);

unsigned fc_heap_count(void);
struct fc_heap *fc_heap_at(unsigned id);

// Makes heaps of threads that end available to those that start.
void fc_heap_watch_threads(void);

// For fork: keeps every list whole while the process is copied.
void fc_heap_hold_all(void);
void fc_heap_drop_all(void);
// In the child: the heaps of threads that do not exist there are lost.
void fc_heap_reset_all(void);

#endif
