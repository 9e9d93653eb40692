#include "plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "size.h"

static const char HEADER[] = "fcmalloc-plan 1";

// ---- Reading ----

enum {
    LINE_TEXT = 256,   // of a line; records are far shorter
    RECORD_WORDS = 6,  // of the longest record
};

static unsigned split(char *line, char *words[RECORD_WORDS + 1]) {
    unsigned count = 0;
    char *rest;
    for (char *word = strtok_r(line, " ", &rest); word != NULL && count <= RECORD_WORDS;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return count;
}

static bool parse_count(const char *word, uint64_t *count) {
    if (*word < '0' || *word > '9') return false;
    char *end;
    errno = 0;
    *count = strtoull(word, &end, 10);
    return *end == '\0' && errno == 0;
}

// `line` is taken apart.
static bool parse_demand(char *line, struct demand *demand) {
    char *words[RECORD_WORDS + 1];
    unsigned count = split(line, words);
    *demand = (struct demand){0};
    if (count < 4 || strcmp(words[0], "heap") != 0 || !parse_count(words[1], &demand->heap) ||
        !parse_count(words[count - 1], &demand->peak))
        return false;
    if (count == 4) {
        demand->kind = DEMAND_FOOTPRINT;
        return strcmp(words[2], "footprint") == 0;
    }
    if (strcmp(words[count - 2], "peak") != 0) return false;
    if (count == 5) {
        demand->kind = DEMAND_LARGE;
        return strcmp(words[2], "large") == 0;
    }
    demand->kind = DEMAND_CLASS;
    uint64_t bytes;
    return count == 6 && strcmp(words[2], "class") == 0 &&
           parse_count(words[3], &demand->class_size) &&
           !__builtin_mul_overflow(demand->class_size, demand->peak, &bytes);
}

static void append(struct plan *plan, struct demand demand) {
    // Doubles whenever count is a power of two.
    if ((plan->count & (plan->count - 1)) == 0) {
        size_t capacity = plan->count == 0 ? 1 : 2 * plan->count;
        plan->demands = reallocarray(plan->demands, capacity, sizeof *plan->demands);
        if (plan->demands == NULL)
            fail(FAILED_ITSELF, "no memory for a plan of %zu records", capacity);
    }
    plan->demands[plan->count++] = demand;
}

static int compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int by_heap_kind_class(const void *left, const void *right) {
    const struct demand *a = left, *b = right;
    int order = compare(a->heap, b->heap);
    if (order == 0) order = compare(a->kind, b->kind);
    return order == 0 ? compare(a->class_size, b->class_size) : order;
}

// False at the end of the file.
static bool read_line(FILE *file, const char *path, char line[LINE_TEXT]) {
    line[0] = '\0';
    bool read = fgets(line, LINE_TEXT, file) != NULL;
    if (ferror(file)) fail(FAILED_ITSELF, "cannot read the plan %s: %s", path, strerror(errno));
    line[strcspn(line, "\n")] = '\0';
    return read;
}

struct plan plan_read(const char *path) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        fail(FAILED_ITSELF, "cannot read the plan %s: %s; make one with `fcmalloc record`", path,
             strerror(errno));
    char line[LINE_TEXT];
    read_line(file, path, line);
    if (strcmp(line, HEADER) != 0)
        fail(FAILED_ITSELF,
             "%s is no plan that this launcher reads: its first line is not `%s`; "
             "make one with `fcmalloc record`",
             path, HEADER);
    struct plan plan = {0};
    for (unsigned number = 2; read_line(file, path, line); ++number) {
        struct demand demand;
        if (line[0] == '#' || line[0] == '\0') continue;
        if (!parse_demand(line, &demand))
            fail(FAILED_ITSELF,
                 "line %u of the plan %s is no record; make the plan again with "
                 "`fcmalloc record`",
                 number, path);
        append(&plan, demand);
    }
    fclose(file);
    if (plan.count != 0) qsort(plan.demands, plan.count, sizeof *plan.demands, by_heap_kind_class);
    return plan;
}

// ---- Showing ----

enum { NAME_TEXT = 24 };

static const char *demand_name(const struct demand *demand, char text[NAME_TEXT]) {
    switch (demand->kind) {
        case DEMAND_CLASS:
            snprintf(text, NAME_TEXT, "%" PRIu64, demand->class_size);
            return text;
        case DEMAND_LARGE:
            return "large";
        case DEMAND_FOOTPRINT:
            return "footprint";
    }
    __builtin_unreachable();
}

static uint64_t demand_bytes(const struct demand *demand) {
    return demand->kind == DEMAND_CLASS ? demand->class_size * demand->peak : demand->peak;
}

static void show_row(const char *heap, const struct demand *demand) {
    char name[NAME_TEXT], blocks[NAME_TEXT] = "", size[SIZE_TEXT];
    if (demand->kind == DEMAND_CLASS) snprintf(blocks, sizeof blocks, "%" PRIu64, demand->peak);
    printf("%-6s %10s %12s %12s\n", heap, demand_name(demand, name), blocks,
           size_print(demand_bytes(demand), size));
}

static int by_kind_class(const void *left, const void *right) {
    const struct demand *a = left, *b = right;
    int order = compare(a->kind, b->kind);
    return order == 0 ? compare(a->class_size, b->class_size) : order;
}

// Adds up what all heaps demand of each class, in place: the plan is gone thereafter.
static void sum_over_heaps(struct plan *plan) {
    qsort(plan->demands, plan->count, sizeof *plan->demands, by_kind_class);
    size_t sums = 0;
    for (size_t i = 0; i < plan->count; ++i) {
        if (sums != 0 && by_kind_class(&plan->demands[sums - 1], &plan->demands[i]) == 0)
            plan->demands[sums - 1].peak += plan->demands[i].peak;
        else
            plan->demands[sums++] = plan->demands[i];
    }
    plan->count = sums;
}

void plan_show(struct plan *plan) {
    printf("%-6s %10s %12s %12s\n", "heap", "class", "peak blocks", "peak bytes");
    for (size_t i = 0; i < plan->count; ++i) {
        char heap[NAME_TEXT];
        snprintf(heap, sizeof heap, "%" PRIu64, plan->demands[i].heap);
        show_row(heap, &plan->demands[i]);
    }
    sum_over_heaps(plan);
    for (size_t i = 0; i < plan->count; ++i)
        show_row("all", &plan->demands[i]);
}
