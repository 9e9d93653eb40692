// First touch: which pages memory gets that was never used, and who waits for it.
//
// A small program's pages come one by one, when it writes to them. In a program that is large by
// now, or for a block that is large by itself, pages are touched ahead, some at a time: huge pages
// where they cost less than as many small ones, small pages in batches where they do not. Which of
// the two is cheaper depends on the machine and on the day: a huge page that the kernel has at hand
// costs a fifth of 512 page faults; one that it has to compact memory for, or that a hypervisor has
// to find memory for, several times as much as those. So the processor time of both is measured, on
// memory that is needed anyway.

#ifndef FC_TOUCH_H
#define FC_TOUCH_H

#include <stdbool.h>
#include <stddef.h>

// A block of this many bytes is worth touching ahead in any program.
#define FC_TOUCH_LARGE ((size_t)4 << 20)

// Whether memory is touched ahead: what heaps share, while so many others of them do so, and what
// is a heap's own that uses so many bytes.
bool fc_touch_is_shared_ahead(unsigned others);
bool fc_touch_is_own_ahead(size_t used);

// Prepares the never-used pages from `from` on for use up to `end`, and more of those up to
// `limit`. Returns how far. Best effort.
char *fc_touch_ahead(char *from, char *end, char *limit);

#endif
