// Small blocks: where they begin, and the links of free ones.

#ifndef FC_BLOCK_H
#define FC_BLOCK_H

#include "poison.h"
#include "report.h"
#include "space.h"

static inline uint64_t fc_block_check(const struct fc_block *block, const struct fc_block *next) {
    uint64_t at = (uint64_t)(uintptr_t)block;
    return fc_space.secret ^ (at << 16 | at >> 48) ^ (uint64_t)(uintptr_t)next;
}

#if FC_SECURE
// The link as stored does not show where blocks lie.
static inline struct fc_block *fc_block_code(const struct fc_block *block, struct fc_block *link) {
    return (struct fc_block *)((uintptr_t)link ^ (uintptr_t)(fc_space.secret >> 8) ^
                               (uintptr_t)block);
}
#else
static inline struct fc_block *fc_block_code(const struct fc_block *block, struct fc_block *link) {
    (void)block;
    return link;
}
#endif

static inline void fc_block_link(struct fc_block *block, struct fc_block *next) {
    block->next = fc_block_code(block, next);
    block->check = fc_block_check(block, next);
}

static inline struct fc_block *fc_block_next(const struct fc_block *block) {
    struct fc_block *next = fc_block_code(block, block->next);
    if (FC_UNLIKELY(block->check != fc_block_check(block, next))) {
        fc_die("block %p was written to after it was freed", block);
    }
    return next;
}

static inline bool fc_block_is_freed(const struct fc_block *block) {
    struct fc_block held = *block;
    fc_poison_open(&held, sizeof held);
    return held.check == fc_block_check(block, fc_block_code(block, held.next));
}

// Whether a block of the span begins at `p`, of its first `blocks`.
static inline bool fc_block_begins(const struct fc_run *span, const void *p, uint32_t blocks) {
    uint64_t offset = (uint64_t)((const char *)p - span->start);
    uint64_t reciprocal = atomic_load_explicit(&span->reciprocal, memory_order_relaxed);
    uint64_t index = offset * reciprocal >> 40;
    return index < blocks && index * fc_run_stride(span) == offset;
}

// Whether a block handed out by its owner is in use, as seen by the owner, which may be handing out
// or collecting others at the same time.
FC_READS_WHILE_OTHERS_WRITE static inline bool fc_block_is_lent(const void *p) {
    return (*fc_space_bits(p) & fc_space_bit(p)) != 0 && (uintptr_t)p % FC_ALIGNMENT == 0;
}

#endif
