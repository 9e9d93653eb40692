// Blocks outlive the thread that allocated them, and memory of dead threads is used again.

#include "pattern.h"

enum { THREADS = 16, EACH = 500 };
static void *orphans[THREADS][EACH];

static size_t size_of(size_t thread, size_t i) {
    return i % 50 == 0 ? border_sizes[(thread + i / 50) % 26] : 1 + (thread * 131 + i * 17) % 3000;
}

static void *leave_blocks(void *index) {
    size_t thread = (size_t)index;
    for (size_t i = 0; i < EACH; i++) {
        orphans[thread][i] = malloc(size_of(thread, i));
        fill_pattern(orphans[thread][i], 0, size_of(thread, i), thread * EACH + i);
    }
    return NULL;
}

static void *free_blocks_of_the_neighbour(void *index) {
    size_t thread = ((size_t)index + 5) % THREADS;
    for (size_t i = 0; i < EACH; i++) {
        check_pattern(orphans[thread][i], size_of(thread, i), thread * EACH + i);
        free(orphans[thread][i]);
    }
    return NULL;
}

// If memory were not reused, the rounds below would take this much, forty times.
static size_t bytes_of_a_round(void) {
    size_t bytes = 0;
    for (size_t thread = 0; thread < THREADS; thread++)
        for (size_t i = 0; i < EACH; i++)
            bytes += size_of(thread, i);
    return bytes;
}

TEST(other_threads_free_the_blocks_of_dead_ones) {
    size_t before = resident_bytes();
    for (int round = 0; round < 40; round++) {
        in_threads(THREADS, leave_blocks);
        in_threads(THREADS, free_blocks_of_the_neighbour);
    }
    CHECK(resident_bytes() < before + 20 * bytes_of_a_round(), "(%zu MiB more, %zu MiB a round)",
          (resident_bytes() - before) >> 20, bytes_of_a_round() >> 20);
}

TEST(the_main_thread_frees_the_blocks_of_dead_ones) {
    size_t before = resident_bytes();
    for (int round = 0; round < 40; round++) {
        in_threads(THREADS, leave_blocks);
        for (size_t i = 0; i < THREADS; i++)
            free_blocks_of_the_neighbour((void *)i);
    }
    CHECK(resident_bytes() < before + 20 * bytes_of_a_round(), "(%zu MiB more, %zu MiB a round)",
          (resident_bytes() - before) >> 20, bytes_of_a_round() >> 20);
}

static void *one_large_block(void *unused) {
    (void)unused;
    char *block = malloc(4 << 20);
    memset(block, 1, 4 << 20);
    free(malloc(100));
    free(block);
    return NULL;
}

TEST(ten_thousand_threads_one_after_another_need_the_memory_of_few) {
    for (int i = 0; i < 100; i++)
        in_threads(1, one_large_block);
    size_t settled = resident_bytes();
    for (int i = 0; i < 10000; i++)
        in_threads(1, one_large_block);
    CHECK(resident_bytes() < settled + (32 << 20), "(%zu MiB more)",
          (resident_bytes() - settled) >> 20);
}

// One thread only allocates and another only frees, for long: the blocks must return to their
// owner.
enum { IN_FLIGHT = 64, PASSED = 20000 };
static void *belt[IN_FLIGHT];

static void *produce_or_consume(void *consumer) {
    uint64_t seed = 5;
    for (size_t i = 0; i < PASSED; i++) {
        void **slot = &belt[i % IN_FLIGHT];
        size_t size = 1 + next_random(&seed) % (i % 16 == 0 ? 200000 : 4000);
        while ((__atomic_load_n(slot, __ATOMIC_ACQUIRE) == NULL) == (consumer != NULL))
            sched_yield();
        if (consumer != NULL) {
            CHECK(*(size_t *)*slot == i);
            free(*slot);
            __atomic_store_n(slot, NULL, __ATOMIC_RELEASE);
        } else {
            size_t *block = malloc(sizeof i + size);
            *block = i;
            __atomic_store_n(slot, block, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

TEST(a_producer_gets_back_what_a_consumer_frees) {
    in_threads(2, produce_or_consume);
    size_t settled = resident_bytes();
    for (int round = 0; round < 4; round++)
        in_threads(2, produce_or_consume);
    CHECK(resident_bytes() < settled + (48 << 20), "(%zu MiB more)",
          (resident_bytes() - settled) >> 20);
}
