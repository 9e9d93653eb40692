// A thread may allocate and free to its very end, after every destructor that could have been
// the allocator's own.

#include "pattern.h"

#include <climits>
#include <string>

namespace {

constexpr int threads = 8;
pthread_key_t key;
int rounds_seen[threads], objects_ended;

struct OfThread {
    std::string text{std::string(5000, 't')};
    ~OfThread() {
        text += std::string(100000, 'u');
        free(malloc(300));
        __atomic_add_fetch(&objects_ended, 1, __ATOMIC_RELAXED);
    }
};
thread_local OfThread of_thread;

struct Remnant {
    size_t thread;
    int round;
};

// Sets its key again and again, so that it runs in every round of destructors that there is.
void end_remnant(void *value) {
    auto *remnant = static_cast<Remnant *>(value);
    rounds_seen[remnant->thread] = remnant->round + 1;
    void *large = malloc(500000), *small = malloc(50);
    memset(large, 1, 500000);
    auto *next = static_cast<Remnant *>(malloc(sizeof(Remnant)));
    *next = {remnant->thread, remnant->round + 1};
    free(remnant);
    free(small);
    free(large);
    if (next->round < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(key, next);
    else
        free(next);
}

void *live_and_end(void *index) {
    of_thread.text += "v";
    auto *remnant = static_cast<Remnant *>(malloc(sizeof(Remnant)));
    *remnant = {(size_t)index, 0};
    CHECK(pthread_setspecific(key, remnant) == 0);
    return nullptr;
}

pthread_key_t late_key;

void allocate_in_late_destructor(void *kept) {
    free(kept);
    for (size_t size : border_sizes)
        free(malloc(size));
}

void *wake_in_destructor(void *) {
    CHECK(pthread_setspecific(late_key, &late_key) == 0);
    return nullptr;
}

}  // namespace

TEST(destructors_of_a_thread_allocate_in_every_round) {
    CHECK(pthread_key_create(&key, end_remnant) == 0);
    for (int repeat = 0; repeat < 50; repeat++) {
        objects_ended = 0;
        memset(rounds_seen, 0, sizeof rounds_seen);
        in_threads(threads, live_and_end);
        CHECK(objects_ended == threads);
        for (int seen : rounds_seen)
            CHECK(seen == PTHREAD_DESTRUCTOR_ITERATIONS, "(%d)", seen);
    }
}

TEST(a_thread_may_allocate_for_the_first_time_in_a_destructor) {
    CHECK(pthread_key_create(&late_key, [](void *) { allocate_in_late_destructor(malloc(1)); }) ==
          0);
    for (int repeat = 0; repeat < 50; repeat++)
        in_threads(threads, wake_in_destructor);
}
