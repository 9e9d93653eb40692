#include "heap.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "init.h"
#include "numa.h"
#include "shared.h"
#include "span.h"

#define SAME_4(x) x, x, x, x
#define SAME_16(x) SAME_4(x), SAME_4(x), SAME_4(x), SAME_4(x)
#define SAME_80(x) SAME_16(x), SAME_16(x), SAME_16(x), SAME_16(x), SAME_16(x)
_Static_assert(FC_CLASSES == 80, "as many as SAME_80 gives");

struct fc_run fc_no_span;
struct fc_heap fc_no_heap = {.current = {SAME_80(&fc_no_span)}};

_Thread_local struct fc_heap *fc_self = &fc_no_heap;

// Rounds of a thread's destructors. ThreadSanitizer shuts down the thread's state in the last one,
// after which no instrumented code may run.
#ifdef __SANITIZE_THREAD__
#define FAREWELLS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#else
#define FAREWELLS PTHREAD_DESTRUCTOR_ITERATIONS
#endif

// A heap that has handed out more than this does not move with its thread, to limit how many of its
// blocks lie on nodes that the thread left.
#define HARDLY_USED FC_SPAN_LEAST

// Times that the thread's destructors have run; once they are done it gets no heap again.
static _Thread_local unsigned farewells;

static struct {
    struct fc_lock lock;
    struct fc_heap *dead;  // most recently ended first; then those made ahead, by number
    _Atomic unsigned count;
    struct fc_heap *heaps[FC_HEAPS_MAX];
    // Shared by threads that have no heap of their own.
    struct fc_lock common_lock;
    _Atomic(struct fc_heap *) common;
    pthread_key_t key;
    bool has_key;
} registry;

unsigned fc_heap_count(void) { return atomic_load_explicit(&registry.count, memory_order_acquire); }

struct fc_heap *fc_heap_at(unsigned id) { return registry.heaps[id]; }

// The last heap is kept for threads that share one. Under the lock.
static struct fc_heap *make(bool to_share) {
    unsigned id = fc_heap_count();
    unsigned most = to_share ? fc_space.heaps_max : fc_space.heaps_max - 1;
    struct fc_heap *heap = id < most ? fc_space_heap(id) : NULL;
    if (heap == NULL) {
        return NULL;
    }
    heap->id = id;
    heap->state = FC_HEAP_LIVE;
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        heap->current[class] = &fc_no_span;
    }
    heap->inbox.channels = (struct fc_channel *)fc_round_up((uintptr_t)(heap + 1), FC_LINE);
    fc_sub_open(heap);
    heap->sub.batches = (struct fc_batch *)(heap->inbox.channels + fc_space.heaps_max);
    registry.heaps[id] = heap;
    atomic_fetch_add_explicit(&fc_space.metadata, sizeof *heap, memory_order_relaxed);
    atomic_store_explicit(&registry.count, id + 1, memory_order_release);
    return heap;
}

typedef bool suits(struct fc_heap *heap, uint64_t policy);

static bool has_policy(struct fc_heap *heap, uint64_t policy) {
    return atomic_load_explicit(&heap->policy, memory_order_relaxed) == policy;
}

static bool has_other_policy(struct fc_heap *heap, uint64_t policy) {
    return heap->state == FC_HEAP_DEAD && !has_policy(heap, policy);
}

static bool is_made(struct fc_heap *heap, uint64_t policy) {
    (void)policy;
    return heap->state == FC_HEAP_MADE;
}

static bool is_ahead_here(struct fc_heap *heap, uint64_t policy) {
    return heap->ahead && has_policy(heap, policy);
}

static bool is_left_here(struct fc_heap *heap, uint64_t policy) {
    return !heap->ahead && has_policy(heap, policy);
}

// What was made ahead of its thread is not for others.
static bool leaves_something(struct fc_heap *heap, uint64_t policy) {
    return heap->state == FC_HEAP_DEAD && has_policy(heap, policy) &&
           (heap->spans > 0 || fc_channel_has_messages(heap) || fc_sub_cached(&heap->sub) > 0);
}

// Takes the first suitable heap off the list of the dead, for the calling thread alone. Under the
// lock.
static struct fc_heap *raise_first(suits *suits, uint64_t policy) {
    struct fc_heap **link = &registry.dead;
    while (*link != NULL && !suits(*link, policy)) {
        link = &(*link)->next_dead;
    }
    struct fc_heap *heap = *link;
    if (heap != NULL) {
        *link = heap->next_dead;
        heap->state = FC_HEAP_LIVE;
    }
    return heap;
}

// Under the lock.
static struct fc_heap *revive(suits *suits, uint64_t policy) {
    struct fc_heap *heap = raise_first(suits, policy);
    if (heap != NULL) {
        heap->adoptions++;
    }
    return heap;
}

// Moves the heap's unused memory to where the calling thread's policy asks.
static void migrate(struct fc_heap *heap, uint64_t policy) {
    if (has_policy(heap, policy)) {
        return;
    }
    atomic_store_explicit(&heap->policy, policy, memory_order_relaxed);
    fc_span_migrate(heap);
    fc_large_bins_migrate(heap);
}

// A heap for a thread that starts, which is what heaps are made ahead for. Under the lock.
static struct fc_heap *find_first(uint64_t policy, bool to_share) {
    struct fc_heap *heap = revive(is_ahead_here, policy);
    if (heap == NULL) {
        heap = revive(is_left_here, policy);
    }
    if (heap == NULL) {
        heap = revive(is_made, policy);
    }
    return heap != NULL ? heap : make(to_share);
}

// A heap whose memory lies where the calling thread's policy asks, for it alone or shared.
static struct fc_heap *acquire(bool to_share) {
    uint64_t policy = fc_numa_policy();
    fc_lock_take(&registry.lock);
    struct fc_heap *heap = find_first(policy, to_share);
    fc_lock_drop(&registry.lock);
    if (heap != NULL) {
        migrate(heap, policy);
    }
    return heap;
}

// Appended, so that the first in is the first out. Under the lock.
static void list_made(struct fc_heap *heap) {
    struct fc_heap **link = &registry.dead;
    while (*link != NULL) {
        link = &(*link)->next_dead;
    }
    heap->state = FC_HEAP_MADE;
    heap->next_dead = NULL;
    *link = heap;
}

// Releases the heap for reuse. Small blocks in the thread cache stay there for the next thread that
// gets it.
static void release(struct fc_heap *heap) {
    fc_sub_send(heap);
    fc_lock_take(&registry.lock);
    heap->state = FC_HEAP_DEAD;
    heap->next_dead = registry.dead;
    registry.dead = heap;
    fc_lock_drop(&registry.lock);
}

// Runs when the thread ends. Other destructors may still allocate: asks to run again until the last
// round, so as to be the last.
static void end_thread(void *heap) {
    if (++farewells < FAREWELLS && pthread_setspecific(registry.key, heap) == 0) {
        return;
    }
    fc_self = &fc_no_heap;
    farewells = FAREWELLS;
    release(heap);
}

// Makes the heap the calling thread's.
static void settle(struct fc_heap *heap) {
    fc_self = heap;
    if (registry.has_key) {
        pthread_setspecific(registry.key, heap);
    }
}

struct fc_heap *fc_heap_here(void) {
    if (fc_self != &fc_no_heap) {
        return fc_self;
    }
    if (!fc_init() || farewells == FAREWELLS) {
        return NULL;
    }
    struct fc_heap *heap = acquire(false);
    if (heap == NULL) {
        return NULL;
    }
    settle(heap);
    return heap;
}

static struct fc_heap *common(void) {
    return atomic_load_explicit(&registry.common, memory_order_relaxed);
}

// The shared heap, locked.
static struct fc_heap *borrow(void) {
    if (!fc_init()) {
        return NULL;
    }
    fc_lock_take(&registry.common_lock);
    struct fc_heap *heap = common();
    if (heap == NULL) {
        heap = acquire(true);
        atomic_store_explicit(&registry.common, heap, memory_order_relaxed);
    }
    if (heap == NULL) {
        fc_lock_drop(&registry.common_lock);
        return NULL;
    }
    fc_self = heap;
    return heap;
}

static bool is_hardly_used(struct fc_heap *heap) {
    size_t bytes = 0;
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        bytes += heap->carved[class] * fc_class_stride(class);
    }
    fc_lock_take(&heap->large_bins.lock);
    bool had_large = heap->large_bins.large_peak > 0;
    fc_lock_drop(&heap->large_bins.lock);
    return bytes <= HARDLY_USED && !had_large;
}

// A heap for a thread that has one and moved, possibly the same one. Heaps made ahead are for
// others, unless the thread returns one in exchange. Under the lock.
static struct fc_heap *find_next(struct fc_heap *heap, uint64_t policy) {
    struct fc_heap *other = heap->ahead ? revive(is_ahead_here, policy) : NULL;
    if (other == NULL && is_hardly_used(heap)) {
        return heap;
    }
    if (other == NULL) {
        other = revive(is_left_here, policy);
    }
    return other != NULL ? other : make(false);
}

static struct fc_heap *follow_policy(struct fc_heap *heap) {
    uint64_t policy = fc_numa_policy();
    if (has_policy(heap, policy)) {
        return heap;
    }
    fc_lock_take(&registry.lock);
    struct fc_heap *other = find_next(heap, policy);
    fc_lock_drop(&registry.lock);
    if (other == NULL) {
        return heap;
    }
    if (other == heap) {
        fc_sub_flush(heap);
    } else {
        release(heap);
        settle(other);
    }
    migrate(other, policy);
    return other;
}

struct fc_heap *fc_heap_enter(void) {
    struct fc_heap *heap = fc_heap_here();
    if (heap == NULL) {
        return borrow();
    }
    return FC_LIKELY(!fc_numa_matters()) ? heap : follow_policy(heap);
}

void fc_heap_follow_policy(void) {
    if (fc_numa_matters() && fc_self != &fc_no_heap) {
        (void)follow_policy(fc_self);
    }
}

bool fc_heap_shares_policy(const struct fc_heap *heap) {
    return !fc_numa_matters() || atomic_load_explicit(&heap->policy, memory_order_relaxed) ==
                                     atomic_load_explicit(&fc_self->policy, memory_order_relaxed);
}

void fc_heap_leave(struct fc_heap *heap) {
    if (FC_LIKELY(heap != common())) {
        return;
    }
    fc_sub_flush(heap);
    fc_self = &fc_no_heap;
    fc_lock_drop(&registry.common_lock);
}

bool fc_heap_absorb(struct fc_heap *heap) {
    uint64_t policy = atomic_load_explicit(&heap->policy, memory_order_relaxed);
    fc_lock_take(&registry.lock);
    struct fc_heap *dead = raise_first(leaves_something, policy);
    fc_lock_drop(&registry.lock);
    if (dead == NULL) {
        return false;
    }
    // Blocks of spans that moved before reach their new owners through the dead heap's sub heap.
    fc_channel_collect(dead);
    fc_sub_flush(dead);
    fc_span_inherit(heap, dead);
    release(dead);
    return true;
}

bool fc_heap_clear_others(struct fc_heap *heap) {
    uint64_t policy = atomic_load_explicit(&heap->policy, memory_order_relaxed);
    struct fc_heap *others = NULL;
    struct fc_heap *next;
    fc_lock_take(&registry.lock);
    while ((next = raise_first(has_other_policy, policy)) != NULL) {
        next->next_dead = others;
        others = next;
    }
    fc_lock_drop(&registry.lock);
    bool any = false;
    for (; others != NULL; others = next) {
        next = others->next_dead;
        fc_channel_collect(others);
        fc_sub_flush(others);
        any |= fc_span_retire(others);
        release(others);
    }
    return any;
}

bool fc_heap_make(unsigned count) {
    fc_lock_take(&registry.lock);
    unsigned first = fc_heap_count();
    bool made = true;
    while (made && fc_heap_count() < count) {
        made = make(false) != NULL;
    }
    // Heap 0 is the main thread's, the others one for each core.
    for (unsigned id = first; id < fc_heap_count(); id++) {
        struct fc_heap *heap = registry.heaps[id];
        uint64_t policy = fc_numa_policy_on(id > 0 ? id - 1 : 0);
        atomic_store_explicit(&heap->policy, policy, memory_order_relaxed);
        heap->ahead = true;
        list_made(heap);
    }
    fc_lock_drop(&registry.lock);
    return made;
}

void fc_heap_watch_threads(void) {
    registry.has_key = pthread_key_create(&registry.key, end_thread) == 0;
    if (registry.has_key && fc_self != &fc_no_heap) {
        pthread_setspecific(registry.key, fc_self);
    }
}

// Locks are taken in their nesting order: the common heap's, the registry's, the large bins', the
// shared regions', the space's.
void fc_heap_hold_all(void) {
    fc_lock_take(&registry.common_lock);
    fc_lock_take(&registry.lock);
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        fc_lock_take(&registry.heaps[id]->large_bins.lock);
    }
    fc_shared_hold();
    fc_lock_take(&fc_space.lock);
    fc_lock_holds_all = true;
}

void fc_heap_drop_all(void) {
    fc_lock_holds_all = false;
    fc_lock_drop(&fc_space.lock);
    fc_shared_drop();
    for (unsigned id = fc_heap_count(); id-- > 0;) {
        fc_lock_drop(&registry.heaps[id]->large_bins.lock);
    }
    fc_lock_drop(&registry.lock);
    fc_lock_drop(&registry.common_lock);
}

void fc_heap_reset_all(void) {
    fc_lock_holds_all = false;
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        struct fc_heap *heap = registry.heaps[id];
        fc_lock_reset(&heap->large_bins.lock);
        fc_channel_suspect_all(heap);
        if (heap->state == FC_HEAP_LIVE && heap != fc_self && heap != common()) {
            heap->state = FC_HEAP_LOST;
        }
    }
    fc_lock_reset(&fc_space.lock);
    fc_shared_reset();
    fc_lock_reset(&registry.lock);
    fc_lock_reset(&registry.common_lock);
}
