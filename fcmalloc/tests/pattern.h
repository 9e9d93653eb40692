// Contents that tell blocks apart: every byte follows from a tag and its offset, so that a block
// that another one overlaps, or that lost a part, is detected.

#ifndef FC_TESTS_PATTERN_H
#define FC_TESTS_PATTERN_H

#include "check.h"

// The next number of a sequence that its seed determines (splitmix64).
static inline uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline uint64_t pattern_word(uint64_t tag, size_t place) {
    return (tag + place) * 0x9e3779b97f4a7c15 | 1;
}

// Fills bytes from..to of the block.
static inline void fill_pattern(void *block, size_t from, size_t to, uint64_t tag) {
    char *bytes = (char *)block;
    while (from < to) {
        uint64_t word = pattern_word(tag, from / 8);
        size_t within = from % 8, length = 8 - within < to - from ? 8 - within : to - from;
        memcpy(bytes + from, (char *)&word + within, length);
        from += length;
    }
}

// Checks that bytes 0..size of the block are as they were filled.
static inline void check_pattern(const void *block, size_t size, uint64_t tag) {
    const char *bytes = (const char *)block;
    for (size_t place = 0; place < size; place += 8) {
        uint64_t word = pattern_word(tag, place / 8);
        size_t length = size - place < 8 ? size - place : 8;
        CHECK(memcmp(bytes + place, &word, length) == 0, "(byte %zu of %zu at %p)", place, size,
              block);
    }
}

static inline void check_zero(const void *block, size_t size) {
    const char *bytes = (const char *)block;
    static const char zeros[4096] = {0};
    for (size_t place = 0; place < size; place += sizeof zeros) {
        size_t length = size - place < sizeof zeros ? size - place : sizeof zeros;
        CHECK(memcmp(bytes + place, zeros, length) == 0, "(near byte %zu of %zu at %p)", place,
              size, block);
    }
}

// Sizes around every border that an allocator may have.
static const size_t border_sizes[] = {
    1,       15,      16,      17,      100,     1000,     1024,           1025,
    2049,    4095,    4096,    4097,    8192,    16384,    20000,          32767,
    32769,   65535,   65536,   65537,   69632,   100000,   1 << 17,        250000,
    1 << 20, 2097151, 2097152, 2097153, 5000000, 16 << 20, (24 << 20) + 3,
};
#define BORDER_SIZES (sizeof border_sizes / sizeof *border_sizes)

#endif
