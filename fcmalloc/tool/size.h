// Sizes as people write them: `8G` is 8 × 2^30 bytes.

#ifndef FCMALLOC_TOOL_SIZE_H
#define FCMALLOC_TOOL_SIZE_H

#include <stdbool.h>
#include <stdint.h>

// Reads `text`, digits with at most one of the units K, M, G, T (powers of 1024; k, KB and KiB are
// K as well), as the allocator reads its options. False where it is no size or exceeds 64 bits.
bool size_parse(const char *text, uint64_t *bytes);

// Bytes that size_print needs.
enum { SIZE_TEXT = 16 };

// Writes `bytes` in the largest unit of which it has one, such as `1.5 MiB`; returns `text`.
const char *size_print(uint64_t bytes, char text[SIZE_TEXT]);

#endif
