// Aborting a program that misuses memory, and warnings about options: one line each on standard
// error, written without allocating.

#ifndef FC_REPORT_H
#define FC_REPORT_H

// Prints "fcmalloc: " and the message, with the pointer where it says %p, and aborts.
_Noreturn void fc_die(const char *message, const void *pointer);

// Prints "fcmalloc: NAME=value: message".
void fc_remark(const char *name, const char *value, const char *message);

// Reports, the first time only, that memory is refused for lack of guard pages.
void fc_remark_unguarded(void);

#endif
