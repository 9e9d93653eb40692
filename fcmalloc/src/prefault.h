// Page faults before they happen: memory that was never used is touched ahead of its use.
//
// A small program's pages come one by one, when it writes to them. In a program that is large by
// now, and for a request that is large by itself, pages are touched ahead, some at a time: huge
// pages where they cost less than as many small ones, small pages in batches where they do not.
// Which of the two is cheaper depends on the machine and on the moment: a huge page that the kernel
// has at hand costs a fraction of 512 page faults; one that it has to compact memory for, or that a
// hypervisor has to find memory for, several times as much as those. So the processor time of both
// is measured, on memory that is touched anyway.

#ifndef FC_PREFAULT_H
#define FC_PREFAULT_H

#include <stdbool.h>
#include <stddef.h>

// Learns from granted pages that were left to the program, and that it had time to use, whether it
// uses all of what it asks for. Until it does, nothing is touched ahead but to find out what pages
// cost: what is used in part would be resident as a whole.
void fc_prefault_learn(void *start, size_t bytes);

// Whether to touch memory ahead in a heap's own region, for a request of so many bytes from a heap
// that has used so many.
bool fc_prefault_own(size_t bytes, size_t used);

// Whether to touch memory ahead that heaps share, while so many shared regions are used in part.
bool fc_prefault_shared(unsigned regions);

// Touches the never-used pages from `from` on that will be used up to `end`, and more of those up
// to `limit`, or asks for huge pages there. Of more than twice FC_PREFAULT_BATCH it touches a part,
// which may be for an array that is used here and there. Returns up to where the pages are
// prepared: touched, or left to the program on purpose. Best effort.
#define FC_PREFAULT_BATCH ((size_t)256 << 10)
char *fc_prefault(char *from, char *end, char *limit);

#endif
