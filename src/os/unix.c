/* SPDX-License-Identifier: MIT
 * What linux.c and posix.c have in common: mappings, output, the end of the process, threads and forks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64 /* 32-bit programs need it for files of more than 2 GiB */
#include "base/bits.h"
#include "base/machine.h"
#include "os/os.h"
#include "os/parts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- mappings ---- */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0 /* the address is a hint */
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* malloc() and free() must not change errno when they succeed, so every function here preserves it. */
static void *map_with(size_t size, int protection)
{
  if (os_refuses())
    return NULL;
  int saved = errno;
  void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  errno = saved;
  if (p == MAP_FAILED)
    return NULL;
  os_name(p, size, NULL);
  return p;
}

static void *map(size_t size) { return map_with(size, PROT_READ | PROT_WRITE); }

/* Ignores os_forbid(), because this file undoes its own mappings with it. munmap() fails for a size of 0. */
static bool unmap(void *address, size_t size)
{
  int saved = errno;
  bool done = !size || munmap(address, size) == 0;
  errno = saved;
  return done;
}

bool os_unmap(void *address, size_t size) { return !os_refuses() && unmap(address, size); }

static bool make_writable(void *address, size_t size)
{
  int saved = errno;
  bool done = mprotect(address, size, PROT_READ | PROT_WRITE) == 0;
  errno = saved;
  return done;
}

/* Maps more than `size` and unmaps the slack to align the mapping. The slack counts against a memory limit for a moment. If
 * that is too much, everything is first mapped without access, which counts as addresses only. At the limit of mappings the
 * slack cannot be unmapped. It was never touched, so it only costs addresses. */
void *os_map(size_t size, size_t alignment)
{
  if (alignment <= os_page_size())
    return map(size);
  size_t slack = alignment - os_page_size();
  if (size > SIZE_MAX - slack)
    return NULL;
  char *whole = map(size + slack), *p = whole ? whole : map_with(size + slack, PROT_NONE);
  if (!p)
    return NULL;
  char *aligned = (char *)round_up((uintptr_t)p, alignment);
  size_t before = (size_t)(aligned - p);
  unmap(p, before);
  unmap(aligned + size, slack - before);
  if (whole || make_writable(aligned, size))
    return aligned;
  unmap(aligned, size);
  return NULL;
}

/* The caller may try another address after OS_OCCUPIED. That is useless after OS_NO_MEMORY. */
os_mapped_t os_map_at(void *address, size_t size)
{
  if (os_refuses())
    return OS_NO_MEMORY;
  int saved = errno;
  char *p = mmap(address, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  os_mapped_t mapped = p == address ? OS_MAPPED : p == MAP_FAILED && errno != EEXIST ? OS_NO_MEMORY : OS_OCCUPIED;
  if (mapped == OS_OCCUPIED && p != MAP_FAILED) /* Linux before 4.17 and other systems take the address as a hint */
    munmap(p, size);
  errno = saved;
  if (mapped == OS_MAPPED)
    os_name(p, size, NULL);
  return mapped;
}

void os_guard(void *address, size_t size)
{
  int saved = errno;
  mprotect(address, size, PROT_NONE);
  errno = saved;
}

void *os_reserve(size_t size)
{
  if (os_refuses())
    return NULL;
  int saved = errno;
  void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  errno = saved;
  return p == MAP_FAILED ? NULL : p;
}

bool os_open(void *address, size_t size) { return !os_refuses() && make_writable(address, size); }

/* Faults the pages in. Without memory the system ends the program. */
void os_touch(void *address, size_t size)
{
  for (size_t i = 0; i < size; i += os_page_size()) {
    volatile char *p = (char *)address + i;
    *p = *p;
  }
}

bool os_lock_memory(void *address, size_t size)
{
  int saved = errno;
  bool done = mlock(address, size) == 0;
  errno = saved;
  return done;
}

bool os_unlock_memory(void *address, size_t size)
{
  int saved = errno;
  bool done = munlock(address, size) == 0;
  errno = saved;
  return done;
}

/* ---- output, the environment, and the end of the process ---- */

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

/* ---- the end of a thread, and forks ---- */

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static pthread_key_t exit_key;
static bool exit_key_exists;

/* Destructors run in the order of their keys, in four rounds. A late key runs behind most others in each round, even behind a
 * destructor that allocates for the first time in the last round. */
#ifdef __GLIBC__
/* glibc returns the lowest free key. The first 32 keys have their values in the thread itself, and glibc allocates for others.
 * So this takes the last free one of the 32, and deletes the keys that it created to find it. */
static bool create_late_key(pthread_key_t *late, void (*at_exit)(void *))
{
  enum { KEYS_OF_A_THREAD = 32 };
  pthread_key_t keys[KEYS_OF_A_THREAD];
  int count = 0, best;
  while (count < KEYS_OF_A_THREAD && pthread_key_create(&keys[count], at_exit) == 0)
    count++;
  for (best = count - 1; best > 0 && keys[best] >= KEYS_OF_A_THREAD;)
    best--;
  for (int i = 0; i < count; i++)
    if (i == best)
      *late = keys[i];
    else
      pthread_key_delete(keys[i]);
  return count > 0;
}
#else
/* musl has 128 keys, and returns the next free one. This holds at most two at a time, so other threads find one. */
static bool create_late_key(pthread_key_t *late, void (*at_exit)(void *))
{
  pthread_key_t next;
  if (pthread_key_create(late, at_exit) != 0)
    return false;
  while (pthread_key_create(&next, at_exit) == 0) {
    pthread_key_t other = next > *late ? *late : next;
    bool is_last = other == next;
    pthread_key_delete(other);
    if (is_last)
      break;
    *late = next;
  }
  return true;
}
#endif

bool os_on_thread_exit(void (*at_exit)(void *))
{
  int saved = errno;
  exit_key_exists = create_late_key(&exit_key, at_exit);
  errno = saved;
  return exit_key_exists;
}

bool os_thread_on_exit(void *argument)
{
  int saved = errno;
  bool done = exit_key_exists && pthread_setspecific(exit_key, argument) == 0;
  errno = saved;
  return done;
}

#ifdef __GLIBC__
/* glibc 2.35 and later block all signals before they free their memory of an exiting thread. */
static bool signals_are_blocked_at_the_end(void)
{
  const char *version = gnu_get_libc_version();
  return version[0] == '2' && version[1] == '.' && strtol(version + 2, NULL, 10) >= 35;
}
#else
static bool signals_are_blocked_at_the_end(void) { return false; }
#endif

/* A single unblocked signal proves that the thread is not at its end. Six signals are tested, since few programs block all of
 * them. If the state is unknown, the result is true, which is always safe. */
bool os_thread_may_be_over(void)
{
  sigset_t blocked;
  if (!signals_are_blocked_at_the_end() || pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0)
    return true;
  return sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1) &&
         sigismember(&blocked, SIGSEGV) && sigismember(&blocked, SIGCHLD) && sigismember(&blocked, SIGALRM);
}

/* glibc's fork() takes the lock of all streams after the handlers have run, and a thread that opens or closes a stream
 * allocates under it. The two orders would deadlock, so this takes the streams' lock first. It is recursive, and glibc resets
 * it in the child. Other C libraries do not have it. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

static void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
static THREAD_LOCAL bool fork_locked; /* one for each thread, because several may fork at once */

/* glibc's list of fork handlers has a lock, and grows by realloc() under it. fork() takes that lock again after our handler,
 * which holds the manager's locks. So no thread may be in the list then (api/loader.c). This mutex is the first in the
 * order of locks, because its holder may allocate. In .bss a start would touch one page more for it. */
__attribute__((section(".data"))) static pthread_mutex_t registrations = PTHREAD_MUTEX_INITIALIZER;

bool os_hold_off_forks(void)
{
  if (fork_locked)
    return false; /* a fork handler registers another one, and the fork holds the lock */
  pthread_mutex_lock(&registrations);
  return true;
}

void os_let_fork(void) { pthread_mutex_unlock(&registrations); }

static bool has_streams(void) { return _IO_list_lock && _IO_list_unlock; }

/* A single thread needs no locks. */
static void prepare_fork(void)
{
  fork_locked = !os_single_threaded();
  if (fork_locked)
    pthread_mutex_lock(&registrations);
  if (fork_locked && has_streams())
    _IO_list_lock();
  fork_prepare();
}

static void end_in_parent(void)
{
  bool locked = fork_locked;
  fork_parent();
  if (locked && has_streams())
    _IO_list_unlock();
  fork_locked = false;
  if (locked)
    pthread_mutex_unlock(&registrations);
}

static void end_in_child(void)
{
  registrations = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  fork_locked = false;
  fork_child();
}

/* glibc removes a library's handlers when exit() finalizes it. A fork between two handlers would then never release the locks.
 * So the handlers belong to no library. The manager is never unloaded before the process ends. */
#ifdef __GLIBC__
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
static int register_handlers(void) { return __register_atfork(prepare_fork, end_in_parent, end_in_child, NULL); }
#else
static int register_handlers(void) { return pthread_atfork(prepare_fork, end_in_parent, end_in_child); }
#endif

bool os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  int saved = errno;
  fork_prepare = prepare;
  fork_parent = parent;
  fork_child = child;
  bool done = register_handlers() == 0;
  errno = saved;
  return done;
}
