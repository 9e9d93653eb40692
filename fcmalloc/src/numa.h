// On which nodes the calling thread's memory belongs.
//
// A policy is a number. If it is equal for two moments, memory first touched then lies on the same
// nodes: it is the node that the thread runs on, where nothing else was asked for, or a digest
// of what set_mempolicy or numactl asked for. On a machine of one node it is always 0 and nothing
// is looked up.

#ifndef FC_NUMA_H
#define FC_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads the machine's topology. Once, before the first heap.
void fc_numa_open(void);

// Whether the machine has more than one node.
extern bool fc_numa_several;
static inline bool fc_numa_matters(void) { return fc_numa_several; }

// The calling thread's policy now.
uint64_t fc_numa_policy(void);
// The policy that it would have on the core-th of those that it may run on.
uint64_t fc_numa_policy_on(unsigned core);
// Has set_mempolicy's part of the policy looked up again.
void fc_numa_forget(void);

// Moves pages that were touched already to where the policy wants them; a digest must be the
// calling thread's. Where the kernel refuses, they stay.
void fc_numa_bring(void *start, size_t bytes, uint64_t policy);

#endif
