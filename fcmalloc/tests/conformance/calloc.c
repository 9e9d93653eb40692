// calloc gives zeros, also where memory was used before.

#include "pattern.h"

#include <malloc.h>

TEST(fresh_and_used_memory_comes_as_zeros) {
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < BORDER_SIZES; i++) {
            size_t size = border_sizes[i];
            char *block = calloc(size, 1);
            CHECK(block != NULL);
            check_zero(block, size);
            memset(block, 0xa5, malloc_usable_size(block));
            free(block);
        }
}

TEST(zeros_hold_among_many_live_blocks) {
    enum { COUNT = 3000 };
    static char *live[COUNT];
    uint64_t seed = 3;
    for (int round = 0; round < 60000; round++) {
        size_t i = next_random(&seed) % COUNT;
        free(live[i]);
        size_t size = 1 + next_random(&seed) % (next_random(&seed) % 64 == 0 ? 300000 : 2000);
        live[i] = calloc(1, size);
        check_zero(live[i], size);
        memset(live[i], 0xff, malloc_usable_size(live[i]));
    }
    for (size_t i = 0; i < COUNT; i++)
        free(live[i]);
}

TEST(zeros_hold_after_realloc_and_trim) {
    for (size_t i = 0; i < BORDER_SIZES; i++) {
        char *block = malloc(border_sizes[i]);
        memset(block, 0xa5, border_sizes[i]);
        free(realloc(block, border_sizes[i] / 2 + 1));
        malloc_trim(0);
        block = calloc(border_sizes[i], 1);
        check_zero(block, border_sizes[i]);
        free(block);
    }
}
