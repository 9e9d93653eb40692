// Functions of the C library that return blocks take them from the same allocator.

#include "check.h"

#include <malloc.h>
#include <regex.h>

TEST(blocks_of_the_c_library_are_freed) {
    for (int i = 0; i < 1000; i++) {
        char *copy = strdup("a word"), *text, *page;
        size_t length;
        CHECK(malloc_usable_size(copy) >= 7);
        CHECK(asprintf(&text, "%s %d", copy, i) > 0);
        FILE *memory = open_memstream(&page, &length);
        for (int line = 0; line < 100; line++)
            fprintf(memory, "%s\n", text);
        CHECK(fclose(memory) == 0 && length == 100 * (strlen(text) + 1));
        free(page);
        free(text);
        free(copy);
    }
}

TEST(functions_that_allocate_inside_work) {
    regex_t expression;
    CHECK(regcomp(&expression, "^(a|b)*c[0-9]{2,5}$", REG_EXTENDED) == 0);
    CHECK(regexec(&expression, "ababac123", 0, NULL, 0) == 0);
    CHECK(regexec(&expression, "ababad123", 0, NULL, 0) == REG_NOMATCH);
    regfree(&expression);
    char *path = realpath("/proc/self/exe", NULL);
    CHECK(path != NULL);
    free(path);
}
