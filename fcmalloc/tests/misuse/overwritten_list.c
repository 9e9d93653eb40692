// What a program writes into freed blocks does not lead the allocator astray: it ends in a line,
// never in a block that lies where the program's bytes say.

#include "misuse.h"

enum { COUNT = 200 };
static size_t size;
static unsigned char filling;

static void allocate_and_free(void *blocks[COUNT]) {
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = malloc(size);
    for (size_t i = 0; i < COUNT; i++)
        free(blocks[i]);
}

static void allocate_from_overwritten_list(void) {
    void *blocks[COUNT];
    allocate_and_free(blocks);
    for (size_t i = 0; i < COUNT; i++)
        memset(opaque(blocks[i]), filling, 16);
    for (size_t i = 0; i < 100 * COUNT; i++)
        blocks[i % COUNT] = malloc(size);
}

TEST(an_overwritten_list_is_found) {
    static const size_t sizes[] = {16, 100, 1000, 4000, 15000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size = sizes[i];
        filling = 0x41;
        check_one_line(outcome_of(allocate_from_overwritten_list),
                       "was written to after it was freed");
        filling = 0xff;
        check_one_line(outcome_of(allocate_from_overwritten_list),
                       "was written to after it was freed");
    }
}

// Bytes that are a valid address, of memory that is no block.
static void allocate_from_forged_list(void) {
    static char victim[4096] __attribute__((aligned(64)));
    void *blocks[COUNT];
    allocate_and_free(blocks);
    for (size_t i = 0; i < COUNT; i++)
        *(void **)opaque(blocks[i]) = victim + 64;
    for (size_t i = 0; i < 100 * COUNT; i++) {
        char *block = malloc(size);
        CHECK(block < victim || block >= victim + sizeof victim, "(a forged block came)");
    }
}

TEST(a_forged_list_is_found) {
    for (size = 16; size <= 20000; size *= 5)
        check_one_line(outcome_of(allocate_from_forged_list), "was written to after it was freed");
}

static void *blocks_of_main[COUNT];

static void *free_and_overwrite(void *unused) {
    for (size_t i = 0; i < COUNT; i++)
        free(blocks_of_main[i]);
    for (size_t i = 0; i < COUNT; i++)
        memset(opaque(blocks_of_main[i]), filling, 16);
    return unused;
}

static void allocate_after_remote_overwriting(void) {
    for (size_t i = 0; i < COUNT; i++)
        blocks_of_main[i] = malloc(size);
    in_threads(1, free_and_overwrite);
    for (size_t i = 0; i < 100 * COUNT; i++)
        blocks_of_main[i % COUNT] = malloc(size);
}

TEST(an_overwritten_block_in_transit_is_found) {
    filling = 0x41;
    for (size = 16; size <= 20000; size *= 5)
        check_one_line(outcome_of(allocate_after_remote_overwriting),
                       "was written to after it was freed");
}
