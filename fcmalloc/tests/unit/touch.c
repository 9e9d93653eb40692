// Which pages never-used memory gets: the decisions of touch.c, on a kernel that is made up here,
// so that what pages cost is known.

#include "check.h"
#include "heap.h"
#include "options.h"
#include "pattern.h"

#define fc_touch_is_shared_ahead tested_is_shared_ahead
#define fc_touch_is_own_ahead tested_is_own_ahead
#define fc_touch_ahead tested_ahead
#define fc_os_processor_time made_up_time
#define fc_os_touch made_up_touch
#define fc_os_advise_huge made_up_advise
#define fc_os_decline_huge made_up_decline
#include "../../src/touch.c"

enum { CHUNKS = 64, MIB = 1 << 20 };
#define START ((char *)(16 * FC_HUGE_PAGE))

// What has become of each page from START on.
static struct {
    bool touched[CHUNKS * FC_HUGE_PAGE / FC_PAGE];
    bool huge[CHUNKS];
    unsigned advised;  // times
    uint64_t now, small_nanoseconds, huge_nanoseconds;
} kernel;

static bool *pages_at(const char *start) {
    return &kernel.touched[(start - START) / (long)FC_PAGE];
}

static size_t chunk_at(const char *start) { return (size_t)(start - START) / FC_HUGE_PAGE; }

uint64_t fc_os_processor_time(void) { return kernel.now; }

void fc_os_touch(void *start, size_t bytes) {
    CHECK(bytes > 0 && (uintptr_t)start % FC_PAGE == 0 && bytes % FC_PAGE == 0);
    for (size_t i = 0; i < bytes / FC_PAGE; i++) {
        CHECK(!pages_at(start)[i], "(a page is touched twice)");
        pages_at(start)[i] = true;
    }
    uint64_t each =
        kernel.huge[chunk_at(start)] ? kernel.huge_nanoseconds : kernel.small_nanoseconds;
    kernel.now += each * bytes / FC_HUGE_PAGE;
}

static void set_huge(const char *start, size_t bytes, bool huge) {
    CHECK((uintptr_t)start % FC_HUGE_PAGE == 0 && bytes % FC_HUGE_PAGE == 0);
    for (size_t i = 0; i < bytes / FC_HUGE_PAGE; i++)
        kernel.huge[chunk_at(start) + i] = huge;
}

void fc_os_advise_huge(void *start, size_t bytes) {
    kernel.advised++;
    set_huge(start, bytes, true);
}

void fc_os_decline_huge(void *start, size_t bytes) { set_huge(start, bytes, false); }

// A machine on which as many bytes in small and in huge pages cost so many nanoseconds.
static void begin(uint64_t small, uint64_t huge) {
    memset(&kernel, 0, sizeof kernel);
    kernel.small_nanoseconds = small;
    kernel.huge_nanoseconds = huge;
    small_cost = huge_cost = 0;
    huge_from = 0;
    fc_options.huge = FC_HUGE_TRANSPARENT;
    atomic_store(&fc_space.footprint, 100 * MIB);
}

// Memory for requests of `bytes` one after the other, until `end`.
static char *use(char *from, char *end, size_t bytes) {
    char *ahead = from;
    for (char *top = from; top + bytes <= end; top += bytes) {
        if (top + bytes > ahead)
            ahead = fc_touch_ahead(ahead > top ? ahead : top, top + bytes,
                                   START + CHUNKS * FC_HUGE_PAGE);
        CHECK(ahead >= top + bytes);
        atomic_fetch_add(&fc_space.footprint, bytes);
    }
    return ahead;
}

static size_t huge_chunks(void) {
    size_t count = 0;
    for (size_t i = 0; i < CHUNKS; i++)
        count += kernel.huge[i];
    return count;
}

TEST(huge_pages_are_used_where_they_cost_less) {
    begin(800000, 180000);
    use(START, START + 40 * FC_HUGE_PAGE, 68 << 10);
    // All but the first, where what small pages cost was measured.
    CHECK(!kernel.huge[0] && huge_chunks() == 39, "(%zu)", huge_chunks());
}

TEST(they_are_not_where_they_cost_more) {
    begin(800000, 4000000);
    char *ahead = use(START, START + 40 * FC_HUGE_PAGE, 68 << 10);
    CHECK(kernel.advised == 1 && huge_chunks() == 1);
    // Every page that was needed is touched, and few more.
    for (char *page = START; page < ahead; page += FC_PAGE)
        CHECK(*pages_at(page));
    CHECK(!*pages_at(ahead) && ahead <= START + 40 * FC_HUGE_PAGE + BATCH);
}

TEST(they_are_tried_again_later_and_kept_if_they_are_cheap_by_then) {
    begin(800000, 4000000);
    use(START, START + 4 * FC_HUGE_PAGE, 64 << 10);
    CHECK(kernel.advised == 1);
    kernel.huge_nanoseconds = 180000;
    use(START + 4 * FC_HUGE_PAGE, START + 8 * FC_HUGE_PAGE, 64 << 10);
    CHECK(kernel.advised == 1);  // that it costs less now is not known yet
    atomic_fetch_add(&fc_space.footprint, 4 * LOOKING * FC_HUGE_PAGE);
    use(START + 8 * FC_HUGE_PAGE, START + 12 * FC_HUGE_PAGE, 64 << 10);
    CHECK(kernel.advised == 5);
}

TEST(looking_costs_a_small_share) {
    begin(800000, 4000000);
    unsigned chunks = 0;
    for (; kernel.advised < 10; chunks++) {
        unsigned before = kernel.advised;
        memset(kernel.touched, 0, sizeof kernel.touched);
        memset(kernel.huge, 0, sizeof kernel.huge);
        use(START, START + FC_HUGE_PAGE, 64 << 10);
        CHECK(kernel.advised <= before + 1);
    }
    uint64_t all_small = chunks * kernel.small_nanoseconds;
    CHECK(kernel.now - all_small <= all_small / LOOKING + 2 * kernel.huge_nanoseconds);
}

TEST(one_thread_at_a_time_tries_what_may_be_dear) {
    begin(800000, 4000000);
    use(START, START + FC_HUGE_PAGE, 64 << 10);
    CHECK(claim_huge() && !claim_huge());
}

TEST(of_a_large_request_little_is_touched) {
    begin(800000, 4000000);
    use(START, START + 2 * FC_HUGE_PAGE, 64 << 10);
    char *from = START + 2 * FC_HUGE_PAGE;
    CHECK(fc_touch_ahead(from, from + 8 * FC_HUGE_PAGE, from + 20 * FC_HUGE_PAGE) >=
          from + 8 * FC_HUGE_PAGE);
    CHECK(*pages_at(from) && !*pages_at(from + BATCH));
    // With huge pages, one of them.
    begin(800000, 180000);
    use(START, START + 2 * FC_HUGE_PAGE, 64 << 10);
    CHECK(fc_touch_ahead(from, from + 8 * FC_HUGE_PAGE, from + 20 * FC_HUGE_PAGE) >=
          from + 8 * FC_HUGE_PAGE);
    CHECK(*pages_at(from) && !*pages_at(from + FC_HUGE_PAGE) && huge_chunks() == 9);
}

TEST(huge_pages_are_never_used_where_they_are_declined) {
    begin(800000, 180000);
    fc_options.huge = FC_HUGE_NEVER;
    use(START, START + 40 * FC_HUGE_PAGE, 64 << 10);
    CHECK(kernel.advised == 0);
}

TEST(nothing_is_touched_beyond_the_limit) {
    uint64_t seed = 5;
    for (int round = 0; round < 20000; round++) {
        begin(800000, next_random(&seed) % 1600000);
        small_cost = next_random(&seed) % 2 * 800000;
        char *from = START + next_random(&seed) % 1000 * FC_PAGE;
        char *end = from + (1 + next_random(&seed) % 3000) * FC_PAGE;
        char *limit = end + next_random(&seed) % 1000 * FC_PAGE;
        char *ahead = fc_touch_ahead(from, end, limit);
        CHECK(ahead >= end && ahead <= limit);
        CHECK(from == START || !*pages_at(from - FC_PAGE));
        CHECK(!*pages_at(limit));
    }
}
