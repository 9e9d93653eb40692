// The standard names. Left out of the prefixed library.

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fcmalloc.h"

#pragma GCC visibility push(default)

void *malloc(size_t size) { return fc_malloc(size); }
void free(void *block) { fc_free(block); }
void *calloc(size_t count, size_t size) { return fc_calloc(count, size); }
void *realloc(void *block, size_t size) { return fc_realloc(block, size); }
void *reallocarray(void *block, size_t count, size_t size) {
    return fc_reallocarray(block, count, size);
}
int posix_memalign(void **out, size_t alignment, size_t size) {
    return fc_posix_memalign(out, alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return fc_aligned_alloc(alignment, size); }
void *memalign(size_t alignment, size_t size) { return fc_memalign(alignment, size); }
void *valloc(size_t size) { return fc_valloc(size); }
void *pvalloc(size_t size) { return fc_pvalloc(size); }
size_t malloc_usable_size(void *block) { return fc_malloc_usable_size(block); }
void cfree(void *block) { fc_free(block); }
void free_sized(void *block, size_t size) { fc_free_sized(block, size); }
void free_aligned_sized(void *block, size_t alignment, size_t size) {
    fc_free_aligned_sized(block, alignment, size);
}

int malloc_trim(size_t pad) {
    (void)pad;
    return fc_trim() > 0;
}

// Every parameter is accepted and ignored: none of the C library's tuning applies.
int mallopt(int parameter, int value) {
    (void)parameter;
    (void)value;
    return 1;
}

struct mallinfo2 mallinfo2(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    return (struct mallinfo2){
        .arena = stats.footprint,
        .hblkhd = stats.in_use_large,
        .uordblks = stats.in_use_small + stats.in_use_large,
        .fordblks = stats.free_small + stats.free_large + stats.in_transit,
        .keepcost = stats.free_large,
    };
}

// libnuma's functions call this one, so that a change of policy is noticed.
long set_mempolicy(int mode, const unsigned long *nodes, unsigned long bits) {
    long result = syscall(SYS_set_mempolicy, mode, nodes, bits);
    if (result == 0) {
        fc_policy_changed();
    }
    return result;
}
