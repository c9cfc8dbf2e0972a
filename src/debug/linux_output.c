/* SPDX-License-Identifier: MIT
 * Report files, shared memory, and a signal, on Linux. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64 /* allows files of more than 2 GiB on 32-bit systems */
#include "debug/system.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- files ---- */

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

/* ---- shared memory ---- */

enum {
  ADD_SEALS = 1024 + 9, /* as in <linux/fcntl.h>, which not every system has */
  SEAL_SHRINK = 2,
  MEMORY_CLOEXEC = 1,
  MEMORY_SEALS = 2
};

/* Writes the memory instead of setting its length: if there is none, this fails, not the first access with a signal. */
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

/* Uses a high descriptor, out of the way of programs that close theirs, and never that of a missing standard file. */
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

enum { WAIT_SHARED = 0, WAKE_SHARED = 1 };

void os_wait_shared(uint32_t *word, uint32_t value, unsigned most_ms)
{
  int saved = errno;
  struct timespec most = {most_ms / 1000, most_ms % 1000 * 1000000L};
  syscall(SYS_futex, word, WAIT_SHARED, value, &most, NULL, 0);
  errno = saved;
}

void os_wake_shared(uint32_t *word)
{
  int saved = errno;
  syscall(SYS_futex, word, WAKE_SHARED, INT_MAX, NULL, NULL, 0);
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
