// Pages and what the kernel says of them.

#include "os.h"

#include "check.h"

enum { PAGES = 2 * FC_HUGE_PAGE };

static char *committed(void) {
    char *start = fc_os_reserve(PAGES);
    CHECK(start != NULL && fc_os_commit(start, PAGES));
    return start;
}

TEST(huge_pages_are_asked_for_and_declined) {
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0) return;
    char *start = committed();
    fc_os_advise_huge(start, PAGES);
    CHECK(has_flag(start, " hg"));
    fc_os_decline_huge(start, PAGES);
    CHECK(has_flag(start, " nh") && !has_flag(start, " hg"));
}

#ifndef FC_VALGRIND
TEST(pages_are_resident_once_they_are_touched) {
    char *start = committed();
    fc_os_decline_huge(start, PAGES);
    CHECK(fc_os_resident(start, PAGES) == 0);
    start[0] = start[5 * 4096] = 1;
    CHECK(fc_os_resident(start, PAGES) == 2 * 4096);
    CHECK(!fc_os_touch(start, PAGES) || fc_os_resident(start, PAGES) == PAGES);
    CHECK(fc_os_purge(start, PAGES) && fc_os_resident(start, PAGES) == 0);
}
#endif

TEST(a_huge_page_of_the_kernels_pool_is_released_whole_or_not_at_all) {
    char *start = committed();
    if (!fc_os_commit_huge(start, PAGES)) {
        printf("skipped: the kernel's pool has no huge pages\n");
        return;
    }
    memset(start, 1, PAGES);
    CHECK(!fc_os_purge(start, FC_HUGE_PAGE + 4096) && start[0] == 1 && start[FC_HUGE_PAGE] == 1);
    CHECK(fc_os_purge(start, FC_HUGE_PAGE) && start[0] == 0 && start[FC_HUGE_PAGE] == 1);
}
