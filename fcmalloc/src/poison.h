// Tells AddressSanitizer and valgrind which bytes are the program's, so that they find its errors
// in memory of this allocator too. Without either, it compiles to nothing.
//
// Free memory is out of bounds except for the first bytes of a small block, which hold its link.
// valgrind is told in builds with FC_VALGRIND.

#ifndef FC_POISON_H
#define FC_POISON_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#endif

#ifdef FC_VALGRIND
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MALLOCLIKE_BLOCK(block, size, zone, zero) ((void)(zero))
#define VALGRIND_FREELIKE_BLOCK(block, zone) ((void)(block))
#define VALGRIND_MAKE_MEM_DEFINED(start, bytes) ((void)(start))
#define VALGRIND_MAKE_MEM_NOACCESS(start, bytes) ((void)(start))
#endif

// Whether an instrument is present.
#if defined(__SANITIZE_ADDRESS__) || defined(FC_VALGRIND)
#define FC_POISONS true
#else
#define FC_POISONS false
#endif

// Bytes at the start of a block that the allocator may read at any time.
#define FC_POISON_LINK ((size_t)16)

// The bytes are addressable, whatever they hold.
static inline void fc_poison_open(const void *start, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(start, bytes);
    VALGRIND_MAKE_MEM_DEFINED(start, bytes);
}

// Hands a block of `usable` bytes to the program, which asked for `size`.
static inline void fc_poison_give(void *block, size_t size, size_t usable, bool zero) {
    size_t own = size < FC_POISON_LINK ? FC_POISON_LINK : size;
    ASAN_UNPOISON_MEMORY_REGION(block, own);
    ASAN_POISON_MEMORY_REGION((char *)block + own, usable - own);
    VALGRIND_MAKE_MEM_NOACCESS((char *)block + own, usable - own);
    VALGRIND_MALLOCLIKE_BLOCK(block, own, 0, zero);
}

// The program returned its block.
static inline void fc_poison_take(void *block, size_t usable) {
    ASAN_POISON_MEMORY_REGION((char *)block + FC_POISON_LINK, usable - FC_POISON_LINK);
    VALGRIND_FREELIKE_BLOCK(block, 0);
    VALGRIND_MAKE_MEM_DEFINED(block, FC_POISON_LINK);
}

#endif
