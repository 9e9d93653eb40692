#include "report.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
    char text[512];
    size_t length;
};

static void add(struct line *line, const char *text) {
    while (*text != '\0' && line->length < sizeof line->text - 1) {
        line->text[line->length++] = *text++;
    }
}

static void add_pointer(struct line *line, const void *pointer) {
    char digits[] = "0x0000000000000000";
    uintptr_t value = (uintptr_t)pointer;
    for (size_t i = sizeof digits - 2; i >= 2; i--, value >>= 4) {
        digits[i] = "0123456789abcdef"[value & 15];
    }
    add(line, digits);
}

static void print(struct line *line) {
    int saved = errno;
    line->text[line->length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line->text, line->length);
    (void)written;
    errno = saved;
}

_Noreturn void fc_die(const char *message, const void *pointer) {
    struct line line = {.length = 0};
    add(&line, "fcmalloc: ");
    const char *place = strstr(message, "%p");
    for (const char *c = message; *c != '\0'; c++) {
        if (c == place) {
            add_pointer(&line, pointer);
            c++;
        } else {
            add(&line, (char[]){*c, '\0'});
        }
    }
    print(&line);
    abort();
}

void fc_remark_unguarded(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&said)) {
        return;
    }
    struct line line = {.length = 0};
    add(&line, "fcmalloc: guard pages cannot be set, and allocations fail; raise vm.max_map_count");
    print(&line);
}

void fc_remark(const char *name, const char *value, const char *message) {
    struct line line = {.length = 0};
    add(&line, "fcmalloc: ");
    add(&line, name);
    add(&line, "=");
    add(&line, value);
    add(&line, ": ");
    add(&line, message);
    print(&line);
}
