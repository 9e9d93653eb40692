// What the allocator reports about itself at exit, by FCMALLOC_STATS.

#ifndef FC_STATS_H
#define FC_STATS_H

#include <stdint.h>

// Bytes of all spans, whatever their blocks are used for.
uint64_t fc_stats_span_bytes(void);

void fc_stats_report(void);

#endif
