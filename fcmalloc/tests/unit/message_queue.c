// Message queues between heaps: blocks in transit to their owners are neither lost nor duplicated.

#include "channel.h"
#include "check.h"
#include "fcmalloc.h"
#include "heap.h"

// What a thread that frees keeps in the thread cache.
enum { KEPT = FC_CACHE_BLOCKS_FIRST };
enum { COUNT = 10 * FC_BATCH_BLOCKS, SIZE = 1000, OWN_SIZE = 64 };
static void *blocks[COUNT];

static void *allocate_all(void *unused) {
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = fc_malloc(SIZE);
    return unused;
}

static void *free_all(void *unused) {
    for (size_t i = 0; i < COUNT; i++)
        fc_free(blocks[i]);
    return unused;
}

static size_t in_transit(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    return stats.in_transit;
}

static void return_all_blocks(void) {
    fc_trim();
    CHECK(in_transit() == 0, "(%zu bytes are still in transit)", in_transit());
}

// Another thread has cleared the pending flags and not emptied the channels when the process forks.
TEST(what_a_thread_lost_in_a_fork_was_about_to_fetch_is_found) {
    in_threads(1, allocate_all);
    free_all(NULL);
    CHECK(in_transit() >= (COUNT - KEPT) * SIZE);
    uint64_t cleared[FC_HEAPS_MAX] = {0};
    for (unsigned id = 0; id < fc_heap_count(); id++)
        cleared[id] = atomic_exchange(&fc_heap_at(id)->inbox.pending_blocks[0], 0);
    check_succeeds(return_all_blocks);
    for (unsigned id = 0; id < fc_heap_count(); id++)
        atomic_fetch_or(&fc_heap_at(id)->inbox.pending_blocks[0], cleared[id]);
    return_all_blocks();
}

static void *use_what_others_have_not_fetched(void *unused) {
    size_t known = 0;
    for (size_t i = 0; i < COUNT; i++) {
        void *block = fc_malloc(SIZE);
        for (size_t j = 0; j < COUNT && block != NULL; j++)
            known += block == blocks[j];
    }
    CHECK(known == COUNT, "(%zu)", known);
    return unused;
}

static void free_all_elsewhere_and_use_them(void) {
    allocate_all(NULL);
    in_threads(1, free_all);
    in_threads(1, use_what_others_have_not_fetched);
}

TEST(what_the_receiver_has_not_fetched_is_used_by_others) {
    check_succeeds(free_all_elsewhere_and_use_them);
}

static size_t in_use(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    return stats.in_use_small;
}

static void *intercept_what_it_has_no_use_for(void *unused) {
    struct fc_stats before, after;
    fc_stats(&before);
    CHECK(before.in_transit >= COUNT * SIZE / 2);
    CHECK(fc_malloc(OWN_SIZE) != NULL);
    fc_stats(&after);
    CHECK(after.in_transit < before.in_transit, "(nothing was intercepted)");
    CHECK(after.in_use_small == before.in_use_small + OWN_SIZE, "(%zu more)",
          (size_t)(after.in_use_small - before.in_use_small));
    return unused;
}

static void free_all_elsewhere_and_count(void) {
    size_t before = in_use();
    allocate_all(NULL);
    CHECK(in_use() >= before + COUNT * SIZE);
    in_threads(1, free_all);
    CHECK(in_use() <= before, "(%zu more)", in_use() - before);
    in_threads(1, intercept_what_it_has_no_use_for);
}

TEST(what_is_under_way_or_cached_is_not_in_use) { check_succeeds(free_all_elsewhere_and_count); }

static void free_one_again_and_use_them(void) {
    allocate_all(NULL);
    in_threads(1, free_all);
    fc_free(opaque(blocks[COUNT / 2]));
    in_threads(1, use_what_others_have_not_fetched);
}

TEST(a_block_freed_by_its_owner_while_under_way_is_not_used_by_others) {
    struct outcome outcome = outcome_of(free_one_again_and_use_them);
    CHECK(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT, "(status %#x) %s",
          (unsigned)outcome.status, outcome.errors);
    CHECK(strstr(outcome.errors, "was freed already") != NULL, "(%s)", outcome.errors);
}

enum { ROUNDS = 200 };
static pthread_barrier_t begin, end;

static void *allocate_in_rounds(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&begin);
        allocate_all(NULL);
        pthread_barrier_wait(&end);
    }
    return unused;
}

// One thread allocates, others free; it has no use for what it finds in the message queues.
TEST(a_heap_that_grows_leaves_the_others_their_memory) {
    pthread_t owner;
    CHECK(pthread_barrier_init(&begin, NULL, 2) == 0 && pthread_barrier_init(&end, NULL, 2) == 0);
    CHECK(pthread_create(&owner, NULL, allocate_in_rounds, NULL) == 0);
    struct fc_stats before, after;
    fc_stats(&before);
    size_t own = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        in_threads(1, free_all);
        for (size_t i = 0; i < FC_SPAN_LEAST / OWN_SIZE; i++, own += OWN_SIZE)
            CHECK(fc_malloc(OWN_SIZE) != NULL);
    }
    CHECK(pthread_join(owner, NULL) == 0);
    fc_stats(&after);
    size_t others = after.footprint - before.footprint - own;
    CHECK(others < own / 2, "(%zu KiB of others, %zu KiB of its own)", others >> 10, own >> 10);
}
