#include "shared.h"

#include "numa.h"
#include "prefault.h"
#include "space.h"

// A heap that has taken this much is large enough for huge pages of its own.
#define SMALL_HEAP ((size_t)16 << 20)
// Longer requests are not cut from what is shared: free runs merge with neighbours of the same heap
// only.
#define LONGEST_REQUEST ((size_t)256 << 10)

// Taken after a heap's large bins' lock and before the space's.
static struct fc_lock lock;
// What slices are cut from. Under the lock.
static struct {
    char *next;
    char *touched;  // the pages from `next` up to it were touched, if it lies behind that
    char *end;
    // Pages granted that were left to the program: of this extension, and of the one before, which
    // the program has had time to use.
    struct fc_pages untouched;
    struct fc_pages sample;
    unsigned others;  // regions being touched by threads that hold no lock of this file
} region;

bool fc_shared_is_for(size_t taken, size_t bytes) {
    return taken < SMALL_HEAP && bytes <= LONGEST_REQUEST && !fc_numa_matters() &&
           atomic_load_explicit(&fc_space.reserved, memory_order_relaxed) == 0;
}

// Extends the region, or begins another that has `bytes`; then what is left of it is the caller's.
// Under the lock.
static bool extend(size_t bytes, struct fc_slice *out) {
    size_t size = fc_round_up(bytes, fc_space.granule);
    fc_lock_take(&fc_space.lock);
    // What is reserved is charged already, and not for here.
    bool reserved = fc_space.populated > fc_space.frontier;
    char *start = reserved ? NULL : fc_space_advance(size);
    fc_lock_drop(&fc_space.lock);
    if (start == NULL) {
        return false;
    }
    if (region.sample.end > region.sample.start) {
        fc_prefault_learn(region.sample.start, (size_t)(region.sample.end - region.sample.start));
    }
    region.sample = region.untouched;
    region.untouched = (struct fc_pages){0};
    if (start != region.end) {
        out->left[0] = (struct fc_pages){region.next, region.end};
        region.next = region.touched = start;
    }
    region.end = start + size;
    return true;
}

// Touches the slice and the rest of the region without the lock, so that other threads can take and
// touch memory meanwhile; until then nobody gets it. Of that rest and the region that others began,
// the longer one stays shared.
static void touch_unlocked(struct fc_slice *slice, char *from) {
    struct fc_pages rest = {slice->granted.end, region.end};
    region.next = region.touched = region.end;
    region.others++;
    fc_lock_drop(&lock);
    char *touched = fc_prefault(from, slice->granted.end, rest.end);
    fc_lock_take(&lock);
    region.others--;
    if (rest.end - rest.start > region.end - region.next) {
        slice->left[1] = (struct fc_pages){region.next, region.end};
        region.next = rest.start;
        region.touched = touched;
        region.end = rest.end;
    } else {
        slice->left[1] = rest;
    }
}

static void touch(struct fc_slice *slice) {
    char *start = slice->granted.start;
    char *from = region.touched > start ? region.touched : start;
    // Others wait where several regions in use would be a large share of the program.
    if (fc_prefault_shared(region.others + 2)) {
        touch_unlocked(slice, from);
    } else {
        region.touched = fc_prefault(from, slice->granted.end, region.end);
    }
}

bool fc_shared_take(size_t bytes, size_t wish, struct fc_slice *out) {
    *out = (struct fc_slice){0};
    fc_lock_take(&lock);
    bool done = (size_t)(region.end - region.next) >= bytes || extend(bytes, out);
    if (done) {
        size_t rest = (size_t)(region.end - region.next);
        size_t granted = wish < rest ? wish : rest / bytes * bytes;
        out->granted = (struct fc_pages){region.next, region.next + granted};
        region.next += granted;
        out->touched = region.next <= region.touched;
        if (!out->touched && fc_prefault_shared(1)) {
            touch(out);
            out->touched = true;
        }
        if (!out->touched) {
            char *start = region.untouched.start;
            region.untouched.start = start != NULL ? start : out->granted.start;
            region.untouched.end = out->granted.end;
        }
    }
    fc_lock_drop(&lock);
    return done;
}

void fc_shared_hold(void) { fc_lock_take(&lock); }

void fc_shared_drop(void) { fc_lock_drop(&lock); }

// Whoever touches a region holds the lock of its heap's large bins, so that no thread does so while
// the process is forked.
void fc_shared_reset(void) { fc_lock_reset(&lock); }
