// Threads that have given up their heap still allocate, from a shared one.

#include <limits.h>

#include "check.h"
#include "fcmalloc.h"

// ThreadSanitizer itself shuts down a thread's state in the last round.
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS - 1 };
#else
enum { ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS };
#endif

enum { THREADS = 8, SIZE = 100000 };
static pthread_key_t key;
static _Atomic bool done;

static void allocate_in_every_round(void *round) {
    if ((size_t)round < ROUNDS) CHECK(pthread_setspecific(key, (char *)round + 1) == 0);
    char *block = fc_malloc(SIZE);
    CHECK(block != NULL);
    block[SIZE - 1] = 1;
    fc_free(block);
}

static void *end_at_length(void *unused) {
    CHECK(pthread_setspecific(key, (void *)1) == 0);
    fc_free(fc_malloc(1));
    return unused;
}

static void *allocate_until_done(void *unused) {
    while (!done)
        fc_free(fc_malloc(SIZE));
    return unused;
}

TEST(threads_allocate_until_they_are_gone) {
    CHECK(pthread_key_create(&key, allocate_in_every_round) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, allocate_until_done, NULL) == 0);
    in_threads(THREADS, end_at_length);
    done = true;
    CHECK(pthread_join(other, NULL) == 0);
}
