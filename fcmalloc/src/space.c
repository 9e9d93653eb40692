#include "space.h"

#include "options.h"
#include "os.h"

// Pages become readable in steps of this size, so that growing rarely enters the kernel.
#define COMMIT_STEP ((size_t)32 << 20)
#define DESCRIPTOR_STEP ((size_t)64 << 10)
#define SMALLEST_SPACE ((size_t)16 << 20)
#define LARGEST_SPACE ((size_t)16 << 40)
#define DESCRIPTOR_BATCH 32

struct fc_space fc_space;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// Bytes of the page map and of the block bits for that many bytes of pages.
static size_t map_bytes(size_t pages) { return pages / FC_PAGE * sizeof(struct fc_run *); }
static size_t bits_bytes(size_t pages) { return pages / FC_ALIGNMENT / 8; }

bool fc_space_open(size_t heap_bytes, size_t channel_bytes) {
    // Sixteen times the memory, so that fragmentation of address space never matters, but at most
    // half of what the program may map.
    size_t size = fc_os_memory() * 16;
    size_t allowed = fc_os_address_limit() / 2;
    size_t pages = SMALLEST_SPACE;
    while (pages < LARGEST_SPACE && pages * 2 <= smaller(size, allowed)) {
        pages *= 2;
    }
    for (; pages >= SMALLEST_SPACE; pages /= 2) {
        unsigned heaps = pages >= (size_t)16 << 30 ? 4096 : 128;
        size_t heap = fc_round_up(heap_bytes + heaps * channel_bytes, FC_PAGE);
        size_t map = map_bytes(pages);
        size_t bits = bits_bytes(pages);
        size_t descriptors = pages / FC_PAGE * sizeof(struct fc_run);
        char *base = fc_os_reserve(pages + map + bits + descriptors + heaps * heap);
        if (base == NULL) {
            continue;
        }
        // Many heaps, and all tables, use little bits here and there, which huge pages would round
        // up.
        fc_os_decline_huge(base, pages + map + bits + descriptors + heaps * heap);
        fc_space.map = (_Atomic(struct fc_run *) *)(base + pages);
        fc_space.granule = smaller(FC_HUGE_PAGE, pages / 1024);
        fc_space.frontier = fc_space.populated = fc_space.claimed = (uintptr_t)base;
        fc_space.bits = (uint64_t *)(base + pages + map);
        fc_space.descriptors = fc_space.descriptors_committed = base + pages + map + bits;
        fc_space.descriptors_end = fc_space.descriptors + descriptors;
        fc_space.heaps = fc_space.descriptors_end;
        fc_space.heap_bytes = heap;
        fc_space.heaps_max = heaps;
        fc_os_random(&fc_space.secret, sizeof fc_space.secret);
        fc_space.base = (uintptr_t)base;
        fc_space.whole = pages;
        return true;
    }
    return false;
}

// Makes a table readable for pages from `size` to `wish`.
static bool commit_table(void *table, size_t (*bytes)(size_t pages), size_t size, size_t wish) {
    char *start = (char *)table + bytes(size) / FC_PAGE * FC_PAGE;
    char *end = (char *)table + fc_round_up(bytes(wish), FC_PAGE);
    return fc_os_commit(start, (size_t)(end - start));
}

// Makes pages up to `end` readable, with their part of the tables. Under the lock.
static bool commit(uintptr_t end) {
    size_t size = atomic_load_explicit(&fc_space.size, memory_order_relaxed);
    size_t least = end - fc_space.base;
    if (least <= size) {
        return true;
    }
    for (size_t wish = smaller(fc_round_up(least, COMMIT_STEP), fc_space.whole);; wish = least) {
        if (commit_table(fc_space.map, map_bytes, size, wish) &&
            commit_table(fc_space.bits, bits_bytes, size, wish) &&
            fc_os_commit((char *)fc_space.base + size, wish - size)) {
            atomic_store_explicit(&fc_space.size, wish, memory_order_relaxed);
            return true;
        }
        // Where the kernel counts every page, a smaller step may still succeed.
        if (wish == least) {
            return false;
        }
    }
}

char *fc_space_advance(size_t bytes) {
    if (bytes > fc_space.base + fc_space.whole - fc_space.frontier ||
        !commit(fc_space.frontier + bytes)) {
        return NULL;
    }
    char *start = (char *)fc_space.frontier;
    fc_space.frontier += bytes;
    return start;
}

char *fc_space_grow(size_t bytes, size_t wish, size_t *granted, char **touched) {
    if (bytes > fc_space.whole) {
        return NULL;
    }
    *granted = fc_round_up(wish > bytes ? wish : bytes, fc_space.granule);
    fc_lock_take(&fc_space.lock);
    char *start = fc_space_advance(*granted);
    if (start == NULL) {
        *granted = fc_round_up(bytes, fc_space.granule);
        start = fc_space_advance(*granted);
    }
    uintptr_t populated = fc_space.populated;
    fc_lock_drop(&fc_space.lock);
    if (start == NULL) {
        return NULL;
    }
    char *end = start + *granted;
    char *populated_end = (char *)populated;
    *touched = populated_end < start ? start : populated_end > end ? end : populated_end;
    return start;
}

// Charges bytes as reserved. False where that would exceed the memory of the machine: beyond it,
// the kernel would not refuse, but kill the program.
static bool count_reserved(size_t bytes) {
    size_t memory = fc_os_memory();
    size_t before = atomic_load_explicit(&fc_space.reserved, memory_order_relaxed);
    do {
        if (before > memory || bytes > memory - before) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&fc_space.reserved, &before, before + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void discount_reserved(size_t bytes) {
    atomic_fetch_sub_explicit(&fc_space.reserved, bytes, memory_order_relaxed);
}

// Claims the next `bytes` for first-touching; nobody else gets them. NULL where none are left.
static char *claim(size_t bytes) {
    fc_lock_take(&fc_space.lock);
    uintptr_t start = fc_space.claimed > fc_space.frontier ? fc_space.claimed : fc_space.frontier;
    bool done = bytes <= fc_space.base + fc_space.whole - start && commit(start + bytes);
    if (done && fc_options.huge != FC_HUGE_NEVER) {
        if (fc_options.huge != FC_HUGE_EXPLICIT || !fc_os_commit_huge((void *)start, bytes)) {
            fc_os_advise_huge((void *)start, bytes);
        }
    }
    fc_space.claimed = done ? start + bytes : fc_space.claimed;
    fc_lock_drop(&fc_space.lock);
    return done ? (char *)start : NULL;
}

// Publishes a claim: heaps may rely on it being touched.
static void publish(char *start, size_t bytes) {
    uintptr_t end = (uintptr_t)start + bytes;
    fc_lock_take(&fc_space.lock);
    fc_space.populated = fc_space.populated > end ? fc_space.populated : end;
    fc_lock_drop(&fc_space.lock);
}

// Withdraws a claim that could not be touched. False where a later claim was published, so that
// heaps take both for touched.
static bool disclaim(char *start, size_t bytes) {
    fc_lock_take(&fc_space.lock);
    bool done = fc_space.populated <= (uintptr_t)start;
    if (fc_space.claimed == (uintptr_t)start + bytes) {
        fc_space.claimed = (uintptr_t)start;
    }
    fc_lock_drop(&fc_space.lock);
    return done;
}

bool fc_space_populate(size_t bytes) {
    if (!count_reserved(bytes)) {
        return false;
    }
    size_t whole = fc_round_up(bytes, fc_space.granule);
    if (!fc_space_charge(whole)) {
        discount_reserved(bytes);
        return false;
    }
    char *start = claim(whole);
    // Without the lock: starting the threads that touch may allocate.
    if (start != NULL && fc_os_populate(start, whole)) {
        publish(start, whole);
        return true;
    }
    if (start == NULL || disclaim(start, whole)) {
        fc_space_refund(whole);
    }
    discount_reserved(bytes);
    return false;
}

struct fc_run *fc_space_descriptors(void) {
    const size_t bytes = DESCRIPTOR_BATCH * sizeof(struct fc_run);
    struct fc_run *first = NULL;
    fc_lock_take(&fc_space.lock);
    char *end = fc_space.descriptors + bytes;
    bool there = end <= fc_space.descriptors_committed;
    if (!there && end <= fc_space.descriptors_end) {
        size_t left = (size_t)(fc_space.descriptors_end - fc_space.descriptors_committed);
        size_t step = smaller(DESCRIPTOR_STEP, left);
        there = fc_os_commit(fc_space.descriptors_committed, step);
        fc_space.descriptors_committed += there ? step : 0;
    }
    if (there) {
        first = (struct fc_run *)fc_space.descriptors;
        fc_space.descriptors = end;
        atomic_fetch_add_explicit(&fc_space.metadata, bytes, memory_order_relaxed);
    }
    fc_lock_drop(&fc_space.lock);
    for (int i = 0; there && i < DESCRIPTOR_BATCH - 1; i++) {
        first[i].next = &first[i + 1];
    }
    return first;
}

void *fc_space_heap(unsigned id) {
    char *start = fc_space.heaps + id * fc_space.heap_bytes;
    return fc_os_commit(start, fc_space.heap_bytes) ? start : NULL;
}

bool fc_space_charge(size_t bytes) {
    size_t before = atomic_fetch_add_explicit(&fc_space.footprint, bytes, memory_order_relaxed);
    size_t after = before + bytes;
    if (after > fc_options.limit) {
        fc_space_refund(bytes);
        return false;
    }
    size_t peak = atomic_load_explicit(&fc_space.footprint_peak, memory_order_relaxed);
    while (after > peak &&
           !atomic_compare_exchange_weak_explicit(&fc_space.footprint_peak, &peak, after,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return true;
}

void fc_space_refund(size_t bytes) {
    atomic_fetch_sub_explicit(&fc_space.footprint, bytes, memory_order_relaxed);
}
