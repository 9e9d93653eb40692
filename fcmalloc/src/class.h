// Size classes of small blocks.
//
// Steps of 16 bytes up to 128, eight steps a doubling up to 4 KiB, sixteen up to 16 KiB: a block
// is at most 12.5 % larger than what was asked for above 128 bytes, 6.25 % above 4 KiB. Blocks
// of 4 KiB and more lie one cache line further apart than their size, so that equal positions
// of neighbouring blocks fall into different cache sets.

#ifndef FC_CLASS_H
#define FC_CLASS_H

#include <stddef.h>
#include <stdint.h>

#define FC_LINE ((size_t)64)
#define FC_PAGE ((size_t)4096)
#define FC_PAGE_SHIFT 12
#define FC_ALIGNMENT ((size_t)16)
// Large blocks of a few pages (ciphertext rows, and buffers of 16 KiB with a header, which one
// thread of a server fills and another frees) are not of a class: any heap can use a large block
// once it is free.
#define FC_SMALL_MAX ((size_t)16 << 10)
#define FC_CLASSES 80
#define FC_SPAN_LEAST ((size_t)64 << 10)

#define FC_LIKELY(x) __builtin_expect(!!(x), 1)
#define FC_UNLIKELY(x) __builtin_expect(!!(x), 0)

// Classes of sizes up to 1 KiB, by size in units of 16 bytes.
extern const uint8_t fc_class_table[65];

// The class of blocks for `size` bytes, at most FC_SMALL_MAX.
static inline unsigned fc_class_of(size_t size) {
    if (FC_LIKELY(size <= 1024)) {
        return fc_class_table[(size + 15) >> 4];
    }
    unsigned log = 63 - (unsigned)__builtin_clzll(size - 1);
    if (size <= 4096) {
        return 8 + (log - 7) * 8 + (unsigned)((size - 1) >> (log - 3) & 7);
    }
    return 48 + (log - 12) * 16 + (unsigned)((size - 1) >> (log - 4) & 15);
}

// The largest request that a block of the class serves.
static inline size_t fc_class_size(unsigned class) {
    if (class < 8) {
        return 16 * ((size_t)class + 1);
    }
    if (class < 48) {
        unsigned doubling = (class - 8) / 8;
        return ((size_t)128 << doubling) + ((class - 8) % 8 + 1) * ((size_t)16 << doubling);
    }
    unsigned doubling = (class - 48) / 16;
    return ((size_t)4096 << doubling) + ((class - 48) % 16 + 1) * ((size_t)256 << doubling);
}

// Distance between neighbouring blocks of the class, in bytes.
static inline size_t fc_class_stride(unsigned class) {
    size_t size = fc_class_size(class);
    return size < FC_PAGE ? size : size + FC_LINE;
}

// Pages of a span of the class: 64 KiB, or four blocks where that is more. A longer span would keep
// more memory from other classes than it saves.
static inline uint32_t fc_class_pages(unsigned class) {
    size_t bytes = 4 * fc_class_stride(class);
    return bytes <= FC_SPAN_LEAST ? FC_SPAN_LEAST / FC_PAGE
                                  : (uint32_t)((bytes + FC_PAGE - 1) >> FC_PAGE_SHIFT);
}

static inline size_t fc_round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

#endif
