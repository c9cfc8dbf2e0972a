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
#include "os/parts.h"
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

size_t os_page_size(void)
{
  static size_t size;
  if (!size)
    size = getauxval(AT_PAGESZ); /* always present, so errno does not change */
  return size;
}

void *os_remap(void *address, size_t size, size_t new_size, bool may_move)
{
  if (os_refuses())
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
  if (os_refuses())
    return OS_OCCUPIED;
  int saved = errno;
  os_mapped_t mapped = OS_MAPPED;
  if (mremap(from, size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
    mapped = os_map_at(to, new_size) == OS_NO_MEMORY && !is_mapped(to, new_size) ? OS_NO_MEMORY : OS_OCCUPIED;
  errno = saved;
  return mapped;
}

/* A new mapping merges with its untouched neighbours. If there is no room for one, the pages lose access and then memory. */
bool os_close(void *address, size_t size)
{
  if (os_refuses())
    return false;
  int saved = errno;
  bool done = mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED ||
              (mprotect(address, size, PROT_NONE) == 0 && madvise(address, size, MADV_DONTNEED) == 0);
  errno = saved;
  return done;
}

uint64_t os_entropy(void)
{
  uint64_t number = (uintptr_t)&number;
  int saved = errno;
  if (syscall(SYS_getrandom, &number, sizeof number, 1 /* GRND_NONBLOCK */) < 0)
    number ^= os_now_ms();
  errno = saved;
  return number;
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
  if (os_refuses())
    return false;
  int error = advise(address, size, MADV_DONTNEED);
  return !error || (error == EINVAL && !advise(address, size, MADV_DONTNEED_LOCKED));
}

void os_wish_huge_pages(void *address, size_t size, bool wanted)
{
  if (!os_refuses())
    advise(address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* ---- files ----
 *
 * These make system calls directly, because open(), read(), write() and close() are cancellation points. */

int os_open_to_append(const char *path)
{
  return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_LARGEFILE, 0666);
}

ssize_t os_write_some(int file, const char *text, size_t length) { return syscall(SYS_write, file, text, length); }

void os_close_appended(int file) { syscall(SYS_close, file); }

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

/* 2 MiB with pages of 4 KiB on most machines, up to 512 MiB with pages of 64 KiB. */
size_t os_huge_page_size(void)
{
  char text[24];
  size_t size = 0;
  read_head("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text, sizeof text);
  for (const char *digit = text; *digit >= '0' && *digit <= '9'; digit++)
    size = size * 10 + (size_t)(*digit - '0');
  return size;
}

/* Linux has no call for this, but splits a huge page when a part of it is advised as cold. */
void os_split_huge_page(void *address)
{
  if (!os_refuses())
    advise(address, os_page_size(), MADV_COLD);
}

/* Linux 5.14 and later report missing memory. On older kernels each page is touched, which ends the program without memory. */
bool os_prefault(void *address, size_t size)
{
  if (os_refuses())
    return false;
  int error = advise(address, size, MADV_POPULATE_WRITE);
  if (error != EINVAL)
    return !error; /* out of memory: touching the pages would end the program */
  os_touch(address, size);
  return true;
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

bool os_is_privileged(void)
{
  int saved = errno;
  bool secure = getauxval(AT_SECURE);
  errno = saved;
  return secure;
}

/* ---- names of mappings ----
 *
 * In /proc/PID/maps and smaps: [anon:tidepool], [anon:tidepool: HEAP]. The kernel copies them. Kernels before 5.17, or built
 * without the feature, return EINVAL, and nothing is named. */

/* Values of <linux/prctl.h>, which some systems lack. */
enum { SET_VMA = 0x53564d41, SET_VMA_NAME = 0, NAME_SIZE = 80 };

bool os_has_names;

static void name_in_kernel(const void *address, size_t size, const char *name)
{
  int saved = errno;
  syscall(SYS_prctl, SET_VMA, SET_VMA_NAME, address, size, name);
  errno = saved;
}

/* The kernel only takes printable characters, and not all of them. */
static char known(char c) { return c < ' ' || c > '~' || c == '[' || c == ']' || c == '\\' || c == '$' || c == '`' ? '_' : c; }

void os_name_now(const void *address, size_t size, const char *name)
{
  static const char own[] = "tidepool: ";
  char room[NAME_SIZE] = "tidepool";
  if (!size)
    return;
  if (name) {
    size_t length = sizeof own - 1;
    memcpy(room, own, length);
    while (*name && length < NAME_SIZE - 1)
      room[length++] = known(*name++);
  }
  name_in_kernel(address, size, room);
}
