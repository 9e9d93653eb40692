// free leaves errno as it was.

#include "check.h"

static void free_and_check(void *block) {
    CHECK(block != NULL);
    errno = 4711;
    free(block);
    CHECK(errno == 4711, "(errno %d)", errno);
}

TEST(free_keeps_errno) {
    for (size_t size = 1; size <= (size_t)1 << 32; size *= 2)
        free_and_check(malloc(size));
    errno = 4711;
    free(opaque(NULL));
    CHECK(errno == 4711);
}

static void *allocate(void *size) { return malloc((size_t)size); }

TEST(free_of_a_block_of_another_thread_keeps_errno) {
    for (size_t size = 1; size <= 64 << 20; size *= 2) {
        pthread_t thread;
        void *block;
        CHECK(pthread_create(&thread, NULL, allocate, (void *)size) == 0);
        CHECK(pthread_join(thread, &block) == 0);
        free_and_check(block);
    }
}

TEST(success_leaves_errno_alone_when_it_was_set) {
    errno = 4711;
    void *block = malloc(1 << 20);
    CHECK(errno == 4711, "(errno %d)", errno);
    block = realloc(block, 8 << 20);
    CHECK(errno == 4711, "(errno %d)", errno);
    free(block);
}
