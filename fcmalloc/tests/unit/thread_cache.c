// The thread cache: a thread hands out again what it freed, whoever owns it.

#include "check.h"
#include "fcmalloc.h"
#include "heap.h"

enum { SIZE = 1000, LESS = 8 };
static void *block;
static void *blocks[1000];

static void *allocate_one(void *unused) {
    block = fc_malloc(SIZE);
    return unused;
}

TEST(a_block_of_another_thread_is_handed_out_again) {
    in_threads(1, allocate_one);
    fc_free(block);
    CHECK(fc_malloc(SIZE) == block);
}

static void *free_some(void *unused) {
    for (int i = 0; i < LESS; i++)
        fc_free(blocks[i]);
    return unused;
}

static void *allocate_some_that_are_known(void *unused) {
    int known = 0;
    for (int i = 0; i < LESS; i++) {
        void *again = fc_malloc(SIZE);
        for (int j = 0; j < LESS; j++)
            known += again == blocks[j];
    }
    CHECK(known == LESS, "(%d)", known);
    return unused;
}

TEST(what_a_thread_that_ended_had_cached_is_the_next_ones) {
    for (int i = 0; i < LESS; i++)
        blocks[i] = fc_malloc(SIZE);
    in_threads(1, free_some);
    in_threads(1, allocate_some_that_are_known);
}

static size_t cached(void) {
    size_t bytes = 0;
    for (unsigned id = 0; id < fc_heap_count(); id++)
        bytes += fc_sub_cached(&fc_heap_at(id)->sub);
    return bytes;
}

TEST(trimming_empties_the_caches_of_threads_that_ended) {
    for (int i = 0; i < LESS; i++)
        blocks[i] = fc_malloc(SIZE);
    in_threads(1, free_some);
    CHECK(cached() >= LESS * SIZE);
    fc_trim();
    CHECK(cached() == 0, "(%zu bytes)", cached());
}

enum { ROW = 20 << 10, ROWS = 64 };

static void *free_rows(void *unused) {
    struct fc_stats before, after;
    fc_stats(&before);
    for (int i = 0; i < ROWS; i++)
        fc_free(blocks[i]);
    fc_stats(&after);
    CHECK(after.in_transit >= before.in_transit + ROWS * ROW, "(it keeps some)");
    return unused;
}

TEST(a_thread_that_only_frees_rows_keeps_none) {
    for (int i = 0; i < ROWS; i++)
        blocks[i] = fc_malloc(ROW);
    in_threads(1, free_rows);
}

// A large block starts somewhere in its first page.
static uintptr_t page_of(const void *row) { return (uintptr_t)row / 4096; }

static void *use_rows_again(void *unused) {
    void *own = fc_malloc(ROW);
    fc_free(blocks[0]);
    CHECK(page_of(fc_malloc(ROW)) == page_of(blocks[0]));
    fc_free(own);
    return unused;
}

TEST(a_row_of_another_thread_is_handed_out_again) {
    blocks[0] = fc_malloc(ROW);
    in_threads(1, use_rows_again);
}

// ---- Freed twice ----

static void check_found(void (*body)(void)) {
    struct outcome outcome = outcome_of(body);
    CHECK(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT, "(status %#x) %s",
          (unsigned)outcome.status, outcome.errors);
    CHECK(strstr(outcome.errors, "was freed already") != NULL, "(%s)", outcome.errors);
}

static void *free_one(void *unused) {
    fc_free(opaque(block));
    return unused;
}

static void free_elsewhere_and_here(void) {
    allocate_one(NULL);
    in_threads(1, free_one);
    free_one(NULL);
}

TEST(a_cached_block_elsewhere_is_found_at_once) { check_found(free_elsewhere_and_here); }

static void *free_row(void *unused) {
    fc_free(opaque(blocks[0]));
    return unused;
}

static void free_row_elsewhere_and_here(void) {
    blocks[0] = fc_malloc(ROW);
    in_threads(1, free_row);
    free_row(NULL);
}

TEST(a_row_freed_elsewhere_is_found_at_once) { check_found(free_row_elsewhere_and_here); }

// Fills the cache, so that what follows goes through the queue.
static void fill_the_cache(void) {
    enum { COUNT = sizeof blocks / sizeof *blocks };
    for (int i = 0; i < COUNT; i++)
        blocks[i] = fc_malloc(SIZE);
    for (int i = 0; i < COUNT - 2 * FC_QUEUE; i++)
        fc_free(blocks[i]);
}

static void **last_blocks(void) { return blocks + sizeof blocks / sizeof *blocks - 2 * FC_QUEUE; }

static void free_twice_in_the_queue(void) {
    fill_the_cache();
    void **last = last_blocks();
    fc_free(last[0]);
    fc_free(opaque(last[0]));
}

TEST(a_block_in_the_queue_is_found_at_once) { check_found(free_twice_in_the_queue); }

static void free_twice_with_an_allocation_between(void) {
    fill_the_cache();
    void **last = last_blocks();
    fc_free(last[0]);
    (void)!opaque(fc_malloc(SIZE));
    fc_free(opaque(last[0]));
}

TEST(a_queued_block_is_found_though_the_cache_is_no_longer_full) {
    check_found(free_twice_with_an_allocation_between);
}

static void free_a_block_of_a_full_cache_and_use_it(void) {
    fill_the_cache();
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks - 2 * FC_QUEUE; i++)
        if (fc_block_is_lent(blocks[i])) fc_free(opaque(blocks[i]));
    for (int i = 0; i < 2 * FC_QUEUE; i++)
        (void)!opaque(fc_malloc(SIZE));
}

TEST(a_cached_block_that_is_in_the_queue_is_not_handed_out) {
    check_found(free_a_block_of_a_full_cache_and_use_it);
}

static void free_from_a_full_cache_again(void) {
    fill_the_cache();
    fc_free(opaque(blocks[0]));
    (void)!fc_malloc(SIZE);
    fc_trim();
}

TEST(a_block_in_a_full_cache_is_found_before_the_queue_is_emptied) {
    check_found(free_from_a_full_cache_again);
}

static void *wait_in_the_queue(void *unused) {
    fill_the_cache();
    fc_free(last_blocks()[0]);
    return unused;
}

static void end_with_a_queue(void) {
    struct fc_stats before, after;
    fc_stats(&before);
    in_threads(1, wait_in_the_queue);
    fc_trim();
    fc_stats(&after);
    size_t more = after.in_use_small - before.in_use_small;
    CHECK(more == (2 * FC_QUEUE - 1) * 1024, "(%zu)", more);
}

TEST(a_queue_is_emptied_when_the_thread_ends) { check_succeeds(end_with_a_queue); }
