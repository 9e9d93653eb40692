// What the allocator reports about itself at the end, by FCMALLOC_STATS.

#ifndef FC_STATS_H
#define FC_STATS_H

void fc_stats_report(void);

#endif
