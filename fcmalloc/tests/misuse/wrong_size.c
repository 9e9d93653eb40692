// What a sized free is told must be true, and it refuses what free refuses.

#include "misuse.h"

static size_t size, said, offset;

static void free_with_size(void *block, size_t bytes) {
    void (*free_sized)(void *, size_t);
    *(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
    free_sized(opaque(block), bytes);
}

static void free_as_larger(void) { free_with_size(suspected(malloc(size)), said); }

TEST(a_block_is_not_freed_as_a_larger_one) {
    static const struct {
        size_t size, said;
    } sizes[] = {{1, 17}, {64, 65}, {1000, 2000}, {4096, 1 << 20}, {200000, 1 << 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size = sizes[i].size;
        said = sizes[i].said;
        check_misuse(free_as_larger, "is smaller than the size it was freed with");
    }
}

static void free_misaligned(void) {
    void (*free_aligned_sized)(void *, size_t, size_t);
    *(void **)&free_aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    char *block = memalign(4096, 8192);
    free_aligned_sized(suspected(block + 64), 4096, 64);
}

TEST(a_block_is_freed_with_the_alignment_that_it_has) {
    check_misuse(free_misaligned, "is not aligned as it was said to be");
}

static void free_twice(void) {
    void *block = suspected(malloc(size));
    free_with_size(block, size);
    free_with_size(block, size);
}

static void free_inside(void) { free_with_size(suspected((char *)malloc(size) + offset), 1); }

static void free_foreign(void) {
    static char foreign[64];
    free_with_size(suspected(foreign), 64);
}

TEST(a_sized_free_refuses_what_free_refuses) {
    for (size = 1; size <= 64 << 20; size *= 8) {
        check_misuse(free_twice, "was freed already");
    }
    size = 1000;
    for (offset = 1; offset < size; offset *= 3) {
        check_misuse(free_inside, "is not the beginning of a block");
    }
    check_misuse(free_foreign, "was not allocated here");
}
