// Which pages never-used memory gets: the decisions of prefault.c, on a kernel that is made up
// here, so that what pages cost is known.

// Before any header declares them.
#define fc_prefault_own tested_own
#define fc_prefault_shared tested_shared
#define fc_prefault tested_prefault
#define fc_prefault_learn tested_learn
#define fc_heap_count made_up_heap_count
#define fc_os_processor_time made_up_time
#define fc_os_touch made_up_touch
#define fc_os_resident made_up_resident
#define fc_os_advise_huge made_up_advise
#define fc_os_decline_huge made_up_decline
#include "../../src/prefault.c"

#include "check.h"
#include "pattern.h"

enum { CHUNKS = 64, MIB = 1 << 20 };
#define START ((char *)(16 * FC_HUGE_PAGE))

static unsigned heaps;
unsigned fc_heap_count(void) { return heaps; }

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

static bool cannot_touch;
static size_t resident;
size_t fc_os_resident(void *start, size_t bytes) {
    (void)start;
    (void)bytes;
    return resident;
}

bool fc_os_touch(void *start, size_t bytes) {
    if (cannot_touch) return false;
    CHECK(bytes > 0 && (uintptr_t)start % FC_PAGE == 0 && bytes % FC_PAGE == 0);
    for (size_t i = 0; i < bytes / FC_PAGE; i++) {
        CHECK(!pages_at(start)[i], "(a page is touched twice)");
        pages_at(start)[i] = true;
    }
    uint64_t each =
        kernel.huge[chunk_at(start)] ? kernel.huge_nanoseconds : kernel.small_nanoseconds;
    kernel.now += each * bytes / FC_HUGE_PAGE;
    return true;
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
    dense = true;
    untold = cannot_touch = false;
    fc_options.huge = FC_HUGE_TRANSPARENT;
    fc_options.decay = 0;
    heaps = 1;
    atomic_store(&fc_space.footprint, 100 * MIB);
}

// Memory for requests of `bytes` one after the other, until `end`.
static char *use(char *from, char *end, size_t bytes) {
    char *ahead = from;
    for (char *top = from; top + bytes <= end; top += bytes) {
        if (top + bytes > ahead)
            ahead =
                fc_prefault(ahead > top ? ahead : top, top + bytes, START + CHUNKS * FC_HUGE_PAGE);
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

TEST(huge_pages_are_not_used_where_they_cost_more) {
    begin(800000, 4000000);
    char *ahead = use(START, START + 40 * FC_HUGE_PAGE, 68 << 10);
    CHECK(kernel.advised == 1 && huge_chunks() == 1);
    // Every page that was needed is touched, and few more.
    for (char *page = START; page < ahead; page += FC_PAGE)
        CHECK(*pages_at(page));
    CHECK(!*pages_at(ahead) && ahead <= START + 40 * FC_HUGE_PAGE + FC_PREFAULT_BATCH);
}

TEST(huge_pages_are_tried_again_later_and_kept_if_they_are_cheap_by_then) {
    begin(800000, 4000000);
    use(START, START + 4 * FC_HUGE_PAGE, 64 << 10);
    CHECK(kernel.advised == 1);
    kernel.huge_nanoseconds = 180000;
    use(START + 4 * FC_HUGE_PAGE, START + 8 * FC_HUGE_PAGE, 64 << 10);
    CHECK(kernel.advised == 1);  // that it costs less now is not known yet
    atomic_fetch_add(&fc_space.footprint, 4 * PROBE_SHARE * FC_HUGE_PAGE);
    use(START + 8 * FC_HUGE_PAGE, START + 12 * FC_HUGE_PAGE, 64 << 10);
    CHECK(kernel.advised == 5);
}

TEST(probes_cost_at_most_a_twentieth) {
    begin(800000, 4000000);
    unsigned chunks = 0;
    for (; kernel.advised < 10; chunks++) {
        CHECK(chunks < 100 * PROBE_SHARE, "(no probe)");
        unsigned before = kernel.advised;
        memset(kernel.touched, 0, sizeof kernel.touched);
        memset(kernel.huge, 0, sizeof kernel.huge);
        use(START, START + FC_HUGE_PAGE, 64 << 10);
        CHECK(kernel.advised <= before + 1);
    }
    uint64_t all_small = chunks * kernel.small_nanoseconds;
    CHECK(kernel.now - all_small <= all_small / PROBE_SHARE + 2 * kernel.huge_nanoseconds);
}

TEST(one_thread_at_a_time_tries_what_may_be_dear) {
    begin(800000, 4000000);
    use(START, START + FC_HUGE_PAGE, 64 << 10);
    CHECK(begin_huge() && !begin_huge());
}

TEST(of_a_large_request_little_is_touched) {
    begin(800000, 4000000);
    use(START, START + 2 * FC_HUGE_PAGE, 64 << 10);
    char *from = START + 2 * FC_HUGE_PAGE;
    CHECK(fc_prefault(from, from + 8 * FC_HUGE_PAGE, from + 20 * FC_HUGE_PAGE) >=
          from + 8 * FC_HUGE_PAGE);
    CHECK(*pages_at(from) && !*pages_at(from + FC_PREFAULT_BATCH));
    // With huge pages, one of them.
    begin(800000, 180000);
    use(START, START + 2 * FC_HUGE_PAGE, 64 << 10);
    CHECK(fc_prefault(from, from + 8 * FC_HUGE_PAGE, from + 20 * FC_HUGE_PAGE) >=
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
        char *ahead = fc_prefault(from, end, limit);
        CHECK(ahead >= end && ahead <= limit);
        CHECK(from == START || !*pages_at(from - FC_PAGE));
        CHECK(!*pages_at(limit));
    }
}

static void set_footprint(size_t bytes) { atomic_store(&fc_space.footprint, bytes); }

TEST(what_heaps_share_is_touched_ahead_from_4_mib_on) {
    begin(800000, 180000);
    set_footprint(4 * MIB - 1);
    CHECK(!fc_prefault_shared(1));
    set_footprint(4 * MIB);
    CHECK(fc_prefault_shared(1));
    // Two regions at a time are more, and used in part as well.
    CHECK(!fc_prefault_shared(2));
    set_footprint(24 * MIB);
    CHECK(fc_prefault_shared(2) && !fc_prefault_shared(3));
}

TEST(a_heaps_own_region_is_touched_ahead_once_the_heap_or_the_average_one_is_large) {
    begin(800000, 180000);
    heaps = 10;
    set_footprint(100 * MIB);
    CHECK(!fc_prefault_own(64 << 10, 12 * MIB - 1) && fc_prefault_own(64 << 10, 12 * MIB));
    set_footprint(120 * MIB);
    CHECK(fc_prefault_own(64 << 10, 0));
}

TEST(a_large_request_is_touched_ahead_in_any_program) {
    begin(800000, 180000);
    set_footprint(0);
    CHECK(!fc_prefault_own(4 * MIB - 1, 0) && fc_prefault_own(4 * MIB, 0));
}

TEST(nothing_is_touched_ahead_where_free_memory_decays) {
    begin(800000, 180000);
    fc_options.decay = 1000;
    CHECK(!fc_prefault_shared(1) && !fc_prefault_own(64 * MIB, 64 * MIB));
}

TEST(until_the_program_is_seen_to_use_all_little_is_touched_ahead) {
    begin(800000, 180000);
    dense = false;
    CHECK(!fc_prefault_shared(1));
    resident = 7 * MIB / 4;
    fc_prefault_learn(START, 2 * MIB + MIB);
    CHECK(!fc_prefault_shared(1));
    // What pages cost is found out; huge pages are asked for, and left to the program.
    use(START, START + 8 * FC_HUGE_PAGE, 3 * MIB);
    size_t pages = 0;
    for (size_t i = 0; i < sizeof kernel.touched; i++)
        pages += kernel.touched[i];
    CHECK(pages * FC_PAGE <= FC_HUGE_PAGE + FC_PREFAULT_BATCH && kernel.advised > 1);
    fc_prefault_learn(START, 2 * MIB);
    CHECK(fc_prefault_shared(1));
}

TEST(where_the_kernel_cannot_touch_huge_pages_are_asked_for_unseen) {
    begin(800000, 180000);
    cannot_touch = true;
    use(START, START + 8 * FC_HUGE_PAGE, 68 << 10);
    CHECK(huge_chunks() >= 6);
}
