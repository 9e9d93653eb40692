// The beginning and the end: everything is set up by whoever allocates first, even before main.

#ifndef FC_INIT_H
#define FC_INIT_H

#include <stdbool.h>

// Whether the allocator is ready, which it makes itself at the first call. False where the kernel
// gives no address space.
bool fc_init(void);

#endif
