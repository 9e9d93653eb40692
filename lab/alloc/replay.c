// Replays a recorded trace of allocations as the program that it was recorded from would run: with
// its threads, its writes to every block, and its own computing between the allocations.
//
//     replay TRACE ROUNDS [TABLES]
//
// TRACE is the flat form that trace_file.py makes. Initial fills the columns, large rows that stay,
// after so many other rows, the tables that HElib's context holds, and before what its set-up
// leaves free: allocators may change their ways once a program is large, and use again what it
// freed. A round starts the trace's threads, each of which goes through its list of events; `first`
// is one round until its threads have ended, `main` are ROUNDS more, and `ending` is what thread 0
// does after that in all of them. Every block is written completely once it is got: small ones with
// a pattern, large ones with rows that are computed from columns and from other large blocks. Both
// ends of a block bear tags that are checked when it is freed. What the replay itself needs is
// mapped, so that malloc serves the trace and the columns alone.

#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

// The columns: 18 items in 4 blocks, of two parts with two primes each.
#define COLUMNS 288
#define ROW_BYTES 65568

// What the set-up of HElib frees last is about a row for each 32 of its tables, in smaller blocks.
#define SCRATCH_BYTES 8192
#define TABLES_PER_SCRATCH 4

// Blocks from this size on are rows.
#define ROW_LEAST (16 << 10)

// Of so many rows, one is a product and the others are copies. A round's processor time is then
// that of HElib's, 0.17 s where a row of the cache's next level takes 5 µs to copy.
#define ROWS_PER_PRODUCT 2

enum kind { ALLOCATE, FREE, START, JOIN };

// As trace_file.py writes them. The thread of an allocation is the one that frees the block.
struct event {
    uint16_t kind;
    uint16_t thread;
    uint32_t value;
};

struct header {
    char magic[8];
    uint32_t threads;
    uint32_t lengths[];
};

// A block of the trace. The address is published once the block is written.
struct block {
    _Atomic(unsigned char *) address;
    size_t size;
};

// One thread of the trace.
struct player {
    uint16_t number;
    const struct event *events;
    uint32_t length;
    uint32_t tail;  // of thread 0: where the last thread has been joined
    uint32_t blocks_count;
    struct block *blocks;
    uint32_t done;   // blocks allocated in this round
    uint32_t *rows;  // its own rows that no other thread frees, the latest last; some are freed
    uint32_t rows_count;
    uint64_t filled;  // rows in all rounds
    uint64_t round;
    bool verified;
    pthread_t thread;
};

static struct player *players;
static uint32_t threads;
static uint64_t *columns[COLUMNS];
static void **tables, **scratch;
static size_t tables_count, scratch_count;
static size_t own_bytes;

// A prime of 31 bits, and its negative inverse modulo 2^32. Residues take 8 bytes each.
static const uint64_t modulus = 0x7fffffff;
static const uint64_t negative_inverse = 0x80000001;

_Noreturn static void fail(const char *why) {
    fprintf(stderr, "error: %s\n", why);
    exit(2);
}

// Memory that malloc knows nothing of, resident from now on.
static void *map_own(size_t bytes) {
    if (bytes == 0) return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for the replay itself");
    own_bytes += bytes;
    return memory;
}

// The file, whole; `bytes` becomes its length.
static const unsigned char *map_file(const char *path, size_t *bytes) {
    struct stat about;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &about) != 0) {
        perror(path);
        exit(2);
    }
    *bytes = (size_t)about.st_size;
    if (*bytes < sizeof(struct header)) fail("the trace is cut off");
    void *memory = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (memory == MAP_FAILED) fail("the trace cannot be mapped");
    close(file);
    own_bytes += *bytes;
    return memory;
}

static void count_events(struct player *player) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < player->length; i++) {
        const struct event *event = &player->events[i];
        if (event->kind > JOIN || event->thread >= threads) fail("the trace is damaged");
        if (event->kind == ALLOCATE) {
            player->blocks_count++;
            rows += event->value >= ROW_LEAST;
        }
        if (event->kind == JOIN) player->tail = i + 1;
    }
    if (player->number == 0 && threads == 1) player->tail = player->length;
    player->blocks = map_own(player->blocks_count * sizeof *player->blocks);
    player->rows = map_own(rows * sizeof *player->rows);
}

static void load(const char *path) {
    size_t bytes;
    const unsigned char *file = map_file(path, &bytes);
    const struct header *header = (const void *)file;
    threads = header->threads;
    if (memcmp(header->magic, "OBTRACE1", sizeof header->magic) != 0)
        fail("no trace of trace_file.py");
    size_t begin = (sizeof *header + threads * sizeof header->lengths[0] + 7) / 8 * 8;
    if (threads == 0 || begin > bytes) fail("the trace is cut off");
    const struct event *events = (const void *)(file + begin);
    size_t left = (bytes - begin) / sizeof *events;
    players = map_own(threads * sizeof *players);
    for (uint32_t t = 0; t < threads; t++) {
        struct player *player = &players[t];
        *player = (struct player){.number = (uint16_t)t, .verified = true};
        player->length = header->lengths[t];
        if (player->length > left) fail("the trace is cut off");
        player->events = events;
        events += player->length;
        left -= player->length;
        count_events(player);
    }
    for (uint32_t t = 0; t < threads; t++)
        for (uint32_t i = 0; i < players[t].length; i++) {
            const struct event *event = &players[t].events[i];
            if (event->kind == FREE && event->value >= players[event->thread].blocks_count)
                fail("the trace is damaged");
        }
}

// a * b / 2^32 modulo the modulus, or that and the modulus (Montgomery, 1985), for vectors.
static inline uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product = (uint64_t)(uint32_t)a * (uint32_t)b;
    uint64_t quotient = (uint32_t)(product * negative_inverse);
    return (product + quotient * modulus) >> 32;
}

// The latest of the thread's rows that are alive and have this many bytes; NULL where none is.
static const uint64_t *latest_row(struct player *player, size_t bytes) {
    while (player->rows_count > 0) {
        const struct block *block = &player->blocks[player->rows[player->rows_count - 1]];
        const unsigned char *row = atomic_load_explicit(&block->address, memory_order_relaxed);
        if (row != NULL) return block->size >= bytes ? (const void *)row : NULL;
        player->rows_count--;
    }
    return NULL;
}

// Computes a row, as long as columns are, and as often as needed for more.
static void fill_row(struct player *player, unsigned char *address, size_t size) {
    size_t words = size / sizeof(uint64_t);
    uint64_t *out = (void *)address;
    for (size_t done = 0; done < words;) {
        size_t part = words - done < ROW_BYTES / 8 ? words - done : ROW_BYTES / 8;
        uint64_t turn = player->filled++;
        const uint64_t *column = columns[(turn + 37 * (uint64_t)player->number) % COLUMNS];
        if (turn % ROWS_PER_PRODUCT != 0) {
            memcpy(out + done, column, part * sizeof *out);
        } else {
            const uint64_t *row = latest_row(player, part * sizeof *out);
            if (row == NULL) row = columns[(turn + 1) % COLUMNS];
            for (size_t i = 0; i < part; i++)
                out[done + i] = times(column[i], row[i]);
        }
        done += part;
    }
}

static uint64_t tag_of(uint64_t round, uint16_t thread, uint32_t number) {
    uint64_t state = (round << 48 | (uint64_t)thread << 32 | number) + 1;
    return bench_random(&state);
}

static void write_tags(unsigned char *address, size_t size, uint64_t tag) {
    size_t bytes = size < sizeof tag ? size : sizeof tag;
    memcpy(address, &tag, bytes);
    memcpy(address + size - bytes, &tag, bytes);
}

// Of blocks of less than two tags, the last bytes are as the second tag has left them.
static bool tags_hold(const unsigned char *address, size_t size, uint64_t tag) {
    size_t bytes = size < sizeof tag ? size : sizeof tag;
    size_t first = size < 2 * sizeof tag ? size - bytes : bytes;
    return memcmp(address, &tag, first) == 0 && memcmp(address + size - bytes, &tag, bytes) == 0;
}

static void allocate(struct player *player, uint16_t freer, size_t size) {
    uint32_t number = player->done++;
    unsigned char *address = malloc(size);
    if (address == NULL) fail("malloc gives no memory");
    struct block *block = &player->blocks[number];
    block->size = size;
    if (size >= ROW_LEAST) {
        fill_row(player, address, size);
        if (freer == player->number) player->rows[player->rows_count++] = number;
    } else {
        memset(address, (int)number, size);
    }
    write_tags(address, size, tag_of(player->round, player->number, number));
    atomic_store_explicit(&block->address, address, memory_order_release);
}

// Frees a block, which another thread may have yet to allocate.
static void release(struct player *player, uint16_t owner, uint32_t number) {
    struct block *block = &players[owner].blocks[number];
    unsigned char *address;
    while ((address = atomic_load_explicit(&block->address, memory_order_acquire)) == NULL)
        sched_yield();
    if (!tags_hold(address, block->size, tag_of(player->round, owner, number)))
        player->verified = false;
    atomic_store_explicit(&block->address, NULL, memory_order_relaxed);
    free(address);
}

static void *play_all(void *player);

static void play(struct player *player, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) {
        const struct event *event = &player->events[i];
        struct player *other = &players[event->thread];
        switch (event->kind) {
            case ALLOCATE:
                allocate(player, event->thread, event->value);
                break;
            case FREE:
                release(player, event->thread, event->value);
                break;
            case START:
                if (pthread_create(&other->thread, NULL, play_all, other) != 0)
                    fail("a thread cannot be started");
                break;
            case JOIN:
                pthread_join(other->thread, NULL);
                break;
        }
    }
}

static void *play_all(void *player) {
    play(player, 0, ((struct player *)player)->length);
    return NULL;
}

// One round of all threads: until they are joined, and what thread 0 does then. It also frees what
// the trace leaves behind.
static void play_round(uint64_t round, struct reading *until_joined, struct reading *ending) {
    for (uint32_t t = 0; t < threads; t++) {
        players[t].round = round;
        players[t].done = 0;
        players[t].rows_count = 0;
    }
    struct player *first = &players[0];
    struct reading begun = bench_reading();
    play(first, 0, first->tail);
    struct reading joined = bench_reading();
    play(first, first->tail, first->length);
    for (uint32_t t = 0; t < threads; t++)
        for (uint32_t i = 0; i < players[t].blocks_count; i++)
            if (atomic_load(&players[t].blocks[i].address) != NULL) release(first, (uint16_t)t, i);
    bench_add(until_joined, begun, joined);
    bench_add(ending, joined, bench_reading());
}

static void *written(size_t bytes, int value) {
    void *memory = malloc(bytes);
    if (memory == NULL) fail("malloc gives no memory");
    return memset(memory, value, bytes);
}

static void fill_initial(void) {
    for (size_t t = 0; t < tables_count; t++)
        tables[t] = written(ROW_BYTES, (int)t);
    uint64_t random = 1;
    for (size_t c = 0; c < COLUMNS; c++) {
        columns[c] = written(ROW_BYTES, 0);
        for (size_t i = 0; i < ROW_BYTES / sizeof **columns; i++)
            columns[c][i] = bench_random(&random) % modulus;
    }
    for (size_t s = 0; s < scratch_count; s++)
        scratch[s] = written(SCRATCH_BYTES, (int)s);
    for (size_t s = 0; s < scratch_count; s++)
        free(scratch[s]);
}

int main(int argc, char **argv) {
    double start = bench_start_seconds();
    bench_be_warm(argc, argv);
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: replay TRACE ROUNDS [TABLES]\n");
        return 2;
    }
    size_t rounds = bench_number(argv[2]);
    tables_count = argc == 4 ? bench_number(argv[3]) : 0;
    tables = map_own(tables_count * sizeof *tables);
    scratch_count = tables_count / TABLES_PER_SCRATCH;
    scratch = map_own(scratch_count * sizeof *scratch);
    load(argv[1]);

    enum { INITIAL, FIRST, MAIN, ENDING, TERMINAL, PHASES };
    struct phase phases[PHASES] = {{.name = "initial"},
                                   {.name = "first"},
                                   {.name = "main"},
                                   {.name = "ending"},
                                   {.name = "terminal"}};
    struct reading begun = bench_reading();
    fill_initial();
    bench_add(&phases[INITIAL].spent, begun, bench_reading());
    bench_warm();
    play_round(0, &phases[FIRST].spent, &phases[ENDING].spent);
    bench_mark();
    for (uint64_t round = 1; round <= rounds; round++)
        play_round(round, &phases[MAIN].spent, &phases[ENDING].spent);
    bench_mark();
    long peak = bench_peak_bytes() - (long)own_bytes;
    begun = bench_reading();
    for (size_t c = 0; c < COLUMNS; c++)
        free(columns[c]);
    for (size_t t = 0; t < tables_count; t++)
        free(tables[t]);
    bench_add(&phases[TERMINAL].spent, begun, bench_reading());
    bool verified = true;
    for (uint32_t t = 0; t < threads; t++)
        verified = verified && players[t].verified;
    bench_report(start, phases, PHASES, peak, verified);
    return 0;
}
