// Buffers of a server: one thread reads into them and another writes them to disk and frees them.

#include "check.h"
#include "fcmalloc.h"

enum { COUNT = 32, SIZE = 17 << 10, SMALL = 3000 };
static void *buffers[COUNT];
static pthread_barrier_t freed, looked, ended;

static void make(void) {
    for (size_t i = 0; i < COUNT; i++)
        CHECK((buffers[i] = fc_malloc(SIZE)) != NULL);
}

static size_t footprint(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    return stats.footprint;
}

static void *frees(void *unused) {
    for (size_t i = 0; i < COUNT; i++)
        fc_free(buffers[i]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&ended);
    return unused;
}

// Before it takes memory for a size that is new to it, it looks into the others' message queues.
static void *looks_into_the_message_queues(void *unused) {
    pthread_barrier_wait(&freed);
    CHECK(fc_malloc(SMALL) != NULL);
    pthread_barrier_wait(&looked);
    pthread_barrier_wait(&ended);
    return unused;
}

TEST(they_serve_again_whoever_has_looked_into_the_message_queues) {
    pthread_t others[2];
    CHECK(pthread_barrier_init(&freed, NULL, 2) == 0);
    CHECK(pthread_barrier_init(&looked, NULL, 2) == 0);
    CHECK(pthread_barrier_init(&ended, NULL, 3) == 0);
    make();
    CHECK(pthread_create(&others[0], NULL, frees, NULL) == 0);
    CHECK(pthread_create(&others[1], NULL, looks_into_the_message_queues, NULL) == 0);
    pthread_barrier_wait(&looked);
    size_t before = footprint();
    make();
    CHECK(footprint() == before, "(%zu KiB more)", (footprint() - before) >> 10);
    pthread_barrier_wait(&ended);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_join(others[i], NULL) == 0);
}
