#include "nursery.h"

#include "numa.h"
#include "space.h"
#include "touch.h"

// A heap that has taken this much can do with a huge page of its own.
#define YOUNG ((size_t)16 << 20)
// Larger requests are not cut from what is shared: their pages would not merge with their
// neighbours' when they are free.
#define LARGEST_REQUEST ((size_t)256 << 10)

// The piece that slices are cut from. Under the space's lock.
static struct {
    char *next;
    char *ahead;  // touched up to here, or left to the program
    char *end;
} piece;

bool fc_nursery_is_for(size_t taken, size_t bytes) {
    return taken < YOUNG && bytes <= LARGEST_REQUEST && !fc_numa_matters() &&
           atomic_load_explicit(&fc_space.reserved, memory_order_relaxed) == 0;
}

// Replaces the piece by one that has `bytes`; what is left of it is for the caller. Under the lock.
static bool renew(size_t bytes, struct fc_slice *out) {
    size_t size = fc_round_up(bytes, fc_space.granule);
    char *start = fc_space_advance(size);
    if (start == NULL) {
        return false;
    }
    if (start != piece.end) {
        out->rest = piece.next;
        out->rest_end = piece.end;
        piece.next = piece.ahead = start;
    }
    piece.end = start + size;
    return true;
}

// Touches what comes after the slice, without the lock: until then nobody gets it. If others were
// given memory meanwhile, it is the caller's.
static void touch_ahead(struct fc_slice *slice) {
    char *from = piece.ahead > slice->start ? piece.ahead : slice->start;
    char *end = piece.end;
    piece.next = piece.ahead = end;
    fc_lock_drop(&fc_space.lock);
    char *ahead = fc_touch_ahead(from, slice->end, end);
    fc_lock_take(&fc_space.lock);
    if (piece.next == end && piece.end == end) {
        piece.next = slice->end;
        piece.ahead = ahead;
    } else if (slice->rest == slice->rest_end) {
        slice->rest = slice->end;
        slice->rest_end = end;
    } else {
        slice->end = end;
    }
}

bool fc_nursery_take(size_t bytes, size_t wish, struct fc_slice *out) {
    *out = (struct fc_slice){0};
    fc_lock_take(&fc_space.lock);
    bool done = (size_t)(piece.end - piece.next) >= bytes || renew(bytes, out);
    if (done) {
        size_t left = (size_t)(piece.end - piece.next);
        size_t granted = wish < left ? wish : left / bytes * bytes;
        out->start = piece.next;
        out->end = piece.next + granted;
        piece.next = out->end;
        if (out->end > piece.ahead && fc_touch_is_shared_ahead()) {
            touch_ahead(out);
        }
    }
    fc_lock_drop(&fc_space.lock);
    return done;
}
