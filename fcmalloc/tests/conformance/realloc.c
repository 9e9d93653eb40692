// realloc keeps what a block holds, wherever it goes.

#include "pattern.h"

#include <malloc.h>

TEST(contents_survive_every_change_of_size) {
    for (size_t i = 0; i < BORDER_SIZES; i++)
        for (size_t j = 0; j < BORDER_SIZES; j++) {
            size_t from = border_sizes[i], to = border_sizes[j];
            void *block = malloc(from);
            fill_pattern(block, 0, from, i);
            block = realloc(block, to);
            CHECK(block != NULL && malloc_usable_size(block) >= to);
            check_pattern(block, from < to ? from : to, i);
            if (from < to) fill_pattern(block, from, to, i);
            free(block);
        }
}

TEST(a_block_grows_step_by_step) {
    char *block = NULL;
    size_t size = 0;
    while (size < 32 << 20) {
        size_t next = size + size / 3 + 7;
        block = realloc(block, next);
        CHECK(block != NULL);
        CHECK(size == 0 || block[size - 1] == (char)size);
        block[next - 1] = (char)next;
        size = next;
    }
    free(block);
}

TEST(a_block_shrinks_step_by_step) {
    size_t size = 24 << 20;
    void *block = malloc(size);
    fill_pattern(block, 0, size, 5);
    while (size > 16) {
        size -= size / 3;
        block = realloc(block, size);
        CHECK(block != NULL);
        check_pattern(block, size, 5);
    }
    free(block);
}

// A large block that grows where it lies must stop at its neighbour.
TEST(growing_in_place_spares_the_neighbours) {
    enum { COUNT = 24 };
    struct {
        void *block;
        size_t size;
    } live[COUNT];
    uint64_t seed = 2;
    for (size_t i = 0; i < COUNT; i++) {
        live[i].size = 100000 + next_random(&seed) % 1000000;
        live[i].block = malloc(live[i].size);
        fill_pattern(live[i].block, 0, live[i].size, i);
    }
    for (int round = 0; round < 300; round++) {
        size_t i = next_random(&seed) % COUNT;
        size_t size = 66000 + next_random(&seed) % 3000000;
        size_t kept = size < live[i].size ? size : live[i].size;
        live[i].block = realloc(live[i].block, size);
        check_pattern(live[i].block, kept, i);
        fill_pattern(live[i].block, kept, size, i);
        live[i].size = size;
    }
    for (size_t i = 0; i < COUNT; i++) {
        check_pattern(live[i].block, live[i].size, i);
        free(live[i].block);
    }
}

TEST(what_a_shrinking_block_leaves_is_used_again) {
    size_t before = resident_bytes();
    for (int round = 0; round < 200; round++) {
        char *block = malloc(8 << 20);
        memset(block, 1, 8 << 20);
        block = realloc(block, 100);
        free(block);
    }
    CHECK(resident_bytes() < before + (100 << 20), "(%zu MiB more)",
          (resident_bytes() - before) >> 20);
}

TEST(reallocarray_multiplies) {
    char *block = reallocarray(NULL, 1000, 24);
    CHECK(block != NULL && malloc_usable_size(block) >= 24000);
    fill_pattern(block, 0, 24000, 3);
    block = reallocarray(block, 100000, 24);
    CHECK(block != NULL && malloc_usable_size(block) >= 2400000);
    check_pattern(block, 24000, 3);
    free(block);
}

static void *of_other_threads[BORDER_SIZES];

static void *allocate_one(void *index) {
    size_t i = (size_t)index;
    of_other_threads[i] = malloc(border_sizes[i]);
    fill_pattern(of_other_threads[i], 0, border_sizes[i], i);
    return NULL;
}

TEST(a_block_of_another_thread_changes_its_size) {
    for (size_t step = 1; step < BORDER_SIZES; step++) {
        in_threads(BORDER_SIZES, allocate_one);
        for (size_t i = 0; i < BORDER_SIZES; i++) {
            size_t from = border_sizes[i], to = border_sizes[(i + step) % BORDER_SIZES];
            void *block = realloc(of_other_threads[i], to);
            check_pattern(block, from < to ? from : to, i);
            free(block);
        }
    }
}
