// Slices of what small heaps share: nothing is handed out twice or lost, and what is left over has
// one owner. The pages are made up, and never touched.

// Before any header declares them.
#define fc_shared_is_for tested_is_for
#define fc_shared_take tested_take
#define fc_shared_hold tested_hold
#define fc_shared_drop tested_drop
#define fc_shared_reset tested_reset
#define fc_space_advance made_up_advance
#define fc_prefault made_up_prefault
#define fc_prefault_shared made_up_prefault_shared
#define fc_prefault_learn made_up_learn
#include "../../src/shared.c"

#include "check.h"
#include "pattern.h"

enum { PAGE = FC_PAGE, SLICE = 17 * FC_PAGE, GRANULE = 2 << 20, PAGES = 1 << 15 };
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
    memset(touched + page_at(from), 1, page_at(limit) - page_at(from));
    void (*others)(void) = meanwhile;
    meanwhile = NULL;
    // Others come in between only where the lock is free.
    if (others != NULL && lock.state == 0) others();
    return limit;
}

static size_t own(struct fc_pages pages, unsigned char heap) {
    for (char *p = pages.start; p < pages.end; p += PAGE) {
        CHECK(p >= START && p < frontier && owner[page_at(p)] == 0);
        owner[page_at(p)] = heap;
    }
    return (size_t)(pages.end - pages.start);
}

static struct fc_slice take(size_t bytes, size_t wish, unsigned char heap) {
    struct fc_slice slice;
    CHECK(fc_shared_take(bytes, wish, &slice));
    size_t granted = own(slice.granted, heap);
    CHECK(granted >= bytes && granted % bytes == 0 && granted <= wish);
    for (char *p = slice.granted.start; slice.touched && p < slice.granted.end; p += PAGE)
        CHECK(touched[page_at(p)]);
    own(slice.left[0], heap);
    own(slice.left[1], heap);
    return slice;
}

static void begin(unsigned regions) {
    memset(&region, 0, sizeof region);
    memset(owner, 0, sizeof owner);
    memset(touched, 0, sizeof touched);
    frontier = START;
    fc_space.granule = GRANULE;
    regions_allowed = regions;
}

TEST(slices_follow_one_another) {
    begin(0);
    char *end = START;
    for (int i = 0; i < 100; i++) {
        struct fc_slice slice = take(SLICE, SLICE, 1 + (unsigned char)(i % 2));
        CHECK(slice.granted.start == end && !slice.touched);
        CHECK(slice.left[0].start == slice.left[0].end && slice.left[1].start == slice.left[1].end);
        end = slice.granted.end;
    }
}

TEST(a_region_that_others_follow_is_left_to_who_needs_another) {
    begin(0);
    struct fc_slice first = take(SLICE, SLICE, 1);
    frontier += GRANULE;  // taken by others
    take(29 * (size_t)SLICE, 29 * (size_t)SLICE, 1);
    struct fc_slice next = take(SLICE, SLICE, 2);
    CHECK(next.granted.start == START + 2 * (size_t)GRANULE);
    CHECK(next.left[0].end == START + GRANULE && next.left[0].start > first.granted.end);
}

TEST(several_requests_are_granted_as_far_as_the_region_goes) {
    begin(0);
    CHECK(take(SLICE, 4 * SLICE, 1).granted.end == START + 4 * SLICE);
    size_t rest = GRANULE - 4 * SLICE;
    struct fc_slice slice = take(SLICE, 1000 * (size_t)SLICE, 1);
    CHECK((size_t)(slice.granted.end - slice.granted.start) == rest / SLICE * SLICE);
}

TEST(what_was_touched_is_not_touched_again) {
    begin(1);
    CHECK(take(SLICE, SLICE, 1).touched && touched[page_at(START + GRANULE) - 1]);
    memset(touched, 0, sizeof touched);
    struct fc_slice slice;
    CHECK(fc_shared_take(SLICE, SLICE, &slice) && slice.touched &&
          !touched[page_at(slice.granted.start)]);
}

static struct fc_slice of_another;
static void another_takes(void) { of_another = take(SLICE, SLICE, 2); }

TEST(while_one_thread_touches_another_gets_memory_elsewhere) {
    begin(2);
    meanwhile = another_takes;
    struct fc_slice slice = take(SLICE, SLICE, 1);
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
        take(bytes, bytes * (1 + next_random(&seed) % 5), random_heap = 1 + (random_heap + 1) % 7);
    }
}

TEST(every_page_has_one_owner_whoever_comes_between) {
    for (int round = 0; round < 200; round++) {
        begin((unsigned)(next_random(&seed) % 5));
        while (page_at(frontier) < PAGES - 4096) {
            if (next_random(&seed) % 8 == 0) frontier += GRANULE;
            others_take();
        }
        meanwhile = NULL;
        size_t shared = (size_t)(region.end - region.next);
        for (char *p = region.next; p < region.end; p += PAGE)
            CHECK(owner[page_at(p)] == 0);
        CHECK(region.others == 0 && shared <= (size_t)(frontier - START));
    }
}

TEST(only_short_requests_of_small_heaps_are_served) {
    CHECK(fc_shared_is_for(0, 64 << 10) && !fc_shared_is_for(0, 512 << 10));
    CHECK(!fc_shared_is_for(64 << 20, 64 << 10));
}

TEST(what_was_left_to_the_program_is_looked_at_an_extension_later) {
    begin(0);
    learned = 0;
    for (int i = 0; i < 2 * (GRANULE / SLICE); i++)
        take(SLICE, SLICE, 1);
    CHECK(learned == 0);
    take(2 * SLICE, 2 * SLICE, 1);
    CHECK(learned > GRANULE - 2 * SLICE && learned <= GRANULE);
}
