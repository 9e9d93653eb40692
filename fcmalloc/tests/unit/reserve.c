// Memory touched ahead of use stays within what is allowed.

#include "check.h"
#include "fcmalloc.h"

#ifndef FC_VALGRIND
STEP(reserves_at_the_limit) {
    CHECK(fc_reserve(128 << 20) == ENOMEM);
    CHECK(fc_reserve(32 << 20) == 0);
    CHECK(fc_reserve(64 << 20) == ENOMEM);
}

static void reserve_with_limit(void) {
    setenv("FCMALLOC_LIMIT", "64M", 1);
    become("reserves_at_the_limit");
}
#endif

TEST(no_more_is_reserved_than_the_machine_has) {
    CHECK(fc_reserve(SIZE_MAX) == ENOMEM);
    CHECK(fc_reserve((size_t)PTRDIFF_MAX) == ENOMEM);
}

// Valgrind does not follow a program that starts itself anew.
#ifndef FC_VALGRIND
TEST(no_more_is_reserved_than_the_limit_allows) { check_succeeds(reserve_with_limit); }
#endif
