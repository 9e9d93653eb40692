#include "preload.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "program.h"

// From the launcher's folder to the installed libraries; the build says where it is not this.
#ifndef FCMALLOC_LIBRARY_FOLDER
#define FCMALLOC_LIBRARY_FOLDER "../lib"
#endif

static const char *const FOLDERS[] = {".", FCMALLOC_LIBRARY_FOLDER};

const char *library_find(const char *file) {
    static char library[PATH_MAX];
    char launcher[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", launcher, sizeof launcher - 1);
    if (length < 0)
        fail(FAILED_ITSELF, "cannot tell where the launcher lies: %s; is /proc mounted?",
             strerror(errno));
    launcher[length] = '\0';
    *strrchr(launcher, '/') = '\0';
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; ++i) {
        char *candidate;
        if (asprintf(&candidate, "%s/%s/%s", launcher, FOLDERS[i], file) < 0)
            fail(FAILED_ITSELF, "no memory to look for %s", file);
        const char *found = realpath(candidate, library);
        free(candidate);
        if (found != NULL && access(found, R_OK) == 0) return found;
    }
    fail(FAILED_ITSELF, "cannot find %s in %s or %s/%s; build or install fcmalloc again", file,
         launcher, launcher, FCMALLOC_LIBRARY_FOLDER);
}

static void put_before_others(const char *library) {
    // The dynamic linker splits the list at both, and knows no quoting.
    if (strpbrk(library, " :") != NULL)
        fail(FAILED_ITSELF,
             "%s cannot be preloaded, since its path has a space or a colon; move it", library);
    const char *others = getenv("LD_PRELOAD");
    char *list;
    if (asprintf(&list, "%s%s%s", library, others != NULL && *others != '\0' ? ":" : "",
                 others != NULL ? others : "") < 0 ||
        setenv("LD_PRELOAD", list, 1) != 0)
        fail(FAILED_ITSELF, "no memory to preload %s", library);
    free(list);
}

_Noreturn void preload_and_start(const char *library, char *const command[]) {
    const char *program = program_find(command[0]);
    program_require_preloadable(program);
    put_before_others(library);
    execv(program, command);
    fail(FAILED_TO_START, "cannot start %s: %s", program, strerror(errno));
}
