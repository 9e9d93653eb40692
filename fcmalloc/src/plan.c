#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fcmalloc.h"
#include "heap.h"
#include "options.h"
#include "os.h"
#include "report.h"
#include "span.h"
#include "stats.h"

#define FIRST_LINE "fcmalloc-plan 1"

// ---- Recording ----

// The process whose demand is recorded: its forked children are not part of it.
static pid_t recorded;

struct writer {
    int file;
    bool failed;
};

static void write_line(struct writer *writer, const char *line, int length) {
    if (length < 0 || write(writer->file, line, (size_t)length) != length) {
        writer->failed = true;
    }
}

static size_t large_peak(const struct fc_heap *heap) {
    return heap->large_bins.large_peak << FC_PAGE_SHIFT;
}

// What was touched for large blocks, as a share of the sum of the heaps' peaks; at most 1.
static double touched_share(void) {
    struct fc_stats stats;
    fc_stats(&stats);
    double touched = (double)stats.footprint_peak - (double)fc_stats_span_bytes();
    double peaks = 0;
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        peaks += (double)large_peak(fc_heap_at(id));
    }
    return touched > 0 && touched < peaks ? touched / peaks : 1;
}

static void record_heap(struct writer *writer, struct fc_heap *heap, double share) {
    char line[128];
    size_t footprint = (size_t)((double)large_peak(heap) * share);
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        unsigned long long blocks = heap->demand[class];
        if (blocks == 0) {
            continue;
        }
        footprint += blocks * fc_class_stride(class);
        write_line(writer, line,
                   snprintf(line, sizeof line, "heap %u class %zu peak %llu\n", heap->id,
                            fc_class_size(class), blocks));
    }
    write_line(writer, line,
               snprintf(line, sizeof line, "heap %u large peak %zu\nheap %u footprint %zu\n",
                        heap->id, large_peak(heap), heap->id, footprint));
}

// The pattern with the number of the process for every %p. False where that is too long.
static bool fill_in(const char *pattern, char *path, size_t size) {
    size_t length = 0;
    for (const char *c = pattern; *c != '\0' && length < size; c++) {
        bool number = c[0] == '%' && c[1] == 'p';
        int added = number ? snprintf(path + length, size - length, "%ld", (long)recorded)
                           : snprintf(path + length, size - length, "%c", *c);
        length += (size_t)added;
        c += number;
    }
    return length < size;
}

void fc_plan_watch(void) { recorded = getpid(); }

void fc_plan_record(void) {
    if (fc_options.record == NULL || getpid() != recorded) {
        return;
    }
    char path[4096] = "";
    char temporary[sizeof path + 32];
    struct writer writer = {.failed = !fill_in(fc_options.record, path, sizeof path)};
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)recorded);
    writer.file =
        writer.failed ? -1 : open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer.file < 0) {
        fc_remark("FCMALLOC_RECORD", fc_options.record, "cannot be written; choose another place");
        return;
    }
    write_line(&writer, FIRST_LINE "\n", sizeof FIRST_LINE);
    double share = touched_share();
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        record_heap(&writer, fc_heap_at(id), share);
    }
    if (fsync(writer.file) != 0 && errno != EINVAL) {
        writer.failed = true;
    }
    close(writer.file);
    if (writer.failed || rename(temporary, path) != 0) {
        unlink(temporary);
        fc_remark("FCMALLOC_RECORD", path, "could not be written in full; nothing is recorded");
    }
}

// ---- Applying ----

// Reads lines without allocating.
struct reader {
    int file;
    char text[4096];
    size_t begin;
    size_t end;
};

static bool read_line(struct reader *reader, char *line, size_t size) {
    size_t length = 0;
    for (;;) {
        if (reader->begin == reader->end) {
            ssize_t got = read(reader->file, reader->text, sizeof reader->text);
            if (got <= 0) {
                line[length] = '\0';
                return length > 0;
            }
            reader->begin = 0;
            reader->end = (size_t)got;
        }
        char c = reader->text[reader->begin++];
        if (c == '\n' || length == size - 1) {
            line[length] = '\0';
            return true;
        }
        line[length++] = c;
    }
}

struct record {
    size_t heap;
    size_t class_size;  // 0 for the footprint
    size_t amount;      // blocks of the class, or bytes
};

enum parsed { PARSED_DEMAND, PARSED_NOTHING, PARSED_WRONG };

static enum parsed parse(const char *line, struct record *out) {
    size_t peak;
    int used = 0;
    if (line[0] == '#' || line[0] == '\0') {
        return PARSED_NOTHING;
    }
    *out = (struct record){0};
    if (sscanf(line, "heap %zu large peak %zu%n", &out->heap, &peak, &used) == 2 &&
        line[used] == '\0') {
        return PARSED_NOTHING;
    }
    used = 0;
    bool class = sscanf(line, "heap %zu class %zu peak %zu%n", &out->heap, &out->class_size,
                        &out->amount, &used) == 3;
    if (class && line[used] == '\0') {
        if (out->class_size == 0 || out->heap >= FC_HEAPS_MAX) {
            return PARSED_WRONG;
        }
        // Recorded by a version with larger classes. The heap's footprint includes it.
        return out->class_size <= FC_SMALL_MAX ? PARSED_DEMAND : PARSED_NOTHING;
    }
    *out = (struct record){0};
    used = 0;
    bool footprint = sscanf(line, "heap %zu footprint %zu%n", &out->heap, &out->amount, &used) == 2;
    return footprint && line[used] == '\0' && out->heap < FC_HEAPS_MAX ? PARSED_DEMAND
                                                                       : PARSED_WRONG;
}

struct applied {
    size_t heap;
    size_t bytes;  // so far for that heap
    size_t left;   // that may still be touched, for all heaps
};

// Bytes that may be touched: beyond the machine's memory the kernel would not refuse, but kill the
// program.
static size_t touchable(void) {
    size_t memory = fc_os_memory();
    size_t most = memory < fc_space.whole ? memory : fc_space.whole;
    return most < fc_options.limit ? most : fc_options.limit;
}

// Subtracts bytes from those left. False where there are too few.
static bool spend(struct applied *applied, size_t bytes) {
    if (bytes > applied->left) {
        return false;
    }
    applied->left -= bytes;
    applied->bytes += bytes;
    return true;
}

static bool apply_record(const struct record *record, struct applied *applied) {
    if (applied->heap != record->heap) {
        applied->heap = record->heap;
        applied->bytes = 0;
    }
    unsigned class = fc_class_of(record->class_size);
    size_t bytes = record->amount > applied->bytes ? record->amount - applied->bytes : 0;
    if (record->class_size > 0 &&
        __builtin_mul_overflow(record->amount, fc_class_stride(class), &bytes)) {
        return false;
    }
    if (bytes == 0) {
        return true;
    }
    if (!spend(applied, bytes) || !fc_heap_make((unsigned)record->heap + 1)) {
        return false;
    }
    struct fc_heap *heap = fc_heap_at((unsigned)record->heap);
    return record->class_size > 0 ? fc_span_prepare(heap, class, record->amount)
                                  : fc_large_bins_prepare(heap, fc_round_up(bytes, FC_PAGE));
}

static const char *apply(struct reader *reader) {
    char line[256];
    if (!read_line(reader, line, sizeof line) || strcmp(line, FIRST_LINE) != 0) {
        return "not a plan: its first line is not \"" FIRST_LINE "\"; ignored";
    }
    struct applied applied = {.left = touchable()};
    while (read_line(reader, line, sizeof line)) {
        struct record record;
        switch (parse(line, &record)) {
            case PARSED_DEMAND:
                if (!apply_record(&record, &applied)) {
                    return "asks for more than the machine can give; applied in part";
                }
                break;
            case PARSED_NOTHING:
                break;
            case PARSED_WRONG:
                return "has a line that is not a record of a plan; applied up to there";
        }
    }
    return NULL;
}

void fc_plan_apply(void) {
    const char *path = fc_options.plan;
    if (path == NULL) {
        return;
    }
    struct reader reader = {.file = open(path, O_RDONLY | O_CLOEXEC)};
    if (reader.file < 0) {
        fc_remark("FCMALLOC_PLAN", path, "cannot be read; ignored");
        return;
    }
    const char *problem = apply(&reader);
    close(reader.file);
    if (problem != NULL) {
        fc_remark("FCMALLOC_PLAN", path, problem);
    }
}
