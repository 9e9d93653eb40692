// What an allocator does with freed blocks and between threads, found out by experiment: what the
// FCMalloc paper's Table 1 and Figure 1 say of the allocators of its day. An experiment prints one
// line of JSON.
//
//     properties release SIZE COUNT SECONDS   is freed memory still mapped, still resident?
//     properties neighbours SIZE COUNT        do two threads' blocks lie among each other?
//     properties reuse SIZE COUNT FREER TAKER who is handed out which blocks again?
//     properties waits THREADS COUNT          how often do threads sleep in malloc and free?
//
// Threads take steps one at a time, as the main thread asks them to, so that what is observed is
// the allocator's doing and not the scheduler's. Tables lie in memory of their own.

#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void **table_new(size_t entries) {
    void *table = mmap(NULL, entries * sizeof(void *), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) die("mmap");
    return table;
}

#define PAGE ((size_t)4096)

static void *block_new(size_t size) {
    char *block = malloc(size);
    if (block == NULL) die("malloc");
    for (size_t i = 0; i < size; i += PAGE)
        block[i] = 1;
    block[size - 1] = 1;
    return block;
}

// --- release: COUNT blocks are allocated, written and all freed by one thread. Their pages are
// looked at at once, after a second, and after so many SECONDS. ---

struct fate {
    size_t pages;     // that were looked at
    size_t unmapped;  // of them, no memory of the process any more
    size_t resident;  // of them, with memory behind them
    size_t lazy;      // of those, memory that the kernel may take when it is short of it
};

// The pages that the kernel may take from the process, of all of its memory.
static size_t lazy_pages(void) {
    char text[4096] = "";
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    const char *line = length > 0 ? strstr(text, "LazyFree:") : NULL;
    return line == NULL ? 0 : (size_t)strtoul(line + strlen("LazyFree:"), NULL, 10) * 1024 / PAGE;
}

static struct fate fate_of(void **blocks, size_t count, size_t size) {
    struct fate fate = {0};
    for (size_t i = 0; i < count; i++) {
        uintptr_t begin = (uintptr_t)blocks[i], end = begin + size;
        for (uintptr_t page = begin & ~(PAGE - 1); page < end; page += PAGE) {
            unsigned char there = 0;
            fate.pages++;
            if (mincore((void *)page, PAGE, &there) == 0)  // NOLINT: an address that was freed
                fate.resident += there & 1;
            else if (errno == ENOMEM)
                fate.unmapped++;
        }
    }
    fate.lazy = lazy_pages();
    if (fate.lazy > fate.resident) fate.lazy = fate.resident;
    return fate;
}

static void print_fate(size_t seconds, struct fate fate) {
    double pages = (double)fate.pages;
    printf("%s{\"seconds\": %zu, \"unmapped\": %.4f, \"resident\": %.4f, \"lazy\": %.4f}",
           seconds == 0 ? "" : ", ", seconds, (double)fate.unmapped / pages,
           (double)fate.resident / pages, (double)fate.lazy / pages);
}

// A second in which the program does little, for allocators that release memory after a while, as
// they are called: every 10 ms it uses a few hundred blocks, more than thread caches hold, which
// are a megabyte together.
static void idle_second(void) {
    const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
    void *used[400];
    for (size_t i = 0; i < 100; i++) {
        nanosleep(&moment, NULL);
        for (size_t k = 0; k < 400; k++)
            used[k] = block_new(k % 20 == 0 ? 48 << 10 : 48 + k % 5 * 16);
        for (size_t k = 0; k < 400; k++)
            free(used[k]);
    }
}

static void release(size_t size, size_t count, size_t seconds) {
    void **blocks = table_new(count);
    for (size_t i = 0; i < count; i++)
        blocks[i] = block_new(size);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    struct fate at_once = fate_of(blocks, count, size);
    printf("[");
    print_fate(0, at_once);
    for (size_t second = 1; second <= seconds; second++) {
        idle_second();
        if (second == 1 || second == seconds) print_fate(second, fate_of(blocks, count, size));
    }
    printf("]\n");
}

// --- Threads that do as they are asked. ---

enum step { ALLOCATE, FREE, END };

struct actor {
    pthread_t thread;
    sem_t asked, done;
    enum step step;
    void **blocks;
    size_t count, size;
};

static void *act(void *argument) {
    struct actor *actor = argument;
    for (;;) {
        while (sem_wait(&actor->asked) != 0)
            continue;
        if (actor->step == END) return NULL;
        for (size_t i = 0; i < actor->count; i++) {
            if (actor->step == ALLOCATE)
                actor->blocks[i] = block_new(actor->size);
            else
                free(actor->blocks[i]);
        }
        sem_post(&actor->done);
    }
}

static void actor_start(struct actor *actor) {
    if (sem_init(&actor->asked, 0, 0) != 0 || sem_init(&actor->done, 0, 0) != 0 ||
        pthread_create(&actor->thread, NULL, act, actor) != 0)
        die("pthread_create");
}

static void ask(struct actor *actor, enum step step, void **blocks, size_t count, size_t size) {
    actor->step = step;
    actor->blocks = blocks;
    actor->count = count;
    actor->size = size;
    sem_post(&actor->asked);
    if (step == END)
        pthread_join(actor->thread, NULL);
    else
        while (sem_wait(&actor->done) != 0)
            continue;
}

// --- neighbours: two threads allocate COUNT blocks each, by turns. ---

struct owned {
    uintptr_t address;
    uintptr_t owner;
};

static int by_address(const void *one, const void *other) {
    const struct owned *a = one, *b = other;
    return (a->address > b->address) - (a->address < b->address);
}

static void neighbours(size_t size, size_t count) {
    struct actor actors[2];
    size_t all = 2 * count;
    void **block = table_new(1);
    struct owned *found = (struct owned *)table_new(2 * all);
    for (size_t i = 0; i < 2; i++)
        actor_start(&actors[i]);
    for (size_t i = 0; i < all; i++) {
        ask(&actors[i % 2], ALLOCATE, block, 1, size);
        found[i] = (struct owned){(uintptr_t)block[0], i % 2};
    }
    for (size_t i = 0; i < 2; i++)
        ask(&actors[i], END, NULL, 0, 0);
    qsort(found, all, sizeof *found, by_address);
    size_t mixed = 0;
    for (size_t i = 1; i < all; i++)
        mixed += found[i].owner != found[i - 1].owner;
    printf("{\"mixed\": %.4f}\n", (double)mixed / (double)(all - 1));
}

// --- reuse: the owner allocates COUNT blocks, FREER frees them all, and TAKER allocates as many.
// ---

static int by_value(const void *one, const void *other) {
    uintptr_t a = (uintptr_t)*(void *const *)one, b = (uintptr_t)*(void *const *)other;
    return (a > b) - (a < b);
}

static size_t actor_number(const char *name) {
    static const char *const NAMES[] = {"owner", "other", "third"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0) return i;
    fprintf(stderr, "error: %s is none of owner, other and third\n", name);
    exit(2);
}

// The bytes of a block of that size in which it is where blocks of a sorted table were: allocators
// may cut the same memory elsewhere.
static size_t overlap(uintptr_t begin, size_t size, void *const *blocks, size_t count) {
    size_t low = 0, high = count, bytes = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)blocks[middle] + size > begin)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < count && (uintptr_t)blocks[low] < begin + size; low++) {
        uintptr_t old = (uintptr_t)blocks[low];
        bytes += size - (old > begin ? old - begin : begin - old);
    }
    return bytes;
}

static void reuse(size_t size, size_t count, size_t freer, size_t taker) {
    struct actor actors[3];
    void **blocks = table_new(count), **again = table_new(count);
    for (size_t i = 0; i < 3; i++)
        actor_start(&actors[i]);
    ask(&actors[0], ALLOCATE, blocks, count, size);
    ask(&actors[freer], FREE, blocks, count, size);
    ask(&actors[taker], ALLOCATE, again, count, size);
    for (size_t i = 0; i < 3; i++)
        ask(&actors[i], END, NULL, 0, 0);
    qsort(blocks, count, sizeof *blocks, by_value);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += overlap((uintptr_t)again[i], size, blocks, count);
    printf("{\"reused\": %.4f}\n", (double)bytes / (double)(count * size));
}

// --- waits: THREADS threads allocate and free COUNT blocks each, 64 at a time, of all sizes up to
// 64 KiB. A thread that finds a lock taken goes to sleep. ---

#define HELD 64

struct churn {
    pthread_t thread;
    pthread_barrier_t *ready;
    uint64_t random;
    size_t count;
    long sleeps;
};

static void *churn(void *argument) {
    struct churn *churn = argument;
    void *held[HELD];
    struct rusage before, after;
    pthread_barrier_wait(churn->ready);
    getrusage(RUSAGE_THREAD, &before);
    for (size_t i = 0; i < churn->count / HELD; i++) {
        for (size_t k = 0; k < HELD; k++) {
            uint64_t draw = bench_random(&churn->random);
            size_t power = (size_t)16 << (draw % 12);
            held[k] = block_new(power + (draw >> 8) % power);
        }
        for (size_t k = 0; k < HELD; k++)
            free(held[k]);
    }
    getrusage(RUSAGE_THREAD, &after);
    churn->sleeps = after.ru_nvcsw - before.ru_nvcsw;
    return NULL;
}

static void waits(size_t threads, size_t count) {
    pthread_barrier_t ready;
    struct churn *all = (struct churn *)table_new(threads * sizeof *all / sizeof(void *) + 1);
    pthread_barrier_init(&ready, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++) {
        all[i] = (struct churn){.ready = &ready, .random = i + 1, .count = count};
        if (pthread_create(&all[i].thread, NULL, churn, &all[i]) != 0) die("pthread_create");
    }
    long sleeps = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(all[i].thread, NULL);
        sleeps += all[i].sleeps;
    }
    printf("{\"sleeps_per_million_blocks\": %.2f}\n",
           1e6 * (double)sleeps / (double)(threads * count));
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "release") == 0)
        release(bench_number(argv[2]), bench_number(argv[3]), bench_number(argv[4]));
    else if (argc == 4 && strcmp(argv[1], "neighbours") == 0)
        neighbours(bench_number(argv[2]), bench_number(argv[3]));
    else if (argc == 6 && strcmp(argv[1], "reuse") == 0)
        reuse(bench_number(argv[2]), bench_number(argv[3]), actor_number(argv[4]),
              actor_number(argv[5]));
    else if (argc == 4 && strcmp(argv[1], "waits") == 0)
        waits(bench_number(argv[2]), bench_number(argv[3]));
    else {
        fprintf(stderr, "usage: properties release SIZE COUNT SECONDS\n"
                        "       properties neighbours SIZE COUNT\n"
                        "       properties reuse SIZE COUNT FREER TAKER\n"
                        "       properties waits THREADS COUNT\n");
        return 2;
    }
    return 0;
}
