#include "shared.h"

#include "numa.h"
#include "options.h"
#include "os.h"
#include "prefault.h"
#include "space.h"

// A heap of this size is large enough for huge pages of its own.
#define SMALL_HEAP ((size_t)16 << 20)
// Longer requests are not cut from what is shared: free runs merge with neighbours of the same heap
// only.
#define LONGEST_REQUEST ((size_t)256 << 10)
// A byte is touched ahead for so many that heaps touch of their own, up to this much, or this share
// of the address space if that is less.
#define AHEAD_SHARE 12
#define AHEAD_MOST ((size_t)64 << 20)
#define AHEAD_SPACE_SHARE 256

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

// What is touched ahead while other heaps grow. When all of it was granted, another region follows.
// Under the lock.
static struct {
    char *next;
    char *touched;  // nothing is granted from there on
    char *end;
    size_t owed;  // bytes to be touched
    bool busy;    // a thread without the lock touches pages from `touched` on
} ahead;

bool fc_shared_is_for(size_t bytes) {
    return bytes <= LONGEST_REQUEST && !fc_numa_matters() &&
           atomic_load_explicit(&fc_space.reserved, memory_order_relaxed) == 0;
}

bool fc_shared_is_small(size_t bytes) { return bytes < SMALL_HEAP; }

// The next `bytes` of address space, or NULL.
static char *advance(size_t bytes) {
    fc_lock_take(&fc_space.lock);
    // What is reserved, or about to be, is charged already, and not for here.
    bool reserved = fc_space.claimed > fc_space.frontier || fc_space.populated > fc_space.frontier;
    char *start = reserved ? NULL : fc_space_advance(bytes);
    fc_lock_drop(&fc_space.lock);
    return start;
}

// Extends the region, or begins another that has `bytes`; then what is left of it is the caller's.
// Under the lock.
static bool extend(size_t bytes, struct fc_slice *out) {
    size_t size = fc_round_up(bytes, fc_space.granule);
    char *start = advance(size);
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

// As many requests of `bytes` as there are in `rest`, up to `wish`.
static size_t several(size_t bytes, size_t wish, size_t rest) {
    return wish < rest ? wish : rest / bytes * bytes;
}

// A slice of the region. Under the lock.
static bool take(size_t bytes, size_t wish, struct fc_slice *out) {
    if ((size_t)(region.end - region.next) < bytes && !extend(bytes, out)) {
        return false;
    }
    size_t granted = several(bytes, wish, (size_t)(region.end - region.next));
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
    return true;
}

// A slice of what was touched ahead. Under the lock.
static bool take_ahead(size_t bytes, size_t wish, struct fc_slice *out) {
    size_t rest = (size_t)(ahead.touched - ahead.next);
    if (rest < bytes) {
        return false;
    }
    size_t granted = several(bytes, wish, rest);
    out->granted = (struct fc_pages){ahead.next, ahead.next + granted};
    out->touched = true;
    ahead.next += granted;
    return true;
}

bool fc_shared_take(size_t bytes, size_t wish, bool only_ahead, struct fc_slice *out) {
    *out = (struct fc_slice){0};
    fc_lock_take(&lock);
    bool done = take_ahead(bytes, wish, out) || (!only_ahead && take(bytes, wish, out));
    fc_lock_drop(&lock);
    return done;
}

// Whether there are pages to touch ahead, of another region if hardly any of this one are left;
// those are the caller's. Under the lock.
static bool has_room(struct fc_slice *out) {
    if (ahead.touched < ahead.end) {
        return true;
    }
    if ((size_t)(ahead.end - ahead.next) >= LONGEST_REQUEST) {
        ahead.owed = 0;  // nobody asks for what there is
        return false;
    }
    size_t share = fc_space.whole / AHEAD_SPACE_SHARE;
    size_t size = share < AHEAD_MOST ? share : AHEAD_MOST;
    char *start = size >= FC_HUGE_PAGE ? advance(size) : NULL;
    if (start == NULL) {
        return false;
    }
    out->left[0] = (struct fc_pages){ahead.next, ahead.end};
    ahead.next = ahead.touched = start;
    ahead.end = start + size;
    return true;
}

void fc_shared_touch_ahead(size_t bytes, struct fc_slice *out) {
    *out = (struct fc_slice){0};
    // Nobody is charged for it: where memory is limited, it would be more.
    if (!fc_prefault_shared(1) || fc_options.limit != SIZE_MAX) {
        return;
    }
    fc_lock_take(&lock);
    ahead.owed += bytes / AHEAD_SHARE;
    if (ahead.owed >= FC_HUGE_PAGE && !ahead.busy && has_room(out)) {
        ahead.busy = true;
        char *from = ahead.touched;
        fc_lock_drop(&lock);
        char *touched = fc_prefault(from, from + FC_PAGE, ahead.end);
        fc_lock_take(&lock);
        ahead.touched = touched;
        ahead.owed -= (size_t)(touched - from);  // one huge page at most
        ahead.busy = false;
    }
    fc_lock_drop(&lock);
}

size_t fc_shared_release(void) {
    fc_lock_take(&lock);
    size_t bytes = ahead.busy ? 0 : (size_t)(ahead.touched - ahead.next);
    if (bytes > 0) {
        ahead.touched = ahead.next;
        ahead.owed = 0;
        bytes = fc_os_purge(ahead.next, bytes) ? bytes : 0;
    }
    fc_lock_drop(&lock);
    atomic_fetch_add_explicit(&fc_space.released, bytes, memory_order_relaxed);
    return bytes;
}

void fc_shared_hold(void) { fc_lock_take(&lock); }

void fc_shared_drop(void) { fc_lock_drop(&lock); }

// Whoever touches a region holds the lock of its heap's large bins, so that no thread does so while
// the process is forked.
void fc_shared_reset(void) { fc_lock_reset(&lock); }
