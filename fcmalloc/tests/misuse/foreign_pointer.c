// A pointer that the allocator never handed out is refused.

#include "misuse.h"

static char of_the_program[100000] __attribute__((aligned(65536)));

static void free_static(void) { free(suspected(of_the_program)); }
static void free_static_inside(void) { free(suspected(of_the_program + 4112)); }
static void free_code(void) { free(suspected((void *)free_static)); }

static void free_stack(void) {
    char local[64] __attribute__((aligned(16)));
    free(suspected(local));
}

static void free_mapping(void) {
    free(
        suspected(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

static void free_far_away(void) { free(suspected((void *)0x123456789ab0)); }
static void free_lowest(void) { free(suspected((void *)16)); }
static void free_kernel(void) { free(suspected((void *)0xffff800000000000)); }
static void free_highest(void) { free(suspected((void *)(UINTPTR_MAX - 15))); }

TEST(free_refuses_foreign_pointers) {
    check_misuse(free_static, "was not allocated here");
    check_misuse(free_static_inside, "was not allocated here");
    check_misuse(free_code, "was not allocated here");
    check_misuse(free_stack, "was not allocated here");
    check_misuse(free_mapping, "was not allocated here");
    check_misuse(free_far_away, "was not allocated here");
    check_misuse(free_lowest, "was not allocated here");
    check_misuse(free_kernel, "was not allocated here");
    check_misuse(free_highest, "was not allocated here");
}

static void realloc_static(void) { free(realloc(suspected(of_the_program), 100)); }
static void realloc_kernel(void) { free(realloc(suspected((void *)0xffff800000000000), 100)); }

TEST(realloc_refuses_foreign_pointers) {
    check_misuse(realloc_static, "was not allocated here");
    check_misuse(realloc_kernel, "was not allocated here");
}

static void size_of_static(void) { malloc_usable_size(suspected(of_the_program)); }
static void size_of_far_away(void) { malloc_usable_size(suspected((void *)0x123456789ab0)); }

TEST(usable_size_refuses_foreign_pointers) {
    check_misuse(size_of_static, "was not allocated here");
    check_misuse(size_of_far_away, "was not allocated here");
}
