#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void fail(enum failure status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("fcmalloc: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}
