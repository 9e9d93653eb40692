#include "options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

struct fc_options fc_options;

// Reads "512", "64K", "3M", "8G", "8GiB" and the like; `*end` is the first character not read.
static bool read_size(const char *text, const char **end, size_t *out) {
    size_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (size_t)(*c - '0'), &value)) {
            return false;
        }
    }
    if (c == text) {
        return false;
    }
    static const char units[4] = "KMGT";
    const char *unit = memchr(units, *c & ~0x20, sizeof units);
    if (unit != NULL) {
        size_t factor = (size_t)1 << (10 * (unit - units + 1));
        if (__builtin_mul_overflow(value, factor, &value)) {
            return false;
        }
        c++;
        c += strncmp(c, "iB", 2) == 0 ? 2 : *c == 'B';
    }
    *end = c;
    *out = value;
    return true;
}

static void read_whole_size(const char *name, size_t *out) {
    const char *text = secure_getenv(name);
    const char *end;
    size_t value;
    if (text == NULL) {
        return;
    }
    if (!read_size(text, &end, &value) || *end != '\0') {
        fc_remark(name, text, "not a size such as 512M or 8G; ignored");
        return;
    }
    *out = value;
}

// "8G", or "main=2G,core=512M" in either order.
static void read_reserve(void) {
    const char *text = secure_getenv("FCMALLOC_RESERVE");
    if (text == NULL) {
        return;
    }
    struct fc_options parts = {0};
    const char *c = text;
    for (;;) {
        size_t *out = &parts.reserve;
        if (strncmp(c, "main=", 5) == 0) {
            out = &parts.reserve_main;
            c += 5;
        } else if (strncmp(c, "core=", 5) == 0) {
            out = &parts.reserve_core;
            c += 5;
        }
        if (!read_size(c, &c, out)) {
            break;
        }
        if (*c == '\0') {
            fc_options.reserve = parts.reserve;
            fc_options.reserve_main = parts.reserve_main;
            fc_options.reserve_core = parts.reserve_core;
            return;
        }
        if (*c++ != ',') {
            break;
        }
    }
    fc_remark("FCMALLOC_RESERVE", text, "not a size such as 8G, nor main=2G,core=512M; ignored");
}

static void read_huge(void) {
    static const char *const names[] = {"never", "thp", "explicit"};
    const char *text = secure_getenv("FCMALLOC_HUGE");
    fc_options.huge = FC_HUGE_TRANSPARENT;
    for (int i = 0; text != NULL && i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            fc_options.huge = (enum fc_huge)i;
            return;
        }
    }
    if (text != NULL) {
        fc_remark("FCMALLOC_HUGE", text, "not one of thp, explicit, never; taken as thp");
    }
}

static void read_stats(void) {
    const char *text = secure_getenv("FCMALLOC_STATS");
    if (text == NULL) {
        return;
    }
    fc_options.stats = strncmp(text, "json", 4) == 0 && (text[4] == '\0' || text[4] == ':');
    if (fc_options.stats) {
        fc_options.stats_file = text[4] == ':' ? text + 5 : NULL;
    } else {
        fc_remark("FCMALLOC_STATS", text, "neither json nor json:FILE; ignored");
    }
}

// Set-user-ID programs and the like take no options from the user.
void fc_options_read(void) {
    fc_options.limit = SIZE_MAX;
    read_reserve();
    read_huge();
    read_stats();
    read_whole_size("FCMALLOC_LIMIT", &fc_options.limit);
    size_t decay = 0;
    read_whole_size("FCMALLOC_DECAY", &decay);
    fc_options.decay = decay < INT32_MAX ? (uint32_t)decay : INT32_MAX;
    fc_options.record = secure_getenv("FCMALLOC_RECORD");
    fc_options.plan = secure_getenv("FCMALLOC_PLAN");
}
