#include "numa.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os.h"

// Newer than some systems' headers.
#define PREFERRED_MANY 5

#define NODES_MAX 1024
#define CORES_MAX 4096

// Set in a digest, so that it cannot be a node number.
#define DIGEST ((uint64_t)1 << 63)

struct mask {
    unsigned long words[NODES_MAX / (8 * sizeof(unsigned long))];
};

bool fc_numa_several;
static uint16_t node_of_core[CORES_MAX];

// What the thread asked for by set_mempolicy. Looked up once, and again after fc_numa_forget.
static _Thread_local struct {
    bool known;
    bool by_node;     // whether the node that the thread runs on matters
    uint64_t digest;  // 0 for local allocation
} asked;

// Reads a list such as "0-3,8" and calls `each` for every number.
static void read_list(const char *path, void (*each)(unsigned number, void *context),
                      void *context) {
    char text[4096];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    unsigned first = 0;
    unsigned number = 0;
    bool some = false;
    bool range = false;
    for (ssize_t i = 0; i < length; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9') {
            number = number * 10 + (unsigned)(c - '0');
            some = true;
        } else if (c == '-') {
            first = number;
            number = 0;
            range = true;
        } else {
            for (unsigned n = range ? first : number; some && n <= number; n++) {
                each(n, context);
            }
            number = 0;
            some = range = false;
        }
    }
}

static void put_core(unsigned core, void *node) {
    if (core < CORES_MAX) {
        node_of_core[core] = *(uint16_t *)node;
    }
}

static void count_node(unsigned node, void *count) {
    (void)node;
    ++*(unsigned *)count;
}

static void put_node(unsigned node, void *unused) {
    (void)unused;
    if (node >= NODES_MAX) {
        return;
    }
    char path[64] = "/sys/devices/system/node/node";
    size_t length = strlen(path);
    char digits[8];
    size_t n = 0;
    for (unsigned rest = node; n == 0 || rest > 0; rest /= 10) {
        digits[n++] = (char)('0' + rest % 10);
    }
    while (n > 0) {
        path[length++] = digits[--n];
    }
    memcpy(path + length, "/cpulist", sizeof "/cpulist");
    uint16_t id = (uint16_t)node;
    read_list(path, put_core, &id);
}

void fc_numa_open(void) {
    int saved = errno;
    unsigned with_memory = 0;
    read_list("/sys/devices/system/node/has_memory", count_node, &with_memory);
    fc_numa_several = with_memory > 1;
    read_list("/sys/devices/system/node/online", put_node, NULL);
    errno = saved;
}

void fc_numa_forget(void) { asked.known = false; }

// The thread's mode and its nodes. Local allocation is MPOL_LOCAL, however it was requested.
static int look_up(struct mask *nodes) {
    int mode;
    int saved = errno;
    bool known = syscall(SYS_get_mempolicy, &mode, nodes, NODES_MAX, NULL, 0) == 0;
    errno = saved;
    unsigned long any = 0;
    for (size_t i = 0; i < sizeof nodes->words / sizeof *nodes->words; i++) {
        any |= nodes->words[i];
    }
    return known && any != 0 ? mode : MPOL_LOCAL;
}

static uint64_t digest(uint64_t before, uint64_t more) {
    return (before ^ more) * 0x100000001b3;  // FNV-1a
}

static void ask(void) {
    struct mask nodes = {0};
    int mode = look_up(&nodes);
    asked.known = true;
    asked.digest = 0;
    asked.by_node = true;
    if (mode == MPOL_LOCAL) {
        return;
    }
    unsigned count = 0;
    asked.digest = digest(0xcbf29ce484222325, (uint64_t)mode);
    for (size_t i = 0; i < sizeof nodes.words / sizeof *nodes.words; i++) {
        asked.digest = digest(asked.digest, nodes.words[i]);
        count += (unsigned)__builtin_popcountl(nodes.words[i]);
    }
    asked.digest |= DIGEST;
    // Of several nodes these modes use the nearest.
    int kind = mode & ~MPOL_MODE_FLAGS;
    asked.by_node = count > 1 && (kind == MPOL_BIND || kind == PREFERRED_MANY);
}

static uint64_t policy_on(int core) {
    uint64_t node = core >= 0 && core < CORES_MAX ? node_of_core[core] : 0;
    if (asked.digest == 0) {
        return node;
    }
    return asked.by_node ? digest(asked.digest, node) | DIGEST : asked.digest;
}

static bool matters_by_node(void) {
    if (fc_numa_several && !asked.known) {
        ask();
    }
    return fc_numa_several && asked.by_node;
}

uint64_t fc_numa_policy(void) { return policy_on(matters_by_node() ? sched_getcpu() : 0); }

uint64_t fc_numa_policy_on(unsigned core) {
    return policy_on(matters_by_node() ? fc_os_core(core) : 0);
}

void fc_numa_migrate(void *start, size_t bytes, uint64_t policy) {
    if (!fc_numa_several || bytes == 0) {
        return;
    }
    struct mask nodes = {0};
    int mode = MPOL_PREFERRED;
    if ((policy & DIGEST) != 0) {
        mode = look_up(&nodes);
    } else {
        nodes.words[policy / 64] = 1UL << policy % 64;
    }
    fc_os_move_to_nodes(start, bytes, mode, nodes.words, NODES_MAX);
}
