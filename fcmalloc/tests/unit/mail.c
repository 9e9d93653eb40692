// Mail between heaps: blocks on their way home are neither lost nor in two places.

#include "channel.h"
#include "check.h"
#include "fcmalloc.h"
#include "heap.h"

enum { COUNT = 10 * FC_PARCEL_BLOCKS, SIZE = 1000 };
static void *blocks[COUNT];

static void *allocate_all(void *unused) {
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = fc_malloc(SIZE);
    return unused;
}

static void *free_all(void *unused) {
    for (size_t i = 0; i < COUNT; i++)
        fc_free(blocks[i]);
    return unused;
}

static size_t in_transit(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    return stats.in_transit;
}

static void bring_all_home(void) {
    fc_trim();
    CHECK(in_transit() == 0, "(%zu bytes are still under way)", in_transit());
}

// Another thread has cleared the mail and not come to the channels when the process forks.
TEST(what_a_thread_lost_in_a_fork_was_about_to_fetch_is_found) {
    in_threads(1, allocate_all);
    free_all(NULL);
    CHECK(in_transit() >= COUNT * SIZE);
    uint64_t cleared[FC_HEAPS_MAX] = {0};
    for (unsigned id = 0; id < fc_heap_count(); id++)
        cleared[id] = atomic_exchange(&fc_heap_at(id)->inbox.block_mail[0], 0);
    check_succeeds(bring_all_home);
    for (unsigned id = 0; id < fc_heap_count(); id++)
        atomic_fetch_or(&fc_heap_at(id)->inbox.block_mail[0], cleared[id]);
    bring_all_home();
}
