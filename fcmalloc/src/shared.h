// Regions that small heaps share.
//
// A heap's own region leaves the last huge page unused in part: one for each heap, which is much
// for many threads that use a few megabytes each. Small heaps share a region, so that it is one
// page for all of them, and its memory is touched ahead as soon as the program is large. Some is
// touched while other heaps grow, so that the threads that a large program starts find it ready.

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

// Whether such requests are served here.
bool fc_shared_is_for(size_t bytes);
// Whether a heap of so many bytes is small. One that has taken more from here gets only what was
// touched ahead, while what it has elsewhere is small.
bool fc_shared_is_small(size_t bytes);

// At least `bytes` of pages, `wish` if there are as many: of those touched ahead or, without
// `only_ahead`, of the region. Directly behind those granted last where possible. False where none
// are left.
bool fc_shared_take(size_t bytes, size_t wish, bool only_ahead, struct fc_slice *out);

// Touches pages ahead, now and then, for a heap that has touched so many bytes of its own for
// requests as are served here. Grants nothing, but may leave the heap the rest of a region.
void fc_shared_touch_ahead(size_t bytes, struct fc_slice *out);

// Releases the physical memory of what was touched ahead, unless a thread is about it. Returns
// bytes.
size_t fc_shared_release(void);

// For fork.
void fc_shared_hold(void);
void fc_shared_drop(void);
void fc_shared_reset(void);

#endif
