// On which nodes the calling thread's memory belongs.
//
// A policy is a number that is equal for two moments exactly if memory first touched then lies on
// the same nodes: the node that the thread runs on, where nothing else was asked for, or a digest
// of what set_mempolicy or numactl asked for. On a machine of one node it is always 0 and nothing
// is looked up.

#ifndef FC_NUMA_H
#define FC_NUMA_H

#include <stdbool.h>
#include <stdint.h>

// Reads the machine's topology. Once, before the first heap.
void fc_numa_open(void);

// Whether the machine has more than one node.
bool fc_numa_matters(void);

// The calling thread's policy now.
uint64_t fc_numa_policy(void);

#endif
