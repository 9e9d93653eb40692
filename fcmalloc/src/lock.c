#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS 100

_Atomic uint64_t fc_lock_waits;

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void fc_lock_wait(struct fc_lock *lock) {
    atomic_fetch_add_explicit(&fc_lock_waits, 1, memory_order_relaxed);
    for (int i = 0; i < SPINS; i++) {
        pause_briefly();
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 && fc_lock_try(lock)) {
            return;
        }
    }
    int saved = errno;
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
    errno = saved;
}

void fc_lock_wake(struct fc_lock *lock) {
    int saved = errno;
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}
