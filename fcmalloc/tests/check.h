// What all tests share: CHECK, a list of named tests, threads, and children whose exit is examined.
//
// TEST(name) { ... } defines a test whose name is a statement. The program runs its tests in the
// order of the file, or only those that its arguments name. STEP(name) { ... } runs only when
// named: a test starts its own program afresh with it, see become().

#ifndef FC_TESTS_CHECK_H
#define FC_TESTS_CHECK_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Ends the program with status 1 unless the condition holds. A format and its values may follow.
#define CHECK(condition, ...) \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__))

__attribute__((noreturn, format(printf, 4, 5))) static inline void
check_failed(const char *file, int line, const char *condition, const char *format, ...) {
    char detail[256];
    va_list values;
    va_start(values, format);
    vsnprintf(detail, sizeof detail, format, values);
    va_end(values);
    dprintf(STDERR_FILENO, "%s:%d: not so: %s%s\n", file, line, condition, detail);
    _exit(1);
}

// Whether the mapping that the block lies in has the flag; its names are those of /proc/self/smaps.
static inline bool has_flag(const void *block, const char *flag) {
    char line[512];
    bool inside = false, found = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    CHECK(smaps != NULL);
    while (fgets(line, sizeof line, smaps) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            inside = (unsigned long)block >= begin && (unsigned long)block < end;
        if (inside && strncmp(line, "VmFlags:", 8) == 0) found = strstr(line, flag) != NULL;
    }
    fclose(smaps);
    return found;
}

struct test {
    const char *name;
    void (*body)(void);
    bool only_when_named;
    struct test *next;
};
static struct test *first_test, **end_of_tests = &first_test;

#define TEST(name) FC_DEFINE_TEST(name, false)
#define STEP(name) FC_DEFINE_TEST(name, true)
#define FC_DEFINE_TEST(name, only_when_named)                           \
    static void name(void);                                             \
    __attribute__((constructor)) static void list_##name(void) {        \
        static struct test test = {#name, name, only_when_named, NULL}; \
        *end_of_tests = &test;                                          \
        end_of_tests = &test.next;                                      \
    }                                                                   \
    static void name(void)

// Where the environment says which allocator is under test, malloc must be that one's: a test that
// runs on another proves nothing.
static inline void check_allocator(void) {
    const char *expected = getenv("FC_TEST_ALLOCATOR");
    Dl_info found;
    CHECK(expected == NULL ||
              (dladdr((void *)malloc, &found) != 0 && strstr(found.dli_fname, expected) != NULL),
          "(malloc is not that of %s)", expected);
}

int main(int count, char **arguments) {
    check_allocator();
    int ran = 0;
    for (struct test *test = first_test; test != NULL; test = test->next) {
        bool wanted = count == 1 && !test->only_when_named;
        for (int i = 1; i < count; i++)
            wanted |= strcmp(arguments[i], test->name) == 0;
        if (!wanted) continue;
        test->body();
        if (!test->only_when_named) printf("ok: %s\n", test->name);
        fflush(stdout);
        ran++;
    }
    CHECK(ran > 0, "(no such test)");
    return 0;
}

// How a child ended, and what it wrote to its standard error.
struct outcome {
    int status;
    char errors[4096];
};

static inline struct outcome outcome_of(void (*body)(void)) {
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        body();
        _exit(0);
    }
    close(pipe_ends[1]);
    struct outcome outcome = {0, ""};
    size_t length = 0;
    ssize_t got;
    char lost[256];
    while ((got = length + 1 < sizeof outcome.errors ? read(pipe_ends[0], outcome.errors + length,
                                                            sizeof outcome.errors - 1 - length)
                                                     : read(pipe_ends[0], lost, sizeof lost)) > 0)
        if (length + 1 < sizeof outcome.errors) length += (size_t)got;
    close(pipe_ends[0]);
    CHECK(waitpid(child, &outcome.status, 0) == child);
    return outcome;
}

static inline void check_succeeds(void (*body)(void)) {
    struct outcome outcome = outcome_of(body);
    CHECK(outcome.status == 0, "(status %#x) %s", (unsigned)outcome.status, outcome.errors);
}

// Replaces the program by a fresh run of itself that does one STEP, in the present environment.
__attribute__((noreturn)) static inline void become(const char *step) {
    execl("/proc/self/exe", program_invocation_short_name, step, (char *)NULL);
    _exit(127);
}

#define MOST_THREADS 1024

// Runs body(0), body(1), ... body(count - 1), each in its own thread, and waits for all of them.
static inline void in_threads(size_t count, void *(*body)(void *)) {
    static pthread_t threads[MOST_THREADS];
    CHECK(count <= MOST_THREADS);
    for (size_t i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (size_t i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

// Bytes of the process that lie in memory.
static inline size_t resident_bytes(void) {
    FILE *statm = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    CHECK(statm != NULL && fscanf(statm, "%*u %zu", &pages) == 1);
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// Keeps the compiler from knowing where a pointer, or how large a size, is: what a test does to
// the allocator on purpose must reach it, and without a warning.
static inline void *opaque(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static inline size_t opaque_size(size_t size) {
    __asm__ volatile("" : "+r"(size));
    return size;
}

#endif
