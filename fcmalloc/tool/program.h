// Which file a command starts, and whether the dynamic linker would preload anything into it.

#ifndef FCMALLOC_TOOL_PROGRAM_H
#define FCMALLOC_TOOL_PROGRAM_H

// The path of the file that `name` starts: itself where it has a slash, else the first in PATH.
// Ends the launcher where there is none that may be executed.
const char *program_find(const char *name);

// Ends the launcher, saying why, where the program at `path`, or the interpreter of a script
// there, ignores LD_PRELOAD: it is linked statically, for another machine or word size, or gains
// privileges when started.
void program_require_preloadable(const char *path);

#endif
