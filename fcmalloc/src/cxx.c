// C++'s operator new and delete under their mangled names. They call the program's C++
// library where the language asks for it: the new-handler, and std::bad_alloc. Left out of the
// prefixed library.

#include <errno.h>
#include <stdlib.h>

#include "class.h"
#include "fcmalloc.h"

typedef void (*new_handler)(void);

// std::get_new_handler() and std::__throw_bad_alloc() of libstdc++ and of libc++; whichever the
// program has.
extern new_handler get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_libstdcxx(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
extern void throw_libcxx(void) __asm__("_ZNSt3__117__throw_bad_allocEv") __attribute__((weak));

static _Noreturn void throw_bad_alloc(void) {
    if (throw_libstdcxx != NULL) {
        throw_libstdcxx();
    } else if (throw_libcxx != NULL) {
        throw_libcxx();
    }
    abort();
}

// Tries until there is memory or no handler; a handler may free some, or throw.
static __attribute__((noinline)) void *retry_or_throw(size_t alignment, size_t size) {
    for (;;) {
        new_handler handler = get_new_handler != NULL ? get_new_handler() : NULL;
        if (handler == NULL) {
            throw_bad_alloc();
        }
        handler();
        void *block = fc_memalign(alignment, size);
        if (block != NULL) {
            return block;
        }
    }
}

static inline void *new_throwing(size_t size) {
    void *block = fc_malloc(size);
    return FC_LIKELY(block != NULL) ? block : retry_or_throw(FC_ALIGNMENT, size);
}

static inline void *new_aligned(size_t size, size_t alignment) {
    void *block = fc_memalign(alignment, size);
    return FC_LIKELY(block != NULL) ? block : retry_or_throw(alignment, size);
}

#define EXPORT __attribute__((visibility("default")))
#define NEW(mangled, parameters, body) \
    EXPORT void *mangled parameters;   \
    void *mangled parameters { return body; }
#define DELETE(mangled, parameters) \
    EXPORT void mangled parameters; \
    void mangled parameters { fc_free(block); }

// operator new(size_t), and with std::align_val_t; then the array forms. Those with std::nothrow
// are the C++ library's, which call these and catch what they or a handler throw.
NEW(_Znwm, (size_t size), new_throwing(size))
NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), new_aligned(size, alignment))
NEW(_Znam, (size_t size), new_throwing(size))
NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), new_aligned(size, alignment))

// operator delete(void *), and with size, std::nothrow, std::align_val_t, size and alignment,
// alignment and nothrow; then the array forms. The size is not needed.
DELETE(_ZdlPv, (void *block))
DELETE(_ZdlPvm, (void *block, size_t size __attribute__((unused))))
DELETE(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag __attribute__((unused))))
DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment __attribute__((unused))))
DELETE(_ZdlPvmSt11align_val_t,
       (void *block, size_t size __attribute__((unused)), size_t alignment __attribute__((unused))))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment __attribute__((unused)),
                                             const void *tag __attribute__((unused))))
DELETE(_ZdaPv, (void *block))
DELETE(_ZdaPvm, (void *block, size_t size __attribute__((unused))))
DELETE(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag __attribute__((unused))))
DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment __attribute__((unused))))
DELETE(_ZdaPvmSt11align_val_t,
       (void *block, size_t size __attribute__((unused)), size_t alignment __attribute__((unused))))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment __attribute__((unused)),
                                             const void *tag __attribute__((unused))))
