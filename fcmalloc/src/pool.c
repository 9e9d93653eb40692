#include "pool.h"

#include <stdlib.h>

#include "heap.h"
#include "options.h"
#include "os.h"
#include "report.h"

// M_main for the main thread's heap and M_sub for one heap a core: M_main + M_sub × cores in all.
static bool fill_parts(void) {
    unsigned cores = fc_options.reserve_core > 0 ? fc_os_cores() : 0;
    size_t all;
    if (__builtin_mul_overflow(fc_options.reserve_core, cores, &all) ||
        __builtin_add_overflow(all, fc_options.reserve_main, &all)) {
        return false;
    }
    if (all == 0) {
        return true;
    }
    bool done = fc_heap_make(1 + cores) && fc_space_populate(all);
    if (done && fc_options.reserve_main > 0) {
        done = fc_large_bins_claim(fc_heap_at(0), fc_options.reserve_main);
    }
    for (unsigned core = 0; done && core < cores; core++) {
        done = fc_large_bins_claim(fc_heap_at(1 + core), fc_options.reserve_core);
    }
    return done;
}

void fc_pool_fill(void) {
    bool done = fill_parts();
    if (done && fc_options.reserve > 0) {
        done = fc_space_populate(fc_options.reserve);
    }
    if (!done) {
        fc_remark("FCMALLOC_RESERVE", getenv("FCMALLOC_RESERVE"),
                  "more than the machine can give; not all is first-touched, ask for less");
    }
}
