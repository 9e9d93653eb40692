// On a machine of four nodes whose node n has core n: blocks lie on the node of their thread's
// core, or where the thread's memory policy asks, also when they were used before. check.sh has the
// tests run with several allocators, policies and options.

#include "../pattern.h"

#include <linux/mempolicy.h>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { NODES = 4, ALL_NODES = (1 << NODES) - 1 };

// ---- Cores and policies ----

static void pin_to(size_t core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

// Moves the thread and takes a large block, which is when the allocator notices.
static void run_on(size_t core) {
    pin_to(core);
    free(opaque(malloc(1 << 20)));
}

// A function of libnuma, which ends in its symbol set_mempolicy.
static void *libnuma(const char *name) {
    static void *library;
    if (library == NULL) library = dlopen("libnuma.so.1", RTLD_NOW);
    CHECK(library != NULL, "%s", dlerror());
    void *function = dlsym(library, name);
    CHECK(function != NULL);
    return function;
}

static void with_nodes(const char *function, unsigned nodes) {
    unsigned long mask = nodes;
    struct {
        unsigned long size;
        unsigned long *mask;
    } bits = {8 * sizeof mask, &mask};
    ((void (*)(void *))libnuma(function))(&bits);
}

static void bind_to(int node) { with_nodes("numa_set_membind", 1U << node); }
static void interleave(unsigned nodes) { with_nodes("numa_set_interleave_mask", nodes); }
static void prefer(int node) { ((void (*)(int))libnuma("numa_set_preferred"))(node); }
static void allocate_locally(void) { ((void (*)(void))libnuma("numa_set_localalloc"))(); }

// Past libnuma, and reported to the allocator if it has the function.
static void bind_silently(int node) {
    unsigned long mask = 1UL << node;
    CHECK(syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 8 * sizeof mask) == 0);
    void (*changed)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "fc_policy_changed");
    if (changed != NULL) changed();
}

// ---- Blocks ----

static const size_t sizes[] = {48, 1000, 6000, 24000, 40000, 300000, 2 << 20};
enum { KINDS = sizeof sizes / sizeof *sizes, MOST_PAGES = 1 << 16 };
#define BYTES_OF_A_KIND ((size_t)4 << 20)

// As many blocks of each size as make up BYTES_OF_A_KIND, linked through their first words.
struct blocks {
    void *first[KINDS];
};

static size_t blocks_of(size_t kind) { return BYTES_OF_A_KIND / sizes[kind]; }

static void allocate(struct blocks *blocks) {
    for (size_t kind = 0; kind < KINDS; kind++) {
        void *first = NULL;
        for (size_t i = 0; i < blocks_of(kind); i++) {
            void **block = opaque(malloc(sizes[kind]));
            CHECK(block != NULL);
            memset(block, 1, sizes[kind]);
            *block = first;
            first = block;
        }
        blocks->first[kind] = first;
    }
}

static void release(struct blocks *blocks) {
    for (size_t kind = 0; kind < KINDS; kind++)
        for (void **block = blocks->first[kind]; block != NULL;) {
            void **next = *block;
            free(block);
            block = next;
        }
}

// ---- Where they lie ----

// Pages of blocks of one size that lie on each node.
struct places {
    size_t on[NODES];
    size_t all;
};

static void look_at(struct places *places, void **pages, size_t count) {
    static _Thread_local int nodes[MOST_PAGES];
    CHECK(syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) == 0);
    for (size_t i = 0; i < count; i++) {
        CHECK(nodes[i] >= 0 && nodes[i] < NODES, "(%d)", nodes[i]);
        places->on[nodes[i]]++;
        places->all++;
    }
}

static struct places places_of(const struct blocks *blocks, size_t kind) {
    static _Thread_local void *pages[MOST_PAGES];
    const uintptr_t page = 4096;
    struct places places = {0};
    size_t count = 0;
    for (void **block = blocks->first[kind]; block != NULL; block = *block)
        for (uintptr_t at = (uintptr_t)block & ~(page - 1); at < (uintptr_t)block + sizes[kind];
             at += page)
            if (count == 0 || pages[count - 1] != (void *)at) pages[count++] = (void *)at;
    CHECK(count <= MOST_PAGES);
    look_at(&places, pages, count);
    return places;
}

static void check_places(const char *file, int line, const struct blocks *blocks, unsigned nodes) {
    size_t share = 100 / (size_t)__builtin_popcount(nodes);
    for (size_t kind = 0; kind < KINDS; kind++) {
        struct places places = places_of(blocks, kind);
        for (size_t node = 0; node < NODES; node++) {
            size_t wanted = nodes >> node & 1 ? share : 0;
            size_t found = 100 * places.on[node] / places.all;
            // An interleaving starts anew in every run of pages.
            size_t least = wanted == 100 ? 99 : wanted - wanted / 5;
            if (found < least)
                check_failed(file, line, "blocks lie on their nodes",
                             "(of size %zu, %zu %% lie on node %zu instead of %zu %%)", sizes[kind],
                             found, node, wanted);
        }
    }
}

// Ends the program unless 99 in 100 pages of each size lie on the nodes of the set, in equal
// shares.
#define CHECK_PLACES(blocks, nodes) check_places(__FILE__, __LINE__, blocks, nodes)
#define CHECK_ON(blocks, node) CHECK_PLACES(blocks, 1U << (node))

static void check_new_blocks(const char *file, int line, unsigned nodes) {
    struct blocks blocks;
    allocate(&blocks);
    check_places(file, line, &blocks, nodes);
    release(&blocks);
}

#define CHECK_NEW_BLOCKS(nodes) check_new_blocks(__FILE__, __LINE__, nodes)
#define CHECK_NEW_BLOCKS_ON(node) CHECK_NEW_BLOCKS(1U << (node))

// ---- Tests of a program without a policy ----

static struct blocks left[NODES];

static void *allocate_on(void *node) {
    run_on((size_t)node);
    allocate(&left[(size_t)node]);
    CHECK_ON(&left[(size_t)node], (size_t)node);
    return NULL;
}

TEST(fresh_blocks_lie_on_the_node_of_their_thread) {
    in_threads(NODES, allocate_on);
    for (size_t node = 0; node < NODES; node++)
        release(&left[node]);
}

TEST(blocks_used_again_lie_on_the_node_that_the_thread_moved_to) {
    for (size_t node = 0; node < 2 * NODES; node++) {
        run_on(node % NODES);
        CHECK_NEW_BLOCKS_ON(node % NODES);
    }
}

TEST(a_thread_that_moved_uses_at_most_one_span_of_the_node_before) {
    enum { SPAN = 64 << 10, SIZE = 208, BLOCKS = 2 * SPAN / SIZE };
    static void *blocks[BLOCKS];
    run_on(0);
    for (size_t i = 0; i < 1000; i++)
        free(opaque(malloc(SIZE)));
    pin_to(1);
    struct places places = {0};
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = memset(opaque(malloc(SIZE)), 1, SIZE);
    look_at(&places, blocks, BLOCKS);
    CHECK(places.on[1] >= BLOCKS - SPAN / SIZE - 1, "(%zu of %d)", places.on[1], (int)BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void *free_blocks_of_another_node(void *node) {
    size_t here = (size_t)node;
    run_on(here);
    // These sizes are in use here: blocks that others own may be exchanged for them.
    struct blocks own;
    allocate(&own);
    release(&left[(here + 1) % NODES]);
    CHECK_NEW_BLOCKS_ON(here);
    release(&own);
    CHECK_NEW_BLOCKS_ON(here);
    return NULL;
}

TEST(blocks_freed_on_another_node_are_not_used_again_there) {
    for (size_t round = 0; round < 2; round++) {
        in_threads(NODES, allocate_on);
        in_threads(NODES, free_blocks_of_another_node);
    }
}

static void *allocate_and_free_on(void *node) {
    run_on((size_t)node);
    for (int i = 0; i < 6; i++)
        CHECK_NEW_BLOCKS_ON((size_t)node);
    return NULL;
}

TEST(what_ended_threads_leave_is_used_again_on_their_nodes) {
    for (size_t round = 0; round < 2; round++) {
        in_threads(NODES, allocate_on);
        for (size_t node = 0; node < NODES; node++)
            release(&left[node]);
        in_threads(NODES, allocate_and_free_on);
    }
}

// ---- Tests that set policies ----

TEST(blocks_used_again_lie_where_libnuma_asks) {
    run_on(0);
    CHECK_NEW_BLOCKS_ON(0);
    for (int node = NODES - 1; node >= 0; node--) {
        bind_to(node);
        CHECK_NEW_BLOCKS_ON(node);
        prefer((node + 2) % NODES);
        CHECK_NEW_BLOCKS_ON((node + 2) % NODES);
    }
    allocate_locally();
    CHECK_NEW_BLOCKS_ON(0);
}

TEST(blocks_used_again_lie_where_an_announced_system_call_asks) {
    run_on(0);
    for (int i = 0; i < 2 * NODES; i++) {
        bind_silently(i % NODES);
        CHECK_NEW_BLOCKS_ON(i % NODES);
    }
    allocate_locally();
}

static void *allocate_bound(void *node) {
    // Not where they run.
    run_on(((size_t)node + 1) % NODES);
    bind_to((int)(size_t)node);
    allocate(&left[(size_t)node]);
    CHECK_ON(&left[(size_t)node], (size_t)node);
    return NULL;
}

static void *free_others_and_allocate_bound(void *node) {
    size_t own = (size_t)node;
    run_on(own);
    bind_to((int)own);
    struct blocks blocks;
    allocate(&blocks);
    release(&left[(own + 1) % NODES]);
    CHECK_NEW_BLOCKS_ON(own);
    release(&blocks);
    return NULL;
}

TEST(threads_of_different_policies_do_not_get_each_others_memory) {
    for (int round = 0; round < 2; round++) {
        in_threads(NODES, allocate_bound);
        in_threads(NODES, free_others_and_allocate_bound);
    }
}

TEST(of_several_nodes_bound_to_the_nearest_is_used) {
    with_nodes("numa_set_membind", 0x5);
    for (size_t node = 0; node < NODES; node += 2) {
        run_on(node);
        CHECK_NEW_BLOCKS_ON(node);
    }
    allocate_locally();
}

TEST(a_block_that_grows_after_a_change_of_policy_moves) {
    run_on(0);
    allocate_locally();
    for (int node = 1; node < NODES; node++) {
        char *block = memset(opaque(malloc(1 << 20)), 1, 1 << 20);
        // Free memory to grow into, beside it.
        free(opaque(malloc(2 << 20)));
        bind_to(node);
        block = realloc(block, 2 << 20);
        memset(block, 1, 2 << 20);
        static void *pages[512];
        for (size_t i = 0; i < 512; i++)
            pages[i] = block + (i << 12);
        struct places places = {0};
        look_at(&places, pages, 512);
        CHECK(places.on[node] == 512, "(%zu of 512)", places.on[node]);
        free(block);
        allocate_locally();
    }
}

// ---- Tests of everything together ----

enum { WANDERERS = 8, SLOTS = 1024, STEPS = 2000 };
static void *slots[SLOTS];

static void change_policy(uint64_t *seed) {
    int node = (int)(next_random(seed) % NODES);
    switch (next_random(seed) % 4) {
        case 0:
            bind_to(node);
            break;
        case 1:
            prefer(node);
            break;
        default:
            allocate_locally();
    }
}

// Exchanges blocks with the other threads, now on one node and then on another.
static void *wander(void *thread) {
    uint64_t seed = (uint64_t)thread + 1;
    for (int i = 0; i < STEPS; i++) {
        if (i % 20 == 0) pin_to(next_random(&seed) % NODES);
        if (i % 100 == 0) change_policy(&seed);
        size_t size = 16 + next_random(&seed) % (next_random(&seed) % 16 == 0 ? 100000 : 2000);
        uint64_t *block = malloc(size);
        CHECK(block != NULL);
        fill_pattern(block, 0, size, size);
        block[0] = size;
        block = __atomic_exchange_n(&slots[next_random(&seed) % SLOTS], block, __ATOMIC_ACQ_REL);
        if (block == NULL) continue;
        size = block[0];
        fill_pattern(block, 0, 8, size);
        check_pattern(block, size, size);
        free(block);
    }
    return NULL;
}

TEST(threads_that_move_and_change_policies_keep_their_blocks_and_use_memory_again) {
    enum { ROUNDS = 6 };
    size_t settled = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2) settled = resident_bytes();
        in_threads(WANDERERS, wander);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
    CHECK(resident_bytes() < settled + settled / 2, "(%zu MiB, from %zu)", resident_bytes() >> 20,
          settled >> 20);
    malloc_trim(0);
    CHECK(resident_bytes() < settled / 2, "(%zu MiB, from %zu)", resident_bytes() >> 20,
          settled >> 20);
}

// ---- Tests that need special circumstances: only when named ----

// Where pages are small: huge ones are interleaved as such, and these blocks lie on few.
STEP(blocks_used_again_are_interleaved_as_libnuma_asks) {
    run_on(0);
    CHECK_NEW_BLOCKS_ON(0);
    interleave(ALL_NODES);
    CHECK_NEW_BLOCKS(ALL_NODES);
    interleave(0x6);
    CHECK_NEW_BLOCKS(0x6);
    allocate_locally();
    CHECK_NEW_BLOCKS_ON(0);
}

static pthread_barrier_t all_have_heaps;

static void *allocate_on_without_faults(void *node) {
    struct rusage before, after;
    run_on((size_t)node);
    pthread_barrier_wait(&all_have_heaps);
    getrusage(RUSAGE_THREAD, &before);
    allocate(&left[(size_t)node]);
    getrusage(RUSAGE_THREAD, &after);
    size_t faults = (size_t)(after.ru_minflt - before.ru_minflt);
    CHECK(faults < KINDS * BYTES_OF_A_KIND / 4096 / 10, "(%zu)", faults);
    CHECK_ON(&left[(size_t)node], (size_t)node);
    return NULL;
}

static void use_memory_touched_ahead(void) {
    CHECK(pthread_barrier_init(&all_have_heaps, NULL, NODES) == 0);
    in_threads(NODES, allocate_on_without_faults);
}

// With an FCMALLOC_RESERVE that is enough for all threads together, or an FCMALLOC_PLAN.
STEP(memory_touched_ahead_of_use_lies_where_it_is_used) { use_memory_touched_ahead(); }

// As if a scheduler moved a main thread that prepares its work. The sizes are new ones, so that the
// allocator notices.
static void move_over_all_nodes(void) {
    for (size_t node = 0; node < NODES; node++) {
        pin_to(node);
        free(opaque(malloc(2000 + 500 * node)));
    }
}

STEP(threads_begin_after_the_main_thread_moved) {
    move_over_all_nodes();
    in_threads(NODES, allocate_on);
}

STEP(memory_touched_ahead_is_left_to_threads_by_a_main_thread_that_moved) {
    move_over_all_nodes();
    use_memory_touched_ahead();
}

STEP(memory_touched_ahead_is_left_to_threads_by_a_main_thread_that_moved_with_large_blocks) {
    for (size_t node = 0; node < NODES; node++)
        run_on(node);
    use_memory_touched_ahead();
}

// All of the memory that a limit allows, on one node and then on the next.
STEP(memory_of_another_node_is_exchanged_when_no_other_is_left) {
    enum { MIB = 48, PAGES = MIB << 8 };
    for (size_t node = 0; node < 2 * NODES; node++) {
        run_on(node % NODES);
        char *block = opaque(malloc((size_t)MIB << 20));
        CHECK(block != NULL);
        static void *pages[PAGES];
        for (size_t i = 0; i < PAGES; i++)
            *(char *)(pages[i] = block + (i << 12)) = 1;
        struct places places = {0};
        look_at(&places, pages, PAGES);
        CHECK(places.on[node % NODES] == PAGES, "(%zu of %d on node %zu)", places.on[node % NODES],
              (int)PAGES, node % NODES);
        free(block);
    }
}

static void *allocate_in_thread(void *round) {
    allocate(&left[(size_t)round]);
    return NULL;
}

// NODES_ASKED, a number whose bits are nodes, says what numactl was told; 0 for the node of the
// core.
STEP(blocks_lie_where_numactl_asks) {
    unsigned asked = (unsigned)strtoul(getenv("NODES_ASKED"), NULL, 0);
    for (size_t node = 0; node < 2 * NODES; node++) {
        run_on(node % NODES);
        CHECK_NEW_BLOCKS(asked != 0 ? asked : 1U << node % NODES);
    }
    // Threads inherit the policy.
    for (size_t round = 0; asked != 0 && round < 2; round++) {
        in_threads(NODES, allocate_in_thread);
        for (size_t i = 0; i < NODES; i++) {
            CHECK_PLACES(&left[i], asked);
            release(&left[i]);
        }
    }
}
