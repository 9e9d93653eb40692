// Signals that arrive in the middle of allocation do no harm to it.

#include "pattern.h"

#include <sys/time.h>

enum { THREADS = 4, ROUNDS = 30000 };
static pthread_t threads[THREADS];
static _Atomic int signals, working;

static void count_signal(int number) {
    (void)number;
    signals++;
}

static void *allocate_a_lot(void *index) {
    enum { LIVE = 200 };
    struct {
        void *block;
        size_t size;
    } live[LIVE] = {{NULL, 0}};
    uint64_t seed = (uint64_t)index;
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = next_random(&seed) % LIVE;
        if (live[i].block != NULL) check_pattern(live[i].block, live[i].size, i);
        free(live[i].block);
        live[i].size = 1 + next_random(&seed) % (round % 64 == 0 ? 300000 : 1000);
        live[i].block = malloc(live[i].size);
        CHECK(live[i].block != NULL);
        fill_pattern(live[i].block, 0, live[i].size, i);
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i].block);
    working--;
    return NULL;
}

static void handle(int number) {
    struct sigaction action = {.sa_handler = count_signal};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static void start_threads(void) {
    signals = 0;
    working = THREADS;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_a_lot, (void *)i) == 0);
}

static void join_threads(void) {
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(signals > 0);
}

TEST(a_storm_of_signals_disturbs_no_allocation) {
    handle(SIGUSR1);
    start_threads();
    while (working > 0)
        for (size_t i = 0; i < THREADS; i++)
            pthread_kill(threads[i], SIGUSR1);
    join_threads();
}

TEST(an_interval_timer_disturbs_no_allocation) {
    handle(SIGPROF);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_PROF, &often, NULL) == 0);
    start_threads();
    join_threads();
    CHECK(setitimer(ITIMER_PROF, &never, NULL) == 0);
}
