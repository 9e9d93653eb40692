// The library, and a program started with it preloaded.

#ifndef FCMALLOC_TOOL_PRELOAD_H
#define FCMALLOC_TOOL_PRELOAD_H

// The path of `file` beside the launcher (build tree) or in the library folder of the
// installation. Ends the launcher where it is in neither.
const char *library_find(const char *file);

// Becomes the program of `command`, NULL-ended like argv, with `library` before whatever
// LD_PRELOAD names already. Ends the launcher where that is impossible.
_Noreturn void preload_and_start(const char *library, char *const command[]);

#endif
