// A child of fork allocates and frees, whatever the other threads of its parent were doing.

#include "pattern.h"

enum { THREADS = 8, SHARED = 512, FORKS = 25 };
static _Atomic(size_t *) shared[SHARED];
static _Atomic bool done;

static size_t *new_block(uint64_t *seed) {
    size_t words = 2 + next_random(seed) % (next_random(seed) % 32 == 0 ? 30000 : 300);
    size_t *block = malloc(words * sizeof *block);
    CHECK(block != NULL);
    block[0] = words;
    block[words - 1] = ~words;
    return block;
}

static void exchange_block(uint64_t *seed) {
    size_t *old =
        __atomic_exchange_n(&shared[next_random(seed) % SHARED], new_block(seed), __ATOMIC_ACQ_REL);
    if (old != NULL) CHECK(old[old[0] - 1] == ~old[0]);
    free(old);
}

static void *exchange_until_done(void *index) {
    uint64_t seed = (uint64_t)index;
    while (!done)
        exchange_block(&seed);
    return NULL;
}

static void *exchange_for_a_while(void *index) {
    uint64_t seed = 100 + (uint64_t)index;
    for (int i = 0; i < 2000; i++)
        exchange_block(&seed);
    return NULL;
}

// Frees every block that the vanished threads left, then works with threads of its own.
static void live_as_child(void) {
    for (size_t i = 0; i < SHARED; i++) {
        size_t *block = shared[i];
        shared[i] = NULL;
        if (block != NULL) CHECK(block[block[0] - 1] == ~block[0]);
        free(block);
    }
    exchange_for_a_while(NULL);
    in_threads(3, exchange_for_a_while);
}

static void fork_again_and_live(void) {
    live_as_child();
    check_succeeds(live_as_child);
}

static void while_threads_exchange(void (*body)(void)) {
    pthread_t threads[THREADS];
    done = false;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, exchange_until_done, (void *)i) == 0);
    body();
    done = true;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void fork_often(void) {
    for (int i = 0; i < FORKS; i++)
        check_succeeds(live_as_child);
}

static void fork_from_a_child(void) {
    for (int i = 0; i < 5; i++)
        check_succeeds(fork_again_and_live);
}

static void *fork_a_few_times(void *unused) {
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            live_as_child();
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "(status %#x)", status);
    }
    return unused;
}

static void fork_from_threads(void) { in_threads(3, fork_a_few_times); }

TEST(children_of_a_busy_process_allocate_and_free) { while_threads_exchange(fork_often); }
TEST(grandchildren_allocate_and_free) { while_threads_exchange(fork_from_a_child); }
TEST(several_threads_fork_at_once) { while_threads_exchange(fork_from_threads); }

TEST(the_parent_goes_on) { in_threads(THREADS, exchange_for_a_while); }
