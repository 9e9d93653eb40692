// Sizes as people write them: `8G` is 8 × 2^30 bytes.

#ifndef FCMALLOC_TOOL_SIZE_H
#define FCMALLOC_TOOL_SIZE_H

#include <stdbool.h>
#include <stdint.h>

// Reads digits and at most one of the suffixes K, M, G, T (powers of 1024, either case) from
// `text`, of which nothing may be left over. False where it is no size or exceeds 64 bits.
bool size_parse(const char *text, uint64_t *bytes);

// Room for what size_print writes.
enum { SIZE_TEXT = 16 };

// Writes `bytes` in the largest unit of which it has one, such as `1.5 MiB`; returns `text`.
const char *size_print(uint64_t bytes, char text[SIZE_TEXT]);

#endif
