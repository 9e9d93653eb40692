// FCMALLOC_LIMIT ends in ENOMEM, and the program goes on.

#include "pattern.h"

enum { LIMIT_MIB = 96 };

static void with_limit(const char *step) {
    setenv("FCMALLOC_LIMIT", "96M", 1);
    become(step);
}

static void *taken[1 << 20];

// Allocates until there is no more and returns how many bytes there were.
static size_t fill_up(size_t size, size_t *count) {
    *count = 0;
    for (;;) {
        errno = 0;
        void *block = malloc(size);
        if (block == NULL) {
            CHECK(errno == ENOMEM);
            return *count * size;
        }
        fill_pattern(block, 0, size, *count);
        taken[(*count)++] = block;
        CHECK(*count * size <= (size_t)LIMIT_MIB << 20, "(%zu bytes)", *count * size);
    }
}

static void give_back(size_t size, size_t count) {
    for (size_t i = 0; i < count; i++) {
        check_pattern(taken[i], size, i);
        free(taken[i]);
    }
}

STEP(fills_up_with_every_size) {
    static const size_t sizes[] = {8 << 20, 200, 1 << 20, 3000, 65000, 300000, 16 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t count, size = sizes[i], bytes = fill_up(size, &count);
        CHECK(bytes >= (size_t)LIMIT_MIB << 19, "(only %zu bytes of size %zu)", bytes, size);
        errno = 0;
        CHECK(calloc(1, 64 << 20) == NULL && errno == ENOMEM);
        void *untouched = taken[0];
        CHECK(realloc(taken[0], 90 << 20) == NULL && untouched == taken[0]);
        void *aligned = &aligned;
        CHECK(posix_memalign(&aligned, 1 << 20, 64 << 20) == ENOMEM && aligned == &aligned);
        give_back(size, count);
    }
}
static void fill_up_with_limit(void) { with_limit("fills_up_with_every_size"); }
TEST(memory_ends_at_the_limit_and_comes_back) { check_succeeds(fill_up_with_limit); }

// All threads at the limit: some allocations fail, nothing else happens.
static void *press_against_the_limit(void *index) {
    enum { LIVE = 64 };
    struct {
        void *block;
        size_t size;
    } live[LIVE] = {{NULL, 0}};
    uint64_t seed = (uint64_t)index;
    for (int round = 0; round < 3000; round++) {
        size_t i = next_random(&seed) % LIVE;
        if (live[i].block != NULL) check_pattern(live[i].block, live[i].size, i);
        free(live[i].block);
        live[i].size = 1 + next_random(&seed) % (round % 4 == 0 ? 4 << 20 : 60000);
        live[i].block = malloc(live[i].size);
        if (live[i].block == NULL)
            CHECK(errno == ENOMEM);
        else
            fill_pattern(live[i].block, 0, live[i].size, i);
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i].block);
    return NULL;
}

STEP(presses_from_many_threads) {
    in_threads(8, press_against_the_limit);
    void *block = malloc(1 << 20);
    CHECK(block != NULL);
    free(block);
}
static void press_with_limit(void) { with_limit("presses_from_many_threads"); }
TEST(many_threads_meet_the_limit) { check_succeeds(press_with_limit); }

static void *ask_for_too_much(void *unused) {
    for (int i = 0; i < 100; i++)
        CHECK(malloc(200 << 20) == NULL && errno == ENOMEM);
    return unused;
}

STEP(asks_for_too_much_from_new_threads) { in_threads(32, ask_for_too_much); }
static void ask_with_limit(void) { with_limit("asks_for_too_much_from_new_threads"); }
TEST(a_block_beyond_the_limit_is_refused_at_once) { check_succeeds(ask_with_limit); }
