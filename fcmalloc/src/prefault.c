#include "prefault.h"

#include "heap.h"
#include "options.h"
#include "os.h"

// A huge page that is used in part may be at most this share: one that heaps share, of the program;
// a heap's own, of what the heap uses.
#define SHARED 2
#define OWN 6
// A request of this many bytes is worth it in any program.
#define LARGE_REQUEST ((size_t)4 << 20)
// When huge pages turned out expensive, they are tried again after so much memory that such probes
// add at most one part in PROBE_SHARE to what touching costs.
#define PROBE_SHARE 20
// What is not used may be one part in so many.
#define DENSE_SHARE 8

// Nanoseconds of processor time for FC_HUGE_PAGE bytes, the latest counting most; 0 if unknown. The
// heaps share them; that an update is extra now and then does not matter.
static _Atomic uint64_t small_cost;
static _Atomic uint64_t huge_cost;
// Whether the program was seen to use all of what it asked for.
static _Atomic bool dense;
// The kernel cannot touch ahead: huge pages are asked for without knowing what they cost.
static _Atomic bool untold;
// The footprint from which on huge pages are asked for; SIZE_MAX while one is tried.
static _Atomic size_t huge_from;

static size_t footprint(void) {
    return atomic_load_explicit(&fc_space.footprint, memory_order_relaxed);
}

// Whether a huge page that is used in part is at most that share of so many bytes.
static bool is_small_share(size_t bytes, size_t share) { return bytes / share >= FC_HUGE_PAGE; }

static bool uses_all(void) { return atomic_load_explicit(&dense, memory_order_relaxed); }

void fc_prefault_learn(void *start, size_t bytes) {
    if (!uses_all() && fc_os_resident(start, bytes) >= bytes - bytes / DENSE_SHARE) {
        atomic_store_explicit(&dense, true, memory_order_relaxed);
    }
}

// Where free memory is to be released, none is touched before it is used.
static bool is_allowed(void) { return fc_options.decay == 0; }

bool fc_prefault_own(size_t bytes, size_t used) {
    return is_allowed() && (bytes >= LARGE_REQUEST || is_small_share(used, OWN) ||
                            is_small_share(footprint() / fc_heap_count(), OWN));
}

bool fc_prefault_shared(unsigned regions) {
    return is_allowed() && uses_all() &&
           (regions > 1 ? is_small_share(footprint() / regions, OWN)
                        : is_small_share(footprint(), SHARED));
}

// Touches the pages and updates what `cost` says of them. Returns it; 0 if they were not touched.
static uint64_t touch(char *start, size_t bytes, _Atomic uint64_t *cost) {
    uint64_t begun = fc_os_processor_time();
    if (!fc_os_touch(start, bytes)) {
        atomic_store_explicit(&untold, true, memory_order_relaxed);
        return 0;
    }
    uint64_t spent = (fc_os_processor_time() - begun) * FC_HUGE_PAGE / bytes + 1;
    uint64_t before = atomic_load_explicit(cost, memory_order_relaxed);
    uint64_t now = before == 0 ? spent : (before + spent) / 2;
    atomic_store_explicit(cost, now, memory_order_relaxed);
    return now;
}

// Touches small pages, if they will be used or their cost is to be found out. What a few of them
// cost says too little.
static void touch_small(char *start, size_t bytes) {
    bool known = atomic_load_explicit(&small_cost, memory_order_relaxed) != 0;
    if (bytes >= FC_PREFAULT_BATCH && (uses_all() || !known)) {
        (void)touch(start, bytes, &small_cost);
    } else if (uses_all()) {
        (void)fc_os_touch(start, bytes);
    }
}

// Whether huge pages may be asked for: as far as is known they are the cheaper ones, or it is time
// to probe again.
static bool huge_allowed(void) {
    bool known = atomic_load_explicit(&small_cost, memory_order_relaxed) != 0 ||
                 atomic_load_explicit(&untold, memory_order_relaxed);
    return fc_options.huge != FC_HUGE_NEVER && known &&
           footprint() >= atomic_load_explicit(&huge_from, memory_order_relaxed);
}

static bool huge_is_cheap(void) {
    return atomic_load_explicit(&huge_from, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&huge_cost, memory_order_relaxed) != 0;
}

// As huge_allowed, for the caller; where huge pages are not known to be cheap, for it alone, until
// it has said what they cost.
static bool begin_huge(void) {
    size_t from = atomic_load_explicit(&huge_from, memory_order_relaxed);
    return huge_allowed() && (huge_is_cheap() || atomic_compare_exchange_strong_explicit(
                                                     &huge_from, &from, SIZE_MAX,
                                                     memory_order_relaxed, memory_order_relaxed));
}

// Asks for huge pages, and touches the first if it will be used or its cost is to be found out.
// False, and none are asked for behind it, where that was expensive. Where it was hardly cheaper,
// the pages may be small ones all the same.
static bool touch_huge(char *start, size_t bytes) {
    fc_os_advise_huge(start, bytes);
    if (huge_is_cheap() && !uses_all()) {
        return true;
    }
    uint64_t huge = touch(start, FC_HUGE_PAGE, &huge_cost);
    uint64_t small = atomic_load_explicit(&small_cost, memory_order_relaxed);
    if (huge == 0 || huge + small / 4 <= small) {
        atomic_store_explicit(&huge_from, 0, memory_order_relaxed);
        return true;
    }
    uint64_t extra = huge > small + small / 4 ? huge - small : small / 4;
    size_t pause = small > 0 ? extra * PROBE_SHARE / small * FC_HUGE_PAGE : 0;
    atomic_store_explicit(&huge_from, footprint() + pause, memory_order_relaxed);
    // Forgotten, so that one good huge page is believed after the pause.
    atomic_store_explicit(&huge_cost, 0, memory_order_relaxed);
    if (bytes > FC_HUGE_PAGE) {
        fc_os_decline_huge(start + FC_HUGE_PAGE, bytes - FC_HUGE_PAGE);
    }
    return false;
}

static char *lower(char *a, char *b) { return a < b ? a : b; }

char *fc_prefault(char *from, char *end, char *limit) {
    while (from < end) {
        char *boundary = (char *)fc_round_up((uintptr_t)from, FC_HUGE_PAGE);
        char *stop = (char *)fc_round_up((uintptr_t)end, FC_HUGE_PAGE);
        if (from == boundary && stop <= limit && begin_huge()) {
            from = touch_huge(from, (size_t)(stop - from)) ? stop : from + FC_HUGE_PAGE;
            continue;
        }
        char *batch = lower(from + FC_PREFAULT_BATCH, limit);
        batch = boundary > from ? lower(batch, boundary) : batch;
        touch_small(from, (size_t)(batch - from));
        if (end <= batch + FC_PREFAULT_BATCH) {
            from = batch;
        } else if (huge_allowed()) {
            from = lower(end, (char *)fc_round_up((uintptr_t)batch, FC_HUGE_PAGE));
        } else {
            from = end;
        }
    }
    return from;
}
