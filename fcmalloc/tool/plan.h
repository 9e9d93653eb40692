// A recorded plan, as text: the peak demand of each thread's heap, by size class. The allocator
// writes it where FCMALLOC_RECORD says and reads it where FCMALLOC_PLAN says.
//
//     fcmalloc-plan 1
//     heap H footprint BYTES           what the heap of the H-th thread ever took
//     heap H class SIZE peak BLOCKS    most blocks of that class in use at once
//     heap H large peak BYTES          most bytes in large blocks at once
//     # comment

#ifndef FCMALLOC_TOOL_PLAN_H
#define FCMALLOC_TOOL_PLAN_H

#include <stddef.h>
#include <stdint.h>

// In the order in which a heap's records are shown.
enum demand_kind { DEMAND_CLASS, DEMAND_LARGE, DEMAND_FOOTPRINT };

struct demand {
    enum demand_kind kind;
    uint64_t heap;
    uint64_t class_size;  // bytes; 0 but for DEMAND_CLASS
    uint64_t peak;        // blocks for DEMAND_CLASS, bytes otherwise
};

struct plan {
    struct demand *demands;  // by heap, kind and class
    size_t count;
};

// Reads the plan at `path`; ends the launcher, naming the line, where there is none.
struct plan plan_read(const char *path);

// Prints demand by heap and class on standard output, then that of all heaps by class, for which
// it adds the plan's records up in place.
void plan_show(struct plan *plan);

#endif
