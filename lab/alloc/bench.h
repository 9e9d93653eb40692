// What the C and C++ programs of the bench share: a clock, what the kernel counts, and the line of
// JSON in which a program reports its phases. Header only; every program is one file.

#ifndef FCMALLOC_BENCH_H
#define FCMALLOC_BENCH_H

#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// One reading of clock and kernel counters, of the whole process, or a sum of differences.
struct reading {
    double wall;    // seconds
    double user;    // seconds of CPU
    double system;  // seconds of CPU
    long faults;    // minor and major
    double begin;   // of a sum: when it first began and last ended, on the monotonic clock
    double end;
};

static inline double bench_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline struct reading bench_reading(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct reading now = {
        bench_clock(),
        (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec,
        (double)usage.ru_stime.tv_sec + 1e-6 * (double)usage.ru_stime.tv_usec,
        usage.ru_minflt + usage.ru_majflt,
        0,
        0,
    };
    return now;
}

static inline void bench_add(struct reading *sum, struct reading begin, struct reading end) {
    sum->wall += end.wall - begin.wall;
    sum->user += end.user - begin.user;
    sum->system += end.system - begin.system;
    sum->faults += end.faults - begin.faults;
    if (sum->begin == 0) sum->begin = begin.wall;
    sum->end = end.wall;
}

#ifdef __cplusplus
template <typename Work> void bench_measure(reading &sum, Work work) {
    reading begin = bench_reading();
    work();
    bench_add(&sum, begin, bench_reading());
}
#endif

// Marks the begin and the end of the steady phase for whoever traces system calls: nothing else
// here asks for the parent.
static inline void bench_mark(void) { (void)getppid(); }

// The most memory that was resident at once (VmHWM), in bytes.
static inline long bench_peak_bytes(void) {
    char line[256];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL) return 0;
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
    fclose(status);
    return kilobytes * 1024;
}

// Seconds from the moment that the harness names, on the monotonic clock, to now.
static inline double bench_start_seconds(void) {
    const char *launched = getenv("BENCH_LAUNCHED");
    return launched == NULL ? 0 : bench_clock() - strtod(launched, NULL);
}

// Where the harness asks for it, has another process, this program with the option --warm, use as
// many bytes of memory as BENCH_WARM says, and free them. In a virtual machine that gives free
// memory back to its host, huge pages cost milliseconds each to touch, or next to nothing,
// depending on how long ago somebody used them.
static inline void bench_warm(void) {
    char name[] = "warm", option[] = "--warm", *bytes = getenv("BENCH_WARM");
    char *arguments[] = {name, option, bytes, NULL}, *environment[] = {NULL};
    pid_t child;
    int status = 1;
    if (bytes == NULL) return;
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environment) != 0 ||
        waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "error: the process that warms memory has failed\n");
        exit(2);
    }
}

struct phase {
    const char *name;
    struct reading spent;
};

// The line of JSON that ends every program: what each phase took, in seconds and faults, and when
// it was.
static inline void bench_report(double start, const struct phase *phases, size_t count, long peak,
                                bool verified) {
    printf("{\"start\": %.6f, \"phases\": {", start);
    for (size_t i = 0; i < count; i++)
        printf("%s\"%s\": {\"wall\": %.9f, \"user\": %.6f, \"system\": %.6f, \"faults\": %ld, "
               "\"begin\": %.6f, \"end\": %.6f}",
               i == 0 ? "" : ", ", phases[i].name, phases[i].spent.wall, phases[i].spent.user,
               phases[i].spent.system, phases[i].spent.faults, phases[i].spent.begin,
               phases[i].spent.end);
    printf("}, \"peak_bytes\": %ld, \"verified\": %s, \"finished\": %.6f}\n", peak,
           verified ? "true" : "false", bench_clock());
    fflush(stdout);
}

// A number of a command line; ends the program where it is none, or is 0.
static inline size_t bench_number(const char *text) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value == 0) {
        fprintf(stderr, "error: %s is not a positive number\n", text);
        exit(2);
    }
    return (size_t)value;
}

// In the process that bench_warm or the harness starts for it, uses memory in huge pages, and ends
// the process.
static inline void bench_be_warm(int argc, char **argv) {
    if (argc != 3 || strcmp(argv[1], "--warm") != 0) return;
    size_t bytes = bench_number(argv[2]);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    exit(0);
}

// Numbers that repeat from run to run: xorshift64* (Vigna, 2016). The state is never 0.
static inline uint64_t bench_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}

#endif
