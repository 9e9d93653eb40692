// Allocation works before main, from the first code of the program that runs.

#include "pattern.h"

static void *aligned_from_preinit, *from_preinit, *from_first_constructor, *from_constructor;
static pthread_t early_thread;

static void allocate_in_preinit(void) {
    aligned_from_preinit = aligned_alloc(64, 640);
    fill_pattern(aligned_from_preinit, 0, 640, 0);
    from_preinit = malloc(1000);
    fill_pattern(from_preinit, 0, 1000, 1);
    free(malloc(1 << 20));
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = allocate_in_preinit;

static void *allocate_in_thread(void *unused) {
    (void)unused;
    void *block = malloc(3 << 20);
    fill_pattern(block, 0, 3 << 20, 4);
    return block;
}

__attribute__((constructor(101))) static void allocate_first(void) {
    from_first_constructor = calloc(100, 1000);
    CHECK(pthread_create(&early_thread, NULL, allocate_in_thread, NULL) == 0);
}

__attribute__((constructor)) static void allocate_later(void) {
    check_zero(from_first_constructor, 100000);
    from_constructor = realloc(from_first_constructor, 200000);
    fill_pattern(from_constructor, 0, 200000, 2);
}

TEST(blocks_from_before_main_live_on) {
    check_pattern(aligned_from_preinit, 640, 0);
    check_pattern(from_preinit, 1000, 1);
    check_pattern(from_constructor, 200000, 2);
    free(aligned_from_preinit);
    free(from_preinit);
    free(from_constructor);
}

TEST(a_thread_from_before_main_allocates) {
    void *block;
    CHECK(pthread_join(early_thread, &block) == 0);
    check_pattern(block, 3 << 20, 4);
    free(block);
}
