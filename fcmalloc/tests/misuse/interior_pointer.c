// A pointer into a block is not the block.

#include "misuse.h"

static size_t size, offset;

static void free_inside(void) { free(suspected((char *)malloc(size) + offset)); }
static void realloc_inside(void) { free(realloc(suspected((char *)malloc(size) + offset), 10)); }

TEST(a_pointer_into_a_block_is_refused) {
    static const struct {
        size_t size, offset;
    } inside[] = {
        {64, 16},
        {64, 8},
        {64, 1},
        {1000, 16},
        {1000, 496},
        {3000, 2048},
        {4096, 64},
        {5000, 4096},
        {65536, 4096},
        {65536, 32768},
        {200000, 16},
        {200000, 64},
        {200000, 4096},
        {200000, 65536},
        {4 << 20, 4096},
        {4 << 20, 65536},
        {4 << 20, 2 << 20},
        {64 << 20, 33554432},
        {64 << 20, 16},
    };
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        size = inside[i].size;
        offset = inside[i].offset;
        check_misuse(free_inside, "is not the beginning of a block");
        check_misuse(realloc_inside, "is not the beginning of a block");
    }
}

static void free_end(void) { free(suspected((char *)malloc(size) + size)); }

TEST(a_pointer_behind_a_large_block_is_refused) {
    size = 3 << 20;
    check_misuse(free_end, "pointer");
}
