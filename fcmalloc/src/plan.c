#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "heap.h"
#include "options.h"
#include "report.h"
#include "span.h"

#define FIRST_LINE "fcmalloc-plan 1"

// ---- Recording ----

struct writer {
    int file;
    bool failed;
};

static void write_line(struct writer *writer, const char *line, int length) {
    if (length < 0 || write(writer->file, line, (size_t)length) != length) {
        writer->failed = true;
    }
}

static void record_heap(struct writer *writer, struct fc_heap *heap) {
    char line[128];
    size_t footprint = heap->shelf.large_peak << FC_PAGE_SHIFT;
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
                        heap->id, heap->shelf.large_peak << FC_PAGE_SHIFT, heap->id, footprint));
}

void fc_plan_record(void) {
    const char *path = fc_options.record;
    if (path == NULL) {
        return;
    }
    char temporary[4096];
    int length = snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    struct writer writer = {.failed = length < 0 || (size_t)length >= sizeof temporary};
    writer.file =
        writer.failed ? -1 : open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer.file < 0) {
        fc_remark("FCMALLOC_RECORD", path, "cannot be written; choose another place");
        return;
    }
    write_line(&writer, FIRST_LINE "\n", sizeof FIRST_LINE);
    for (unsigned id = 0; id < fc_heap_count(); id++) {
        record_heap(&writer, fc_heap_at(id));
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
    unsigned heap;
    size_t class_size;  // 0 for large blocks
    size_t peak;        // blocks of the class, or bytes
};

enum parsed { PARSED_DEMAND, PARSED_NOTHING, PARSED_WRONG };

static enum parsed parse(const char *line, struct record *out) {
    size_t footprint;
    int used = 0;
    if (line[0] == '#' || line[0] == '\0') {
        return PARSED_NOTHING;
    }
    *out = (struct record){0};
    if (sscanf(line, "heap %u footprint %zu%n", &out->heap, &footprint, &used) == 2 &&
        line[used] == '\0') {
        return PARSED_NOTHING;
    }
    used = 0;
    bool class = sscanf(line, "heap %u class %zu peak %zu%n", &out->heap, &out->class_size,
                        &out->peak, &used) == 3;
    if (class && line[used] == '\0') {
        bool known = out->class_size > 0 && out->class_size <= FC_SMALL_MAX;
        return known && out->heap < FC_HEAPS_MAX ? PARSED_DEMAND : PARSED_WRONG;
    }
    used = 0;
    bool large = sscanf(line, "heap %u large peak %zu%n", &out->heap, &out->peak, &used) == 2;
    return large && line[used] == '\0' && out->heap < FC_HEAPS_MAX ? PARSED_DEMAND : PARSED_WRONG;
}

static const char *apply_record(const struct record *record) {
    if (record->peak == 0) {
        return NULL;
    }
    bool done = fc_heap_make(record->heap + 1);
    if (done && record->class_size > 0) {
        done = fc_span_prepare(fc_heap_at(record->heap), fc_class_of(record->class_size),
                               record->peak);
    } else if (done) {
        done = fc_shelf_prepare(fc_heap_at(record->heap), fc_round_up(record->peak, FC_PAGE));
    }
    return done ? NULL : "asks for more than the machine can give; applied in part";
}

static const char *apply(struct reader *reader) {
    char line[256];
    if (!read_line(reader, line, sizeof line) || strcmp(line, FIRST_LINE) != 0) {
        return "not a plan: its first line is not \"" FIRST_LINE "\"; ignored";
    }
    while (read_line(reader, line, sizeof line)) {
        struct record record;
        const char *problem = NULL;
        switch (parse(line, &record)) {
            case PARSED_DEMAND:
                problem = apply_record(&record);
                break;
            case PARSED_NOTHING:
                break;
            case PARSED_WRONG:
                problem = "has a line that is not a record of a plan; applied up to there";
                break;
        }
        if (problem != NULL) {
            return problem;
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
