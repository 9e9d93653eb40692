// Size 0 is a size like any other.

#include "check.h"

#include <malloc.h>

static void *zero_from_posix_memalign(void) {
    void *block = NULL;
    CHECK(posix_memalign(&block, 64, 0) == 0);
    return block;
}

static int by_address(const void *a, const void *b) {
    uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;
    return (left > right) - (left < right);
}

TEST(size_zero_gives_unique_pointers) {
    enum { ROUNDS = 1000, WAYS = 10 };
    static void *blocks[ROUNDS * WAYS];
    size_t zero = opaque_size(0), count = 0;
    for (int i = 0; i < ROUNDS; i++) {
        blocks[count++] = malloc(zero);
        blocks[count++] = calloc(zero, 8);
        blocks[count++] = calloc(8, zero);
        blocks[count++] = realloc(NULL, zero);
        blocks[count++] = reallocarray(NULL, zero, 8);
        blocks[count++] = zero_from_posix_memalign();
        blocks[count++] = aligned_alloc(32, zero);
        blocks[count++] = memalign(64, zero);
        blocks[count++] = i < 10 ? valloc(zero) : malloc(zero);
        blocks[count++] = i < 10 ? pvalloc(zero) : malloc(zero);
    }
    qsort(blocks, count, sizeof *blocks, by_address);
    for (size_t i = 0; i < count; i++) {
        CHECK(blocks[i] != NULL);
        CHECK(i == 0 || blocks[i] != blocks[i - 1], "(%p came twice)", blocks[i]);
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

TEST(realloc_to_size_zero_keeps_nothing_of_the_old_block) {
    size_t before = resident_bytes();
    for (int i = 0; i < 20000; i++) {
        char *block = malloc(100000);
        CHECK(block != NULL);
        block[0] = block[99999] = 1;
        free(realloc(block, opaque_size(0)));
    }
    CHECK(resident_bytes() < before + (64 << 20));
}

TEST(free_of_null_does_nothing) {
    free(opaque(NULL));
    CHECK(malloc_usable_size(opaque(NULL)) == 0);
}
