// Far more threads than processors, all alive at once.

#include "pattern.h"

enum { THREADS = 600, SHARED = 4096 };
static _Atomic(size_t *) shared[SHARED];
static pthread_barrier_t all_there;

// Every thread allocates, and frees what other threads left at the same index.
static void *exchange_blocks(void *index) {
    uint64_t seed = (uint64_t)index;
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < 300; i++) {
        size_t words = 2 + next_random(&seed) % (i % 100 == 0 ? 20000 : 200);
        size_t *mine = malloc(words * sizeof *mine);
        CHECK(mine != NULL);
        mine[0] = words;
        mine[words - 1] = ~words;
        size_t *other =
            __atomic_exchange_n(&shared[next_random(&seed) % SHARED], mine, __ATOMIC_ACQ_REL);
        if (other != NULL) CHECK(other[other[0] - 1] == ~other[0]);
        free(other);
    }
    pthread_barrier_wait(&all_there);
    return NULL;
}

TEST(hundreds_of_live_threads_exchange_blocks) {
    CHECK(pthread_barrier_init(&all_there, NULL, THREADS) == 0);
    for (int round = 0; round < 2; round++)
        in_threads(THREADS, exchange_blocks);
    for (size_t i = 0; i < SHARED; i++)
        free(shared[i]);
}
