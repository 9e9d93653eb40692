// The OS layer: address space, pages, time. Every memory system call of the allocator goes through
// here and is counted. errno is left as it was.

#ifndef FC_OS_H
#define FC_OS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FC_HUGE_PAGE ((size_t)2 << 20)

extern _Atomic uint64_t fc_os_calls;

// Address space without access, aligned to FC_HUGE_PAGE, or NULL.
void *fc_os_reserve(size_t bytes);
// Makes reserved pages readable and writable; they read as zeros.
bool fc_os_commit(void *start, size_t bytes);
// Releases the physical pages; they read as zeros again. False where they do not, as for a part of
// a page of the kernel's huge page pool.
bool fc_os_purge(void *start, size_t bytes);
// Asks for small pages even where transparent huge pages are on for everybody.
void fc_os_decline_huge(void *start, size_t bytes);
// Asks for transparent huge pages.
void fc_os_advise_huge(void *start, size_t bytes);
// Replaces committed pages by pages of the kernel's huge page pool. False where it has too few.
bool fc_os_commit_huge(void *start, size_t bytes);
// First-touches committed pages with as many threads as the program may use cores. Starting them
// allocates: not under a lock.
bool fc_os_populate(void *start, size_t bytes);
// First-touches a few committed pages in one call. False where the kernel cannot: before 5.14, or
// where a page of them is guarded.
bool fc_os_touch(void *start, size_t bytes);
// Bytes of these committed pages that are in memory; 0 if that is not known.
size_t fc_os_resident(void *start, size_t bytes);
// Makes pages fault on access, or undoes it.
bool fc_os_guard(void *start, size_t bytes);
bool fc_os_unguard(void *start, size_t bytes);

// Migrates pages to nodes, by a memory policy of the kernel's, once.
void fc_os_move_to_nodes(void *start, size_t bytes, int mode, const unsigned long *nodes,
                         unsigned long bits);

// Cores that the program may run on, and the index-th of them: -1 where there are fewer.
unsigned fc_os_cores(void);
int fc_os_core(unsigned index);
// Bytes of physical memory.
size_t fc_os_memory(void);
// Bytes of address space that the program may use; SIZE_MAX where unlimited.
size_t fc_os_address_limit(void);
// Nanoseconds of processor time that the calling thread has used, in the kernel too; 0 if that
// is not known.
uint64_t fc_os_processor_time(void);
// Milliseconds of the kernel's coarse clock, since an arbitrary moment.
uint32_t fc_os_milliseconds(void);
// Fills a buffer from the kernel's random source.
void fc_os_random(void *out, size_t bytes);

#endif
