// AddressSanitizer and valgrind know which bytes of this allocator's memory are the program's.
// Other builds have neither.

#include "check.h"
#include "fcmalloc.h"
#include "poison.h"

#if defined(__SANITIZE_ADDRESS__)
static bool usable_byte(const char *byte) { return !__asan_address_is_poisoned(byte); }
#elif defined(FC_VALGRIND)
static bool usable_byte(const char *byte) {
    char validity;
    return VALGRIND_GET_VBITS(byte, &validity, 1) != 3;
}
#endif

TEST(bytes_behind_a_block_are_out_of_bounds) {
#if FC_POISONS
    for (size_t size = 100; size < 10000000; size *= 10) {
        char *block = fc_malloc(size);
        CHECK(usable_byte(block) && usable_byte(block + size - 1) && !usable_byte(block + size));
        block = fc_realloc(block, size / 2);
        CHECK(usable_byte(block + size / 2 - 1) && !usable_byte(block + size / 2));
        block = fc_realloc(block, 3 * size);
        CHECK(usable_byte(block + 3 * size - 1) && !usable_byte(block + 3 * size));
        fc_free(block);
    }
#endif
}

TEST(bytes_of_a_freed_block_are_out_of_bounds) {
#if FC_POISONS
    for (size_t size = 100; size < 10000000; size *= 10) {
        char *block = opaque(fc_malloc(size)), *const freed = block;
        fc_free(block);
        CHECK(!usable_byte(freed + 16) && !usable_byte(freed + size - 1));
    }
#endif
}

TEST(what_a_program_may_do_is_not_complained_of) {
    for (size_t size = 1; size < 10000000; size = size * 3 + 1) {
        char *block = fc_calloc(1, size);
        memset(block, 1, size);
        block = fc_realloc(block, 3 * size);
        memset(block, 1, 3 * size);
        memset(block, 1, fc_malloc_usable_size(block));
        fc_free(block);
        block = fc_aligned_alloc(4096, size);
        memset(block, 1, size);
        fc_free(block);
    }
}
