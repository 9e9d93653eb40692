// How the launcher exits when it cannot do what it was asked to. The statuses are those of env(1)
// and timeout(1), so that a script can tell the launcher's failure from the program's.

#ifndef FCMALLOC_TOOL_FAIL_H
#define FCMALLOC_TOOL_FAIL_H

enum failure {
    FAILED_ITSELF = 125,    // wrong use, no library, a bad plan
    FAILED_TO_START = 126,  // PROGRAM is there, and cannot be started under the library
    FAILED_TO_FIND = 127,   // PROGRAM is not there
};

// Prints one line, `fcmalloc: ` and the message, on standard error and exits with the status.
_Noreturn void fail(enum failure status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
