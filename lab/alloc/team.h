// A team of threads that share the tasks of a phase, for the C++ programs of the bench.

#ifndef FCMALLOC_TEAM_H
#define FCMALLOC_TEAM_H

#include <atomic>
#include <cstddef>
#include <pthread.h>
#include <thread>
#include <vector>

// Threads that share the tasks of a phase dynamically, as OpenMP's dynamic schedule does:
// what one allocates another may free.
class Team {
  public:
    explicit Team(size_t threads) {
        pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads));
        for (size_t i = 1; i < threads; i++)
            others_.emplace_back([this, i] { follow(i); });
    }

    ~Team() {
        body_ = nullptr;
        pthread_barrier_wait(&barrier_);
        for (std::thread &other : others_)
            other.join();
        pthread_barrier_destroy(&barrier_);
    }

    // Calls body(worker, task) for all tasks and returns when all are done.
    template <typename Body> void each(size_t tasks, Body body) {
        context_ = &body;
        body_ = [](void *context, size_t worker, size_t task) {
            (*static_cast<Body *>(context))(worker, task);
        };
        tasks_ = tasks;
        next_.store(0);
        pthread_barrier_wait(&barrier_);
        work(0);
        pthread_barrier_wait(&barrier_);
    }

  private:
    void follow(size_t worker) {
        for (;;) {
            pthread_barrier_wait(&barrier_);
            if (body_ == nullptr) return;
            work(worker);
            pthread_barrier_wait(&barrier_);
        }
    }

    void work(size_t worker) {
        for (size_t task = next_++; task < tasks_; task = next_++)
            body_(context_, worker, task);
    }

    pthread_barrier_t barrier_;
    std::vector<std::thread> others_;
    void (*body_)(void *, size_t, size_t) = nullptr;
    void *context_ = nullptr;
    size_t tasks_ = 0;
    std::atomic<size_t> next_{0};
};

#endif
