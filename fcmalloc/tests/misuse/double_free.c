// A double free is found, at once or at the latest when the block would be handed out twice.

#include "misuse.h"

static void free_twice(size_t size) {
    void *block = suspected(malloc(size));
    free(block);
    free(opaque(block));
}

static void small_twice(void) { free_twice(100); }
static void smallest_twice(void) { free_twice(1); }
static void page_twice(void) { free_twice(4096); }
static void largest_of_a_class_twice(void) { free_twice(65536); }
static void large_twice(void) { free_twice(200000); }
static void huge_twice(void) { free_twice(64 << 20); }

TEST(a_small_block_is_freed_once) {
    check_misuse(smallest_twice, "was freed already");
    check_misuse(small_twice, "was freed already");
    check_misuse(page_twice, "was freed already");
    check_misuse(largest_of_a_class_twice, "was freed already");
}

TEST(a_large_block_is_freed_once) {
    check_misuse(large_twice, "was freed already");
    check_misuse(huge_twice, "was freed already");
}

static void with_others_between(void) {
    void *blocks[50];
    for (int i = 0; i < 50; i++)
        blocks[i] = malloc(100);
    for (int i = 0; i < 50; i++)
        free(blocks[i]);
    free(suspected(blocks[20]));
}

TEST(a_small_block_is_freed_once_though_others_are_freed_between) {
    check_misuse(with_others_between, "was freed already");
}

static void aligned_twice(void) {
    void *block = suspected(memalign(4096, 100));
    free(block);
    free(opaque(block));
}

TEST(an_aligned_block_is_freed_once) { check_misuse(aligned_twice, "was freed already"); }

static size_t remote_size;
static void *remote;

static void *free_remote(void *unused) {
    free(opaque(remote));
    return unused;
}

// The owner looks at what others freed when it allocates.
static void go_on(void) {
    static void *blocks[1000];
    for (size_t i = 0; i < 1000; i++)
        blocks[i] = malloc(remote_size);
    for (size_t i = 0; i < 1000; i++)
        free(blocks[i]);
}

static void owner_after_other(void) {
    remote = suspected(malloc(remote_size));
    in_threads(1, free_remote);
    free(opaque(remote));
    go_on();
}

static pthread_barrier_t owner_is_done;

static void *free_remote_later(void *unused) {
    pthread_barrier_wait(&owner_is_done);
    return free_remote(unused);
}

// The other thread exists beforehand: creating it would use the freed memory again.
static void other_after_owner(void) {
    pthread_t other;
    CHECK(pthread_barrier_init(&owner_is_done, NULL, 2) == 0);
    CHECK(pthread_create(&other, NULL, free_remote_later, NULL) == 0);
    remote = suspected(malloc(remote_size));
    free(opaque(remote));
    pthread_barrier_wait(&owner_is_done);
    pthread_join(other, NULL);
}

static void other_twice(void) {
    remote = suspected(malloc(remote_size));
    in_threads(1, free_remote);
    in_threads(1, free_remote);
}

TEST(a_block_is_freed_by_one_thread_only) {
    static const size_t sizes[] = {48, 5000, 300000};
    for (size_t i = 0; i < 3; i++) {
        remote_size = sizes[i];
        check_one_line(outcome_of(owner_after_other), "freed");
        check_misuse(other_after_owner, "was freed already");
        check_misuse(other_twice, "was freed already");
    }
}

static void realloc_of_freed_small(void) {
    void *block = suspected(malloc(100));
    free(block);
    free(realloc(opaque(block), 300));
}

static void realloc_of_freed_large(void) {
    void *block = suspected(malloc(1 << 20));
    free(block);
    free(realloc(opaque(block), 2 << 20));
}

TEST(a_freed_block_is_not_reallocated) {
    check_misuse(realloc_of_freed_small, "was freed already");
    check_misuse(realloc_of_freed_large, "was freed already");
}
