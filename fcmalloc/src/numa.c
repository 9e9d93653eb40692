#include "numa.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fcmalloc.h"

#define NODES_MAX 1024
#define CORES_MAX 4096

static bool several_nodes;
static uint16_t node_of_core[CORES_MAX];

// What the thread asked for by set_mempolicy: 0 for nothing. Looked up once, and again after
// fc_policy_changed.
static _Thread_local uint64_t asked;
static _Thread_local bool asked_known;

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
    bool range = false;
    for (ssize_t i = 0; i < length; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9') {
            number = number * 10 + (unsigned)(c - '0');
        } else if (c == '-') {
            first = number;
            number = 0;
            range = true;
        } else {
            for (unsigned n = range ? first : number; n <= number; n++) {
                each(n, context);
            }
            number = 0;
            range = false;
        }
    }
}

static void put_core(unsigned core, void *node) {
    if (core < CORES_MAX) {
        node_of_core[core] = *(uint16_t *)node;
    }
}

static void put_node(unsigned node, void *count) {
    ++*(unsigned *)count;
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
    unsigned nodes = 0;
    read_list("/sys/devices/system/node/has_memory", put_node, &nodes);
    several_nodes = nodes > 1;
    errno = saved;
}

bool fc_numa_matters(void) { return several_nodes; }

void fc_policy_changed(void) { asked_known = false; }

// A digest (FNV-1a) of the mode and the nodes; 0 for local allocation.
static uint64_t look_up(void) {
    unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    int mode = MPOL_DEFAULT;
    int saved = errno;
    bool known = syscall(SYS_get_mempolicy, &mode, nodes, NODES_MAX, NULL, 0) == 0;
    errno = saved;
    if (!known || mode == MPOL_DEFAULT || mode == MPOL_LOCAL) {
        return 0;
    }
    uint64_t digest = (0xcbf29ce484222325 ^ (uint64_t)mode) * 0x100000001b3;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        digest = (digest ^ nodes[i]) * 0x100000001b3;
    }
    return digest | (uint64_t)1 << 63;
}

uint64_t fc_numa_policy(void) {
    if (!several_nodes) {
        return 0;
    }
    if (!asked_known) {
        asked = look_up();
        asked_known = true;
    }
    int core = asked == 0 ? sched_getcpu() : 0;
    return asked != 0 ? asked : core >= 0 && core < CORES_MAX ? node_of_core[core] : 0;
}
