// Memory for young heaps: slices of huge pages that they share.
//
// A heap of its own region would leave a part of the last huge page unused: one huge page a heap,
// which is much for many threads that use a few megabytes each. Young heaps share it, so that it is
// one page for all of them, and their memory is touched ahead as soon as the program is large.

#ifndef FC_NURSERY_H
#define FC_NURSERY_H

#include <stdbool.h>
#include <stddef.h>

// Never-used pages for a heap.
struct fc_slice {
    char *start;
    char *end;
    // Others that belong together with it, but are too few, or not next to it.
    char *rest;
    char *rest_end;
};

// Whether a heap that has taken so much address space gets its next `bytes` here.
bool fc_nursery_is_for(size_t taken, size_t bytes);

// At least `bytes` of pages, `wish` if there are as many, directly behind those handed out last
// where possible. False where none are left.
bool fc_nursery_take(size_t bytes, size_t wish, struct fc_slice *out);

#endif
