// A bad value of an option is one line on standard error, and the program runs without it.

#include "check.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

STEP(allocates) {
    char *block = malloc(1 << 20);
    CHECK(block != NULL);
    memset(block, 1, 1 << 20);
    free(block);
}

static const char *name, *value;

static void allocate_with_option(void) {
    setenv(name, value, 1);
    become("allocates");
}

static struct outcome with_option(const char *option_name, const char *option_value) {
    name = option_name;
    value = option_value;
    return outcome_of(allocate_with_option);
}

static void check_complains(const char *option_name, const char *option_value) {
    struct outcome outcome = with_option(option_name, option_value);
    char beginning[128];
    size_t length =
        (size_t)snprintf(beginning, sizeof beginning, "fcmalloc: %s=%s", option_name, option_value);
    CHECK(outcome.status == 0, "(%s=%s: status %#x)", name, value, (unsigned)outcome.status);
    CHECK(strncmp(outcome.errors, beginning, length) == 0, "(%s=%s: %s)", name, value,
          outcome.errors);
    char *end = strchr(outcome.errors, '\n');
    CHECK(end != NULL && end[1] == '\0', "(not one line: %s)", outcome.errors);
}

static void check_accepts(const char *option_name, const char *option_value) {
    struct outcome outcome = with_option(option_name, option_value);
    CHECK(outcome.status == 0 && outcome.errors[0] == '\0', "(%s=%s: %s)", name, value,
          outcome.errors);
}

TEST(bad_values_are_named_and_ignored) {
    static const char *const sizes[] = {
        "", "x", "-1", "4Q", "4GG", "G", " ", "1e9", "99999999999999999999", "99999999999G"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_complains("FCMALLOC_LIMIT", sizes[i]);
        check_complains("FCMALLOC_RESERVE", sizes[i]);
    }
    check_complains("FCMALLOC_RESERVE", "main=");
    check_complains("FCMALLOC_RESERVE", "main=8M,core=");
    check_complains("FCMALLOC_RESERVE", "main=8M,cores=8M");
    check_complains("FCMALLOC_RESERVE", "main=8M;core=8M");
    check_complains("FCMALLOC_HUGE", "yes");
    check_complains("FCMALLOC_DECAY", "soon");
    check_complains("FCMALLOC_DECAY", "-5");
    check_complains("FCMALLOC_STATS", "xml");
    check_complains("FCMALLOC_PLAN", "/nonexistent/plan");
    check_complains("FCMALLOC_PLAN", "/dev/null");
}

static char plan[] = "/tmp/fcmalloc-plan.XXXXXX";

static struct outcome with_plan(const char *records) {
    int file = mkstemp(plan);
    CHECK(file >= 0);
    CHECK(dprintf(file, "fcmalloc-plan 1\n%s\n", records) > 0);
    close(file);
    struct outcome outcome = with_option("FCMALLOC_PLAN", plan);
    CHECK(unlink(plan) == 0);
    strcpy(plan + strlen(plan) - 6, "XXXXXX");
    CHECK(outcome.status == 0, "(%s: status %#x)", records, (unsigned)outcome.status);
    return outcome;
}

TEST(plans_for_other_machines_are_one_line_and_reserve_nothing) {
    static const char *const absurd[] = {
        "heap 0 class 16 peak 18446744073709551615",
        "heap 0 class 64 peak 288230376151711745",
        "heap 0 class 4096 peak 99999999999999999999",
        "heap 0 class 4096 peak 1000000000000",
        "heap 0 footprint 18446744073709551615",
        "heap 0 footprint 17592186048512",  // 16 TiB and 4 KiB: in pages, 2^32 and one
        "heap 0 footprint -1",
        "heap 4095 footprint 9223372036854775808",
    };
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        struct outcome outcome = with_plan(absurd[i]);
        CHECK(strstr(outcome.errors, ": asks for more than the machine can give") != NULL,
              "(%s: %s)", absurd[i], outcome.errors);
    }
    struct rusage all;
    CHECK(getrusage(RUSAGE_CHILDREN, &all) == 0);
    CHECK(all.ru_maxrss < 256 << 10, "(%ld KiB were touched)", all.ru_maxrss);
    static const char *const wrong[] = {
        "heap 4096 footprint 4096",
        "heap 4294967296 footprint 4096",
        "heap -1 footprint 4096",
        "heap 0 class 0 peak 1",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct outcome outcome = with_plan(wrong[i]);
        CHECK(strstr(outcome.errors, "is not a record of a plan") != NULL, "(%s: %s)", wrong[i],
              outcome.errors);
    }
}

TEST(plans_with_larger_classes_than_there_are_now_are_applied) {
    struct outcome outcome = with_plan("heap 0 class 20480 peak 10\nheap 0 footprint 205440");
    CHECK(outcome.errors[0] == '\0', "(%s)", outcome.errors);
}

enum { KINDS = 16, BLOCKS = 12 };

// Sizes of classes whose blocks take a page at least.
static size_t size_of(size_t kind) { return 4096 + 256 * (kind + 1); }

static void *allocate_without_faults(void *unused) {
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < BLOCKS; i++)
            memset(opaque(malloc(size_of(kind))), 1, size_of(kind));
    getrusage(RUSAGE_THREAD, &after);
    long faults = after.ru_minflt - before.ru_minflt;
    CHECK(faults < KINDS * BLOCKS / 4, "(%ld)", faults);
    return unused;
}

STEP(runs_a_thread_that_allocates_without_faults) { in_threads(1, allocate_without_faults); }

static void run_a_thread_with_plan(void) {
    setenv("FCMALLOC_PLAN", plan, 1);
    become("runs_a_thread_that_allocates_without_faults");
}

TEST(the_first_thread_has_what_a_plan_touched_for_heap_1) {
    int file = mkstemp(plan);
    CHECK(file >= 0 && dprintf(file, "fcmalloc-plan 1\n") > 0);
    for (size_t kind = 0; kind < KINDS; kind++)
        CHECK(dprintf(file, "heap 1 class %zu peak %d\n", size_of(kind), BLOCKS) > 0);
    CHECK(dprintf(file, "heap 2 class 16 peak 1\n") > 0);
    close(file);
    struct outcome outcome = outcome_of(run_a_thread_with_plan);
    CHECK(unlink(plan) == 0);
    strcpy(plan + strlen(plan) - 6, "XXXXXX");
    CHECK(outcome.status == 0, "(status %#x) %s", (unsigned)outcome.status, outcome.errors);
}

TEST(good_values_say_nothing) {
    check_accepts("FCMALLOC_LIMIT", "4G");
    check_accepts("FCMALLOC_LIMIT", "512M");
    check_accepts("FCMALLOC_LIMIT", "268435456");
    check_accepts("FCMALLOC_RESERVE", "16M");
    check_accepts("FCMALLOC_RESERVE", "main=16M,core=8M");
    check_accepts("FCMALLOC_HUGE", "thp");
    check_accepts("FCMALLOC_HUGE", "never");
    check_accepts("FCMALLOC_DECAY", "100");
}

TEST(statistics_are_one_json_object_on_one_line) {
    struct outcome outcome = with_option("FCMALLOC_STATS", "json");
    size_t length = strlen(outcome.errors);
    CHECK(outcome.status == 0 && length > 2);
    CHECK(outcome.errors[0] == '{' && outcome.errors[length - 2] == '}', "(%s)", outcome.errors);
    CHECK(strchr(outcome.errors, '\n') == outcome.errors + length - 1);
}

STEP(says_that_it_gained_privileges) {
    if (getauxval(AT_SECURE) != 0) dprintf(STDERR_FILENO, "gained privileges\n");
}

static char privileged[] = "/tmp/fcmalloc-privileged.XXXXXX";

static void become_privileged(void) {
    setenv("FCMALLOC_STATS", "json", 1);
    unsetenv("FC_TEST_ALLOCATOR");  // the dynamic linker preloads nothing then
    execl(privileged, privileged, "says_that_it_gained_privileges", (char *)NULL);
    _exit(127);
}

// The user that starts it must not have it write files. Only root can make such a program here.
TEST(a_program_that_gains_privileges_has_no_options) {
    if (geteuid() != 0) return;
    int from = open("/proc/self/exe", O_RDONLY), to = mkstemp(privileged);
    struct stat size;
    CHECK(from >= 0 && to >= 0 && fstat(from, &size) == 0);
    for (off_t done = 0; done < size.st_size;)
        CHECK(sendfile(to, from, &done, (size_t)(size.st_size - done)) > 0);
    CHECK(fchown(to, 65534, 65534) == 0 && fchmod(to, 04755) == 0);
    close(from);
    close(to);
    struct outcome outcome = outcome_of(become_privileged);
    CHECK(unlink(privileged) == 0);
    CHECK(outcome.status == 0, "(status %#x) %s", (unsigned)outcome.status, outcome.errors);
    // Where the folder is on a file system without such programs, it gained none.
    if (strstr(outcome.errors, "gained") != NULL)
        CHECK(strcmp(outcome.errors, "gained privileges\n") == 0, "(%s)", outcome.errors);
}
