// Every byte that malloc_usable_size reports belongs to the block.

#include "pattern.h"

#include <malloc.h>

TEST(usable_bytes_are_the_blocks_own) {
    enum { COUNT = 4000 };
    static struct {
        void *block;
        size_t usable;
    } live[COUNT];
    uint64_t seed = 4;
    for (int round = 0; round < 30000; round++) {
        size_t i = next_random(&seed) % COUNT;
        if (live[i].block != NULL) check_pattern(live[i].block, live[i].usable, i);
        free(live[i].block);
        size_t size = next_random(&seed) % (next_random(&seed) % 100 == 0 ? 500000 : 1500);
        live[i].block = malloc(size);
        live[i].usable = malloc_usable_size(live[i].block);
        CHECK(live[i].usable >= size);
        fill_pattern(live[i].block, 0, live[i].usable, i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (live[i].block != NULL) check_pattern(live[i].block, live[i].usable, i);
        free(live[i].block);
    }
}

TEST(usable_size_holds_for_aligned_blocks) {
    for (int bit = 3; bit <= 22; bit++)
        for (size_t i = 0; i < BORDER_SIZES; i++) {
            void *block = memalign((size_t)1 << bit, border_sizes[i]);
            size_t usable = malloc_usable_size(block);
            CHECK(usable >= border_sizes[i]);
            fill_pattern(block, usable > 100 ? usable - 100 : 0, usable, 1);
            free(block);
        }
}
