#include "touch.h"

#include "heap.h"
#include "options.h"
#include "os.h"

// Memory is touched ahead where a huge page used in part is at most this share of what is used: by
// all heaps for one that they share, and by each for those of their own.
#define SHARED 2
#define OWN 6
// Small pages touched by one call. A request for more than this may be for an array that is used
// here and there: most of its pages are left to the program.
#define BATCH ((size_t)256 << 10)
// When huge pages turned out dear, they are tried again after so much memory that these trials add
// at most one part in LOOKING to what touching costs.
#define LOOKING 20

// Nanoseconds of processor time for FC_HUGE_PAGE bytes, the latest counting most; 0 if unknown. The
// heaps share them; that an update is lost now and then does not matter.
static _Atomic uint64_t small_cost;
static _Atomic uint64_t huge_cost;
// The footprint from which on huge pages are asked for; SIZE_MAX while one is tried.
static _Atomic size_t huge_from;

static size_t footprint(void) {
    return atomic_load_explicit(&fc_space.footprint, memory_order_relaxed);
}

// Whether a huge page, used in part, is at most that share of so many bytes. Where free memory is
// to be released, none is touched before it is used.
static bool is_small_share(size_t bytes, size_t share) {
    return fc_options.decay == 0 && bytes / share >= FC_HUGE_PAGE;
}

bool fc_touch_is_shared_ahead(unsigned others) {
    return others == 0 ? is_small_share(footprint(), SHARED)
                       : is_small_share(footprint() / (others + 1), OWN);
}

bool fc_touch_is_own_ahead(size_t used) {
    return is_small_share(used, OWN) || is_small_share(footprint() / fc_heap_count(), OWN);
}

// Touches the pages and updates what `cost` says of them. Returns it.
static uint64_t touch(char *start, size_t bytes, _Atomic uint64_t *cost) {
    uint64_t begun = fc_os_processor_time();
    fc_os_touch(start, bytes);
    uint64_t spent = (fc_os_processor_time() - begun) * FC_HUGE_PAGE / bytes + 1;
    uint64_t before = atomic_load_explicit(cost, memory_order_relaxed);
    uint64_t now = before == 0 ? spent : (before + spent) / 2;
    atomic_store_explicit(cost, now, memory_order_relaxed);
    return now;
}

// Touches small pages; what a few of them cost says too little.
static void touch_small(char *start, size_t bytes) {
    if (bytes < BATCH) {
        fc_os_touch(start, bytes);
    } else {
        (void)touch(start, bytes, &small_cost);
    }
}

// Whether huge pages may be asked for: as far as is known they are the cheaper ones, or it is time
// to look again.
static bool huge_pays(void) {
    return fc_options.huge != FC_HUGE_NEVER &&
           atomic_load_explicit(&small_cost, memory_order_relaxed) != 0 &&
           footprint() >= atomic_load_explicit(&huge_from, memory_order_relaxed);
}

// As huge_pays, for the caller; where huge pages are not known to be cheap, for it alone, until it
// has said what they cost.
static bool claim_huge(void) {
    size_t from = atomic_load_explicit(&huge_from, memory_order_relaxed);
    bool known = from == 0 && atomic_load_explicit(&huge_cost, memory_order_relaxed) != 0;
    return huge_pays() &&
           (known || atomic_compare_exchange_strong_explicit(
                         &huge_from, &from, SIZE_MAX, memory_order_relaxed, memory_order_relaxed));
}

// Asks for huge pages, and touches the first. False, and none are asked for behind it, where that
// was dear: where it is not clearly cheaper, the pages may be small ones all the same.
static bool touch_huge(char *start, size_t bytes) {
    fc_os_advise_huge(start, bytes);
    uint64_t huge = touch(start, FC_HUGE_PAGE, &huge_cost);
    uint64_t small = atomic_load_explicit(&small_cost, memory_order_relaxed);
    if (huge + small / 4 <= small) {
        atomic_store_explicit(&huge_from, 0, memory_order_relaxed);
        return true;
    }
    uint64_t lost = huge > small + small / 4 ? huge - small : small / 4;
    size_t pause = lost * LOOKING / small * FC_HUGE_PAGE;
    atomic_store_explicit(&huge_from, footprint() + pause, memory_order_relaxed);
    // Forgotten, so that one good huge page is believed after the pause.
    atomic_store_explicit(&huge_cost, 0, memory_order_relaxed);
    if (bytes > FC_HUGE_PAGE) {
        fc_os_decline_huge(start + FC_HUGE_PAGE, bytes - FC_HUGE_PAGE);
    }
    return false;
}

static char *lower(char *a, char *b) { return a < b ? a : b; }

char *fc_touch_ahead(char *from, char *end, char *limit) {
    while (from < end) {
        char *boundary = (char *)fc_round_up((uintptr_t)from, FC_HUGE_PAGE);
        char *stop = (char *)fc_round_up((uintptr_t)end, FC_HUGE_PAGE);
        if (from == boundary && stop <= limit && claim_huge()) {
            from = touch_huge(from, (size_t)(stop - from)) ? stop : from + FC_HUGE_PAGE;
            continue;
        }
        char *batch = lower(from + BATCH, limit);
        batch = boundary > from ? lower(batch, boundary) : batch;
        touch_small(from, (size_t)(batch - from));
        if (end <= batch + BATCH) {
            from = batch;
        } else if (huge_pays()) {
            from = lower(end, (char *)fc_round_up((uintptr_t)batch, FC_HUGE_PAGE));
        } else {
            from = end;
        }
    }
    return from;
}
