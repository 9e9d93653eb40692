// malloc_trim releases memory; mallinfo2 and mallopt are present.

#include "pattern.h"

#include <malloc.h>

TEST(trim_gives_free_memory_back_and_spares_the_rest) {
    enum { COUNT = 64 };
    void *large[COUNT];
    static void *small[20000];
    size_t at_first = resident_bytes();
    for (size_t i = 0; i < COUNT; i++) {
        large[i] = malloc(2 << 20);
        fill_pattern(large[i], 0, 2 << 20, i);
    }
    for (size_t i = 0; i < 20000; i++) {
        small[i] = malloc(1000);
        fill_pattern(small[i], 0, 1000, i);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (i % 4 != 0) free(large[i]);
    for (size_t i = 0; i < 20000; i++)
        if (i >= 1000) free(small[i]);
    malloc_trim(0);
    size_t live = COUNT / 4 * (2 << 20) + 1000 * 1000, now = resident_bytes();
    CHECK(now < at_first + live + (24 << 20), "(%zu MiB, then %zu MiB)", at_first >> 20, now >> 20);
    for (size_t i = 0; i < COUNT; i += 4) {
        check_pattern(large[i], 2 << 20, i);
        free(large[i]);
    }
    for (size_t i = 0; i < 1000; i++) {
        check_pattern(small[i], 1000, i);
        free(small[i]);
    }
}

static _Atomic bool done;

static void *allocate_until_done(void *index) {
    uint64_t seed = (uint64_t)index;
    while (!done) {
        size_t size = 1 + next_random(&seed) % 400000;
        void *block = malloc(size);
        fill_pattern(block, 0, size, size);
        check_pattern(block, size, size);
        free(block);
    }
    return NULL;
}

TEST(trim_disturbs_no_other_thread) {
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_until_done, (void *)i) == 0);
    for (int i = 0; i < 200; i++)
        malloc_trim(0);
    done = true;
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

TEST(trim_says_whether_it_gave_anything_back) {
    void *block = memset(malloc(1 << 20), 1, 1 << 20), *above = malloc(100);
    free(block);
    CHECK(malloc_trim(0) == 1);
    free(above);
}

TEST(mallinfo2_counts_what_is_in_use) {
    struct mallinfo2 before = mallinfo2();
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(1 << 20);
    struct mallinfo2 during = mallinfo2();
    CHECK(during.uordblks + during.hblkhd >= before.uordblks + before.hblkhd + (10 << 20));
    for (int i = 0; i < 10; i++)
        free(blocks[i]);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks + after.hblkhd + (9 << 20) < during.uordblks + during.hblkhd);
}

TEST(mallopt_accepts_what_programs_ask) {
    CHECK(mallopt(M_ARENA_MAX, 4) == 1);
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1);
    CHECK(mallopt(M_TOP_PAD, 1 << 20) == 1);
}
