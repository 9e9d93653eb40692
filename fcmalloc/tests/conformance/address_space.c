// A small address space (ulimit -v) is enough for a program that needs little of it.

#include "pattern.h"

#include <sys/resource.h>

static void within(size_t bytes, const char *step) {
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    become(step);
}

static void use_and_free(size_t total, size_t size) {
    static void *blocks[1 << 16];
    size_t count = total / size;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL, "(block %zu of %zu bytes)", i, size);
        ((char *)blocks[i])[0] = ((char *)blocks[i])[size - 1] = 1;
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

static void *use_a_little(void *unused) {
    for (int i = 0; i < 100; i++)
        free(malloc(20000));
    return unused;
}

STEP(uses_640_mebibytes) {
    use_and_free(640 << 20, 256 << 20);
    use_and_free(640 << 20, 1 << 20);
    use_and_free(640 << 20, 20000);
    in_threads(8, use_a_little);
}
static void two_gibibytes(void) { within((size_t)2 << 30, "uses_640_mebibytes"); }
TEST(two_gibibytes_of_address_space_hold_640_mebibytes) { check_succeeds(two_gibibytes); }

STEP(uses_48_mebibytes) {
    use_and_free(48 << 20, 8 << 20);
    use_and_free(48 << 20, 3000);
    in_threads(2, use_a_little);
}
static void two_hundred_mebibytes(void) { within(200 << 20, "uses_48_mebibytes"); }
TEST(two_hundred_mebibytes_of_address_space_hold_48) { check_succeeds(two_hundred_mebibytes); }

STEP(uses_up_its_address_space) {
    static void *blocks[1 << 12];
    size_t count = 0;
    errno = 0;
    while (count < sizeof blocks / sizeof *blocks && (blocks[count] = malloc(1 << 20)) != NULL)
        memset(blocks[count++], 1, 1 << 20);
    CHECK(count < sizeof blocks / sizeof *blocks && errno == ENOMEM);
    CHECK(count > 48, "(%zu MiB)", count);
    while (count > 0)
        free(blocks[--count]);
    use_and_free(40 << 20, 2 << 20);
}
static void up_to_the_end(void) { within(256 << 20, "uses_up_its_address_space"); }
TEST(the_end_of_the_address_space_is_enomem) { check_succeeds(up_to_the_end); }
