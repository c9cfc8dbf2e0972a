/* SPDX-License-Identifier: MIT
 *
 * Mappings by pages. Addresses are reserved by the GiB, and stay so; a page is mapped if it is committed. A mapping without an
 * address is below all others, so addresses are not used again. A mapping moves by copying it. */
#include <sys/mman.h>

#include "base/bits.h"
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <windows.h>

enum { CHUNKS = 4096 };
#define CHUNK GIB
#define LOW   ((uintptr_t)16 << 40)
static word_t chunks[CHUNKS / WORD_BITS];
static uintptr_t next = LOW + CHUNKS * CHUNK;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static DWORD pages_of(int protection) { return protection == PROT_NONE ? PAGE_NOACCESS : PAGE_READWRITE; }

/* Beyond the chunks are mappings that windows.c has made. */
static bool are_own(uintptr_t from, uintptr_t to) { return from >= LOW && to <= LOW + CHUNKS * CHUNK && from < to; }

static bool reserve(uintptr_t from, uintptr_t to)
{
  for (size_t i = (from - LOW) / CHUNK; i <= (to - 1 - LOW) / CHUNK; i++)
    if (!bit_test(chunks, i)) {
      if (!VirtualAlloc((void *)(LOW + i * CHUNK), CHUNK, MEM_RESERVE, PAGE_NOACCESS))
        return false;
      bit_set(chunks, i);
    }
  return true;
}

/* Calls `act` for the part of each chunk that may have pages. */
static bool each_part(uintptr_t from, uintptr_t to, bool (*act)(void *start, size_t size, DWORD protection), DWORD protection)
{
  bool done = true;
  for (uintptr_t end; done && from < to; from = end) {
    end = round_down(from, CHUNK) + CHUNK;
    end = end < to ? end : to;
    if (bit_test(chunks, (from - LOW) / CHUNK))
      done = act((void *)from, end - from, protection);
  }
  return done;
}

static bool commit(void *start, size_t size, DWORD protection) { return VirtualAlloc(start, size, MEM_COMMIT, protection); }
static bool decommit(void *start, size_t size, DWORD unused) { return (void)unused, VirtualFree(start, size, MEM_DECOMMIT); }
static bool protect(void *start, size_t size, DWORD protection)
{
  DWORD before;
  return VirtualProtect(start, size, protection, &before);
}

/* Returns whether each page of the range is in one state. */
static bool all_are(uintptr_t from, uintptr_t to, DWORD state)
{
  MEMORY_BASIC_INFORMATION pages;
  for (; from < to; from = (uintptr_t)pages.BaseAddress + pages.RegionSize)
    if (!VirtualQuery((void *)from, &pages, sizeof pages) || pages.State != state)
      return false;
  return true;
}

static int end_with(bool done, int error)
{
  pthread_mutex_unlock(&lock);
  errno = done ? errno : error;
  return done ? 0 : -1;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
  (void)file, (void)offset;
  pthread_mutex_lock(&lock);
  size = round_up(size, 4096);
  uintptr_t from = address ? (uintptr_t)address : size < next - LOW ? next - size : 0;
  bool done = are_own(from, from + size) && reserve(from, from + size);
  if (done && flags & MAP_FIXED)
    each_part(from, from + size, decommit, 0);
  else if (done)
    done = all_are(from, from + size, MEM_RESERVE);
  int error = done ? ENOMEM : EEXIST;
  done = done && each_part(from, from + size, commit, pages_of(protection));
  if (done && !address)
    next = from;
  return end_with(done, error) == 0 ? (void *)from : MAP_FAILED;
}

int munmap(void *address, size_t size)
{
  uintptr_t from = (uintptr_t)address;
  pthread_mutex_lock(&lock);
  return end_with(are_own(from, from + size) && each_part(from, from + size, decommit, 0), EINVAL);
}

int mprotect(void *address, size_t size, int protection)
{
  uintptr_t from = (uintptr_t)address;
  pthread_mutex_lock(&lock);
  return end_with(are_own(from, from + size) && each_part(from, from + size, protect, pages_of(protection)), ENOMEM);
}

enum { ZEROED_MOST = 1 << 20 };

static bool all_may_be_written(uintptr_t from, uintptr_t to)
{
  MEMORY_BASIC_INFORMATION pages;
  for (; from < to; from = (uintptr_t)pages.BaseAddress + pages.RegionSize)
    if (!VirtualQuery((void *)from, &pages, sizeof pages) || pages.Protect != PAGE_READWRITE)
      return false;
  return true;
}

/* Only MADV_DONTNEED has an effect. Other threads may read records that are purged meanwhile, so what is short keeps its pages.
 */
int madvise(void *address, size_t size, int advice)
{
  uintptr_t from = (uintptr_t)address, to = from + size;
  pthread_mutex_lock(&lock);
  bool own = are_own(from, to), done = all_are(from, to, MEM_COMMIT);
  if (done && (!own || (advice == MADV_DONTNEED && size <= ZEROED_MOST && all_may_be_written(from, to))))
    memset(address, 0, size); /* not own: an array of the test's */
  else if (done && advice == MADV_DONTNEED)
    done = each_part(from, to, decommit, 0) && each_part(from, to, commit, PAGE_READWRITE);
  return end_with(done, ENOMEM);
}

int mincore(void *address, size_t size, unsigned char *pages)
{
  uintptr_t from = (uintptr_t)address;
  (void)pages;
  pthread_mutex_lock(&lock);
  return end_with(are_own(from, from + size) && all_are(from, from + size, MEM_COMMIT), ENOMEM);
}

static void *move(void *to, void *from, size_t size, size_t new_size)
{
  if (to != MAP_FAILED) {
    memcpy(to, from, size < new_size ? size : new_size);
    munmap(from, size);
  }
  return to;
}

/* Grows in place if what follows is free. */
void *mremap(void *address, size_t size, size_t new_size, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  void *to = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
  va_end(arguments);
  if (to)
    return move(mmap(to, new_size, PROT_READ | PROT_WRITE, MAP_FIXED, -1, 0), address, size, new_size);
  if (new_size <= size)
    return new_size == size || munmap((char *)address + new_size, size - new_size) == 0 ? address : MAP_FAILED;
  if (mmap((char *)address + size, new_size - size, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED)
    return address;
  return flags & MREMAP_MAYMOVE ? move(mmap(NULL, new_size, PROT_READ | PROT_WRITE, 0, -1, 0), address, size, new_size)
                                : MAP_FAILED;
}
