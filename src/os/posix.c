/* SPDX-License-Identifier: MIT
 *
 * A Unix of which only POSIX is known. This file answers all of os.h that unix*.c and window.c leave open. It says that the
 * system cannot do what POSIX has no call for: the manager copies blocks instead of moving pages, keeps no helper thread, and
 * leaves each thread's magazines to that thread. A port to a real system begins as a copy of this file (docs/porting.md). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/os.h"
#include "os/parts.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

size_t os_page_size(void)
{
  static size_t size;
  if (!size)
    size = (size_t)sysconf(_SC_PAGESIZE);
  return size;
}

/* ---- memory ---- */

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* posix_madvise() promises nothing about memory. A new mapping in place of the old one has none, and reads as zero. The flags
 * are those of os_map() and os_reserve(): the system can merge the mapping with its neighbours. */
static bool map_over(void *address, size_t size, int protection, int flags)
{
  if (os_refuses())
    return false;
  int saved = errno;
  bool done = mmap(address, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0) != MAP_FAILED;
  errno = saved;
  return done;
}

bool os_purge(void *address, size_t size) { return map_over(address, size, PROT_READ | PROT_WRITE, 0); }
bool os_close(void *address, size_t size) { return map_over(address, size, PROT_NONE, MAP_NORESERVE); }

void *os_remap(void *address, size_t size, size_t new_size, bool may_move)
{
  return (void)address, (void)size, (void)new_size, (void)may_move, NULL;
}

os_mapped_t os_remap_to(void *from, size_t size, void *to, size_t new_size)
{
  return (void)from, (void)size, (void)to, (void)new_size, OS_OCCUPIED;
}

bool os_has_names;
void os_name_now(const void *address, size_t size, const char *name) { (void)address, (void)size, (void)name; }

void os_wish_huge_pages(void *address, size_t size, bool wanted) { (void)address, (void)size, (void)wanted; }
bool os_grants_huge_pages(void) { return false; }
size_t os_huge_page_size(void) { return 0; }
void os_split_huge_page(void *address) { (void)address; }

bool os_prefault(void *address, size_t size)
{
  if (os_refuses())
    return false;
  os_touch(address, size);
  return true;
}

static size_t limit_of(int resource)
{
  struct rlimit limit;
  bool limited = getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < SIZE_MAX;
  return limited ? (size_t)limit.rlim_cur : SIZE_MAX;
}

size_t os_memory_limit = SIZE_MAX, os_memory_most = SIZE_MAX;

void os_read_limits(void)
{
  int saved = errno;
  os_memory_most = os_memory_limit = min_size(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA));
  errno = saved;
}

/* ---- time, chance, processors ---- */

static uint64_t read_clock(clockid_t clock, uint64_t per_second)
{
  struct timespec t = {0};
  int saved = errno;
  clock_gettime(clock, &t);
  errno = saved;
  return (uint64_t)t.tv_sec * per_second + (uint64_t)t.tv_nsec / (1000000000 / per_second);
}

uint64_t os_now_ms(void) { return read_clock(CLOCK_MONOTONIC, 1000); }

/* The time in nanoseconds and the place of the stack: enough to spread addresses, not to hide them. */
uint64_t os_entropy(void)
{
  uint64_t number = (uintptr_t)&number;
  return number ^ read_clock(CLOCK_REALTIME, 1000000000) ^ (uint64_t)os_process() << 32;
}

/* Each thread keeps an arbitrary number. */
unsigned os_processor(void) { return (unsigned)((uint64_t)(uintptr_t)&errno * 0x9e3779b97f4a7c15u >> 40); }

unsigned os_processors(void)
{
  int saved = errno;
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  errno = saved;
  return count > 0 ? (unsigned)count : 1;
}

bool os_has_nodes;
unsigned os_node(void) { return 0; }

/* ---- cancellation points: not for a thread that holds locks ---- */

static int set_cancellation(int state)
{
  int before = state;
  pthread_setcancelstate(state, &before);
  return before;
}

int os_open_to_append(const char *path)
{
  int state = set_cancellation(PTHREAD_CANCEL_DISABLE);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  set_cancellation(state);
  return file;
}

ssize_t os_write_some(int file, const char *text, size_t length)
{
  int state = set_cancellation(PTHREAD_CANCEL_DISABLE);
  ssize_t written = write(file, text, length);
  set_cancellation(state);
  return written;
}

void os_close_appended(int file)
{
  int state = set_cancellation(PTHREAD_CANCEL_DISABLE);
  close(file);
  set_cancellation(state);
}

enum { NAP_US = 50 };

/* Nobody can be woken, so a wait without a limit ends soon, and the caller reads the word again. No lock is needed, which a
 * fork in another thread could leave taken. */
void os_wait(uint32_t *word, uint32_t value, uint32_t most_us)
{
  uint32_t us = most_us ? most_us : NAP_US;
  const struct timespec length = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};
  int saved = errno;
  if (__atomic_load_n(word, __ATOMIC_RELAXED) != value)
    return;
  int state = set_cancellation(PTHREAD_CANCEL_DISABLE);
  nanosleep(&length, NULL);
  set_cancellation(state);
  errno = saved;
}

void os_wake(uint32_t *word) { (void)word; }

/* ---- threads ---- */

bool os_can_fence_others(void) { return false; }
bool os_fence_others(void) { return false; }

int os_start_thread(os_helper_t which, void (*run)(void)) { return (void)which, (void)run, ENOTSUP; }
bool os_join_thread(os_helper_t which, unsigned most_ms) { return (void)which, (void)most_ms, false; }
unsigned os_threads(void) { return 0; }
unsigned os_started_threads(void) { return 0; }

bool os_is_privileged(void) { return getuid() != geteuid() || getgid() != getegid(); }
