/* SPDX-License-Identifier: MIT
 * What the manager says, and the end of the process, on Linux. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64 /* with 32 bits, files of more than 2 GiB could not be asked for otherwise */
#include "os/os.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KEPT_LEAST = 512 }; /* above the numbers that a program's own files have, where that many may be open */

static int kept = -1;
static dev_t kept_device;
static ino_t kept_file;

/* Asks the system directly, because write() is a cancellation point: a cancelled thread would end there with the locks it
 * holds, and abort() would not be called. */
/* To write more than the process may would end it by a signal. */
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
    ssize_t n = syscall(SYS_write, file, text, length);
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

/* The manager may come up when a program that was started without standard error has another file of that number. */
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

/* A program may have closed files that it does not know, and the number may be that of another file since, in which nothing may
 * be written. */
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
  int saved = errno, flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_LARGEFILE;
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666); /* open() and close() are cancellation points, too */
  bool written = file >= 0 && write_all(file, text, length);
  if (file >= 0)
    syscall(SYS_close, file);
  errno = saved;
  return written;
}

uint32_t os_process(void) { return (uint32_t)getpid(); }

void os_abort(void) { abort(); }
