/* SPDX-License-Identifier: MIT */
#ifndef WINDOWS_STDLIB_H
#define WINDOWS_STDLIB_H

#include_next <stdlib.h>

static inline int setenv(const char *name, const char *value, int replaces) { return (void)replaces, _putenv_s(name, value); }
static inline int unsetenv(const char *name) { return _putenv_s(name, ""); }

#endif
