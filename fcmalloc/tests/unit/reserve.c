// Memory touched ahead of use stays within what is allowed.

#include "check.h"
#include "fcmalloc.h"

#ifndef FC_VALGRIND
STEP(reserves_at_the_limit) {
    CHECK(fc_reserve(128 << 20) == ENOMEM);
    CHECK(fc_reserve(32 << 20) == 0);
    CHECK(fc_reserve(64 << 20) == ENOMEM);
}

static void reserve_with_limit(void) {
    setenv("FCMALLOC_LIMIT", "64M", 1);
    become("reserves_at_the_limit");
}
#endif

enum { THREADS = 8, SHARE = 8 << 20 };
static pthread_barrier_t begin;

static void *reserve_share(void *unused) {
    pthread_barrier_wait(&begin);
    CHECK(fc_reserve(SHARE) == 0);
    return unused;
}

static size_t footprint(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    return stats.footprint;
}

static void reserve_at_the_same_time(void) {
    size_t before = footprint();
    CHECK(pthread_barrier_init(&begin, NULL, THREADS) == 0);
    in_threads(THREADS, reserve_share);
    size_t reserved = footprint();
    CHECK(reserved - before >= (size_t)THREADS * SHARE);
    for (int i = 0; i < THREADS - 1; i++)
        CHECK(fc_malloc(SHARE) != NULL);
    CHECK(footprint() < reserved + SHARE / 8, "(%zu KiB more)", (footprint() - reserved) >> 10);
}

TEST(what_several_threads_reserve_at_the_same_time_is_there_for_each) {
    check_succeeds(reserve_at_the_same_time);
}

TEST(no_more_is_reserved_than_the_machine_has) {
    CHECK(fc_reserve(SIZE_MAX) == ENOMEM);
    CHECK(fc_reserve((size_t)PTRDIFF_MAX) == ENOMEM);
}

// Valgrind does not follow a program that starts itself anew.
#ifndef FC_VALGRIND
TEST(no_more_is_reserved_than_the_limit_allows) { check_succeeds(reserve_with_limit); }
#endif
