// Slices of what small heaps share: nothing is handed out twice or lost, and what is left over has
// one owner. The pages are made up, and never touched.

// Before any header declares them.
#define fc_shared_is_for tested_is_for
#define fc_shared_is_small tested_is_small
#define fc_shared_take tested_take
#define fc_shared_touch_ahead tested_touch_ahead
#define fc_shared_release tested_release
#define fc_shared_hold tested_hold
#define fc_shared_drop tested_drop
#define fc_shared_reset tested_reset
#define fc_space_advance made_up_advance
#define fc_prefault made_up_prefault
#define fc_prefault_shared made_up_prefault_shared
#define fc_prefault_learn made_up_learn
#define fc_os_purge made_up_purge
#include "../../src/shared.c"

#include "check.h"
#include "pattern.h"

enum { PAGE = FC_PAGE, SLICE = 17 * FC_PAGE, GRANULE = 2 << 20, PAGES = 1 << 15 };
// The most that is touched ahead; and after eight times so much of a heap's own, one granule is.
enum { AHEAD = 8 * GRANULE, EIGHTH = AHEAD_SHARE * (GRANULE / 8) };
#define START ((char *)(1UL << 40))

// What the space has given so far, and who has each page.
static char *frontier = START;
static unsigned char owner[PAGES], touched[PAGES];
static unsigned regions_allowed;
// What another thread does while memory is touched.
static void (*meanwhile)(void);

static size_t page_at(const char *p) { return (size_t)(p - START) / PAGE; }

char *fc_space_advance(size_t bytes) {
    char *start = frontier;
    CHECK(bytes % GRANULE == 0);
    frontier += bytes;
    return page_at(frontier) <= PAGES ? start : NULL;
}

bool fc_prefault_shared(unsigned regions) { return regions <= regions_allowed; }

static size_t learned;
void fc_prefault_learn(void *start, size_t bytes) {
    for (size_t i = 0; i < bytes / PAGE; i++)
        CHECK(owner[page_at(start) + i] != 0 && !touched[page_at(start) + i]);
    learned += bytes;
}

char *fc_prefault(char *from, char *end, char *limit) {
    CHECK(from < end && end <= limit);
    size_t whole = fc_round_up((size_t)(end - START), GRANULE);
    limit = START + whole < limit ? START + whole : limit;
    for (char *p = from; p < limit; p += PAGE)
        CHECK(owner[page_at(p)] == 0 || p < end);
    memset(touched + page_at(from), 1, page_at(limit) - page_at(from));
    void (*others)(void) = meanwhile;
    meanwhile = NULL;
    // Others come in between only where the lock is free.
    if (others != NULL && lock.state == 0) others();
    return limit;
}

bool fc_os_purge(void *start, size_t bytes) {
    for (size_t i = 0; i < bytes / PAGE; i++)
        CHECK(touched[page_at(start) + i] && owner[page_at(start) + i] == 0);
    memset(touched + page_at(start), 0, bytes / PAGE);
    return true;
}

static size_t own(struct fc_pages pages, unsigned char heap) {
    for (char *p = pages.start; p < pages.end; p += PAGE) {
        CHECK(p >= START && p < frontier && owner[page_at(p)] == 0);
        owner[page_at(p)] = heap;
    }
    return (size_t)(pages.end - pages.start);
}

static struct fc_slice request(size_t bytes, size_t wish, unsigned char heap) {
    struct fc_slice slice;
    CHECK(fc_shared_take(bytes, wish, false, &slice));
    size_t granted = own(slice.granted, heap);
    CHECK(granted >= bytes && granted % bytes == 0 && granted <= wish);
    for (char *p = slice.granted.start; slice.touched && p < slice.granted.end; p += PAGE)
        CHECK(touched[page_at(p)]);
    own(slice.left[0], heap);
    own(slice.left[1], heap);
    return slice;
}

// A heap has touched so many bytes of its own.
static void grow(size_t bytes, unsigned char heap) {
    struct fc_slice slice;
    fc_shared_touch_ahead(bytes, &slice);
    CHECK(slice.granted.start == NULL && slice.left[1].start == NULL);
    own(slice.left[0], heap);
}

// Other heaps take address space.
static void advance_others(void) {
    char *start = fc_space_advance(GRANULE);
    own((struct fc_pages){start, frontier}, 255);
}

static size_t touched_bytes(void) {
    size_t pages = 0;
    for (size_t i = 0; i < PAGES; i++)
        pages += touched[i];
    return pages * PAGE;
}

static void begin(unsigned regions) {
    memset(&region, 0, sizeof region);
    memset(&ahead, 0, sizeof ahead);
    memset(owner, 0, sizeof owner);
    memset(touched, 0, sizeof touched);
    frontier = START;
    fc_space.granule = GRANULE;
    fc_space.whole = (size_t)AHEAD_SPACE_SHARE * AHEAD;
    fc_options.limit = SIZE_MAX;
    regions_allowed = regions;
}

TEST(slices_follow_one_another) {
    begin(0);
    char *end = START;
    for (int i = 0; i < 100; i++) {
        struct fc_slice slice = request(SLICE, SLICE, 1 + (unsigned char)(i % 2));
        CHECK(slice.granted.start == end && !slice.touched);
        CHECK(slice.left[0].start == slice.left[0].end && slice.left[1].start == slice.left[1].end);
        end = slice.granted.end;
    }
}

TEST(a_region_that_others_follow_is_left_to_who_needs_another) {
    begin(0);
    struct fc_slice first = request(SLICE, SLICE, 1);
    advance_others();
    request(29 * (size_t)SLICE, 29 * (size_t)SLICE, 1);
    struct fc_slice next = request(SLICE, SLICE, 2);
    CHECK(next.granted.start == START + 2 * (size_t)GRANULE);
    CHECK(next.left[0].end == START + GRANULE && next.left[0].start > first.granted.end);
}

TEST(several_requests_are_granted_as_far_as_the_region_goes) {
    begin(0);
    CHECK(request(SLICE, 4 * SLICE, 1).granted.end == START + 4 * SLICE);
    size_t rest = GRANULE - 4 * SLICE;
    struct fc_slice slice = request(SLICE, 1000 * (size_t)SLICE, 1);
    CHECK((size_t)(slice.granted.end - slice.granted.start) == rest / SLICE * SLICE);
}

TEST(what_was_touched_is_not_touched_again) {
    begin(1);
    CHECK(request(SLICE, SLICE, 1).touched && touched[page_at(START + GRANULE) - 1]);
    memset(touched, 0, sizeof touched);
    struct fc_slice slice;
    CHECK(fc_shared_take(SLICE, SLICE, false, &slice) && slice.touched &&
          !touched[page_at(slice.granted.start)]);
}

static struct fc_slice of_another;
static void another_takes(void) { of_another = request(SLICE, SLICE, 2); }

TEST(while_one_thread_touches_another_gets_memory_elsewhere) {
    begin(2);
    meanwhile = another_takes;
    struct fc_slice slice = request(SLICE, SLICE, 1);
    CHECK(of_another.granted.start >= START + GRANULE && slice.granted.start == START);
    // One of the two regions stays shared, the rest of the other has an owner.
    size_t shared = (size_t)(region.end - region.next), owned = 0;
    for (char *p = START; p < frontier; p += PAGE)
        owned += owner[page_at(p)] != 0 ? PAGE : 0;
    CHECK(shared > GRANULE / 2 && shared + owned == (size_t)(frontier - START));
}

static unsigned char random_heap;
static uint64_t seed = 3;
static void others_take(void) {
    for (uint64_t i = next_random(&seed) % 4; i > 0; i--) {
        size_t bytes = (1 + next_random(&seed) % 64) * PAGE;
        if (next_random(&seed) % 2 == 0) meanwhile = others_take;
        request(bytes, bytes * (1 + next_random(&seed) % 5),
                random_heap = 1 + (random_heap + 1) % 7);
    }
}

// Of every page, who has it: a heap, or one of the two regions.
static void check_owners(void) {
    for (char *p = START; p < frontier; p += PAGE) {
        bool shared = p >= region.next && p < region.end;
        bool kept_ready = p >= ahead.next && p < ahead.end;
        CHECK(shared + kept_ready + (owner[page_at(p)] != 0) == 1, "(page %zu)", page_at(p));
    }
}

TEST(every_page_has_one_owner_whoever_comes_between) {
    for (int round = 0; round < 200; round++) {
        begin((unsigned)(next_random(&seed) % 5));
        while (page_at(frontier) < PAGES - 2 * AHEAD / PAGE) {
            if (next_random(&seed) % 8 == 0) advance_others();
            if (next_random(&seed) % 2 == 0) meanwhile = others_take;
            if (next_random(&seed) % 2 == 0) grow(next_random(&seed) % 16 * GRANULE, 8);
            if (next_random(&seed) % 64 == 0) fc_shared_release();
            others_take();
        }
        meanwhile = NULL;
        check_owners();
        CHECK(region.others == 0 && !ahead.busy);
    }
}

TEST(only_short_requests_are_served) {
    CHECK(fc_shared_is_for(64 << 10) && !fc_shared_is_for(512 << 10));
    CHECK(fc_shared_is_small(1 << 20) && !fc_shared_is_small(64 << 20));
}

TEST(a_share_of_what_other_heaps_touch_is_touched_ahead) {
    begin(1);
    for (int i = 0; i < 4 * 8; i++) {
        grow(EIGHTH, 1);
        advance_others();
    }
    CHECK(touched_bytes() == 4 * (size_t)GRANULE, "(%zu)", touched_bytes());
    // It comes before all else, and is all that a heap gets that is no longer small.
    char *start = ahead.next;
    CHECK(request(SLICE, SLICE, 1).granted.start == start);
    struct fc_slice slice;
    for (size_t left = touched_bytes() / SLICE - 1; left > 0; left--)
        CHECK(fc_shared_take(SLICE, SLICE, true, &slice) && slice.touched);
    CHECK(slice.granted.end > start + touched_bytes() - SLICE);
    CHECK(!fc_shared_take(SLICE, SLICE, true, &slice) && slice.granted.start == NULL);
    CHECK(request(SLICE, SLICE, 1).granted.start >= start + AHEAD);
}

TEST(nothing_is_touched_ahead_for_a_program_that_is_small_or_uses_parts) {
    begin(0);
    for (int i = 0; i < 64; i++)
        grow(GRANULE, 1);
    CHECK(touched_bytes() == 0 && frontier == START);
}

TEST(nothing_is_touched_ahead_where_memory_is_limited) {
    begin(1);
    fc_options.limit = (size_t)1 << 40;
    for (int i = 0; i < 64; i++)
        grow(GRANULE, 1);
    CHECK(touched_bytes() == 0 && frontier == START);
}

TEST(what_is_touched_ahead_and_not_asked_for_is_bounded) {
    begin(1);
    for (int i = 0; i < 1000; i++)
        grow(GRANULE, 1);
    CHECK(touched_bytes() == AHEAD && frontier == START + AHEAD);
    // Once it is used there is more, but nothing is owed for what came before.
    struct fc_slice slice;
    while (fc_shared_take(SLICE, SLICE, true, &slice))
        own(slice.granted, 1);
    for (int i = 0; i < 8; i++)
        grow(EIGHTH, 1);
    CHECK(touched_bytes() == AHEAD + GRANULE && ahead.next == START + AHEAD);
    check_owners();
}

TEST(what_was_touched_ahead_is_released) {
    begin(1);
    for (int i = 0; i < 4 * 8; i++)
        grow(EIGHTH, 1);
    request(SLICE, SLICE, 1);
    CHECK(fc_shared_release() == 4 * (size_t)GRANULE - SLICE && touched_bytes() == SLICE);
    grow(8 * (size_t)EIGHTH, 1);
    CHECK(request(SLICE, SLICE, 1).touched);
    check_owners();
}

static void another_grows(void) {
    size_t before = touched_bytes();
    grow(64 * (size_t)GRANULE, 2);
    CHECK(fc_shared_release() == 0 && touched_bytes() == before);
}

TEST(one_thread_at_a_time_touches_ahead_and_nobody_waits_for_it) {
    begin(1);
    meanwhile = another_grows;
    grow(8 * (size_t)EIGHTH, 1);
    CHECK(meanwhile == NULL && touched_bytes() == GRANULE && !ahead.busy);
}

TEST(what_was_left_to_the_program_is_looked_at_an_extension_later) {
    begin(0);
    learned = 0;
    for (int i = 0; i < 2 * (GRANULE / SLICE); i++)
        request(SLICE, SLICE, 1);
    CHECK(learned == 0);
    request(2 * SLICE, 2 * SLICE, 1);
    CHECK(learned > GRANULE - 2 * SLICE && learned <= GRANULE);
}
