// Figures are read while other threads run: each was right at some moment of the call, and all are
// consistent only when nothing else runs.

#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fcmalloc.h"
#include "heap.h"
#include "options.h"
#include "os.h"
#include "report.h"

struct class_figures {
    uint64_t spans;
    uint64_t used;
    uint64_t carved;
};

struct figures {
    struct fc_stats stats;
    struct class_figures classes[FC_CLASSES];
    uint64_t large_blocks;
    uint64_t span_bytes;
};

static void count_span(struct figures *figures, const struct fc_run *span) {
    struct class_figures *class = &figures->classes[span->class];
    uint64_t used = span->used;
    class->spans++;
    class->used += used;
    class->carved += span->carved;
    figures->span_bytes += fc_run_bytes(span);
    figures->stats.in_use_small += used * fc_run_stride(span);
    figures->stats.free_small += fc_run_bytes(span) - used * fc_run_stride(span);
}

// Walks the runs through the page map.
FC_READS_WHILE_OTHERS_WRITE static void count_runs(struct figures *figures) {
    size_t size = atomic_load_explicit(&fc_space.size, memory_order_relaxed);
    for (size_t offset = 0; offset < size;) {
        char *page = (char *)fc_space.base + offset;
        const struct fc_run *run = fc_space_run(page);
        offset += FC_PAGE;
        if (run == NULL || run->start != page || run->pages == 0) {
            continue;
        }
        switch (fc_run_kind(run)) {
            case FC_RUN_SPAN:
                count_span(figures, run);
                break;
            case FC_RUN_LARGE:
                figures->large_blocks++;
                figures->stats.in_use_large += fc_run_bytes(run);
                break;
            case FC_RUN_TRANSIT:
                figures->stats.in_transit += fc_run_bytes(run);
                break;
            case FC_RUN_FREE:
                figures->stats.free_large += run->zero ? 0 : fc_run_bytes(run);
                break;
            case FC_RUN_NONE:
                continue;
        }
        offset += fc_run_bytes(run) - FC_PAGE;
    }
}

// To the spans, blocks in transit and in the thread cache are in use.
FC_READS_WHILE_OTHERS_WRITE static void count_heaps(struct fc_stats *stats) {
    uint64_t in_transit = 0;
    uint64_t cached = 0;
    uint64_t cached_large = 0;
    stats->heaps = fc_heap_count();
    for (unsigned id = 0; id < stats->heaps; id++) {
        const struct fc_heap *heap = fc_heap_at(id);
        stats->heaps_adopted += heap->adoptions;
        stats->remote_frees += heap->remote_frees;
        stats->batches += heap->batches;
        stats->steals += heap->steals;
        in_transit += heap->sent - heap->received;
        cached += fc_sub_cached(&heap->sub);
        cached_large += heap->sub.large_pages << FC_PAGE_SHIFT;
    }
    stats->in_transit += in_transit;
    stats->in_transit -= cached_large < stats->in_transit ? cached_large : stats->in_transit;
    stats->free_large += cached_large;
    stats->free_small += cached;
    uint64_t not_in_use = in_transit + cached;
    stats->in_use_small -= not_in_use < stats->in_use_small ? not_in_use : stats->in_use_small;
}

static uint64_t load(_Atomic size_t *figure) {
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static void gather(struct figures *figures) {
    *figures = (struct figures){0};
    struct fc_stats *stats = &figures->stats;
    if (fc_heap_count() > 0) {
        count_runs(figures);
        count_heaps(stats);
    }
    stats->metadata = load(&fc_space.metadata);
    stats->footprint = load(&fc_space.footprint);
    stats->footprint_peak = load(&fc_space.footprint_peak);
    stats->reserved = load(&fc_space.reserved);
    stats->released = load(&fc_space.released);
    stats->contended_waits = atomic_load_explicit(&fc_lock_waits, memory_order_relaxed);
    stats->system_calls = atomic_load_explicit(&fc_os_calls, memory_order_relaxed);
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        stats->minor_faults = (uint64_t)usage.ru_minflt;
        stats->major_faults = (uint64_t)usage.ru_majflt;
    }
}

void fc_stats(struct fc_stats *out) {
    struct figures figures;
    gather(&figures);
    *out = figures.stats;
}

uint64_t fc_stats_span_bytes(void) {
    struct figures figures;
    gather(&figures);
    return figures.span_bytes;
}

struct text {
    char bytes[32768];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = sizeof text->bytes - text->length;
    int length = vsnprintf(text->bytes + text->length, left, format, arguments);
    va_end(arguments);
    text->length += length > 0 && (size_t)length < left ? (size_t)length : 0;
}

static void add_stats(struct text *text, const struct fc_stats *stats) {
#define FIGURE(name) add(text, "\"" #name "\":%llu,", (unsigned long long)stats->name)
    FIGURE(in_use_small);
    FIGURE(in_use_large);
    FIGURE(free_small);
    FIGURE(free_large);
    FIGURE(in_transit);
    FIGURE(metadata);
    FIGURE(footprint);
    FIGURE(footprint_peak);
    FIGURE(reserved);
    FIGURE(released);
    FIGURE(heaps);
    FIGURE(heaps_adopted);
    FIGURE(remote_frees);
    FIGURE(batches);
    FIGURE(steals);
    FIGURE(contended_waits);
    FIGURE(system_calls);
    FIGURE(minor_faults);
    FIGURE(major_faults);
#undef FIGURE
}

int fc_stats_json(int descriptor) {
    struct figures figures;
    gather(&figures);
    struct text text = {.length = 0};
    add(&text, "{\"fcmalloc\":\"" FC_VERSION "\",\"pid\":%ld,", (long)getpid());
    add_stats(&text, &figures.stats);
    add(&text, "\"large_blocks\":%llu,\"classes\":[", (unsigned long long)figures.large_blocks);
    const char *comma = "";
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        const struct class_figures *of = &figures.classes[class];
        if (of->spans > 0) {
            add(&text, "%s{\"size\":%zu,\"spans\":%llu,\"used\":%llu,\"touched\":%llu}", comma,
                fc_class_size(class), (unsigned long long)of->spans, (unsigned long long)of->used,
                (unsigned long long)of->carved);
            comma = ",";
        }
    }
    add(&text, "]}\n");
    for (size_t done = 0; done < text.length;) {
        ssize_t written = write(descriptor, text.bytes + done, text.length - done);
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

void fc_stats_report(void) {
    if (!fc_options.stats) {
        return;
    }
    const char *path = fc_options.stats_file;
    int file =
        path == NULL ? STDERR_FILENO : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || fc_stats_json(file) != 0) {
        fc_remark("FCMALLOC_STATS", path != NULL ? path : "json",
                  "the figures could not be written; choose another file");
    }
    if (path != NULL && file >= 0) {
        close(file);
    }
}
