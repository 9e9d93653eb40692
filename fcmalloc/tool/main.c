// The command `fcmalloc`: starts programs under the allocator, records their plans, shows plans.
// It only checks, sets the environment and becomes the program, so that exit status and signals
// are the program's.

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "fcmalloc.h"
#include "plan.h"
#include "preload.h"
#include "size.h"

static const char HELP[] =
    "fcmalloc: runs programs under the allocator FCMalloc.\n"
    "\n"
    "  fcmalloc run [OPTIONS] [--] PROGRAM [ARGUMENTS]    start PROGRAM under the allocator\n"
    "  fcmalloc record [--output PLAN] [--] PROGRAM ...   the same, and write its peak demand to\n"
    "                                                     PLAN (default: PROGRAM.plan, here); "
    "each\n"
    "                                                     process that is started writes one: "
    "with\n"
    "                                                     %p in PLAN, its number, to a file of its "
    "own\n"
    "  fcmalloc show PLAN                                 print a plan by thread and size class\n"
    "  fcmalloc --help | --version\n"
    "\n"
    "Options of run:\n"
    "  --reserve SIZE          first-touch SIZE at start, such as 8G, or parts: main=2G,core=512M\n"
    "  --plan PLAN             first-touch at start what PLAN says the program will need\n"
    "  --limit SIZE            let allocation fail (ENOMEM) beyond SIZE\n"
    "  --huge thp|explicit|never   pages: transparent huge (default), reserved huge, small\n"
    "  --decay MILLISECONDS    give memory that has been free this long back to the kernel\n"
    "  --secure                use the build with encoded links, random order and guard pages\n"
    "  --stats[=FILE]          write statistics as JSON to standard error, or to FILE, at exit\n"
    "\n"
    "Exit status: the program's; 125 where fcmalloc itself fails, 126 where PROGRAM cannot be\n"
    "started under it, 127 where PROGRAM is not found.\n";

static void set(const char *variable, const char *value) {
    if (setenv(variable, value, 1) != 0)
        fail(FAILED_ITSELF, "cannot set %s: %s", variable, strerror(errno));
}

// The file at `path` for a program that may change its working directory.
static const char *absolute(const char *path) {
    char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
    if (folder == NULL) return path;
    char *joined;
    if (asprintf(&joined, "%s/%s", folder, path) < 0)
        fail(FAILED_ITSELF, "no memory for the path %s", path);
    free(folder);
    return joined;
}

// ---- Options ----

static void require_size(const char *option, const char *text) {
    uint64_t bytes;
    if (!size_parse(text, &bytes) || bytes == 0)
        fail(FAILED_ITSELF, "--%s %s: not a size; give a number with K, M, G or T, such as 8G",
             option, text);
}

// A size, or parts of it: `main=2G,core=512M`, either or both.
static void require_reserve(const char *text) {
    char parts[256];
    if (strchr(text, '=') == NULL || strlen(text) >= sizeof parts) {
        require_size("reserve", text);
        return;
    }
    strcpy(parts, text);
    char *rest;
    for (char *part = strtok_r(parts, ",", &rest); part != NULL;
         part = strtok_r(NULL, ",", &rest)) {
        const char *size = strchrnul(part, '=');
        if (strncmp(part, "main=", 5) != 0 && strncmp(part, "core=", 5) != 0)
            fail(FAILED_ITSELF, "--reserve %s: the parts are main=SIZE and core=SIZE", text);
        require_size("reserve", size + 1);
    }
}

static void require_huge(const char *text) {
    if (strcmp(text, "thp") != 0 && strcmp(text, "explicit") != 0 && strcmp(text, "never") != 0)
        fail(FAILED_ITSELF, "--huge %s: choose thp, explicit or never", text);
}

static void require_decay(const char *text) {
    if (*text == '\0' || strlen(text) > 9 || strspn(text, "0123456789") != strlen(text))
        fail(FAILED_ITSELF, "--decay %s: not a number of milliseconds, such as 1000", text);
}

// Ends the launcher where the program could not write to `path` when it ends. Makes no file: the
// program may not even start.
static void require_writable(const char *path) {
    bool exists = access(path, F_OK) == 0;
    if (access(exists ? path : dirname(strdupa(path)), W_OK) != 0)
        fail(FAILED_ITSELF, "cannot write %s: %s; name another file", path, strerror(errno));
}

static void set_stats(const char *path) {
    if (path == NULL) {
        set("FCMALLOC_STATS", "json");
        return;
    }
    require_writable(path);
    char *value;
    if (asprintf(&value, "json:%s", absolute(path)) < 0)
        fail(FAILED_ITSELF, "no memory for the path %s", path);
    set("FCMALLOC_STATS", value);
    free(value);
}

// Ends the launcher over an option that getopt did not know, or one without its value.
_Noreturn static void refuse_option(char *const arguments[], int code) {
    fail(FAILED_ITSELF,
         code == ':' ? "%s needs a value; see fcmalloc --help"
                     : "unknown option %s; see fcmalloc --help",
         arguments[optind - 1]);
}

static char *const *require_program(char *const arguments[]) {
    if (arguments[optind] == NULL)
        fail(FAILED_ITSELF,
             "no program to start; write it after the options: fcmalloc %s -- "
             "PROGRAM",
             arguments[0]);
    return arguments + optind;
}

// ---- Commands ----

// Each gets the arguments from its own name on. A leading + has getopt stop at the program, and a
// colon has it tell a missing value apart.
static const char GETOPT_SHORT[] = "+:";

static int run(int count, char *arguments[]) {
    enum { RESERVE = 1, PLAN, LIMIT, HUGE_PAGES, DECAY, SECURE, STATS };
    static const struct option OPTIONS[] = {
        {"reserve", required_argument, NULL, RESERVE},
        {"plan", required_argument, NULL, PLAN},
        {"limit", required_argument, NULL, LIMIT},
        {"huge", required_argument, NULL, HUGE_PAGES},
        {"decay", required_argument, NULL, DECAY},
        {"secure", no_argument, NULL, SECURE},
        {"stats", optional_argument, NULL, STATS},
        {0},
    };
    const char *library = "libfcmalloc.so";
    for (int code; (code = getopt_long(count, arguments, GETOPT_SHORT, OPTIONS, NULL)) != -1;) {
        switch (code) {
            case RESERVE:
                require_reserve(optarg);
                set("FCMALLOC_RESERVE", optarg);
                break;
            case PLAN:
                free(plan_read(optarg).demands);
                set("FCMALLOC_PLAN", absolute(optarg));
                break;
            case LIMIT:
                require_size("limit", optarg);
                set("FCMALLOC_LIMIT", optarg);
                break;
            case HUGE_PAGES:
                require_huge(optarg);
                set("FCMALLOC_HUGE", optarg);
                break;
            case DECAY:
                require_decay(optarg);
                set("FCMALLOC_DECAY", optarg);
                break;
            case SECURE:
                library = "libfcmalloc-secure.so";
                break;
            case STATS:
                set_stats(optarg);
                break;
            default:
                refuse_option(arguments, code);
        }
    }
    preload_and_start(library_find(library), require_program(arguments));
}

static int record(int count, char *arguments[]) {
    enum { OUTPUT = 1 };
    static const struct option OPTIONS[] = {{"output", required_argument, NULL, OUTPUT}, {0}};
    const char *output = NULL;
    for (int code; (code = getopt_long(count, arguments, GETOPT_SHORT, OPTIONS, NULL)) != -1;) {
        if (code != OUTPUT) refuse_option(arguments, code);
        output = optarg;
    }
    char *const *command = require_program(arguments);
    char *named_after_program;
    if (output == NULL) {
        if (asprintf(&named_after_program, "%s.plan", basename(strdupa(command[0]))) < 0)
            fail(FAILED_ITSELF, "no memory for the name of the plan");
        output = named_after_program;
    }
    const char *library = library_find("libfcmalloc.so");
    require_writable(output);
    set("FCMALLOC_RECORD", absolute(output));
    preload_and_start(library, command);
}

static int show(int count, char *arguments[]) {
    if (count != 2) fail(FAILED_ITSELF, "show takes one plan: fcmalloc show PLAN");
    struct plan plan = plan_read(arguments[1]);
    plan_show(&plan);
    free(plan.demands);
    return 0;
}

int main(int count, char *arguments[]) {
    static const struct {
        const char *name;
        int (*run)(int count, char *arguments[]);
    } COMMANDS[] = {{"run", run}, {"record", record}, {"show", show}};

    opterr = 0;
    const char *command = count > 1 ? arguments[1] : "";
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        fputs(HELP, stdout);
        return 0;
    }
    if (strcmp(command, "--version") == 0) {
        puts("fcmalloc " FC_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; ++i)
        if (strcmp(command, COMMANDS[i].name) == 0)
            return COMMANDS[i].run(count - 1, arguments + 1);
    fail(FAILED_ITSELF, "%s%s; the commands are run, record and show, see fcmalloc --help",
         count > 1 ? "unknown command " : "no command", command);
}
