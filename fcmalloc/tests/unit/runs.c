// Page runs: split from longer ones, lengthened, shortened, and coalesced.

#include "fcmalloc.h"
#include "heap.h"
#include "large_bins.h"
#include "pattern.h"
#include "shadow.h"

static struct fc_run *take(uint32_t pages, size_t alignment) {
    struct fc_run *run = fc_large_bins_take(fc_heap_here(), FC_RUN_LARGE, pages, alignment, true);
    CHECK(run != NULL && run->pages >= pages && (uintptr_t)run->start % alignment == 0);
    shadow_mark(run->start, fc_run_bytes(run), true);
    return run;
}

static void put(struct fc_run *run) {
    shadow_mark(run->start, fc_run_bytes(run), false);
    fc_large_bins_put(fc_heap_here(), run);
}

static size_t footprint(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    return stats.footprint;
}

TEST(neighbours_that_are_free_become_one_run) {
    enum { COUNT = 64, PAGES = 50 };
    struct fc_run *runs[COUNT];
    for (int i = 0; i < COUNT; i++)
        runs[i] = take(PAGES, FC_PAGE);
    for (int i = 0; i < COUNT; i += 2)
        put(runs[i]);
    for (int i = 1; i < COUNT; i += 2)
        put(runs[i]);
    size_t before = footprint();
    put(take(COUNT * PAGES - PAGES, FC_PAGE));
    CHECK(footprint() <= before + PAGES * FC_PAGE, "(%zu bytes more)", footprint() - before);
}

TEST(random_runs_never_overlap_and_their_memory_is_used_again) {
    enum { COUNT = 200 };
    static struct fc_run *runs[COUNT];
    uint64_t seed = 7;
    size_t settled = 0;
    for (int round = 0; round < 60000; round++) {
        struct fc_run **run = &runs[next_random(&seed) % COUNT];
        if (*run == NULL) {
            size_t alignment = FC_PAGE
                               << (next_random(&seed) % 8 == 0 ? next_random(&seed) % 8 : 0);
            *run = take(1 + (uint32_t)(next_random(&seed) % 300), alignment);
        } else if (next_random(&seed) % 4 == 0) {
            shadow_mark((*run)->start, fc_run_bytes(*run), false);
            uint32_t pages = 1 + (uint32_t)(next_random(&seed) % 400), before = (*run)->pages;
            bool done = fc_large_bins_resize(*run, pages);
            CHECK(done ? (*run)->pages >= pages : (*run)->pages == before);
            shadow_mark((*run)->start, fc_run_bytes(*run), true);
        } else {
            put(*run);
            *run = NULL;
        }
        if (round == 30000) settled = footprint();
    }
    CHECK(footprint() < settled + settled / 4, "(%zu MiB, then %zu MiB)", settled >> 20,
          footprint() >> 20);
    for (int i = 0; i < COUNT; i++)
        if (runs[i] != NULL) put(runs[i]);
}

TEST(purged_runs_read_as_zeros) {
    struct fc_run *run = take(1000, FC_PAGE);
    memset(run->start, 1, fc_run_bytes(run));
    put(run);
    CHECK(fc_large_bins_purge(fc_heap_here()) >= 1000 * FC_PAGE);
    run = take(1000, FC_PAGE);
    CHECK(run->zero);
    check_zero(run->start, fc_run_bytes(run));
    run->zero = false;
    put(run);
}
