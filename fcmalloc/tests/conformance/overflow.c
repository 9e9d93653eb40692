// Sizes that no machine has end in NULL and ENOMEM, and change nothing.

#include "pattern.h"

#include <malloc.h>

static const size_t impossible[] = {
    PTRDIFF_MAX,
    (size_t)PTRDIFF_MAX + 1,
    SIZE_MAX / 2 + 4096,
    SIZE_MAX - 65536,
    SIZE_MAX - 4096,
    SIZE_MAX - 4095,
    SIZE_MAX - 64,
    SIZE_MAX - 16,
    SIZE_MAX - 15,
    SIZE_MAX - 1,
    SIZE_MAX,
};

#define CHECK_REFUSED(call)                          \
    do {                                             \
        errno = 0;                                   \
        void *refused = call;                        \
        CHECK(refused == NULL);                      \
        CHECK(errno == ENOMEM, "(errno %d)", errno); \
    } while (0)

TEST(impossible_sizes_end_in_enomem) {
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        size_t size = opaque_size(impossible[i]);
        CHECK_REFUSED(malloc(size));
        CHECK_REFUSED(calloc(1, size));
        CHECK_REFUSED(calloc(size, 1));
        CHECK_REFUSED(realloc(NULL, size));
        CHECK_REFUSED(reallocarray(NULL, 1, size));
        CHECK_REFUSED(aligned_alloc(64, size));
        CHECK_REFUSED(aligned_alloc(1 << 20, size));
        CHECK_REFUSED(memalign(16, size));
        CHECK_REFUSED(memalign(4096, size));
        CHECK_REFUSED(valloc(size));
        CHECK_REFUSED(pvalloc(size));
        void *untouched = &size;
        CHECK(posix_memalign(&untouched, 64, size) == ENOMEM);
        CHECK(untouched == &size);
    }
}

TEST(products_that_overflow_end_in_enomem) {
    size_t half = opaque_size(SIZE_MAX / 2 + 1), root = opaque_size((size_t)1 << 32);
    CHECK_REFUSED(calloc(half, 2));
    CHECK_REFUSED(calloc(2, half));
    CHECK_REFUSED(calloc(root, root));
    CHECK_REFUSED(calloc(opaque_size(SIZE_MAX), opaque_size(SIZE_MAX)));
    CHECK_REFUSED(calloc(root + 1, root));
    CHECK_REFUSED(reallocarray(NULL, half, 2));
    CHECK_REFUSED(reallocarray(NULL, root, root));
    CHECK_REFUSED(reallocarray(NULL, root + 1, root));
}

TEST(a_refused_realloc_keeps_the_block) {
    for (size_t i = 0; i < BORDER_SIZES; i++) {
        size_t size = border_sizes[i];
        void *block = malloc(size);
        fill_pattern(block, 0, size, size);
        CHECK_REFUSED(realloc(block, opaque_size(SIZE_MAX - 100)));
        CHECK_REFUSED(realloc(block, opaque_size(PTRDIFF_MAX)));
        CHECK_REFUSED(reallocarray(block, opaque_size(SIZE_MAX / 4), 8));
        check_pattern(block, size, size);
        free(block);
    }
}

TEST(impossible_alignments_end_in_enomem) {
    for (int bit = 50; bit < 64; bit++) {
        size_t alignment = opaque_size((size_t)1 << bit);
        CHECK_REFUSED(memalign(alignment, 16));
        CHECK_REFUSED(aligned_alloc(alignment, alignment));
    }
}

TEST(an_aligned_size_just_below_the_limit_does_not_wrap) {
    for (int bit = 4; bit <= 30; bit++) {
        size_t alignment = (size_t)1 << bit;
        CHECK_REFUSED(memalign(alignment, opaque_size(PTRDIFF_MAX - alignment)));
        CHECK_REFUSED(memalign(alignment, opaque_size(SIZE_MAX - alignment)));
        CHECK_REFUSED(memalign(alignment, opaque_size(SIZE_MAX - alignment + 1)));
    }
}

TEST(allocation_goes_on_after_refusals) {
    void *block = malloc(1 << 20);
    CHECK(block != NULL);
    memset(block, 1, 1 << 20);
    free(block);
}
