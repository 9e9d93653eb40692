// The patterns that allocators are compared on, one function each. A pattern does a fixed amount
// of work and prints one line of JSON: its phases, its peak memory, and what it counted.
//
//     patterns NAME THREADS WORK [SIZE]
//
// WORK counts what the comment above the pattern says. Bookkeeping memory comes from mmap, so that
// the allocator under test serves the pattern alone.

#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct job {
    size_t threads;
    size_t work;
    size_t size;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void *need(void *block) {
    if (block == NULL) die("malloc");
    return block;
}

static void *table_new(size_t bytes) {
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) die("mmap");
    return table;
}

// Writes a byte to every page, as a program does that fills what it asked for.
static void *touched(void *block, size_t size) {
    for (size_t i = 0; i < size; i += 4096)
        ((char *)need(block))[i] = (char)i;
    return block;
}

// From 16 bytes to 64 KiB, each power of two as likely as the next.
static size_t mixed_size(uint64_t *random) {
    uint64_t draw = bench_random(random);
    size_t power = (size_t)16 << (draw % 12);
    return power + (draw >> 8) % power;
}

struct worker {
    pthread_t thread;
    size_t index;
    const struct job *job;
};

// Runs `body` in all threads of the job and waits for them.
static void in_threads(const struct job *job, void *(*body)(void *)) {
    struct worker *workers = table_new(job->threads * sizeof *workers);
    for (size_t i = 0; i < job->threads; i++) {
        workers[i] = (struct worker){.index = i, .job = job};
        if (pthread_create(&workers[i].thread, NULL, body, &workers[i]) != 0) die("pthread_create");
    }
    for (size_t i = 0; i < job->threads; i++)
        pthread_join(workers[i].thread, NULL);
    munmap(workers, job->threads * sizeof *workers);
}

// --- producer-consumer: WORK blocks in all go from even threads to their odd neighbours. ---

#define RING 1024

struct ring {
    _Alignas(64) _Atomic size_t head;
    _Alignas(64) _Atomic size_t tail;
    _Alignas(64) void *block[RING];
};

static struct ring *rings;

static void produce(struct ring *ring, size_t blocks, uint64_t random) {
    for (size_t i = 0; i < blocks; i++) {
        size_t size = mixed_size(&random);
        char *block = need(malloc(size));
        block[0] = block[size - 1] = (char)i;
        while (i - atomic_load_explicit(&ring->tail, memory_order_acquire) == RING)
            sched_yield();
        ring->block[i % RING] = block;
        atomic_store_explicit(&ring->head, i + 1, memory_order_release);
    }
}

static void consume(struct ring *ring, size_t blocks) {
    for (size_t i = 0; i < blocks; i++) {
        while (atomic_load_explicit(&ring->head, memory_order_acquire) == i)
            sched_yield();
        free(ring->block[i % RING]);
        atomic_store_explicit(&ring->tail, i + 1, memory_order_release);
    }
}

static void *produce_or_consume(void *argument) {
    struct worker *worker = argument;
    struct ring *ring = &rings[worker->index / 2];
    size_t blocks = worker->job->work / (worker->job->threads / 2);
    if (worker->index % 2 == 0)
        produce(ring, blocks, worker->index + 1);
    else
        consume(ring, blocks);
    return NULL;
}

static void producer_consumer(struct job *job) {
    job->threads += job->threads % 2;
    rings = table_new(job->threads / 2 * sizeof *rings);
    in_threads(job, produce_or_consume);
}

// --- larson: a server's life (Larson and Krishnan, 1998). WORK replacements in all; each thread
// hands its blocks on to a successor ten times. ---

#define LARSON_BLOCKS 1000
#define LARSON_LIVES 10

struct larson {
    const struct job *job;
    uint64_t random;
    size_t lives;
    void *block[LARSON_BLOCKS];
};

static size_t larson_size(uint64_t *random) { return 8 + bench_random(random) % 1000; }

static void *larson_life(void *argument) {
    struct larson *state = argument;
    size_t replacements = state->job->work / state->job->threads / LARSON_LIVES;
    for (size_t i = 0; i < replacements; i++) {
        size_t victim = bench_random(&state->random) % LARSON_BLOCKS;
        free(state->block[victim]);
        size_t size = larson_size(&state->random);
        char *block = need(malloc(size));
        block[0] = block[size - 1] = 1;
        state->block[victim] = block;
    }
    if (--state->lives > 0) {
        pthread_t successor;
        if (pthread_create(&successor, NULL, larson_life, state) != 0) die("pthread_create");
        pthread_join(successor, NULL);
    }
    return NULL;
}

static struct larson *larsons;

static void *larson_begin(void *argument) {
    struct worker *worker = argument;
    return larson_life(&larsons[worker->index]);
}

static void larson(struct job *job) {
    larsons = table_new(job->threads * sizeof *larsons);
    for (size_t i = 0; i < job->threads; i++) {
        struct larson *state = &larsons[i];
        *state = (struct larson){.job = job, .random = i + 1, .lives = LARSON_LIVES};
        for (size_t b = 0; b < LARSON_BLOCKS; b++)
            state->block[b] = need(malloc(larson_size(&state->random)));
    }
    in_threads(job, larson_begin);
}

// --- cross-free: WORK blocks in all change places in a table that all threads share, so that most
// are freed by another thread than the one that made them. ---

#define SHARED_BLOCKS 4096

static _Atomic(void *) *shared;

static void *cross_free_worker(void *argument) {
    struct worker *worker = argument;
    uint64_t random = worker->index + 1;
    size_t blocks = worker->job->work / worker->job->threads;
    for (size_t i = 0; i < blocks; i++) {
        size_t size = mixed_size(&random);
        char *block = need(malloc(size));
        block[0] = block[size - 1] = (char)i;
        free(atomic_exchange(&shared[bench_random(&random) % SHARED_BLOCKS], block));
    }
    return NULL;
}

static void cross_free(struct job *job) {
    shared = table_new(SHARED_BLOCKS * sizeof *shared);
    in_threads(job, cross_free_worker);
}

// --- realloc-growth: each thread fills WORK arrays, two at a time, from 16 bytes to SIZE bytes,
// by half as much again each time, and writes what is new. ---

static void grow(char **block, size_t from, size_t to) {
    *block = need(realloc(*block, to));
    memset(*block + from, 1, to - from);
}

static void *realloc_growth_worker(void *argument) {
    struct worker *worker = argument;
    for (size_t i = 0; i < worker->job->work; i++) {
        char *pair[2] = {NULL, NULL};
        for (size_t from = 0, to = 16; to <= worker->job->size; from = to, to += to / 2) {
            grow(&pair[0], from, to);
            grow(&pair[1], from, to);
        }
        free(pair[0]);
        free(pair[1]);
    }
    return NULL;
}

static void realloc_growth(struct job *job) { in_threads(job, realloc_growth_worker); }

// --- free-live: WORK bytes of live data in blocks of SIZE; how long does it take to free them?
// The phase "main" is that time alone; "initial" made the data. A single thread frees its own
// blocks; of several, each frees what its neighbour made, and all live to the end. ---

static void **live;
static pthread_barrier_t live_made;
static struct worker *live_workers;

static void make_live(const struct worker *worker) {
    const struct job *job = worker->job;
    size_t blocks = job->work / job->size;
    for (size_t i = worker->index; i < blocks; i += job->threads)
        live[i] = touched(malloc(job->size), job->size);
}

static void *free_neighbours(void *argument) {
    const struct worker *worker = argument;
    const struct job *job = worker->job;
    size_t blocks = job->work / job->size;
    for (size_t i = (worker->index + 1) % job->threads; i < blocks; i += job->threads)
        free(live[i]);
    return NULL;
}

static void *make_then_free(void *argument) {
    make_live(argument);
    pthread_barrier_wait(&live_made);
    pthread_barrier_wait(&live_made);
    free_neighbours(argument);
    return NULL;
}

static void free_live_begin(struct job *job) {
    live = table_new(job->work / job->size * sizeof *live);
    live_workers = table_new(job->threads * sizeof *live_workers);
    pthread_barrier_init(&live_made, NULL, (unsigned)job->threads);
    for (size_t i = 0; i < job->threads; i++) {
        live_workers[i] = (struct worker){.index = i, .job = job};
        if (i > 0 &&
            pthread_create(&live_workers[i].thread, NULL, make_then_free, &live_workers[i]) != 0)
            die("pthread_create");
    }
    make_live(&live_workers[0]);
    pthread_barrier_wait(&live_made);
}

static void free_live(struct job *job) {
    pthread_barrier_wait(&live_made);
    free_neighbours(&live_workers[0]);
    for (size_t i = 1; i < job->threads; i++)
        pthread_join(live_workers[i].thread, NULL);
}

// --- fork: WORK children, one after the other, are forked while all threads allocate. A child
// allocates, frees what its parent had made, and exits. ---

static _Atomic bool forking;

static void *churn_until_forked(void *argument) {
    struct worker *worker = argument;
    uint64_t random = worker->index + 1;
    void *slots[64] = {NULL};
    while (atomic_load_explicit(&forking, memory_order_relaxed)) {
        void **slot = &slots[bench_random(&random) % 64];
        free(*slot);
        *slot = need(malloc(mixed_size(&random)));
    }
    for (size_t i = 0; i < 64; i++)
        free(slots[i]);
    return NULL;
}

static void child_of_fork(void **inherited, size_t blocks) {
    for (size_t i = 0; i < blocks; i++) {
        free(inherited[i]);
        inherited[i] = touched(malloc(i * 1000 + 1), i * 1000 + 1);
    }
    for (size_t i = 0; i < blocks; i++)
        free(inherited[i]);
    _exit(0);
}

static void *fork_children(void *argument) {
    const struct job *job = argument;
    void *inherited[100];
    for (size_t i = 0; i < 100; i++)
        inherited[i] = need(malloc(i * 1000 + 1));
    for (size_t i = 0; i < job->work; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) child_of_fork(inherited, 100);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) die("fork");
    }
    for (size_t i = 0; i < 100; i++)
        free(inherited[i]);
    atomic_store(&forking, false);
    return NULL;
}

static void fork_under_load(struct job *job) {
    pthread_t forker;
    forking = true;
    if (pthread_create(&forker, NULL, fork_children, job) != 0) die("pthread_create");
    in_threads(job, churn_until_forked);
    pthread_join(forker, NULL);
}

// --- thread-churn: WORK threads in all live and die, as many at a time as the job has threads.
// Each leaves half of its blocks for its successor to free. ---

#define ESTATE 100

static void *mayfly(void *argument) {
    void **estate = argument;
    uint64_t random = (uintptr_t)argument | 1;
    for (size_t i = 0; i < 2 * ESTATE; i++) {
        size_t size = mixed_size(&random) % 8192 + 1;
        char *block = need(malloc(size));
        block[0] = block[size - 1] = 1;
        if (i % 2 == 0) {
            free(block);
        } else {
            free(estate[i / 2]);
            estate[i / 2] = block;
        }
    }
    return NULL;
}

static void *thread_churn_worker(void *argument) {
    struct worker *worker = argument;
    size_t lives = worker->job->work / worker->job->threads;
    void *estate[ESTATE] = {NULL};
    for (size_t i = 0; i < lives; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, mayfly, estate) != 0) die("pthread_create");
        pthread_join(thread, NULL);
    }
    for (size_t i = 0; i < ESTATE; i++)
        free(estate[i]);
    return NULL;
}

static void thread_churn(struct job *job) { in_threads(job, thread_churn_worker); }

// --- walk: THREADS arrays (one thread reads them all) of SIZE bytes, element by element together,
// WORK times. "malloc" shows where the allocator puts them; the other two are references that
// start all at the same offset of a page, or each a line further. ---

static char **walked;

static void walk_malloc(struct job *job) {
    walked = table_new(job->threads * sizeof *walked);
    for (size_t a = 0; a < job->threads; a++)
        walked[a] = memset(need(malloc(job->size)), (int)a, job->size);
}

static void walk_placed(struct job *job, size_t stagger) {
    size_t room = (job->size + job->threads * 64 + 4095) / 4096 * 4096;
    char *region = table_new(job->threads * room);
    walked = table_new(job->threads * sizeof *walked);
    for (size_t a = 0; a < job->threads; a++)
        walked[a] = memset(region + a * room + a * stagger, (int)a, job->size);
}

static void walk_aligned(struct job *job) { walk_placed(job, 0); }

static void walk_staggered(struct job *job) { walk_placed(job, 64); }

static void walk(struct job *job) {
    for (size_t turn = 0; turn < job->work; turn++)
        for (size_t i = 0; i < job->size; i += sizeof(uint64_t))
            for (size_t a = 0; a < job->threads; a++)
                (void)*(volatile uint64_t *)(walked[a] + i);
}

// --- The program. ---

struct pattern {
    const char *name;
    void (*begin)(struct job *);
    void (*main)(struct job *);
};

static const struct pattern PATTERNS[] = {
    {"producer-consumer", NULL, producer_consumer},
    {"larson", NULL, larson},
    {"cross-free", NULL, cross_free},
    {"realloc-growth", NULL, realloc_growth},
    {"free-live", free_live_begin, free_live},
    {"fork", NULL, fork_under_load},
    {"thread-churn", NULL, thread_churn},
    {"walk-malloc", walk_malloc, walk},
    {"walk-aligned", walk_aligned, walk},
    {"walk-staggered", walk_staggered, walk},
};

static const struct pattern *pattern_of(const char *name) {
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++)
        if (strcmp(PATTERNS[i].name, name) == 0) return &PATTERNS[i];
    fprintf(stderr, "error: there is no pattern %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    double start = bench_start_seconds();
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: patterns NAME THREADS WORK [SIZE]\n");
        return 2;
    }
    const struct pattern *pattern = pattern_of(argv[1]);
    struct job job = {bench_number(argv[2]), bench_number(argv[3]), 1};
    if (argc == 5) job.size = bench_number(argv[4]);

    struct phase phases[] = {{.name = "initial"}, {.name = "main"}};
    struct reading begun = bench_reading();
    if (pattern->begin != NULL) pattern->begin(&job);
    struct reading ready = bench_reading();
    bench_mark();
    pattern->main(&job);
    bench_mark();
    bench_add(&phases[0].spent, begun, ready);
    bench_add(&phases[1].spent, ready, bench_reading());
    bench_report(start, phases, 2, bench_peak_bytes(), true);
    return 0;
}
