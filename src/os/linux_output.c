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

int os_create_file(const char *path)
{
  int saved = errno, flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_LARGEFILE;
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666), error = errno;
  errno = saved;
  return file < 0 ? -error : file;
}

void os_close_file(int file)
{
  int saved = errno;
  syscall(SYS_close, file);
  errno = saved;
}

bool os_may_replace_file(const char *path)
{
  struct stat about;
  int saved = errno;
  bool is_there = lstat(path, &about) == 0, may = is_there ? S_ISREG(about.st_mode) : errno == ENOENT;
  errno = saved;
  return may;
}

int os_rename_file(const char *from, const char *to)
{
  int saved = errno, error = rename(from, to) == 0 ? 0 : errno;
  errno = saved;
  return error;
}

void os_remove_file(const char *path)
{
  int saved = errno;
  unlink(path);
  errno = saved;
}

/* ---- memory for others ---- */

enum {
  ADD_SEALS = 1024 + 9, /* as <linux/fcntl.h> has them, which is not everywhere */
  SEAL_SHRINK = 2,
  MEMORY_CLOEXEC = 1,
  MEMORY_SEALS = 2
};

/* Its memory is written to, not just there by its length: where there is none this is what says so, and not a signal at the
 * first access. */
static int fill_shared(int file, size_t size)
{
  static const char zeroes[512];
  int error = 0;
  for (size_t at = 0; at < size && !error; at += sizeof zeroes)
    error = os_write(file, zeroes, min_size(sizeof zeroes, size - at));
  return !error && fcntl(file, ADD_SEALS, SEAL_SHRINK) != 0 ? errno : error;
}

static int map_shared(os_shared_t *shared, size_t size)
{
  void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, shared->file, 0);
  if (start == MAP_FAILED)
    return errno;
  if (madvise(start, size, MADV_DONTFORK) != 0) {
    int error = errno;
    munmap(start, size);
    return error;
  }
  shared->start = start;
  shared->size = size;
  return 0;
}

/* Where programs that close descriptors do not look, if it may be so high, and never where a standard file is missing. */
static int open_shared(const char *name)
{
  static const int least[] = {500, 200, 60, STDERR_FILENO + 1};
  int file = (int)syscall(SYS_memfd_create, name, MEMORY_CLOEXEC | MEMORY_SEALS), high = -1;
  if (file < 0)
    return file;
  for (size_t i = 0; high < 0 && i < sizeof least / sizeof *least; i++)
    high = fcntl(file, F_DUPFD_CLOEXEC, least[i]);
  int error = errno;
  syscall(SYS_close, file);
  errno = error;
  return high;
}

int os_share_memory(const char *name, size_t size, os_shared_t *shared)
{
  int saved = errno;
  struct stat about;
  *shared = (os_shared_t){.file = open_shared(name)};
  int error = shared->file < 0 ? errno : fill_shared(shared->file, size);
  if (!error && fstat(shared->file, &about) != 0)
    error = errno;
  if (!error) {
    shared->device = about.st_dev;
    shared->inode = about.st_ino;
    error = map_shared(shared, size);
  }
  if (error && shared->file >= 0)
    syscall(SYS_close, shared->file);
  errno = saved;
  return error;
}

static bool look_at_shared(const os_shared_t *shared, struct stat *about)
{
  return fstat(shared->file, about) == 0 && about->st_dev == shared->device && about->st_ino == shared->inode;
}

bool os_is_shared(const os_shared_t *shared)
{
  int saved = errno;
  struct stat about;
  bool is = look_at_shared(shared, &about);
  errno = saved;
  return is;
}

bool os_share_more(os_shared_t *shared, size_t size)
{
  int saved = errno;
  struct stat about;
  os_shared_t before = *shared;
  bool is = look_at_shared(shared, &about);
  size = is ? min_size(size, (size_t)about.st_size) : 0;
  is = size > before.size && map_shared(shared, size) == 0;
  if (is)
    munmap(before.start, before.size);
  errno = saved;
  return is;
}

void os_end_shared(os_shared_t *shared)
{
  int saved = errno;
  struct stat about;
  if (look_at_shared(shared, &about))
    syscall(SYS_close, shared->file);
  munmap(shared->start, shared->size);
  errno = saved;
}

/* ---- a signal ---- */

static void (*act_at_signal)(void);

static void on_signal(int number)
{
  int saved = errno;
  (void)number;
  act_at_signal();
  errno = saved;
}

bool os_watch_signal(int number, void (*act)(void))
{
  int saved = errno;
  struct sigaction before, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  bool has_none = sigaction(number, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_DFL;
  act_at_signal = act;
  bool done = has_none && sigaction(number, &action, NULL) == 0;
  errno = saved;
  return done;
}

uint32_t os_process(void) { return (uint32_t)getpid(); }

void os_abort(void) { abort(); }
