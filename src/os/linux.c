/* SPDX-License-Identifier: MIT
 * Linux with glibc or another libc that has pthread_atfork().
 *
 * A small program pays for every part of the C library that start-up wakes, 64 KiB a page fault: so what runs then keeps to
 * getauxval(), mmap() and syscall(), which lie together, instead of sysconf(), getrlimit() and secure_getenv(). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"
#include "base/bits.h"
#include "os/thread_local.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

size_t os_page_size(void)
{
  static size_t size;
  if (!size)
    size = getauxval(AT_PAGESZ);
  return size;
}

static THREAD_LOCAL bool forbidden;
static uint64_t forbidden_count;

bool os_forbid(bool forbid)
{
  bool before = forbidden;
  forbidden = forbid;
  return before;
}

uint64_t os_forbidden_count(void) { return __atomic_load_n(&forbidden_count, __ATOMIC_RELAXED); }

static bool refused(void)
{
  if (unlikely(forbidden))
    __atomic_fetch_add(&forbidden_count, 1, __ATOMIC_RELAXED);
  return forbidden;
}

static void *map(void *hint, size_t size, int protection, int flags)
{
  if (refused())
    return NULL;
  int saved = errno;
  void *p = mmap(hint, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  errno = saved;
  return p == MAP_FAILED ? NULL : p;
}

bool os_release(void *address, size_t size)
{
  if (refused())
    return false;
  int saved = errno;
  bool done = munmap(address, size) == 0;
  errno = saved;
  return done;
}

void *os_reserve(size_t size, size_t alignment)
{
  if (alignment <= os_page_size())
    return map(NULL, size, PROT_NONE, 0);
  size_t slack = alignment - os_page_size();
  char *p = size <= SIZE_MAX - slack ? map(NULL, size + slack, PROT_NONE, 0) : NULL;
  if (!p)
    return NULL;
  char *aligned = (char *)round_up((uintptr_t)p, alignment);
  size_t before = (size_t)(aligned - p), after = slack - before;
  if (before)
    os_release(p, before);
  if (after)
    os_release(aligned + size, after);
  return aligned;
}

void *os_reserve_at(void *address, size_t size)
{
  char *p = map(address, size, PROT_NONE, MAP_FIXED_NOREPLACE);
  if (p && p != address) {   /* a kernel before 4.17 takes the address as a hint */
    os_release(p, size);
    return NULL;
  }
  return p;
}

void *os_reserve_zeroes(size_t size) { return map(NULL, size, PROT_READ, 0); }

bool os_commit(void *address, size_t size)
{
  if (refused())
    return false;
  int saved = errno;
  bool done = mprotect(address, size, PROT_READ | PROT_WRITE) == 0;
  errno = saved;
  return done;
}

static bool advise(void *address, size_t size, int advice)
{
  if (refused())
    return false;
  int saved = errno;
  bool done = madvise(address, size, advice) == 0;
  errno = saved;
  return done;
}

/* Never MADV_FREE: such pages stay in the resident figure, and users read that as a leak. */
bool os_purge(void *address, size_t size) { return advise(address, size, MADV_DONTNEED); }

bool os_move_pages(void *from, void *to, size_t size)
{
  if (refused())
    return false;
  int saved = errno;
  bool done = mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
  errno = saved;
  return done;
}

void os_wish_huge_pages(void *address, size_t size, bool wanted)
{
  advise(address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

bool os_prefault(void *address, size_t size)
{
  if (refused())
    return false;
  if (advise(address, size, MADV_POPULATE_WRITE))
    return true;
  for (size_t i = 0; i < size; i += os_page_size()) {   /* before Linux 5.14 */
    volatile char *p = (char *)address + i;
    *p = *p;
  }
  return true;
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

size_t os_address_space_limit(void)
{
  struct rlimit limit;
  int saved = errno;
  bool limited = syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  errno = saved;
  return limited ? (size_t)limit.rlim_cur : SIZE_MAX;
}

uint64_t os_now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void os_yield(void) { sched_yield(); }

void os_wait(uint32_t *word, uint32_t value)
{
  const struct timespec limit = {.tv_nsec = 10000000};
  int saved = errno;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
  errno = saved;
}

void os_wake(uint32_t *word)
{
  int saved = errno;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  errno = saved;
}

static pthread_key_t exit_key;
static void (*exit_function)(void *);

static void exit_key_create(void) { pthread_key_create(&exit_key, exit_function); }

bool os_thread_on_exit(void (*at_exit)(void *), void *argument)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  int saved = errno;
  __atomic_store_n(&exit_function, at_exit, __ATOMIC_RELAXED);   /* always the same */
  bool done = pthread_once(&once, exit_key_create) == 0 && pthread_setspecific(exit_key, argument) == 0;
  errno = saved;
  return done;
}

/* fork() of glibc takes the lock of all streams after the handlers have run, and a thread that opens or closes a stream
 * allocates under it; so it is taken first here. It is recursive, and glibc resets it in the child. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

static void (*fork_prepare)(void), (*fork_parent)(void);
static bool streams_locked;

static void lock_streams(void)
{
  bool lock = !os_single_threaded() && _IO_list_lock && _IO_list_unlock;
  if (lock)
    _IO_list_lock();
  streams_locked = lock;
  fork_prepare();
}

static void unlock_streams(void)
{
  bool locked = streams_locked;
  fork_parent();
  if (locked)
    _IO_list_unlock();
}

void os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  fork_prepare = prepare;
  fork_parent = parent;
  pthread_atfork(lock_streams, unlock_streams, child);
}

const char *os_environment(const char *name)
{
  size_t length = strlen(name);
  for (char **entry = getauxval(AT_SECURE) ? NULL : environ; entry && *entry; entry++)
    if (!strncmp(*entry, name, length) && (*entry)[length] == '=')
      return *entry + length + 1;
  return NULL;
}

void os_write_error(const char *text, size_t length)
{
  int saved = errno;
  while (length) {
    ssize_t n = write(STDERR_FILENO, text, length);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    text += n;
    length -= (size_t)n;
  }
  errno = saved;
}

void os_abort(void) { abort(); }
