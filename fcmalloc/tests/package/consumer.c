#include <fcmalloc.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    char *block = fc_malloc(100);
    if (block == NULL || fc_malloc_usable_size(block) < 100) return 1;
    strcpy(block, "fcmalloc " FC_VERSION);
    puts(block);
    fc_free(block);
    return 0;
}
