// Random operations by many threads on one table of blocks, compared with what must be: no two
// live blocks overlap, contents stay, alignments hold, calloc gives zeros. Any thread frees any
// block, and threads begin and end all the time.
//
// The environment sets FC_STRESS_OPERATIONS, for each thread, and FC_STRESS_SEED. A seed
// determines what each thread asks for, not how threads interleave.

#include "fcmalloc.h"
#include "shadow.h"

enum { SLOTS = 4096 };
#define MOST_LIVE_BYTES ((size_t)256 << 20)

struct slot {
    atomic_bool busy;
    char *block;
    size_t size;
    size_t alignment;
    uint64_t tag;
};
static struct slot slots[SLOTS];
static atomic_size_t live_bytes;
static uint64_t seed_of_run;
static size_t operations, threads_started;

static size_t random_size(uint64_t *seed) {
    uint64_t dice = next_random(seed) % 512;
    unsigned bits = dice == 0 ? 24 : dice < 16 ? 21 : dice < 64 ? 17 : dice < 128 ? 14 : 10;
    size_t size = next_random(seed) & (((size_t)1 << next_random(seed) % (bits + 1)) - 1);
    return atomic_load(&live_bytes) + size > MOST_LIVE_BYTES ? size % 1024 : size;
}

static size_t random_alignment(uint64_t *seed) {
    return (size_t)1 << (3 + next_random(seed) % (next_random(seed) % 32 == 0 ? 19 : 10));
}

static void adopt(struct slot *slot, char *block, size_t size, size_t alignment) {
    CHECK(block != NULL, "(%zu bytes)", size);
    CHECK((uintptr_t)block % alignment == 0, "(%p, alignment %zu)", (void *)block, alignment);
    CHECK(fc_malloc_usable_size(block) >= size);
    shadow_mark(block, size, true);
    slot->block = block;
    slot->size = size;
    slot->alignment = alignment;
    atomic_fetch_add(&live_bytes, size);
}

static void allocate(struct slot *slot, uint64_t *seed) {
    size_t size = random_size(seed), alignment = random_alignment(seed);
    slot->tag = next_random(seed);
    void *block = NULL;
    switch (next_random(seed) % 8) {
        case 0:
            block = fc_calloc(size / 8 + 1, 8);
            adopt(slot, block, size / 8 * 8 + 8, 16);
            check_zero(block, slot->size);
            break;
        case 1:
            adopt(slot, fc_realloc(NULL, size), size, 16);
            break;
        case 2:
            adopt(slot, fc_memalign(alignment, size), size, alignment);
            break;
        case 3:
            adopt(slot, fc_aligned_alloc(alignment, size), size, alignment);
            break;
        case 4:
            CHECK(fc_posix_memalign(&block, alignment, size) == 0);
            adopt(slot, block, size, alignment);
            break;
        default:
            adopt(slot, fc_malloc(size), size, 16);
    }
    fill_pattern(slot->block, 0, slot->size, slot->tag);
}

static void abandon(struct slot *slot) {
    check_pattern(slot->block, slot->size, slot->tag);
    shadow_mark(slot->block, slot->size, false);
    atomic_fetch_sub(&live_bytes, slot->size);
}

static void release(struct slot *slot, uint64_t *seed) {
    abandon(slot);
    switch (next_random(seed) % 4) {
        case 0:
            if (slot->alignment == 16) {
                fc_free_sized(slot->block, slot->size);
                break;
            }
            fc_free_aligned_sized(slot->block, slot->alignment, slot->size);
            break;
        default:
            fc_free(slot->block);
    }
    slot->block = NULL;
}

static void resize(struct slot *slot, uint64_t *seed) {
    size_t size = random_size(seed) + 1, kept = size < slot->size ? size : slot->size;
    abandon(slot);
    adopt(slot, fc_realloc(slot->block, size), size, 16);
    check_pattern(slot->block, kept, slot->tag);
    fill_pattern(slot->block, kept, size, slot->tag);
}

static void operate(uint64_t *seed) {
    struct slot *slot = &slots[next_random(seed) % SLOTS];
    if (atomic_exchange_explicit(&slot->busy, true, memory_order_acquire)) return;
    if (slot->block == NULL)
        allocate(slot, seed);
    else if (next_random(seed) % 3 == 0)
        resize(slot, seed);
    else
        release(slot, seed);
    atomic_store_explicit(&slot->busy, false, memory_order_release);
}

static void *operate_briefly(void *seed) {
    for (int i = 0; i < 50; i++)
        operate(seed);
    return NULL;
}

static void *operate_long(void *index) {
    uint64_t seed = seed_of_run + (uint64_t)index * 0x1000000 + threads_started;
    for (size_t i = 0; i < operations; i++) {
        operate(&seed);
        if (i % 997 == 996) {
            pthread_t brief;
            CHECK(pthread_create(&brief, NULL, operate_briefly, &seed) == 0);
            CHECK(pthread_join(brief, NULL) == 0);
        }
        if (next_random(&seed) % 20000 == 0) fc_trim();
    }
    return NULL;
}

static void operate_with(size_t threads, size_t generations) {
    for (size_t i = 0; i < generations; i++) {
        in_threads(threads, operate_long);
        threads_started += threads;
    }
}

static size_t number_from(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

__attribute__((constructor)) static void read_environment(void) {
    operations = number_from("FC_STRESS_OPERATIONS", 20000);
    seed_of_run = number_from("FC_STRESS_SEED", (size_t)getpid() * 0x9e3779b97f4a7c15);
    printf("FC_STRESS_SEED=%#zx\n", (size_t)seed_of_run);
    fflush(stdout);
}

TEST(two_threads_agree_with_the_shadow_map) { operate_with(2, 3); }
TEST(more_threads_than_processors_agree_with_the_shadow_map) { operate_with(8, 2); }
TEST(seventy_two_threads_agree_with_the_shadow_map) { operate_with(72, 1); }
TEST(threads_come_and_go) {
    size_t of_a_thread = operations;
    operations = 100;
    operate_with(16, of_a_thread / 400);
    operations = of_a_thread;
}

TEST(everything_is_free_in_the_end) {
    uint64_t seed = seed_of_run;
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].block != NULL) release(&slots[i], &seed);
    CHECK(live_bytes == 0);
}
