// A program that locks its memory can use all of it.

#include "pattern.h"

#include <sys/mman.h>

enum { COUNT = 100, SIZE = 100000 };

static void lock_and_use_memory(void) {
    // Not everybody may.
    if (mlockall(MCL_CURRENT) != 0) return;
    static char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = malloc(SIZE);
        fill_pattern(blocks[i], 0, SIZE, i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        check_pattern(blocks[i], SIZE, i);
        free(blocks[i]);
    }
    // Where those lay.
    char *block = malloc((size_t)COUNT * SIZE);
    fill_pattern(block, 0, (size_t)COUNT * SIZE, 1);
    check_pattern(block, (size_t)COUNT * SIZE, 1);
    free(block);
}

TEST(freed_blocks_of_locked_memory_are_used_again) { check_succeeds(lock_and_use_memory); }
