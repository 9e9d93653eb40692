#include "large_bins.h"

#include "heap.h"
#include "numa.h"
#include "options.h"
#include "os.h"
#include "prefault.h"
#include "shared.h"

// Runs of one bin examined for one that is long enough.
#define LOOK 16
// The rest of a run is split off if it is at least this share of what was asked for.
#define WORTH_CUTTING 32
// Regions are long, because free runs of two of them do not merge. Address space costs nothing, but
// there must be enough for every heap: this many regions, of at most LARGEST_WISH.
#define REGIONS 8192
#define LARGEST_WISH ((size_t)1 << 30)
// A small heap takes this share of the slices that it has at a time.
#define SLICE_SHARE 8
// A plan's memory for a heap is on huge pages from this size on: for less, the part of the last one
// that is not used would be a large share.
#define PLANNED_HUGE (6 * FC_HUGE_PAGE)

// Bins of one length each up to 15 pages, then eight a doubling.
static unsigned bin_of(uint32_t pages) {
    if (pages < 16) {
        return pages;
    }
    unsigned log = 31 - (unsigned)__builtin_clz(pages);
    return 16 + (log - 4) * 8 + (pages >> (log - 3) & 7);
}

// Written under the lock only, so that no locked instruction is needed.
static void set_idle(struct fc_large_bins *large_bins, size_t pages) {
    atomic_store_explicit(&large_bins->idle, pages, memory_order_relaxed);
}

static size_t idle(struct fc_large_bins *large_bins) {
    return atomic_load_explicit(&large_bins->idle, memory_order_relaxed);
}

static void name_ends(struct fc_run *run) {
    fc_space_name(run->start, run);
    fc_space_name(fc_run_end(run) - FC_PAGE, run);
}

static void bin(struct fc_heap *heap, struct fc_run *run) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    unsigned b = bin_of(run->pages);
    atomic_store_explicit(&run->owner, NULL, memory_order_relaxed);
    fc_run_settle(run, heap);
    fc_run_become(run, FC_RUN_FREE);
    name_ends(run);
    run->previous = NULL;
    run->next = large_bins->bins[b];
    if (run->next != NULL) {
        run->next->previous = run;
    }
    large_bins->bins[b] = run;
    large_bins->filled[b / 64] |= (uint64_t)1 << b % 64;
    set_idle(large_bins, idle(large_bins) + run->pages);
}

static void unbin(struct fc_large_bins *large_bins, struct fc_run *run) {
    unsigned b = bin_of(run->pages);
    if (run->previous != NULL) {
        run->previous->next = run->next;
    } else {
        large_bins->bins[b] = run->next;
        if (run->next == NULL) {
            large_bins->filled[b / 64] &= ~((uint64_t)1 << b % 64);
        }
    }
    if (run->next != NULL) {
        run->next->previous = run->previous;
    }
    fc_run_become(run, FC_RUN_NONE);
    set_idle(large_bins, idle(large_bins) - run->pages);
}

static struct fc_run *describe(struct fc_large_bins *large_bins, char *start, uint32_t pages,
                               bool zero) {
    if (large_bins->spare == NULL) {
        large_bins->spare = fc_space_descriptors();
        if (large_bins->spare == NULL) {
            return NULL;
        }
    }
    struct fc_run *run = large_bins->spare;
    large_bins->spare = run->next;
    run->start = start;
    run->payload = NULL;
    run->pages = pages;
    run->zero = zero;
    run->touched = false;
    run->freed_at = 0;
    return run;
}

static void undescribe(struct fc_large_bins *large_bins, struct fc_run *run) {
    fc_run_become(run, FC_RUN_NONE);
    run->next = large_bins->spare;
    large_bins->spare = run;
}

// The free run of this heap that has the page as its first or last.
static struct fc_run *neighbour(struct fc_heap *heap, char *page) {
    if (!fc_space_holds(page)) {
        return NULL;
    }
    struct fc_run *run = fc_space_run(page);
    bool mine = run != NULL && fc_run_kind(run) == FC_RUN_FREE && fc_run_heap(run) == heap;
    return mine && (page == run->start || page == fc_run_end(run) - FC_PAGE) ? run : NULL;
}

// A neighbour, if it can be coalesced with this one.
static struct fc_run *mergeable(struct fc_heap *heap, const struct fc_run *run, char *page) {
    struct fc_run *other = neighbour(heap, page);
    return other != NULL && other->zero == run->zero ? other : NULL;
}

// Compares two moments in milliseconds, which wrap around every seven weeks.
static uint32_t later(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0 ? a : b; }

// Coalesces a free run with all free runs on both sides, whose own coalescing may be deferred.
static void merge(struct fc_heap *heap, struct fc_run *run) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    struct fc_run *left = mergeable(heap, run, run->start - FC_PAGE);
    struct fc_run *right = mergeable(heap, run, fc_run_end(run));
    if (left == NULL && right == NULL) {
        return;
    }
    unbin(large_bins, run);
    for (; right != NULL; right = mergeable(heap, run, fc_run_end(run))) {
        unbin(large_bins, right);
        run->pages += right->pages;
        run->freed_at = later(run->freed_at, right->freed_at);
        run->touched |= right->touched;
        undescribe(large_bins, right);
    }
    for (; left != NULL; left = mergeable(heap, run, run->start - FC_PAGE)) {
        unbin(large_bins, left);
        left->pages += run->pages;
        left->freed_at = later(left->freed_at, run->freed_at);
        left->touched |= run->touched;
        undescribe(large_bins, run);
        run = left;
    }
    bin(heap, run);
}

static void coalesce_at(struct fc_heap *heap, char *start) {
    struct fc_run *run = start != NULL ? neighbour(heap, start) : NULL;
    if (run != NULL && run->start == start) {
        merge(heap, run);
    }
}

// Defers coalescing the free run, and coalesces the one deferred longest.
static void defer_coalescing(struct fc_heap *heap, const struct fc_run *run) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    char **slot = &large_bins->deferred[large_bins->deferred_next++ % FC_DEFERRED];
    char *oldest = *slot;
    *slot = run->start;
    coalesce_at(heap, oldest);
}

// Shortens the run to `pages`; the rest becomes a free run. False without a descriptor.
static bool cut(struct fc_heap *heap, struct fc_run *run, uint32_t pages) {
    struct fc_run *rest = describe(&heap->large_bins, run->start + (size_t)pages * FC_PAGE,
                                   run->pages - pages, run->zero);
    if (rest == NULL) {
        return false;
    }
    rest->freed_at = run->freed_at;
    rest->touched = run->touched;
    run->pages = pages;
    bin(heap, rest);
    defer_coalescing(heap, rest);
    return true;
}

static void coalesce_deferred(struct fc_heap *heap) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    for (unsigned i = 0; i < FC_DEFERRED; i++) {
        coalesce_at(heap, large_bins->deferred[i]);
        large_bins->deferred[i] = NULL;
    }
}

// Releases to the OS what has been free for as long as the option says.
static void decay(struct fc_heap *heap, uint32_t now) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    if (now - large_bins->last_scan < fc_options.decay / 4 + 1) {
        return;
    }
    large_bins->last_scan = now;
    for (unsigned b = 0; b < FC_BINS; b++) {
        for (struct fc_run *run = large_bins->bins[b]; run != NULL; run = run->next) {
            if (!run->zero && now - run->freed_at >= fc_options.decay &&
                fc_os_purge(run->start, fc_run_bytes(run))) {
                run->zero = true;
                run->touched = false;
                fc_space_refund(fc_run_bytes(run));
                atomic_fetch_add_explicit(&fc_space.released, fc_run_bytes(run),
                                          memory_order_relaxed);
            }
        }
    }
}

static void put(struct fc_heap *heap, struct fc_run *run) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    large_bins->large -= fc_run_kind(run) != FC_RUN_SPAN ? run->pages : 0;
    run->zero = false;
    if (FC_UNLIKELY(fc_options.decay != 0)) {
        run->freed_at = fc_os_milliseconds();
        decay(heap, run->freed_at);
    }
    bin(heap, run);
    defer_coalescing(heap, run);
}

static void collect(struct fc_heap *heap) {
    struct fc_run *run = fc_channel_collect_runs(heap);
    while (run != NULL) {
        struct fc_run *next = run->next;
        atomic_fetch_sub_explicit(&heap->large_bins.incoming, run->pages, memory_order_relaxed);
        put(heap, run);
        run = next;
    }
}

// The shortest run in the bins, roughly, that is long enough.
static struct fc_run *look_up(struct fc_large_bins *large_bins, uint32_t pages) {
    unsigned b = bin_of(pages);
    struct fc_run *run = large_bins->bins[b];
    for (int i = 0; run != NULL && run->pages < pages; i++) {
        run = i < LOOK ? run->next : NULL;
    }
    for (b++; run == NULL && b < FC_BINS; b = (b / 64 + 1) * 64) {
        uint64_t filled = large_bins->filled[b / 64] >> b % 64;
        if (filled != 0) {
            run = large_bins->bins[b + (unsigned)__builtin_ctzll(filled)];
        }
    }
    return run;
}

// Any run that is long enough and is charged already.
static struct fc_run *look_up_charged(struct fc_large_bins *large_bins, uint32_t pages) {
    for (unsigned b = bin_of(pages); b < FC_BINS; b++) {
        for (struct fc_run *run = large_bins->bins[b]; run != NULL; run = run->next) {
            if (!run->zero && run->pages >= pages) {
                return run;
            }
        }
    }
    return NULL;
}

// A run in the bins that is long enough, removed from its bin.
static struct fc_run *find(struct fc_heap *heap, uint32_t pages) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    struct fc_run *run = look_up(large_bins, pages);
    if (run != NULL && run->zero && !fc_space_charge((size_t)pages << FC_PAGE_SHIFT)) {
        run = look_up_charged(large_bins, pages);
    }
    if (run == NULL) {
        return NULL;
    }
    unbin(large_bins, run);
    uint32_t rest = run->pages - pages;
    bool worth = rest > pages / WORTH_CUTTING;
    if (rest > 0 && !(worth && cut(heap, run, pages)) && run->zero) {
        atomic_fetch_add_explicit(&fc_space.footprint, (size_t)rest << FC_PAGE_SHIFT,
                                  memory_order_relaxed);
    }
    return run;
}

static struct fc_run *find_merging(struct fc_heap *heap, uint32_t pages) {
    struct fc_run *run = find(heap, pages);
    if (run == NULL) {
        collect(heap);
        coalesce_deferred(heap);
        run = find(heap, pages);
    }
    return run;
}

static struct fc_run *steal(struct fc_heap *heap, uint32_t pages, bool same_policy) {
    unsigned count = fc_heap_count();
    for (unsigned i = 1; i < count; i++) {
        struct fc_heap *victim = fc_heap_at((heap->id + i) % count);
        struct fc_large_bins *large_bins = &victim->large_bins;
        size_t incoming = atomic_load_explicit(&large_bins->incoming, memory_order_relaxed);
        if (idle(large_bins) + incoming < pages ||
            (victim->policy == heap->policy) != same_policy || !fc_lock_try(&large_bins->lock)) {
            continue;
        }
        struct fc_run *run = find_merging(victim, pages);
        fc_lock_drop(&large_bins->lock);
        if (run != NULL) {
            heap->steals++;
            return run;
        }
    }
    return NULL;
}

// A run of a heap whose memory lies on other nodes: its pages are replaced by new ones.
static struct fc_run *steal_from_elsewhere(struct fc_heap *heap, uint32_t pages) {
    struct fc_run *run = steal(heap, pages, false);
    if (run != NULL) {
        run->zero = fc_os_purge(run->start, fc_run_bytes(run)) || run->zero;
        run->touched = false;
    }
    return run;
}

// Puts pages that are in no list into the bins. Without a descriptor they are lost.
static void bin_pages(struct fc_heap *heap, char *start, char *end, bool zero) {
    uint32_t pages = (uint32_t)((size_t)(end - start) >> FC_PAGE_SHIFT);
    struct fc_run *run = pages > 0 ? describe(&heap->large_bins, start, pages, zero) : NULL;
    if (run != NULL) {
        run->touched = true;  // or parts of it
        bin(heap, run);
    }
}

// Puts what a slice leaves to the heap into its bins.
static void bin_left(struct fc_heap *heap, const struct fc_slice *slice) {
    for (int i = 0; i < 2; i++) {
        bin_pages(heap, slice->left[i].start, slice->left[i].end, true);
        heap->large_bins.shared.taken += (size_t)(slice->left[i].end - slice->left[i].start);
    }
}

// Makes the never-used pages up to `end` ready for use by a request of so many bytes. Whether they
// are touched then.
static bool make_ready(struct fc_heap *heap, char *end, size_t request) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    size_t bytes = (size_t)(end - large_bins->top);
    char *from = large_bins->ready > large_bins->top ? large_bins->ready : large_bins->top;
    if (!fc_prefault_own(bytes, fc_large_bins_used(large_bins))) {
        return false;
    }
    if (end > from) {
        large_bins->ready = fc_prefault(from, end, large_bins->end);
        if (fc_shared_is_for(request)) {
            struct fc_slice slice;
            fc_shared_touch_ahead((size_t)(large_bins->ready - from), &slice);
            bin_left(heap, &slice);
        }
    }
    return bytes <= FC_PREFAULT_BATCH;
}

static void count_used(struct fc_large_bins *large_bins, size_t bytes) {
    size_t used = fc_large_bins_used(large_bins) + bytes;
    atomic_store_explicit(&large_bins->used, used, memory_order_relaxed);
}

// A run from the never-used part of the heap's region, preceded by the free run before it if
// `joined` allows; touched ahead if `prefault`.
static struct fc_run *fresh(struct fc_heap *heap, uint32_t pages, bool joined, bool prefault) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    size_t bytes = (size_t)pages << FC_PAGE_SHIFT;
    if (large_bins->top == NULL) {
        return NULL;
    }
    struct fc_run *before = joined ? neighbour(heap, large_bins->top - FC_PAGE) : NULL;
    size_t have = before != NULL ? fc_run_bytes(before) : 0;
    if (have >= bytes || bytes - have > (size_t)(large_bins->end - large_bins->top)) {
        return NULL;
    }
    size_t more = bytes - have;
    size_t charged = more + (before != NULL && before->zero ? have : 0);
    if (!fc_space_charge(charged)) {
        return NULL;
    }
    struct fc_run *run = before;
    if (before != NULL) {
        unbin(large_bins, before);
        before->zero = false;
        before->pages = pages;
    } else {
        run = describe(large_bins, large_bins->top, pages, true);
        if (run == NULL) {
            fc_space_refund(charged);
            return NULL;
        }
    }
    run->touched = prefault && make_ready(heap, large_bins->top + more, bytes) && before == NULL;
    large_bins->top += more;
    count_used(large_bins, more);
    return run;
}

// Moves what is already touched to where the heap's policy wants it.
static void migrate(struct fc_heap *heap, char *start, char *end) {
    uint64_t policy = atomic_load_explicit(&heap->policy, memory_order_relaxed);
    fc_numa_migrate(start, (size_t)(end - start), policy);
}

// Takes more address space. What of it was touched ahead goes into the bins.
static bool grow(struct fc_heap *heap, size_t bytes) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    size_t wish = large_bins->taken < LARGEST_WISH ? large_bins->taken : LARGEST_WISH;
    size_t least = fc_space.whole / REGIONS;
    wish = wish > least ? wish : least;
    size_t granted;
    char *touched;
    char *start = fc_space_grow(bytes, wish, &granted, &touched);
    if (start == NULL) {
        return false;
    }
    large_bins->taken += granted;
    if (start != large_bins->end || touched > start) {
        migrate(heap, start, touched);
        bin_pages(heap, large_bins->top, large_bins->end, true);
        bin_pages(heap, start, touched, false);
        large_bins->top = large_bins->ready = touched;
    }
    large_bins->end = start + granted;
    return true;
}

// A run from the heap's own large bins. Under the lock.
static struct fc_run *take_own(struct fc_heap *heap, uint32_t pages, bool prefault) {
    struct fc_run *run = find_merging(heap, pages);
    return run != NULL ? run : fresh(heap, pages, true, prefault);
}

// Bytes of the heap's own regions that were ever used; a little less where slices are not used yet.
static size_t used_of_own(const struct fc_large_bins *large_bins) {
    size_t used = fc_large_bins_used(large_bins);
    return used > large_bins->shared.taken ? used - large_bins->shared.taken : 0;
}

// Takes a slice of what small heaps share: several times `bytes`, if the heap has some already.
static bool grow_shared(struct fc_heap *heap, size_t bytes) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    size_t share = large_bins->shared.taken / SLICE_SHARE;
    size_t several = (share < FC_HUGE_PAGE ? share : FC_HUGE_PAGE) / bytes;
    bool small = fc_shared_is_small(large_bins->shared.taken);
    struct fc_slice slice;
    if (!fc_shared_is_for(bytes) || (!small && !fc_shared_is_small(used_of_own(large_bins))) ||
        !fc_shared_take(bytes, (several > 0 ? several : 1) * bytes, !small, &slice)) {
        return false;
    }
    if (slice.granted.start == large_bins->shared.end) {
        large_bins->shared.touched = large_bins->shared.touched && slice.touched;
    } else {
        bin_pages(heap, large_bins->shared.top, large_bins->shared.end, true);
        large_bins->shared.top = slice.granted.start;
        large_bins->shared.touched = slice.touched;
    }
    large_bins->shared.end = slice.granted.end;
    large_bins->shared.taken += (size_t)(slice.granted.end - slice.granted.start);
    bin_left(heap, &slice);
    return true;
}

// A run of the heap's slice of what small heaps share.
static struct fc_run *fresh_shared(struct fc_heap *heap, uint32_t pages) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    size_t bytes = (size_t)pages << FC_PAGE_SHIFT;
    if (bytes > (size_t)(large_bins->shared.end - large_bins->shared.top) ||
        !fc_space_charge(bytes)) {
        return NULL;
    }
    struct fc_run *run = describe(large_bins, large_bins->shared.top, pages, true);
    if (run == NULL) {
        fc_space_refund(bytes);
        return NULL;
    }
    run->touched = large_bins->shared.touched;
    large_bins->shared.top += bytes;
    count_used(large_bins, bytes);
    return run;
}

static void count_large(struct fc_large_bins *large_bins, size_t more) {
    large_bins->large += more;
    large_bins->large_peak =
        large_bins->large > large_bins->large_peak ? large_bins->large : large_bins->large_peak;
}

// Splits off what lies before the first multiple of the alignment, and the excess behind.
static void align(struct fc_heap *heap, struct fc_run *run, uint32_t pages, size_t alignment) {
    size_t before = fc_round_up((uintptr_t)run->start, alignment) - (uintptr_t)run->start;
    struct fc_run *head = before > 0 ? describe(&heap->large_bins, run->start,
                                                (uint32_t)(before >> FC_PAGE_SHIFT), false)
                                     : NULL;
    if (before > 0) {
        run->start += before;
        run->pages -= (uint32_t)(before >> FC_PAGE_SHIFT);
    }
    if (head != NULL) {
        bin(heap, head);
    }
    if (run->pages > pages) {
        bool zero = run->zero;
        run->zero = false;  // charged already
        if (cut(heap, run, pages)) {
            coalesce_at(heap, fc_run_end(run));
        }
        run->zero = zero;
    }
}

// What a caller asked for.
struct wanted {
    enum fc_run_kind kind;
    uint32_t pages;
    size_t alignment;  // FC_PAGE where any page will do
};

// Makes a run the heap's. Under the lock.
static struct fc_run *settle(struct fc_heap *heap, struct fc_run *run,
                             const struct wanted *wanted) {
    if (run == NULL) {
        return NULL;
    }
    if (wanted->alignment > FC_PAGE) {
        align(heap, run, wanted->pages, wanted->alignment);
    }
    fc_run_settle(run, heap);
    name_ends(run);
    fc_run_become(run, wanted->kind);
    count_large(&heap->large_bins, wanted->kind == FC_RUN_LARGE ? run->pages : 0);
    return run;
}

struct fc_run *fc_large_bins_take(struct fc_heap *heap, enum fc_run_kind kind, uint32_t pages,
                                  size_t alignment, bool prefault) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    struct wanted wanted = {kind, pages, alignment > FC_PAGE ? alignment : FC_PAGE};
    size_t most = pages + (wanted.alignment >> FC_PAGE_SHIFT) - 1;
    if (most > UINT32_MAX) {
        return NULL;
    }
    uint32_t all = (uint32_t)most;
    // For spans only as a last resort: they would cut up what others keep for their large blocks.
    bool is_large = kind == FC_RUN_LARGE;
    fc_lock_take(&large_bins->lock);
    struct fc_run *run = is_large ? find_merging(heap, all) : take_own(heap, all, prefault);
    if (run == NULL && prefault) {
        run = fresh_shared(heap, all);
    }
    run = settle(heap, run, &wanted);
    fc_lock_drop(&large_bins->lock);
    if (run != NULL) {
        return run;
    }
    // Not under the lock: others may be doing the same.
    run = is_large ? steal(heap, all, true) : NULL;
    fc_lock_take(&large_bins->lock);
    if (run == NULL && prefault && grow_shared(heap, (size_t)all << FC_PAGE_SHIFT)) {
        run = fresh_shared(heap, all);
    }
    if (run == NULL) {
        run = fresh(heap, all, true, prefault);
    }
    if (run == NULL && grow(heap, (size_t)all << FC_PAGE_SHIFT)) {
        run = take_own(heap, all, prefault);
    }
    run = settle(heap, run, &wanted);
    fc_lock_drop(&large_bins->lock);
    if (run != NULL) {
        return run;
    }
    // The last resort.
    run = steal(heap, all, true);
    if (run == NULL) {
        run = steal_from_elsewhere(heap, all);
    }
    fc_lock_take(&large_bins->lock);
    run = settle(heap, run, &wanted);
    fc_lock_drop(&large_bins->lock);
    return run;
}

void fc_large_bins_put(struct fc_heap *heap, struct fc_run *run) {
    fc_lock_take(&heap->large_bins.lock);
    put(heap, run);
    fc_lock_drop(&heap->large_bins.lock);
}

// Extends the run by what follows it. Under the lock.
static bool extend(struct fc_heap *heap, struct fc_run *run, uint32_t pages) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    uint32_t more = pages - run->pages;
    struct fc_run *next = neighbour(heap, fc_run_end(run));
    bool held = next != NULL && next->start == fc_run_end(run);
    if (held && next->pages >= more) {
        if (next->zero && !fc_space_charge((size_t)more << FC_PAGE_SHIFT)) {
            return false;
        }
        unbin(large_bins, next);
        if (next->pages > more && !cut(heap, next, more)) {
            more = next->pages;
        }
        run->pages += more;
        undescribe(large_bins, next);
        return true;
    }
    if (held && fc_run_end(next) != large_bins->top) {
        return false;
    }
    if (!held && fc_run_end(run) != large_bins->top) {
        return false;
    }
    struct fc_run *rest = fresh(heap, more, held, true);
    if (rest == NULL) {
        return false;
    }
    run->pages += rest->pages;
    undescribe(large_bins, rest);
    return true;
}

bool fc_large_bins_resize(struct fc_run *run, uint32_t pages) {
    struct fc_heap *owner = fc_run_heap(run);
    struct fc_large_bins *large_bins = &owner->large_bins;
    fc_lock_take(&large_bins->lock);
    uint32_t before = run->pages;
    bool done = true;
    if (pages < before) {
        done = cut(owner, run, pages);
        coalesce_at(owner, fc_run_end(run));
    } else if (pages > before) {
        done = extend(owner, run, pages);
    }
    if (done) {
        name_ends(run);
        large_bins->large -= before;
        count_large(large_bins, run->pages);
    }
    fc_lock_drop(&large_bins->lock);
    return done;
}

// Releases what was touched ahead and is not used. It is not charged, and not counted as released:
// how much of it is resident is not known. Under the lock.
static void release_unused(struct fc_large_bins *large_bins) {
    if (large_bins->ready > large_bins->top) {
        (void)fc_os_purge(large_bins->top, (size_t)(large_bins->ready - large_bins->top));
        large_bins->ready = large_bins->top;
    }
    if (large_bins->shared.end > large_bins->shared.top) {
        (void)fc_os_purge(large_bins->shared.top,
                          (size_t)(large_bins->shared.end - large_bins->shared.top));
        large_bins->shared.touched = false;
    }
}

size_t fc_large_bins_purge(struct fc_heap *heap) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    size_t bytes = 0;
    fc_lock_take(&large_bins->lock);
    collect(heap);
    coalesce_deferred(heap);
    for (unsigned b = 0; b < FC_BINS; b++) {
        for (struct fc_run *run = large_bins->bins[b]; run != NULL; run = run->next) {
            bool resident = !run->zero || run->touched;
            if (resident && fc_os_purge(run->start, fc_run_bytes(run))) {
                bytes += run->zero ? 0 : fc_run_bytes(run);
                run->zero = true;
                run->touched = false;
            }
        }
    }
    fc_space_refund(bytes);
    release_unused(large_bins);
    fc_lock_drop(&large_bins->lock);
    atomic_fetch_add_explicit(&fc_space.released, bytes, memory_order_relaxed);
    return bytes;
}

bool fc_large_bins_claim(struct fc_heap *heap, size_t bytes) {
    fc_lock_take(&heap->large_bins.lock);
    bool done = grow(heap, bytes);
    fc_lock_drop(&heap->large_bins.lock);
    return done;
}

void fc_large_bins_migrate(struct fc_heap *heap) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    fc_lock_take(&large_bins->lock);
    for (unsigned b = 0; b < FC_BINS; b++) {
        for (struct fc_run *run = large_bins->bins[b]; run != NULL; run = run->next) {
            if (!run->zero || run->touched) {
                migrate(heap, run->start, fc_run_end(run));
            }
        }
    }
    if (large_bins->ready > large_bins->top) {
        migrate(heap, large_bins->top, large_bins->ready);
    }
    fc_lock_drop(&large_bins->lock);
}

// A run of never-used pages that the caller is about to touch. Under the lock.
static struct fc_run *fresh_untouched(struct fc_heap *heap, uint32_t pages) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    size_t bytes = (size_t)pages << FC_PAGE_SHIFT;
    // What is touched already of a region that it gets goes into the bins.
    while (bytes > (size_t)(large_bins->end - large_bins->top)) {
        if (!grow(heap, bytes)) {
            return NULL;
        }
    }
    struct fc_run *run = fresh(heap, pages, false, false);
    if (run != NULL) {
        char *end = fc_run_end(run);
        char *huge = (char *)fc_round_up((uintptr_t)run->start, FC_HUGE_PAGE);
        if (bytes >= PLANNED_HUGE && fc_options.huge != FC_HUGE_NEVER) {
            fc_os_advise_huge(huge, (size_t)(end - huge));
        }
        large_bins->ready = large_bins->ready > end ? large_bins->ready : end;
    }
    return run;
}

bool fc_large_bins_prepare(struct fc_heap *heap, size_t bytes) {
    struct fc_large_bins *large_bins = &heap->large_bins;
    fc_lock_take(&large_bins->lock);
    struct fc_run *run = fresh_untouched(heap, (uint32_t)(bytes >> FC_PAGE_SHIFT));
    fc_lock_drop(&large_bins->lock);
    bool done = run != NULL && fc_os_populate(run->start, bytes);
    if (run != NULL) {
        migrate(heap, run->start, fc_run_end(run));
        fc_lock_take(&large_bins->lock);
        run->zero = false;
        bin(heap, run);
        fc_lock_drop(&large_bins->lock);
    }
    atomic_fetch_add_explicit(&fc_space.reserved, done ? bytes : 0, memory_order_relaxed);
    return done;
}
