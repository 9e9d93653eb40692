// free_sized and free_aligned_sized, which C23 adds and this C library may not declare.

#include "check.h"

#include <malloc.h>

static void *standard_function(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL || getenv("FC_TEST_ALLOCATOR") == NULL, "(there is no %s)", name);
    return function;
}

TEST(free_sized_frees) {
    void (*free_sized)(void *, size_t);
    *(void **)&free_sized = standard_function("free_sized");
    if (free_sized == NULL) return;
    size_t before = resident_bytes();
    for (size_t size = 0; size < 100000; size += 13)
        free_sized(malloc(size), size);
    for (int round = 0; round < 1000; round++) {
        void *block = calloc(1, 1 << 20);
        memset(block, 1, 1 << 20);
        free_sized(block, 1 << 20);
    }
    free_sized(NULL, 0);
    CHECK(resident_bytes() < before + (200 << 20));
}

TEST(free_aligned_sized_frees) {
    void (*free_aligned_sized)(void *, size_t, size_t);
    *(void **)&free_aligned_sized = standard_function("free_aligned_sized");
    if (free_aligned_sized == NULL) return;
    for (size_t alignment = 16; alignment <= 1 << 21; alignment *= 2)
        for (size_t size = alignment; size < 8 * alignment; size += alignment)
            free_aligned_sized(aligned_alloc(alignment, size), alignment, size);
    free_aligned_sized(NULL, 64, 64);
}
