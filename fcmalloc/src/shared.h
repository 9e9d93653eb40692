// Regions that small heaps share.
//
// A heap's own region leaves the last huge page unused in part: one for each heap, which is much
// for many threads that use a few megabytes each. Small heaps share a region, so that it is one
// page for all of them, and its memory is touched ahead as soon as the program is large.

#ifndef FC_SHARED_H
#define FC_SHARED_H

#include <stdbool.h>
#include <stddef.h>

struct fc_pages {
    char *start;
    char *end;
};

// Never-used pages for a heap.
struct fc_slice {
    struct fc_pages granted;
    bool touched;  // all that is granted
    // These belong to the heap from now on, too: what was left of a region that was too short, and
    // the shorter one of two that were in use at a time.
    struct fc_pages left[2];
};

// Whether a heap that has taken so many bytes from here gets its next request here.
bool fc_shared_is_for(size_t taken, size_t bytes);

// At least `bytes` of pages, `wish` if the region has as many, directly behind those granted last
// where possible. False where no address space is left.
bool fc_shared_take(size_t bytes, size_t wish, struct fc_slice *out);

// For fork.
void fc_shared_hold(void);
void fc_shared_drop(void);
void fc_shared_reset(void);

#endif
