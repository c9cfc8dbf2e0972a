/* SPDX-License-Identifier: MIT
 *
 * Linux with glibc or another libc that has pthread_atfork().
 *
 * A small program pays for each part of the C library that startup touches: a page fault makes 64 KiB of it resident. So
 * startup uses getauxval(), mmap() and syscall(), which lie together, and not sysconf(), getrlimit() or secure_getenv(). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/os.h"
#include "os/thread_local.h"
#include "os/tool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

size_t os_page_size(void)
{
  static size_t size;
  if (!size)
    size = getauxval(AT_PAGESZ); /* always present, so errno does not change */
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

/* Returns whether os_forbid() makes a call fail, and counts it. The count shows how often a program would enter the system. */
static bool refused(void)
{
  if (unlikely(forbidden))
    __atomic_fetch_add(&forbidden_count, 1, __ATOMIC_RELAXED);
  return forbidden;
}

/* malloc() and free() must not change errno when they succeed, so every function here preserves it. */
static void *map_with(size_t size, int protection)
{
  if (refused())
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

bool os_unmap(void *address, size_t size) { return !refused() && unmap(address, size); }

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
  if (refused())
    return OS_NO_MEMORY;
  int saved = errno;
  char *p = mmap(address, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  os_mapped_t mapped = p == address ? OS_MAPPED : p == MAP_FAILED && errno != EEXIST ? OS_NO_MEMORY : OS_OCCUPIED;
  if (mapped == OS_OCCUPIED && p != MAP_FAILED) /* kernels before 4.17 take the address as a hint */
    munmap(p, size);
  errno = saved;
  if (mapped == OS_MAPPED)
    os_name(p, size, NULL);
  return mapped;
}

void *os_remap(void *address, size_t size, size_t new_size, bool may_move)
{
  if (refused())
    return NULL;
  int saved = errno;
  void *p = mremap(address, size, new_size, may_move ? MREMAP_MAYMOVE : 0);
  errno = saved;
  return p == MAP_FAILED ? NULL : p;
}

/* mmap() fails with ENOMEM at the limit of mappings, whether or not the address is mapped. madvise() tells. */
static bool is_mapped(void *address, size_t size) { return madvise(address, size, MADV_NORMAL) == 0; }

/* Linux unmaps the destination before it finds out that it cannot move the pages. */
os_mapped_t os_remap_to(void *from, size_t size, void *to, size_t new_size)
{
  if (refused())
    return OS_OCCUPIED;
  int saved = errno;
  os_mapped_t mapped = OS_MAPPED;
  if (mremap(from, size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
    mapped = os_map_at(to, new_size) == OS_NO_MEMORY && !is_mapped(to, new_size) ? OS_NO_MEMORY : OS_OCCUPIED;
  errno = saved;
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
  if (refused())
    return NULL;
  int saved = errno;
  void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  errno = saved;
  return p == MAP_FAILED ? NULL : p;
}

bool os_open(void *address, size_t size) { return !refused() && make_writable(address, size); }

/* A new mapping merges with its untouched neighbours. If there is no room for one, the pages lose access and then memory. */
bool os_close(void *address, size_t size)
{
  if (refused())
    return false;
  int saved = errno;
  bool done = mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED ||
              (mprotect(address, size, PROT_NONE) == 0 && madvise(address, size, MADV_DONTNEED) == 0);
  errno = saved;
  return done;
}

/* ---- the window ---- */

enum { WINDOW_ATTEMPTS = 16 };

uint64_t os_random(unsigned turn)
{
  uint64_t number = (uintptr_t)&number;
  int saved = errno;
  if (syscall(SYS_getrandom, &number, sizeof number, 1 /* GRND_NONBLOCK */) < 0)
    number ^= os_now_ms();
  errno = saved;
  number = (number + turn * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u; /* the upper half depends on all bits */
  return (number ^ number >> 32) * 0x94d049bb133111ebu >> 1;
}

/* Chooses the stretch by an address that the kernel has chosen. */
#if UINTPTR_MAX > UINT32_MAX
/* The kernel maps from the top downwards, close to existing mappings, so the stretch is far below one of them. Programs and
 * their break are in the middle, at two thirds of the address space. The thread sanitizer has shadows except in the topmost 1.5
 * TiB. If the kernel maps upwards from a low address (valgrind, some emulators), the stretch is above its mappings. Later
 * attempts look anywhere, if the program has mapped everything near. */
enum {
  WINDOW_SHARE = 8, /* the stretch is this part of the address space, and begins in a range of the same length */
  WINDOW_SHARE_OF_SHADOWS =
    1024 /* the stretch ends within the topmost 1.5 TiB, of which the kernel places its mappings at random in the first TiB */
};
#ifdef UNDER_SANITIZER
static size_t window_share(void) { return WINDOW_SHARE_OF_SHADOWS; }
#else
static size_t window_share(void) { return os_tool.has_shadows ? WINDOW_SHARE_OF_SHADOWS : WINDOW_SHARE; }
#endif
#define ADDRESSES_LOW (64 * GIB)

static uintptr_t stretch_near(uintptr_t chosen, unsigned attempt, size_t *length)
{
  bool upwards = chosen < ADDRESSES_LOW;
  size_t addresses = upwards ? 32 * ADDRESSES_LOW : chosen, share = window_share();
  *length = round_down(addresses / share, OS_WINDOW_ALIGNMENT);
  if (!*length)
    return 0; /* the address space is too small for an aligned stretch */
  size_t least = addresses / (4 * share), most = attempt < WINDOW_ATTEMPTS / 2 ? least + *length : addresses - *length - least;
  size_t distance = least + (size_t)(os_random(attempt) % (most - least));
  return upwards ? 2 * ADDRESSES_LOW + distance : addresses - distance - *length;
}
#else
/* A process has 2 to 4 GiB of addresses. The program with its break is below the stretch, in the lowest third. An eighth above
 * the stretch, and more between, is left to the kernel's mappings. A low kernel mapping means that the kernel maps upwards
 * (qemu, an unlimited stack), or that there are no addresses above it, which later attempts assume. */
enum { WINDOW_PARTS = 6, WINDOW_OF = 16 }; /* the stretch's share of the addresses; it begins anywhere in one more part */
#define ADDRESSES_LOW (2 * GIB)

static uintptr_t stretch_near(uintptr_t chosen, unsigned attempt, size_t *length)
{
  bool upwards = chosen < ADDRESSES_LOW && attempt < WINDOW_ATTEMPTS / 2;
  size_t part = (upwards ? 3 * GIB : chosen) / WINDOW_OF;
  *length = round_down(part * WINDOW_PARTS, OS_WINDOW_ALIGNMENT);
  size_t distance = (size_t)(os_random(attempt) % (part + 1));
  return upwards ? ADDRESSES_LOW - 2 * part + distance : chosen - 2 * part - distance - *length;
}
#endif

/* A page is mapped to see where the kernel maps. The stretch is random, so that programs cannot predict addresses of blocks. */
char *os_window(unsigned attempt, size_t *size)
{
  char *probe = attempt < WINDOW_ATTEMPTS ? map(os_page_size()) : NULL;
  if (!probe)
    return NULL;
  unmap(probe, os_page_size());
  uintptr_t start = stretch_near((uintptr_t)probe, attempt, size);
  return (char *)round_down(start, OS_WINDOW_ALIGNMENT);
}

static int advise(void *address, size_t size, int advice)
{
  int saved = errno;
  int error = madvise(address, size, advice) == 0 ? 0 : errno;
  errno = saved;
  return error;
}

/* MADV_FREE is never used: freed pages would stay in the resident figure, and users read that as a leak. MADV_DONTNEED fails
 * for locked pages. Linux 5.18 and later purge them by MADV_DONTNEED_LOCKED. */
bool os_purge(void *address, size_t size)
{
  if (refused())
    return false;
  int error = advise(address, size, MADV_DONTNEED);
  return !error || (error == EINVAL && !advise(address, size, MADV_DONTNEED_LOCKED));
}

void os_wish_huge_pages(void *address, size_t size, bool wanted)
{
  if (!refused())
    advise(address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Makes system calls directly, because open(), read() and close() are cancellation points. */
static size_t read_head(const char *path, char *text, size_t most)
{
  int saved = errno, file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  ssize_t length = file >= 0 ? syscall(SYS_read, file, text, most - 1) : 0;
  if (file >= 0)
    syscall(SYS_close, file);
  errno = saved;
  text[length > 0 ? length : 0] = '\0';
  return length > 0 ? (size_t)length : 0;
}

/* Brackets mark the active setting. */
bool os_grants_huge_pages(void)
{
  char text[64];
  read_head("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
  return strstr(text, "[madvise]") != NULL;
}

/* Linux has no call for this, but splits a huge page when a part of it is advised as cold. */
void os_split_huge_page(void *address)
{
  if (!refused())
    advise(address, os_page_size(), MADV_COLD);
}

/* Linux 5.14 and later report missing memory. On older kernels each page is touched, which ends the program without memory. */
bool os_prefault(void *address, size_t size)
{
  if (refused())
    return false;
  int error = advise(address, size, MADV_POPULATE_WRITE);
  if (error != EINVAL)
    return !error; /* out of memory: touching the pages would end the program */
  for (size_t i = 0; i < size; i += os_page_size()) {
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

/* Limits, and the memory of machines, may exceed the address space. */
static size_t size_of(uint64_t bytes) { return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX; }

/* The structure of prlimit64, with 64-bit fields on 32-bit machines too. */
typedef struct limit {
  uint64_t now, most;
} limit_t;

/* A limit that cannot be read counts as none. The kernel enforces it anyway. */
static size_t limit_of(int resource)
{
  limit_t limit;
  bool limited = syscall(SYS_prlimit64, 0, resource, NULL, &limit) == 0;
  return limited ? size_of(limit.now) : SIZE_MAX;
}

size_t os_memory_limit = SIZE_MAX, os_memory_most = SIZE_MAX;

/* If the size of memory cannot be read either, no request counts as hopeless. */
void os_read_limits(void)
{
  struct sysinfo info;
  int saved = errno;
  os_memory_most = os_memory_limit = min_size(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA));
  if (os_memory_limit == SIZE_MAX && syscall(SYS_sysinfo, &info) == 0)
    os_memory_most = size_of(((uint64_t)info.totalram + info.totalswap) * info.mem_unit);
  errno = saved;
}

/* The vDSO always has the coarse clock. The exact clock is a system call on machines whose clock a program cannot read. */
uint64_t os_now_ms(void)
{
  struct timespec t = {0};
  int saved = errno;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  errno = saved;
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

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

bool os_is_privileged(void)
{
  int saved = errno;
  bool secure = getauxval(AT_SECURE);
  errno = saved;
  return secure;
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
