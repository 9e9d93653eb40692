// Blocks whose guard page cannot be set, or cannot be removed: the secure library hands none out,
// or ends the program. The others need none.

#include "check.h"
#include "fcmalloc.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

enum { SMALL = 100, LARGE = 1000000 };

// Makes the kernel refuse an advice and a protection. False where that is impossible.
static bool are_refused(unsigned advice, unsigned protection) {
#define ARGUMENT_2 offsetof(struct seccomp_data, args[2])
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT_2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, advice, 4, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT_2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, protection, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// As where a process has too many mappings.
static void allocate_without_guards(void) {
    if (!are_refused(MADV_GUARD_INSTALL, PROT_NONE)) return;
    for (int i = 0; i < 2; i++) {
        errno = 0;
        void *small = fc_malloc(SMALL), *large = fc_malloc(LARGE);
#if FC_SECURE
        CHECK(small == NULL && large == NULL && errno == ENOMEM);
#else
        CHECK(small != NULL && large != NULL && errno == 0);
#endif
    }
}

TEST(no_block_lacks_its_guard_page) {
    struct outcome outcome = outcome_of(allocate_without_guards);
    CHECK(outcome.status == 0, "(status %#x) %s", (unsigned)outcome.status, outcome.errors);
#if FC_SECURE
    const char *end = strchr(outcome.errors, '\n');
    CHECK(end == NULL || end[1] == '\0', "(not one line: %s)", outcome.errors);
    CHECK(end == NULL || strstr(outcome.errors, "raise vm.max_map_count") != NULL, "(%s)",
          outcome.errors);
#endif
}

enum { REFUSED = 3 };

// As in a sandbox that the program enters once it has what it needs.
static void free_without_removing_guards(void) {
    void *block = fc_malloc(LARGE);
    if (!are_refused(MADV_GUARD_REMOVE, PROT_READ | PROT_WRITE)) return;
    fc_free(block);
    _exit(REFUSED);
}

TEST(no_guard_page_is_left_in_free_memory) {
    struct outcome outcome = outcome_of(free_without_removing_guards);
    if (outcome.status == 0) return;
#if FC_SECURE
    CHECK(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT, "(status %#x) %s",
          (unsigned)outcome.status, outcome.errors);
    CHECK(strstr(outcome.errors, "cannot be removed") != NULL, "(%s)", outcome.errors);
#else
    CHECK(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == REFUSED, "(status %#x) %s",
          (unsigned)outcome.status, outcome.errors);
#endif
}
