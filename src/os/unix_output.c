/* SPDX-License-Identifier: MIT
 * Output, the environment, and the end of the process, as every Unix has them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64 /* 32-bit programs need it for files of more than 2 GiB */
#include "os/os.h"
#include "os/parts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum { KEPT_LEAST = 512 }; /* above the descriptors of most programs, if so many may be open */

static int kept = -1;
static dev_t kept_device;
static ino_t kept_file;

/* Returns whether a write stays within RLIMIT_FSIZE. A write beyond it ends the process by a signal. */
static bool may_write(int file, size_t length)
{
  struct rlimit limit;
  struct stat about;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || fstat(file, &about) != 0 ||
      !S_ISREG(about.st_mode))
    return true;
  off_t at = fcntl(file, F_GETFL) & O_APPEND ? about.st_size : lseek(file, 0, SEEK_CUR);
  return at < 0 || ((rlim_t)at <= limit.rlim_cur && length <= limit.rlim_cur - (rlim_t)at);
}

int os_write(int file, const char *text, size_t length)
{
  int saved = errno, error = may_write(file, length) ? 0 : EFBIG;
  while (length && !error) {
    ssize_t n = os_write_some(file, text, length);
    if (n < 0 && errno == EINTR)
      continue;
    error = n < 0 ? errno : n == 0 ? EIO : 0;
    if (n > 0) {
      text += n;
      length -= (size_t)n;
    }
  }
  errno = saved;
  return error;
}

static bool write_all(int file, const char *text, size_t length) { return os_write(file, text, length) == 0; }

void os_write_error(const char *text, size_t length) { (void)write_all(STDERR_FILENO, text, length); }

/* Records at program start whether standard error is closed. Later another file may have its descriptor. */
static bool was_closed;
__attribute__((constructor)) static void note_error(void)
{
  int saved = errno;
  was_closed = fcntl(STDERR_FILENO, F_GETFD) < 0;
  errno = saved;
}

bool os_keep_error(void)
{
  int saved = errno;
  struct stat status;
  if (was_closed)
    return false;
  kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, KEPT_LEAST);
  if (kept < 0)
    kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (kept >= 0 && fstat(kept, &status) == 0) {
    kept_device = status.st_dev;
    kept_file = status.st_ino;
  }
  errno = saved;
  return kept >= 0;
}

/* The program may have closed the duplicate and reused its descriptor. Nothing may be written to such a file. */
void os_write_kept_error(const char *text, size_t length)
{
  int saved = errno;
  struct stat status;
  if (kept >= 0 && fstat(kept, &status) == 0 && status.st_dev == kept_device && status.st_ino == kept_file)
    (void)write_all(kept, text, length);
  errno = saved;
}

bool os_append(const char *path, const char *text, size_t length)
{
  int saved = errno, file = os_open_to_append(path);
  bool written = file >= 0 && write_all(file, text, length);
  if (file >= 0)
    os_close_appended(file);
  errno = saved;
  return written;
}

uint32_t os_process(void) { return (uint32_t)getpid(); }

void os_abort(void) { abort(); }

/* A library with DF_1_INITFIRST starts before glibc sets `environ`. glibc passes the environment to constructors. */
static char **first_environment;
void os_note_environment(char **variables)
{
#ifdef __GLIBC__
  first_environment = variables;
#else
  (void)variables;
#endif
}

/* Reads `environ` itself, because getenv() and secure_getenv() would touch more of the C library. */
const char *os_environment(const char *name)
{
  size_t length = strlen(name);
  for (char **entry = os_is_privileged() ? NULL : environ ? environ : first_environment; entry && *entry; entry++)
    if (!strncmp(*entry, name, length) && (*entry)[length] == '=')
      return *entry + length + 1;
  return NULL;
}
