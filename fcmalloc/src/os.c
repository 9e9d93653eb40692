#include "os.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "class.h"

// Newer than the C library's headers on some systems.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

// A thread that populates gets at least this much, so that starting it pays off.
#define POPULATE_SHARE ((size_t)32 << 20)
#define POPULATE_THREADS 64

_Atomic uint64_t fc_os_calls;

static void count_call(void) { atomic_fetch_add_explicit(&fc_os_calls, 1, memory_order_relaxed); }

static bool advise(void *start, size_t bytes, int advice) {
    int saved = errno;
    count_call();
    bool done = madvise(start, bytes, advice) == 0;
    errno = saved;
    return done;
}

void *fc_os_reserve(size_t bytes) {
    int saved = errno;
    size_t padded = bytes + FC_HUGE_PAGE;
    count_call();
    char *raw = mmap(NULL, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        errno = saved;
        return NULL;
    }
    char *start = (char *)fc_round_up((uintptr_t)raw, FC_HUGE_PAGE);
    size_t before = (size_t)(start - raw);
    if (before > 0) {
        munmap(raw, before);
    }
    munmap(start + bytes, padded - before - bytes);
    errno = saved;
    return start;
}

bool fc_os_commit(void *start, size_t bytes) {
    int saved = errno;
    count_call();
    bool done = mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
    errno = saved;
    return done;
}

size_t fc_os_resident(void *start, size_t bytes) {
    unsigned char pages[512];
    size_t resident = 0;
    int saved = errno;
    for (size_t done = 0; done < bytes; done += sizeof pages * FC_PAGE) {
        size_t left = bytes - done < sizeof pages * FC_PAGE ? bytes - done : sizeof pages * FC_PAGE;
        count_call();
        if (mincore((char *)start + done, left, pages) != 0) {
            errno = saved;
            return 0;
        }
        for (size_t i = 0; i < left / FC_PAGE; i++) {
            resident += (pages[i] & 1) != 0 ? FC_PAGE : 0;
        }
    }
    return resident;
}

// Where pages of the kernel's huge page pool are: releasing a part of one, the kernel rounds the
// end down and reports success.
static _Atomic uintptr_t pool_begin = UINTPTR_MAX;
static _Atomic uintptr_t pool_end;

static bool is_whole_in_pool(const void *start, size_t bytes) {
    uintptr_t begin = (uintptr_t)start;
    bool beside = begin >= atomic_load_explicit(&pool_end, memory_order_relaxed) ||
                  begin + bytes <= atomic_load_explicit(&pool_begin, memory_order_relaxed);
    return beside || (begin | bytes) % FC_HUGE_PAGE == 0;
}

bool fc_os_purge(void *start, size_t bytes) {
    return is_whole_in_pool(start, bytes) && advise(start, bytes, MADV_DONTNEED);
}

void fc_os_decline_huge(void *start, size_t bytes) { (void)advise(start, bytes, MADV_NOHUGEPAGE); }

void fc_os_advise_huge(void *start, size_t bytes) { (void)advise(start, bytes, MADV_HUGEPAGE); }

bool fc_os_commit_huge(void *start, size_t bytes) {
    int saved = errno;
    count_call();
    // Without MAP_NORESERVE the kernel sets the huge pages aside now or refuses.
    bool done = mmap(start, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB, -1, 0) == start;
    if (done) {
        // Under the space's lock, as every claim is.
        uintptr_t begin = atomic_load_explicit(&pool_begin, memory_order_relaxed);
        uintptr_t end = atomic_load_explicit(&pool_end, memory_order_relaxed);
        uintptr_t here = (uintptr_t)start;
        atomic_store_explicit(&pool_begin, here < begin ? here : begin, memory_order_relaxed);
        atomic_store_explicit(&pool_end, here + bytes > end ? here + bytes : end,
                              memory_order_relaxed);
    }
    errno = saved;
    return done;
}

// Whether some pages are guarded by advice, and some by protection: where the kernel has no guards,
// or none for locked memory. Which kind a page has is not recorded.
static _Atomic bool guarded_by_advice;
static _Atomic bool guarded_by_protection;

bool fc_os_guard(void *start, size_t bytes) {
    if (advise(start, bytes, MADV_GUARD_INSTALL)) {
        atomic_store_explicit(&guarded_by_advice, true, memory_order_relaxed);
        return true;
    }
    int saved = errno;
    count_call();
    bool done = mprotect(start, bytes, PROT_NONE) == 0;
    atomic_store_explicit(&guarded_by_protection, true, memory_order_relaxed);
    errno = saved;
    return done;
}

bool fc_os_unguard(void *start, size_t bytes) {
    bool advised = atomic_load_explicit(&guarded_by_advice, memory_order_relaxed);
    bool protected = atomic_load_explicit(&guarded_by_protection, memory_order_relaxed);
    return (!advised || advise(start, bytes, MADV_GUARD_REMOVE)) &&
           (!protected || fc_os_commit(start, bytes));
}

struct share {
    pthread_t thread;
    char *start;
    size_t bytes;
    bool done;
};

bool fc_os_touch(void *start, size_t bytes) { return advise(start, bytes, MADV_POPULATE_WRITE); }

static void *populate_share(void *argument) {
    struct share *share = argument;
    count_call();
    share->done = madvise(share->start, share->bytes, MADV_POPULATE_WRITE) == 0;
    if (!share->done && errno == EINVAL) {
        // Kernels before 5.14 do not know the advice. A page may be in use by now.
        for (size_t i = 0; i < share->bytes; i += FC_PAGE) {
            atomic_fetch_or_explicit((_Atomic char *)(share->start + i), 0, memory_order_relaxed);
        }
        share->done = true;
    }
    return NULL;
}

bool fc_os_populate(void *start, size_t bytes) {
    int saved = errno;
    size_t threads = bytes / POPULATE_SHARE;
    if (threads > fc_os_cores()) {
        threads = fc_os_cores();
    }
    if (threads > POPULATE_THREADS) {
        threads = POPULATE_THREADS;
    }
    if (threads == 0) {
        threads = 1;
    }
    struct share shares[POPULATE_THREADS];
    size_t each = fc_round_up(bytes / threads, FC_HUGE_PAGE);
    size_t started = 0;
    bool done = true;
    for (size_t i = 0; i < threads && i * each < bytes; i++) {
        size_t left = bytes - i * each;
        shares[i] =
            (struct share){.start = (char *)start + i * each, .bytes = left < each ? left : each};
        // The calling thread does the last share, and that of every thread that could not be
        // started.
        bool last = left <= each;
        if (!last && pthread_create(&shares[i].thread, NULL, populate_share, &shares[i]) == 0) {
            started = i + 1;
            continue;
        }
        shares[i].bytes = left;
        populate_share(&shares[i]);
        done = shares[i].done;
        break;
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(shares[i].thread, NULL);
        done = done && shares[i].done;
    }
    errno = saved;
    return done;
}

void fc_os_move_to_nodes(void *start, size_t bytes, int mode, const unsigned long *nodes,
                         unsigned long bits) {
    int saved = errno;
    count_call();
    if (syscall(SYS_mbind, start, bytes, mode, nodes, bits, MPOL_MF_MOVE) == 0) {
        count_call();
        syscall(SYS_mbind, start, bytes, MPOL_DEFAULT, NULL, 0, 0);
    }
    errno = saved;
}

static bool allowed_cores(cpu_set_t *set) {
    int saved = errno;
    bool known = sched_getaffinity(0, sizeof *set, set) == 0;
    errno = saved;
    return known;
}

unsigned fc_os_cores(void) {
    cpu_set_t set;
    int cores = allowed_cores(&set) ? CPU_COUNT(&set) : 1;
    return cores > 0 ? (unsigned)cores : 1;
}

int fc_os_core(unsigned index) {
    cpu_set_t set;
    bool known = allowed_cores(&set);
    for (int core = 0; known && core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &set) && index-- == 0) {
            return core;
        }
    }
    return -1;
}

size_t fc_os_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : (size_t)1 << 30;
}

size_t fc_os_address_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return SIZE_MAX;
    }
    return limit.rlim_cur;
}

uint64_t fc_os_processor_time(void) {
    int saved = errno;
    struct timespec now = {0};
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) {
        errno = saved;
    }
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint32_t fc_os_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

void fc_os_random(void *out, size_t bytes) {
    int saved = errno;
    if (getrandom(out, bytes, GRND_NONBLOCK) != (ssize_t)bytes) {
        // Early in boot only: the sixteen random bytes that the kernel gave this process.
        const char *seed = (const char *)getauxval(AT_RANDOM);
        for (size_t i = 0; i < bytes; i++) {
            ((char *)out)[i] = seed != NULL ? seed[i % 16] : 0;
        }
    }
    errno = saved;
}
