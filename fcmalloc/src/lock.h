// A lock for the slow paths: spins briefly, then sleeps in the kernel.

#ifndef FC_LOCK_H
#define FC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// 0 free, 1 held, 2 held and waited for.
struct fc_lock {
    _Atomic uint32_t state;
};

// Times that a thread found a lock held.
extern _Atomic uint64_t fc_lock_waits;

// Whether the thread holds every lock, as it does around a fork. Handlers of others that run then
// may allocate: to this thread all locks are free.
extern _Thread_local bool fc_lock_holds_all;

void fc_lock_wait(struct fc_lock *lock);
void fc_lock_wake(struct fc_lock *lock);

static inline bool fc_lock_try(struct fc_lock *lock) {
    uint32_t free = 0;
    return fc_lock_holds_all ||
           atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void fc_lock_take(struct fc_lock *lock) {
    if (!fc_lock_try(lock)) {
        fc_lock_wait(lock);
    }
}

static inline void fc_lock_drop(struct fc_lock *lock) {
    if (!fc_lock_holds_all &&
        atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2) {
        fc_lock_wake(lock);
    }
}

// For a process just forked, whose only thread is the caller.
static inline void fc_lock_reset(struct fc_lock *lock) {
    atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
}

#endif
