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
int os_write(int file, const char *text, size_t length)
{
  int saved = errno, error = 0;
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

void os_remove(const char *path)
{
  int saved = errno;
  unlink(path);
  errno = saved;
}

int os_rename(const char *path, const char *new_path)
{
  int saved = errno, error = rename(path, new_path) ? errno : 0;
  errno = saved;
  return error;
}

/* To write more than the process may would end it by a signal. */
static bool may_write(size_t size)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= size;
}

/* Zeroes are written, and the file is not just made longer: where the file system is full this is what says so, and not a
 * signal at the first access. */
static int fill_and_map(int file, size_t size, size_t most, void **mapped)
{
  static const char zeroes[512];
  int error = may_write(size) ? 0 : EFBIG;
  for (size_t at = 0; at < size && !error; at += sizeof zeroes)
    error = os_write(file, zeroes, min_size(sizeof zeroes, size - at));
  void *start = error ? MAP_FAILED : mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (!error && start == MAP_FAILED)
    error = errno;
  if (!error && madvise(start, most, MADV_DONTFORK) != 0) {
    error = errno;
    munmap(start, most);
  }
  *mapped = start;
  return error;
}

int os_share_page(const char *path, size_t size, size_t most, void **mapped)
{
  int saved = errno, flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_LARGEFILE;
  unlink(path); /* what another process of this number has left */
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
  int error = file < 0 ? errno : fill_and_map(file, size, most, mapped);
  if (file >= 0)
    syscall(SYS_close, file);
  if (file >= 0 && error)
    unlink(path);
  errno = saved;
  return error;
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

uint64_t os_process_namespace(void)
{
  int saved = errno;
  struct stat namespace;
  uint64_t number = stat("/proc/self/ns/pid", &namespace) == 0 ? namespace.st_ino : 0;
  errno = saved;
  return number;
}

uint32_t os_process(void) { return (uint32_t)getpid(); }

void os_abort(void) { abort(); }
