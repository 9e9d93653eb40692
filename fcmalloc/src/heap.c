#include "heap.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "init.h"
#include "numa.h"
#include "span.h"

#define SAME_4(x) x, x, x, x
#define SAME_16(x) SAME_4(x), SAME_4(x), SAME_4(x), SAME_4(x)
#define SAME_92(x) \
    SAME_16(x), SAME_16(x), SAME_16(x), SAME_16(x), SAME_16(x), SAME_4(x), SAME_4(x), SAME_4(x)
_Static_assert(FC_CLASSES == 92, "as many as SAME_92 gives");

struct fc_run fc_no_span;
struct fc_heap fc_no_heap = {.current = {SAME_92(&fc_no_span)}};

_Thread_local struct fc_heap *fc_self = &fc_no_heap;

// Rounds of a thread's destructors. ThreadSanitizer takes leave of the thread in the last one,
// after which nothing that it has instrumented may run.
#ifdef __SANITIZE_THREAD__
#define FAREWELLS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#else
#define FAREWELLS PTHREAD_DESTRUCTOR_ITERATIONS
#endif

// Times that the thread's destructors have run; once they are done it gets no heap again.
static _Thread_local unsigned farewells;

static struct {
    struct fc_lock lock;
    struct fc_heap *dead;  // most recently ended first
    _Atomic unsigned count;
    struct fc_heap *heaps[FC_HEAPS_MAX];
    // Shared by threads that have no heap of their own.
    struct fc_lock common_lock;
    struct fc_heap *common;
    pthread_key_t key;
    bool has_key;
} registry;

unsigned fc_heap_count(void) { return atomic_load_explicit(&registry.count, memory_order_acquire); }

struct fc_heap *fc_heap_at(unsigned id) { return registry.heaps[id]; }

// Under the lock.
static struct fc_heap *make(void) {
    unsigned id = fc_heap_count();
    struct fc_heap *heap = id < fc_space.heaps_max ? fc_space_heap(id) : NULL;
    if (heap == NULL) {
        return NULL;
    }
    heap->id = id;
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        heap->current[class] = &fc_no_span;
    }
    heap->inbox.channels = (struct fc_channel *)fc_round_up((uintptr_t)(heap + 1), FC_LINE);
    heap->sub.parcels = (struct fc_parcel *)(heap->inbox.channels + fc_space.heaps_max);
    registry.heaps[id] = heap;
    atomic_fetch_add_explicit(&fc_space.metadata, sizeof *heap, memory_order_relaxed);
    atomic_store_explicit(&registry.count, id + 1, memory_order_release);
    return heap;
}

// The latest dead heap whose memory suits the policy. Under the lock.
static struct fc_heap *revive(uint64_t policy) {
    for (struct fc_heap **link = &registry.dead; *link != NULL; link = &(*link)->next_dead) {
        struct fc_heap *heap = *link;
        if (atomic_load_explicit(&heap->policy, memory_order_relaxed) == policy) {
            *link = heap->next_dead;
            heap->adoptions++;
            return heap;
        }
    }
    return NULL;
}

static struct fc_heap *acquire(void) {
    uint64_t policy = fc_numa_policy();
    fc_lock_take(&registry.lock);
    struct fc_heap *heap = revive(policy);
    if (heap == NULL) {
        heap = make();
    }
    if (heap != NULL) {
        heap->state = FC_HEAP_LIVE;
        atomic_store_explicit(&heap->policy, policy, memory_order_relaxed);
    }
    fc_lock_drop(&registry.lock);
    return heap;
}

static void bury(struct fc_heap *heap, enum fc_heap_state state) {
    heap->state = state;
    heap->next_dead = registry.dead;
    registry.dead = heap;
}

static void release(struct fc_heap *heap) {
    fc_sub_flush(heap);
    fc_lock_take(&registry.lock);
    bury(heap, FC_HEAP_DEAD);
    fc_lock_drop(&registry.lock);
}

// Runs when the thread ends. Other destructors may still allocate: asks to run again until the
// last round, so as to be the last.
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
    struct fc_heap *heap = acquire();
    if (heap == NULL) {
        return NULL;
    }
    settle(heap);
    return heap;
}

// The shared heap, locked.
static struct fc_heap *borrow(void) {
    if (!fc_init()) {
        return NULL;
    }
    fc_lock_take(&registry.common_lock);
    if (registry.common == NULL) {
        registry.common = acquire();
    }
    if (registry.common == NULL) {
        fc_lock_drop(&registry.common_lock);
        return NULL;
    }
    fc_self = registry.common;
    return registry.common;
}

static struct fc_heap *follow_policy(struct fc_heap *heap) {
    if (fc_numa_policy() == atomic_load_explicit(&heap->policy, memory_order_relaxed)) {
        return heap;
    }
    struct fc_heap *other = acquire();
    if (other == NULL) {
        return heap;
    }
    release(heap);
    settle(other);
    return other;
}

struct fc_heap *fc_heap_enter(void) {
    struct fc_heap *heap = fc_heap_here();
    if (heap == NULL) {
        return borrow();
    }
    return FC_LIKELY(!fc_numa_matters()) ? heap : follow_policy(heap);
}

void fc_heap_leave(struct fc_heap *heap) {
    if (FC_LIKELY(heap != registry.common)) {
        return;
    }
    fc_sub_flush(heap);
    fc_self = &fc_no_heap;
    fc_lock_drop(&registry.common_lock);
}

// What was made ahead of its thread is not for others.
static bool leaves_something(struct fc_heap *heap) {
    return heap->state == FC_HEAP_DEAD && (heap->spans > 0 || fc_channel_has_mail(heap));
}

bool fc_heap_absorb(struct fc_heap *heap) {
    fc_lock_take(&registry.lock);
    struct fc_heap **link = &registry.dead;
    while (*link != NULL && !leaves_something(*link)) {
        link = &(*link)->next_dead;
    }
    struct fc_heap *dead = *link;
    if (dead != NULL) {
        *link = dead->next_dead;
        dead->state = FC_HEAP_LIVE;
    }
    fc_lock_drop(&registry.lock);
    if (dead == NULL) {
        return false;
    }
    // Blocks of spans that moved before reach their new owners by way of the dead heap's sub heap.
    fc_channel_collect(dead);
    fc_sub_flush(dead);
    fc_span_inherit(heap, dead);
    fc_lock_take(&registry.lock);
    bury(dead, FC_HEAP_DEAD);
    fc_lock_drop(&registry.lock);
    return true;
}

bool fc_heap_make(unsigned count) {
    fc_lock_take(&registry.lock);
    unsigned first = fc_heap_count();
    bool made = true;
    while (made && fc_heap_count() < count) {
        made = make() != NULL;
    }
    // The next thread is to get the first.
    for (unsigned id = fc_heap_count(); id-- > first;) {
        bury(registry.heaps[id], FC_HEAP_MADE);
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

// Locks are taken in the order in which they nest elsewhere: the common heap's, the registry's, the
// shelves', the space's.
void fc_heap_hold_all(void) {
    fc_lock_take(&registry.common_lock);
    fc_lock_take(&registry.lock);
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        fc_lock_take(&registry.heaps[id]->shelf.lock);
    }
    fc_lock_take(&fc_space.lock);
    fc_lock_holds_all = true;
}

void fc_heap_drop_all(void) {
    fc_lock_holds_all = false;
    fc_lock_drop(&fc_space.lock);
    for (unsigned id = fc_heap_count(); id-- > 0;) {
        fc_lock_drop(&registry.heaps[id]->shelf.lock);
    }
    fc_lock_drop(&registry.lock);
    fc_lock_drop(&registry.common_lock);
}

void fc_heap_reset_all(void) {
    fc_lock_holds_all = false;
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        struct fc_heap *heap = registry.heaps[id];
        fc_lock_reset(&heap->shelf.lock);
        if (heap->state == FC_HEAP_LIVE && heap != fc_self && heap != registry.common) {
            heap->state = FC_HEAP_LOST;
        }
    }
    fc_lock_reset(&fc_space.lock);
    fc_lock_reset(&registry.lock);
    fc_lock_reset(&registry.common_lock);
}
