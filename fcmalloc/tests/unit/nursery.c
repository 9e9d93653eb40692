// Threads that use a few megabytes each: what is resident is what they use, and little more,
// whatever the pages.

#include "check.h"
#include "fcmalloc.h"

enum { THREADS = 48, BLOCKS = 24, BLOCK = 65568, MIB = 1 << 20 };
static pthread_barrier_t used, looked;

static void *use_a_little(void *unused) {
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = fc_malloc(BLOCK);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], i + 1, BLOCK);
    }
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&looked);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i][0] == i + 1 && blocks[i][BLOCK - 1] == i + 1);
        fc_free(blocks[i]);
    }
    return unused;
}

#if !defined(FC_VALGRIND) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t resident(void) {
    unsigned long all, pages;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL && fscanf(statm, "%lu %lu", &all, &pages) == 2);
    fclose(statm);
    return pages * 4096;
}

TEST(young_heaps_share_their_last_page) {
    char *large = fc_malloc(16 * MIB);  // a program that is not small
    memset(large, 1, 16 * MIB);
    size_t before = resident();
    CHECK(pthread_barrier_init(&used, NULL, THREADS + 1) == 0);
    CHECK(pthread_barrier_init(&looked, NULL, THREADS + 1) == 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_a_little, NULL) == 0);
    pthread_barrier_wait(&used);
    size_t more = resident() - before;
    pthread_barrier_wait(&looked);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    // With a huge page of its own, each would have up to 2 MiB more.
    size_t needed = (size_t)THREADS * BLOCKS * BLOCK;
    CHECK(more <= needed + needed / 4, "(%zu KiB instead of %zu)", more >> 10, needed >> 10);
    fc_free(large);
}
#endif

TEST(what_young_heaps_are_given_does_not_overlap) {
    CHECK(pthread_barrier_init(&used, NULL, 8) == 0);
    CHECK(pthread_barrier_init(&looked, NULL, 8) == 0);
    for (int round = 0; round < 10; round++)
        in_threads(8, use_a_little);
}
