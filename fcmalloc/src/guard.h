// Guard pages of the secure library: the last page of each span and large block, which faults on
// access. What cannot be guarded is not handed out, and a guard that cannot be removed ends the
// program: whoever got the page next would fault on it.

#ifndef FC_GUARD_H
#define FC_GUARD_H

#include "os.h"
#include "report.h"
#include "space.h"

#if FC_SECURE
#define FC_GUARD_PAGES 1

// False where the kernel refuses, which is said once.
static inline bool fc_guard(const struct fc_run *run) {
    bool done = fc_os_guard(fc_run_end(run) - FC_PAGE, FC_PAGE);
    if (!done) {
        fc_remark_unguarded();
    }
    return done;
}

static inline void fc_unguard(const struct fc_run *run) {
    char *guard = fc_run_end(run) - FC_PAGE;
    if (!fc_os_unguard(guard, FC_PAGE)) {
        fc_die("guard page %p cannot be removed; let the program call madvise and mprotect", guard);
    }
}
#else
#define FC_GUARD_PAGES 0

static inline bool fc_guard(const struct fc_run *run) {
    (void)run;
    return true;
}

static inline void fc_unguard(const struct fc_run *run) { (void)run; }
#endif

#endif
