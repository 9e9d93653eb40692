#include "sub.h"

#include "heap.h"
#include "span.h"

static void send(struct fc_heap *heap, unsigned receiver) {
    struct fc_parcel *parcel = &heap->sub.parcels[receiver];
    fc_channel_send(heap, fc_heap_at(receiver), parcel->first, parcel->last);
    heap->sub.waiting[receiver / 64] &= ~((uint64_t)1 << receiver % 64);
    *parcel = (struct fc_parcel){0};
}

void fc_sub_forward(struct fc_heap *heap, struct fc_heap *owner, struct fc_block *block,
                    uint32_t bytes) {
    struct fc_parcel *parcel = &heap->sub.parcels[owner->id];
    fc_block_link(block, parcel->first);
    if (parcel->first == NULL) {
        parcel->last = block;
        heap->sub.waiting[owner->id / 64] |= (uint64_t)1 << owner->id % 64;
    }
    parcel->first = block;
    parcel->count++;
    parcel->bytes += bytes;
    heap->sent += bytes;
    if (parcel->count >= FC_PARCEL_BLOCKS || parcel->bytes >= FC_PARCEL_BYTES) {
        send(heap, owner->id);
    }
}

static void forward(struct fc_heap *heap, struct fc_run *span, struct fc_block *block) {
    struct fc_heap *owner = atomic_load_explicit(&span->owner, memory_order_relaxed);
    fc_sub_forward(heap, owner, block, fc_run_stride(span));
}

void fc_sub_put(struct fc_heap *heap, struct fc_run *span, struct fc_block *block) {
    heap->remote_frees++;
    forward(heap, span, block);
}

void fc_sub_keep(struct fc_heap *heap, struct fc_run *span, struct fc_block *block) {
    struct fc_stock *stock = &heap->sub.stocks[span->class];
    fc_block_link(block, stock->first);
    stock->first = block;
    stock->count++;
    heap->sub.stocked += fc_run_stride(span);
}

struct fc_block *fc_sub_take(struct fc_heap *heap, unsigned class) {
    struct fc_stock *stock = &heap->sub.stocks[class];
    struct fc_block *block = stock->first;
    if (block != NULL) {
        stock->first = fc_block_next(block);
        stock->count--;
        heap->sub.stocked -= fc_class_stride(class);
        block->check = 0;
    }
    return block;
}

void fc_sub_flush(struct fc_heap *heap) {
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        for (;;) {
            struct fc_block *block = fc_sub_take(heap, class);
            if (block == NULL) {
                break;
            }
            struct fc_run *span = fc_space_run(block);
            struct fc_heap *owner = atomic_load_explicit(&span->owner, memory_order_relaxed);
            if (owner != heap) {
                forward(heap, span, block);
            } else if (!fc_span_put(heap, span, block)) {
                fc_die("block %p was freed already", block);
            }
        }
    }
    for (unsigned word = 0; word < (fc_heap_count() + 63) / 64; word++) {
        while (heap->sub.waiting[word] != 0) {
            send(heap, word * 64 + (unsigned)__builtin_ctzll(heap->sub.waiting[word]));
        }
    }
}
