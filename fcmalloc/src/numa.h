// The nodes that the calling thread's memory belongs on.
//
// A policy is a number. Memory first touched under equal policies lies on the same nodes. The
// number is the node the thread runs on if nothing else was asked for, or a digest of what
// set_mempolicy or numactl asked for. On a machine with one node it is always 0 and nothing is
// looked up.

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

// The calling thread's present policy.
uint64_t fc_numa_policy(void);
// The policy it would have on the core-th of the cores it may run on.
uint64_t fc_numa_policy_on(unsigned core);
// Looks up set_mempolicy's part of the policy again.
void fc_numa_forget(void);

// Migrates touched pages to where the policy wants them; a digest must be the calling thread's.
// Where the kernel refuses, they stay.
void fc_numa_migrate(void *start, size_t bytes, uint64_t policy);

#endif
