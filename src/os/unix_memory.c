/* SPDX-License-Identifier: MIT
 * Mappings, as every Unix has them: what linux.c and posix.c have in common. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/os.h"
#include "os/parts.h"
#include <errno.h>
#include <sys/mman.h>

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
