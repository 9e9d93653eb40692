// Other programs start from a process that allocates, by every means there is.

#include "pattern.h"

#include <spawn.h>

static _Atomic bool done;

static void *allocate_until_done(void *index) {
    uint64_t seed = (uint64_t)index;
    while (!done)
        free(malloc(next_random(&seed) % 200000));
    return NULL;
}

static void spawn_by_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
}

static void spawn_by_posix_spawn(void) {
    char *arguments[] = {"sh", "-c", "exit 7", NULL};
    pid_t child;
    int status;
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
}

static void spawn_by_system(void) { CHECK(WEXITSTATUS(system("exit 7")) == 7); }

static void spawn_by_popen(void) {
    FILE *output = popen("echo seven", "r");
    char *line = NULL;
    size_t capacity = 0;
    CHECK(output != NULL && getline(&line, &capacity, output) == 6 && strcmp(line, "seven\n") == 0);
    free(line);
    CHECK(pclose(output) == 0);
}

TEST(programs_start_while_threads_allocate) {
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_until_done, (void *)i) == 0);
    for (int i = 0; i < 20; i++) {
        spawn_by_vfork();
        spawn_by_posix_spawn();
        spawn_by_system();
        spawn_by_popen();
    }
    done = true;
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}
