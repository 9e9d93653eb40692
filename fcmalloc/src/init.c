#include "init.h"

#include <pthread.h>
#include <stdatomic.h>

#include "heap.h"
#include "lock.h"
#include "numa.h"
#include "options.h"
#include "plan.h"
#include "pool.h"
#include "stats.h"

enum state { NOT_BEGUN, READY, REFUSED };

static _Atomic int state;
static struct fc_lock lock;

bool fc_init(void) {
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (FC_LIKELY(now == READY)) {
        return true;
    }
    fc_lock_take(&lock);
    if (atomic_load_explicit(&state, memory_order_relaxed) == NOT_BEGUN) {
        fc_options_read();
        fc_numa_open();
        bool open = fc_space_open(sizeof(struct fc_heap) + FC_LINE,
                                  sizeof(struct fc_channel) + sizeof(struct fc_batch));
        atomic_store_explicit(&state, open ? READY : REFUSED, memory_order_release);
    }
    fc_lock_drop(&lock);
    return atomic_load_explicit(&state, memory_order_relaxed) == READY;
}

// What needs the C library, or allocates, waits until that may be called. Threads that start
// before, which is rare, keep their heap for good.
__attribute__((constructor(101))) static void begin(void) {
    if (!fc_init()) {
        return;
    }
    (void)fc_heap_here();
    fc_heap_watch_threads();
    pthread_atfork(fc_heap_hold_all, fc_heap_drop_all, fc_heap_reset_all);
    fc_pool_fill();
    fc_plan_watch();
    fc_plan_apply();
}

__attribute__((destructor(101))) static void end(void) {
    fc_plan_record();
    fc_stats_report();
}
