// Libraries come and go; what they allocated stays.

#include "pattern.h"

#include <limits.h>

static void *allocate_in_plugin(size_t size) {
    char path[PATH_MAX + 16] = "";
    CHECK(readlink("/proc/self/exe", path, PATH_MAX) > 0);
    strcpy(strrchr(path, '/'), "/plugin.so");
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "%s", dlerror());
    void *(*allocate)(size_t);
    *(void **)&allocate = dlsym(plugin, "plugin_allocate");
    CHECK(allocate != NULL);
    void *block = allocate(size);
    fill_pattern(block, 0, size, size);
    CHECK(dlclose(plugin) == 0);
    return block;
}

static void open_and_close_often(void) {
    void *kept[BORDER_SIZES];
    for (size_t i = 0; i < BORDER_SIZES; i++)
        kept[i] = allocate_in_plugin(border_sizes[i]);
    for (size_t i = 0; i < BORDER_SIZES; i++) {
        check_pattern(kept[i], border_sizes[i], border_sizes[i]);
        free(kept[i]);
    }
}

TEST(blocks_outlive_the_library_that_allocated_them) { open_and_close_often(); }

static void *in_a_thread(void *unused) {
    open_and_close_often();
    return unused;
}

TEST(threads_open_and_close_libraries_at_once) { in_threads(4, in_a_thread); }
