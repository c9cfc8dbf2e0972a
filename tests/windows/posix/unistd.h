/* SPDX-License-Identifier: MIT
 * What tests of other folders ask of POSIX, and Windows' C library lacks. Nothing forks: cases that do are left out. */
#ifndef WINDOWS_UNISTD_H
#define WINDOWS_UNISTD_H

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include_next <unistd.h>

enum { _SC_PAGESIZE = 30 };
static inline long sysconf(int name) { return name == _SC_PAGESIZE ? 4096 : -1; }

static inline int fork(void)
{
  errno = ENOSYS;
  return -1;
}

/* The script has a limit of its own. */
static inline unsigned alarm(unsigned seconds) { return (void)seconds, 0; }

static inline int pause(void)
{
  while (sleep(1000) == 0) {}
  return -1;
}

static inline int pipe(int ends[2]) { return _pipe(ends, 4096, _O_BINARY); }

static inline __attribute__((format(gnu_printf, 2, 3))) int dprintf(int file, const char *format, ...)
{
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return length < (int)sizeof text ? write(file, text, (unsigned)length) : -1;
}

#endif
