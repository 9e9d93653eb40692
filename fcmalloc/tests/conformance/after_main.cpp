// Allocation works after main: in exit handlers, destructors and those of static objects.

#include "pattern.h"

#include <string>
#include <vector>

namespace {

// Each destructor or handler that must run reports on this pipe, whose other end the parent reads.
int reports = -1;

void report(char place) {
    if (reports >= 0) CHECK(write(reports, &place, 1) == 1);
}

struct Hoard {
    std::vector<std::string> words{std::string(100000, 'a'), std::string(10, 'b')};
    ~Hoard() {
        for (int i = 0; i < 1000; i++)
            words.push_back(std::string(i, 'c'));
        report('o');
    }
} hoard;

void *allocated_in_main;

void *allocate_in_thread(void *) { return malloc(200000); }

void allocate_at_exit() {
    check_pattern(allocated_in_main, 100000, 1);
    allocated_in_main = realloc(allocated_in_main, 5 << 20);
    check_pattern(allocated_in_main, 100000, 1);
    pthread_t thread;
    void *block;
    CHECK(pthread_create(&thread, nullptr, allocate_in_thread, nullptr) == 0);
    CHECK(pthread_join(thread, &block) == 0);
    free(block);
    report('e');
}

__attribute__((destructor(101))) void allocate_last() {
    check_pattern(allocated_in_main, 100000, 1);
    free(allocated_in_main);
    for (size_t size : border_sizes)
        free(calloc(1, size));
    report('d');
}

int pipe_ends[2];

void end_normally() {
    reports = pipe_ends[1];
    allocated_in_main = malloc(100000);
    fill_pattern(allocated_in_main, 0, 100000, 1);
    CHECK(atexit(allocate_at_exit) == 0);
    exit(0);
}

}  // namespace

__attribute__((constructor(101))) static void allocated_in_main_is_always_there() {
    allocated_in_main = malloc(100000);
    fill_pattern(allocated_in_main, 0, 100000, 1);
}

TEST(handlers_and_destructors_allocate_and_free) {
    CHECK(pipe(pipe_ends) == 0);
    check_succeeds(end_normally);
    char places[8] = "";
    CHECK(read(pipe_ends[0], places, sizeof places - 1) == 3);
    CHECK(strcmp(places, "eod") == 0, "(%s)", places);
}

static void end_at_once() {
    reports = pipe_ends[1];
    quick_exit(0);
}

TEST(quick_exit_handlers_allocate) {
    CHECK(at_quick_exit([] {
              free(malloc(1000));
              report('q');
          }) == 0);
    check_succeeds(end_at_once);
    char place = 0;
    CHECK(read(pipe_ends[0], &place, 1) == 1 && place == 'q');
}
