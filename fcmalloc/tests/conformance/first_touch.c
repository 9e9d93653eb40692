// Threads that a large program starts find memory that was touched before they ask for it.

#include "check.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { BLOCK = 64 << 10, OF_PROGRAM = 4096, OF_THREAD = 64 };

static long page_faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_minflt;
}

// Allocates and writes that many blocks. Returns the page faults of it.
static long fill(char **blocks, size_t count) {
    long before = page_faults();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = opaque(malloc(BLOCK));
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK);
    }
    return page_faults() - before;
}

static void *use_memory(void *faults) {
    static _Thread_local char *blocks[OF_THREAD];
    *(long *)faults = fill(blocks, OF_THREAD);
    for (size_t i = 0; i < OF_THREAD; i++)
        free(blocks[i]);
    return NULL;
}

// Whether the kernel touches pages when asked: since Linux 5.14, and not where QEMU stands in for
// it.
static bool kernel_touches(void) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    const int populate_write = 23;
    unsigned char resident = 0;
    bool done = madvise(page, 4096, populate_write) == 0 && mincore(page, 4096, &resident) == 0;
    munmap(page, 4096);
    return done && (resident & 1) != 0;
}

// Whether all memory is of one node, so that heaps share some.
static bool one_node(void) {
    char nodes[64] = "0\n";
    FILE *file = fopen("/sys/devices/system/node/has_memory", "r");
    if (file != NULL) {
        CHECK(fgets(nodes, sizeof nodes, file) != NULL);
        fclose(file);
    }
    return strpbrk(nodes, ",-") == NULL;
}

STEP(a_thread_finds_touched_memory) {
    static char *blocks[OF_PROGRAM];
    long faults = 0;
    fill(blocks, OF_PROGRAM);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_memory, &faults) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(faults < OF_THREAD * BLOCK / 4096 / 4, "(%ld faults)", faults);
    for (size_t i = 0; i < OF_PROGRAM; i++)
        free(blocks[i]);
}

// Without huge pages each page that is touched costs a fault, whoever touches it.
static void with_small_pages(void) {
    unsetenv("FCMALLOC_DECAY");
    unsetenv("FCMALLOC_LIMIT");
    unsetenv("FCMALLOC_PLAN");
    unsetenv("FCMALLOC_RESERVE");
    setenv("FCMALLOC_HUGE", "never", 1);
    become("a_thread_finds_touched_memory");
}

TEST(a_thread_that_a_large_program_starts_finds_touched_memory) {
    if (kernel_touches() && one_node()) check_succeeds(with_small_pages);
}
