// Blocks are aligned as asked, and to 16 bytes in any case.

#include "pattern.h"

#include <malloc.h>

static bool aligned(const void *block, size_t alignment) {
    return block != NULL && (uintptr_t)block % alignment == 0;
}

TEST(every_block_is_aligned_to_16) {
    static void *blocks[10000];
    for (size_t size = 0; size < 10000; size++) {
        blocks[size] = malloc(size);
        CHECK(aligned(blocks[size], 16), "(size %zu)", size);
    }
    for (size_t size = 0; size < 10000; size++) {
        blocks[size] = realloc(blocks[size], 3 * size + 1);
        CHECK(aligned(blocks[size], 16), "(size %zu)", size);
    }
    for (size_t size = 0; size < 10000; size++)
        free(blocks[size]);
    for (size_t i = 0; i < BORDER_SIZES; i++) {
        void *block = calloc(border_sizes[i], 1);
        CHECK(aligned(block, 16), "(size %zu)", border_sizes[i]);
        free(block);
    }
}

static void check_aligned(void *block, size_t alignment, size_t size) {
    CHECK(aligned(block, alignment), "(%p, alignment %zu, size %zu)", block, alignment, size);
    CHECK(malloc_usable_size(block) >= size);
    if (size > 0) ((char *)block)[0] = ((char *)block)[size - 1] = 1;
    free(block);
}

TEST(every_power_of_two_up_to_1_GiB_is_honoured) {
    for (int bit = 3; bit <= 30; bit++) {
        size_t alignment = (size_t)1 << bit;
        size_t sizes[] = {0,
                          1,
                          24,
                          100,
                          alignment / 2,
                          alignment,
                          alignment + 1,
                          3 * alignment,
                          70000,
                          (2 << 20) + 5};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t size = sizes[i];
            check_aligned(memalign(alignment, size), alignment, size);
            check_aligned(aligned_alloc(alignment, size), alignment, size);
            void *block = NULL;
            CHECK(posix_memalign(&block, alignment, size) == 0);
            check_aligned(block, alignment, size);
        }
    }
}

TEST(posix_memalign_refuses_what_is_no_alignment) {
    static const size_t bad[] = {0, 1, 2, 3, 4, 5, 7, 9, 12, 24, 48, 4095, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *untouched = &untouched;
        errno = 0;
        CHECK(posix_memalign(&untouched, opaque_size(bad[i]), 16) == EINVAL, "(alignment %zu)",
              bad[i]);
        CHECK(untouched == &untouched && errno == 0);
    }
}

TEST(valloc_and_pvalloc_give_whole_pages) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 0; size < 3 * page; size += 97) {
        void *block = valloc(size);
        CHECK(aligned(block, page));
        free(block);
        block = pvalloc(size);
        CHECK(aligned(block, page));
        size_t rounded = (size + page - 1) / page * page;
        CHECK(malloc_usable_size(block) >= rounded);
        memset(block, 1, rounded);
        free(block);
    }
}

// Blocks whose alignment is far larger than their size must not share bytes, nor may free or
// realloc take the wrong block for them.
TEST(aligned_blocks_live_side_by_side) {
    enum { COUNT = 2000 };
    static struct {
        char *block;
        size_t size;
    } live[COUNT];
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        size_t i = next_random(&seed) % COUNT;
        if (live[i].block != NULL) {
            check_pattern(live[i].block, live[i].size, i);
            if (next_random(&seed) % 4 == 0) {
                size_t size = 1 + next_random(&seed) % 20000;
                live[i].block = realloc(live[i].block, size);
                CHECK(aligned(live[i].block, 16));
                check_pattern(live[i].block, size < live[i].size ? size : live[i].size, i);
                fill_pattern(live[i].block, 0, size, i);
                live[i].size = size;
                continue;
            }
            free(live[i].block);
        }
        size_t alignment = (size_t)1 << (next_random(&seed) % 17);
        live[i].size = 1 + next_random(&seed) % (next_random(&seed) % 8 == 0 ? 200000 : 3000);
        live[i].block = memalign(alignment, live[i].size);
        CHECK(aligned(live[i].block, alignment));
        fill_pattern(live[i].block, 0, live[i].size, i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (live[i].block != NULL) check_pattern(live[i].block, live[i].size, i);
        free(live[i].block);
    }
}
