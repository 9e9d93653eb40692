// A map of all memory that is handed out, in steps of 16 bytes: no two blocks may share one.
//
// One bit a step, in leaves of 1 GiB of addresses that are made when first needed. All accesses
// are relaxed: the map must not order what the allocator has to order by itself.

#ifndef FC_TESTS_SHADOW_H
#define FC_TESTS_SHADOW_H

#include "pattern.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define SHADOW_STEP 16
#define SHADOW_LEAF_SHIFT 30
#define SHADOW_LEAF_STEPS (((size_t)1 << SHADOW_LEAF_SHIFT) / SHADOW_STEP)

typedef _Atomic uint64_t shadow_word;
static _Atomic(shadow_word *) shadow_leaves[(size_t)1 << (48 - SHADOW_LEAF_SHIFT)];

static shadow_word *shadow_leaf(uintptr_t address) {
    _Atomic(shadow_word *) *place = &shadow_leaves[address >> SHADOW_LEAF_SHIFT];
    shadow_word *leaf = atomic_load_explicit(place, memory_order_acquire);
    if (leaf != NULL) return leaf;
    shadow_word *fresh = mmap(NULL, SHADOW_LEAF_STEPS / 8, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(fresh != MAP_FAILED);
    if (atomic_compare_exchange_strong_explicit(place, &leaf, fresh, memory_order_acq_rel,
                                                memory_order_acquire))
        return fresh;
    munmap(fresh, SHADOW_LEAF_STEPS / 8);
    return leaf;
}

// Marks the steps that the bytes lie in as handed out, or as free again. Each must have been the
// opposite before.
static void shadow_mark(const void *block, size_t bytes, bool handed_out) {
    uintptr_t step = (uintptr_t)block / SHADOW_STEP;
    uintptr_t end = ((uintptr_t)block + bytes + SHADOW_STEP - 1) / SHADOW_STEP;
    while (step < end) {
        shadow_word *word = &shadow_leaf(step * SHADOW_STEP)[step % SHADOW_LEAF_STEPS / 64];
        size_t first = step % 64, count = 64 - first < end - step ? 64 - first : end - step;
        uint64_t bits = (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << first;
        uint64_t before = handed_out ? atomic_fetch_or_explicit(word, bits, memory_order_relaxed)
                                     : atomic_fetch_and_explicit(word, ~bits, memory_order_relaxed);
        CHECK((before & bits) == (handed_out ? 0 : bits), "(%zu bytes at %p overlap another block)",
              bytes, block);
        step += count;
    }
}

#endif
