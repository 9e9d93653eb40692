// Handlers of pthread_atfork may allocate, in whichever order the allocator's own come.

#include "pattern.h"

static void *of_prepare, *of_parent, *of_child;
static _Atomic bool done;

static void *renewed(void *block, size_t size) {
    free(block);
    block = malloc(size);
    fill_pattern(block, 0, size, size);
    return block;
}

static void prepare(void) { of_prepare = renewed(of_prepare, 100000); }

static void in_parent(void) {
    check_pattern(of_prepare, 100000, 100000);
    of_parent = renewed(of_parent, 300);
}

static void in_child(void) {
    check_pattern(of_prepare, 100000, 100000);
    of_child = renewed(of_child, 3 << 20);
}

// Listed before any constructor of a preloaded library could have listed its own.
static void list_handlers(void) { pthread_atfork(prepare, in_parent, in_child); }
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = list_handlers;

static void *allocate_until_done(void *index) {
    uint64_t seed = (uint64_t)index;
    while (!done)
        free(malloc(next_random(&seed) % 300000));
    return NULL;
}

static void look_as_child(void) { check_pattern(of_child, 3 << 20, 3 << 20); }

static void fork_often(void) {
    pthread_t threads[4];
    done = false;
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_until_done, (void *)i) == 0);
    for (int i = 0; i < 15; i++) {
        check_succeeds(look_as_child);
        check_pattern(of_parent, 300, 300);
    }
    done = true;
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

TEST(handlers_listed_before_the_constructors_allocate) { fork_often(); }

TEST(handlers_listed_last_allocate) {
    CHECK(pthread_atfork(prepare, in_parent, in_child) == 0);
    fork_often();
}
