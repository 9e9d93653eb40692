// A misuse ends in one line that begins with "fcmalloc: " and names the pointer, and in SIGABRT.

#ifndef FC_TESTS_MISUSE_H
#define FC_TESTS_MISUSE_H

#include "pattern.h"

#include <malloc.h>
#include <sys/mman.h>

// The pointer that the line must name, written by the child.
static void **suspect;

__attribute__((constructor)) static void share_suspect(void) {
    suspect = (void **)mmap(NULL, sizeof *suspect, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static inline void *suspected(void *pointer) {
    *suspect = pointer;
    return opaque(pointer);
}

static void check_one_line(struct outcome outcome, const char *what) {
    CHECK(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT, "(status %#x) %s",
          (unsigned)outcome.status, outcome.errors);
    char *end = strchr(outcome.errors, '\n');
    CHECK(end != NULL && end[1] == '\0', "(not one line: %s)", outcome.errors);
    CHECK(strncmp(outcome.errors, "fcmalloc: ", 10) == 0, "(%s)", outcome.errors);
    CHECK(strstr(outcome.errors, what) != NULL, "(no \"%s\" in: %s)", what, outcome.errors);
}

static inline void check_misuse(void (*body)(void), const char *what) {
    struct outcome outcome = outcome_of(body);
    check_one_line(outcome, what);
    char pointer[32];
    snprintf(pointer, sizeof pointer, "%zx", (size_t)*suspect);
    CHECK(strstr(outcome.errors, pointer) != NULL, "(no %s in: %s)", pointer, outcome.errors);
}

#endif
