#include "size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char UNIT_LETTERS[4] = "KMGT";

bool size_parse(const char *text, uint64_t *bytes) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    unsigned long long count = strtoull(text, &end, 10);
    if (errno != 0) return false;
    int shift = 0;
    const char *letter = memchr(UNIT_LETTERS, *end & ~0x20, sizeof UNIT_LETTERS);
    if (letter != NULL) {
        shift = 10 * (int)(letter - UNIT_LETTERS + 1);
        ++end;
        end += strncmp(end, "iB", 2) == 0 ? 2 : *end == 'B';
    }
    if (*end != '\0') return false;
    *bytes = (uint64_t)count << shift;
    return *bytes >> shift == count;
}

const char *size_print(uint64_t bytes, char text[SIZE_TEXT]) {
    static const char *const UNITS[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, SIZE_TEXT, "%u B", (unsigned)bytes);
        return text;
    }
    int unit = (63 - __builtin_clzll(bytes)) / 10 - 1;
    double value = (double)bytes / (double)(UINT64_C(1) << (10 * (unit + 1)));
    snprintf(text, SIZE_TEXT, "%.1f %s", value, UNITS[unit]);
    return text;
}
