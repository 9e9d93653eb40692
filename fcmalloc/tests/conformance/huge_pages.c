// Huge pages are for what is large: a small heap declines them even where they are on for
// everybody.

#include "check.h"

enum { SMALL = 100, LARGE = 8 << 20 };

static bool machine_has_huge_pages(void) {
    return access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0;
}

TEST(a_small_heap_declines_them) {
    char *block = opaque(malloc(SMALL));
    CHECK(!machine_has_huge_pages() || has_flag(block, " nh"));
    free(block);
}

STEP(is_large_without_them) {
    char *first = opaque(malloc(LARGE)), *second = opaque(malloc(LARGE));
    CHECK(has_flag(first, " nh") && has_flag(second + LARGE - 1, " nh"));
}

static void decline_all(void) {
    setenv("FCMALLOC_HUGE", "never", 1);
    become("is_large_without_them");
}

// Whether a large heap has them otherwise depends on what they cost: see unit/prefault.c.
TEST(a_large_heap_has_none_if_told_so) {
    if (machine_has_huge_pages()) check_succeeds(decline_all);
}
