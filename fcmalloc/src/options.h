// What the environment asks for, read once before the first allocation.

#ifndef FC_OPTIONS_H
#define FC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fc_huge { FC_HUGE_NEVER, FC_HUGE_TRANSPARENT, FC_HUGE_EXPLICIT };

struct fc_options {
    size_t reserve;       // bytes first-touched at start, for whoever needs them
    size_t reserve_main;  // bytes first-touched for the heap of the main thread
    size_t reserve_core;  // bytes first-touched for each core's heap
    size_t limit;         // most bytes of footprint; SIZE_MAX where unlimited
    uint32_t decay;       // milliseconds after which free memory is released; 0 never
    enum fc_huge huge;
    const char *record;  // file to write the demand to at exit, or NULL
    const char *plan;    // file to read the demand from, or NULL
    bool stats;
    const char *stats_file;  // NULL for standard error
};

extern struct fc_options fc_options;

void fc_options_read(void);

#endif
