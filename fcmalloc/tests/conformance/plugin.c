// A library that another one opens and closes: it allocates when it is loaded, while it is loaded,
// and when it is unloaded.

#include <stdlib.h>
#include <string.h>

static char *from_constructor;
static __thread char *of_thread;

void *plugin_allocate(size_t size);

__attribute__((constructor)) static void come(void) {
    from_constructor = calloc(1, 100000);
    free(malloc(10));
}

__attribute__((destructor)) static void go(void) {
    free(from_constructor);
    free(of_thread);
    free(calloc(3, 1000));
}

void *plugin_allocate(size_t size) {
    of_thread = realloc(of_thread, 100 + (of_thread == NULL ? 0 : strlen(of_thread)));
    if (of_thread != NULL) strcpy(of_thread, "plugin");
    from_constructor[0]++;
    return malloc(size);
}
