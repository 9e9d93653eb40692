// Memory for young heaps: slices of huge pages that they share.
//
// A heap of its own region would leave a part of the last huge page unused: one huge page a heap,
// which is much for many threads that use a few megabytes each. Young heaps share it, so that it is
// one page for all of them, and their memory is touched ahead as soon as the program is large.

#ifndef FC_NURSERY_H
#define FC_NURSERY_H

#include <stdbool.h>
#include <stddef.h>

// Never-used pages for a heap. Those asked for, and pieces that are too short for others, or not
// next to what they share, and are the heap's from now on.
#define FC_SLICE_PIECES 3
struct fc_slice {
    struct fc_pages {
        char *start;
        char *end;
    } pieces[FC_SLICE_PIECES];
};

// Whether a heap that has taken so much address space gets its next `bytes` here.
bool fc_nursery_is_for(size_t taken, size_t bytes);

// At least `bytes` of pages, `wish` if there are as many, directly behind those handed out last
// where possible. False where none are left.
bool fc_nursery_take(size_t bytes, size_t wish, struct fc_slice *out);

// For fork.
void fc_nursery_hold(void);
void fc_nursery_drop(void);
void fc_nursery_reset(void);

#endif
