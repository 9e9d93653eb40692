// Initialisation and exit: the first allocation sets everything up, even before main.

#ifndef FC_INIT_H
#define FC_INIT_H

#include <stdbool.h>

// Whether the allocator is ready; the first call initialises it. False where the kernel gives no
// address space.
bool fc_init(void);

#endif
