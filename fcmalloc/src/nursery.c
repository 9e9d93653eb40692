#include "nursery.h"

#include "numa.h"
#include "space.h"
#include "touch.h"

// A heap that has taken this much can do with a huge page of its own.
#define YOUNG ((size_t)16 << 20)
// Larger requests are not cut from what is shared: their pages would not merge with their
// neighbours' when they are free.
#define LARGEST_REQUEST ((size_t)256 << 10)

// Taken before the space's lock.
static struct fc_lock lock;
// The piece that slices are cut from. Under the lock.
static struct {
    char *next;
    char *ahead;  // touched up to here, or left to the program
    char *end;
    unsigned touching;  // threads that touch a piece without the lock
} piece;

bool fc_nursery_is_for(size_t taken, size_t bytes) {
    return taken < YOUNG && bytes <= LARGEST_REQUEST && !fc_numa_matters() &&
           atomic_load_explicit(&fc_space.reserved, memory_order_relaxed) == 0;
}

// Replaces the piece by one that has `bytes`; what is left of it is for the caller. Under the lock.
static bool renew(size_t bytes, struct fc_slice *out) {
    size_t size = fc_round_up(bytes, fc_space.granule);
    fc_lock_take(&fc_space.lock);
    char *start = fc_space_advance(size);
    fc_lock_drop(&fc_space.lock);
    if (start == NULL) {
        return false;
    }
    if (start != piece.end) {
        out->pieces[1] = (struct fc_pages){piece.next, piece.end};
        piece.next = piece.ahead = start;
    }
    piece.end = start + size;
    return true;
}

// Touches the slice and what comes after it, without the lock; until then nobody gets it. Of what
// is left then, and of a piece that others began meanwhile, the longer is shared, and the other one
// the caller's.
static void touch_alone(struct fc_slice *slice, char *from) {
    struct fc_pages rest = {slice->pieces[0].end, piece.end};
    piece.next = piece.ahead = piece.end;
    piece.touching++;
    fc_lock_drop(&lock);
    char *ahead = fc_touch_ahead(from, slice->pieces[0].end, rest.end);
    fc_lock_take(&lock);
    piece.touching--;
    if (rest.end - rest.start > piece.end - piece.next) {
        slice->pieces[2] = (struct fc_pages){piece.next, piece.end};
        piece.next = rest.start;
        piece.ahead = ahead;
        piece.end = rest.end;
    } else {
        slice->pieces[2] = rest;
    }
}

static void touch_ahead(struct fc_slice *slice) {
    char *from = piece.ahead > slice->pieces[0].start ? piece.ahead : slice->pieces[0].start;
    // Several pieces at a time if all of them together are a small share of the program.
    if (fc_touch_is_shared_ahead(piece.touching + 1)) {
        touch_alone(slice, from);
    } else {
        piece.ahead = fc_touch_ahead(from, slice->pieces[0].end, piece.end);
    }
}

bool fc_nursery_take(size_t bytes, size_t wish, struct fc_slice *out) {
    *out = (struct fc_slice){0};
    fc_lock_take(&lock);
    bool done = (size_t)(piece.end - piece.next) >= bytes || renew(bytes, out);
    if (done) {
        size_t left = (size_t)(piece.end - piece.next);
        size_t granted = wish < left ? wish : left / bytes * bytes;
        out->pieces[0] = (struct fc_pages){piece.next, piece.next + granted};
        piece.next += granted;
        if (piece.next > piece.ahead && fc_touch_is_shared_ahead(0)) {
            touch_ahead(out);
        }
    }
    fc_lock_drop(&lock);
    return done;
}

void fc_nursery_hold(void) { fc_lock_take(&lock); }

void fc_nursery_drop(void) { fc_lock_drop(&lock); }

void fc_nursery_reset(void) {
    fc_lock_reset(&lock);
    piece.touching = 0;
}
