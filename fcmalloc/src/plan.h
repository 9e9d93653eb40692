// The static plan: demand recorded in one run, first-touched at the start of the next.
//
// A plan is text, one record a line, the first of them "fcmalloc-plan 1":
//
//     heap 0 class 4096 peak 120      most blocks of a class that the heap ever needed
//     heap 0 large peak 8404992       most bytes that its large blocks ever took
//     heap 0 footprint 8905792        bytes to touch for both together
//
// Heaps steal memory for large blocks from each other. Where their peaks add up to more than was
// ever touched, each heap's footprint holds that share of its large peak. Heap 0 is the main
// thread's; the others are taken by threads in the order in which they start. On several nodes heap
// n lies on the node of core n - 1, and a thread takes the first of its node, if there is one.

#ifndef FC_PLAN_H
#define FC_PLAN_H

// Makes the calling process the one whose demand is recorded.
void fc_plan_watch(void);

// Writes the demand so far to the file of FCMALLOC_RECORD, in whose name %p is the process id. Does
// nothing in a forked child.
void fc_plan_record(void);

// First-touches what the file of FCMALLOC_PLAN asks for.
void fc_plan_apply(void);

#endif
