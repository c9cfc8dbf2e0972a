/* SPDX-License-Identifier: MIT
 *
 * 64-bit Windows: memory. windows_process.c has the rest of os.h, but for window.c.
 *
 * Windows reserves addresses in steps of 64 KiB, and commits memory there in pages. A reservation is only released as a whole.
 * So unmapping decommits the pages, which returns their memory, and releases a reservation when none of its pages is left.
 *
 *   - In the window, os_map_at() reserves a slot at its first use, and keeps it. This costs addresses alone, and 256 KiB
 *     in wine, so the window is not reserved at once. Pages that are reserved there and not committed count as unmapped.
 *   - os_map() has a reservation for each mapping. unmapping serializes the search for what is left of one, and its release:
 *     a second thread would release what a third has at this address by then.
 *   - os_reserve() has one, too. Its reservation is released if one call unmaps all of it.
 *
 * Committed memory counts against the commit limit of the machine, touched or not. Every function preserves the last error. */
#include "base/bits.h"
#include "os/os.h"
#include "os/parts.h"
#include <string.h>
#include <windows.h>

size_t os_page_size(void) { return 4096; }

/* ---- calls of the system ---- */

static void *allocate_pages(void *address, size_t size, DWORD type, DWORD protection)
{
  DWORD saved = GetLastError();
  void *p = VirtualAlloc(address, size, type, protection);
  SetLastError(saved);
  return p;
}

static bool commit_pages(void *address, size_t size)
{
  return allocate_pages(address, size, MEM_COMMIT, PAGE_READWRITE) != NULL;
}

static bool decommit_pages(void *address, size_t size)
{
  DWORD saved = GetLastError();
  bool done = VirtualFree(address, size, MEM_DECOMMIT);
  SetLastError(saved);
  return done;
}

static bool unreserve(void *reservation)
{
  DWORD saved = GetLastError();
  bool done = VirtualFree(reservation, 0, MEM_RELEASE);
  SetLastError(saved);
  return done;
}

/* Describes the pages from the address on that are alike. */
static MEMORY_BASIC_INFORMATION pages_at(const char *address)
{
  MEMORY_BASIC_INFORMATION pages;
  DWORD saved = GetLastError();
  if (!VirtualQuery(address, &pages, sizeof pages)) /* beyond the addresses of programs */
    pages = (MEMORY_BASIC_INFORMATION){.State = MEM_FREE, .RegionSize = SIZE_MAX - (uintptr_t)address};
  SetLastError(saved);
  return pages;
}

static char *end_of(const MEMORY_BASIC_INFORMATION *pages) { return (char *)pages->BaseAddress + pages->RegionSize; }

/* Returns whether all pages of [from, to) are reserved and not committed. Pages that once were may be listed apart. */
static bool have_no_memory(const char *from, const char *to)
{
  while (from < to) {
    MEMORY_BASIC_INFORMATION pages = pages_at(from);
    if (pages.State != MEM_RESERVE)
      return false;
    from = end_of(&pages);
  }
  return true;
}

/* ---- mappings anywhere ---- */

enum { GRANULARITY = 64 << 10, ALIGNED_TRIES = 16 };

/* Another thread may take the aligned addresses in between. */
static void *map_aligned(size_t size, size_t alignment)
{
  if (size > SIZE_MAX - alignment)
    return NULL;
  for (unsigned i = 0; i < ALIGNED_TRIES; i++) {
    char *room = allocate_pages(NULL, size + alignment, MEM_RESERVE, PAGE_NOACCESS);
    if (!room || !unreserve(room))
      return NULL;
    void *p = allocate_pages((char *)round_up((uintptr_t)room, alignment), size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (p)
      return p;
  }
  return NULL;
}

void *os_map(size_t size, size_t alignment)
{
  if (os_refuses())
    return NULL;
  return alignment <= GRANULARITY ? allocate_pages(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)
                                  : map_aligned(size, alignment);
}

void *os_reserve(size_t size) { return os_refuses() ? NULL : allocate_pages(NULL, size, MEM_RESERVE, PAGE_NOACCESS); }
bool os_open(void *address, size_t size) { return !os_refuses() && commit_pages(address, size); }
bool os_close(void *address, size_t size) { return !os_refuses() && decommit_pages(address, size); }

/* Pages without memory need no protection, and do not count as committed. */
void os_guard(void *address, size_t size) { decommit_pages(address, size); }

/* ---- mappings in the window ---- */

/* Reservations of slots, from the slot of the first os_map_at() on. If the window turns out to be in use, the next one is
 * elsewhere, and slots without a page are released. */
enum { SLOTS_MAPPED = SLOTS_MOST + 64 };
#define SLOT_BYTES ((size_t)1 << SLOT_LOG2)
static uintptr_t first_slot;
static word_t slots[SLOTS_MAPPED / WORD_BITS];

static size_t slot_number(const char *address) { return ((uintptr_t)address - first_slot) >> SLOT_LOG2; }

static bool is_own_slot(const char *address)
{
  size_t slot = slot_number(address);
  return slot < SLOTS_MAPPED && word_load(&slots[slot / WORD_BITS]) & bit_of(slot);
}

/* Other threads may reserve other slots meanwhile. */
static void mark_slot(size_t slot, bool is_own)
{
  if (is_own)
    __atomic_fetch_or(&slots[slot / WORD_BITS], bit_of(slot), __ATOMIC_RELAXED);
  else
    __atomic_fetch_and(&slots[slot / WORD_BITS], ~bit_of(slot), __ATOMIC_RELAXED);
}

/* Returns false if the first slot has a page, as it has while the window is in use: no other slot is looked at then. */
static bool drop_slots(void)
{
  for (size_t slot = 0; (slot = bits_next_set(slots, slot, SLOTS_MAPPED)) < SLOTS_MAPPED;) {
    char *start = (char *)(first_slot + (slot << SLOT_LOG2));
    if (!have_no_memory(start, start + SLOT_BYTES) || !unreserve(start))
      return false;
    mark_slot(slot, false);
  }
  return true;
}

static os_mapped_t reserve_slot(char *address)
{
  char *start = (char *)round_down((uintptr_t)address, SLOT_BYTES);
  if (is_own_slot(start))
    return OS_MAPPED;
  if (drop_slots())
    first_slot = (uintptr_t)start;
  if (slot_number(start) >= SLOTS_MAPPED)
    return OS_OCCUPIED;
  if (allocate_pages(start, SLOT_BYTES, MEM_RESERVE, PAGE_NOACCESS)) {
    mark_slot(slot_number(start), true);
    return OS_MAPPED;
  }
  return pages_at(start).State == MEM_FREE && pages_at(start).RegionSize >= SLOT_BYTES ? OS_NO_MEMORY : OS_OCCUPIED;
}

/* Committing a page twice is no error, so this looks first. A commit does not span reservations. */
os_mapped_t os_map_at(void *address, size_t size)
{
  char *start = address, *end = start + size, *next;
  os_mapped_t mapped = os_refuses() ? OS_NO_MEMORY : OS_MAPPED;
  for (char *at = start; mapped == OS_MAPPED && at < end; at = next) {
    next = (char *)round_down((uintptr_t)at, SLOT_BYTES) + SLOT_BYTES;
    next = next < end ? next : end;
    mapped = reserve_slot(at);
    if (mapped == OS_MAPPED && !have_no_memory(at, next))
      mapped = OS_OCCUPIED;
    else if (mapped == OS_MAPPED && !commit_pages(at, (size_t)(next - at)))
      mapped = OS_NO_MEMORY;
    if (mapped != OS_MAPPED)
      for (char *done = start; done < at; done = next) {
        next = (char *)round_down((uintptr_t)done, SLOT_BYTES) + SLOT_BYTES;
        next = next < at ? next : at;
        decommit_pages(done, (size_t)(next - done));
      }
  }
  return mapped;
}

/* ---- unmapping ---- */

static SRWLOCK unmapping = SRWLOCK_INIT;

/* Returns the end of a reservation, or NULL if it has a page that is not in [from, to). */
static char *end_if_unused(char *reservation, const char *from, const char *to)
{
  char *at = reservation;
  for (MEMORY_BASIC_INFORMATION pages = pages_at(at); pages.AllocationBase == reservation; pages = pages_at(at)) {
    char *end = end_of(&pages);
    if (pages.State == MEM_COMMIT && (at < from || end > to))
      return NULL;
    at = end;
  }
  return at;
}

/* Unmaps [from, to) of one reservation. One of os_reserve() may have unused addresses that are still wanted. */
static bool unmap_part(char *reservation, bool is_reserved, char *from, char *to)
{
  char *end = is_own_slot(from) ? NULL : end_if_unused(reservation, from, to);
  if (end && (!is_reserved || (from == reservation && to == end)))
    return unreserve(reservation);
  return decommit_pages(from, (size_t)(to - from));
}

bool os_unmap(void *address, size_t size)
{
  if (os_refuses())
    return false;
  bool done = true;
  char *end = (char *)address + size, *next;
  AcquireSRWLockExclusive(&unmapping);
  for (char *at = address; done && at < end; at = next) {
    MEMORY_BASIC_INFORMATION pages = pages_at(at);
    next = end_of(&pages);
    if (pages.State == MEM_FREE)
      continue;
    for (MEMORY_BASIC_INFORMATION more; next < end && (more = pages_at(next)).AllocationBase == pages.AllocationBase;)
      next = end_of(&more);
    next = next < end ? next : end;
    done = unmap_part(pages.AllocationBase, pages.AllocationProtect == PAGE_NOACCESS, at, next);
  }
  ReleaseSRWLockExclusive(&unmapping);
  return done;
}

/* A mapping shrinks in place. Windows moves no pages, and has no call that lengthens a reservation. */
void *os_remap(void *address, size_t size, size_t new_size, bool may_move)
{
  (void)may_move;
  return new_size <= size && os_unmap((char *)address + new_size, size - new_size) ? address : NULL;
}

os_mapped_t os_remap_to(void *from, size_t size, void *to, size_t new_size)
{
  return (void)from, (void)size, (void)to, (void)new_size, OS_OCCUPIED;
}

/* ---- purging ---- */

/* Other threads may read the pages meanwhile, so these must not be decommitted and committed again. They are zeroed, and
 * MEM_RESET then says that their contents need not be kept: a page reads as zero whether Windows drops it or not. Unlocking
 * pages that are not locked takes them out of the working set, which is the resident figure. It fails, and says so. */
static bool purge(void *address, size_t size)
{
  memset(address, 0, size);
  if (!allocate_pages(address, size, MEM_RESET, PAGE_READWRITE))
    return false;
  DWORD saved = GetLastError();
  VirtualUnlock(address, size);
  SetLastError(saved);
  return true;
}

/* MEM_RESET does not span reservations. */
bool os_purge(void *address, size_t size)
{
  bool done = !os_refuses();
  char *end = (char *)address + size, *next;
  for (char *at = address; done && at < end; at = next) {
    MEMORY_BASIC_INFORMATION pages = pages_at(at);
    next = end_of(&pages) < end ? end_of(&pages) : end;
    done = pages.State == MEM_COMMIT && purge(at, (size_t)(next - at));
  }
  return done;
}

/* ---- the rest ---- */

bool os_has_names;
void os_name_now(const void *address, size_t size, const char *name) { (void)address, (void)size, (void)name; }

/* Large pages need a privilege, and are never purged. */
void os_wish_huge_pages(void *address, size_t size, bool wanted) { (void)address, (void)size, (void)wanted; }
bool os_grants_huge_pages(void) { return false; }
size_t os_huge_page_size(void) { return 0; }
void os_split_huge_page(void *address) { (void)address; }

void os_touch(void *address, size_t size)
{
  for (size_t i = 0; i < size; i += os_page_size()) {
    volatile char *p = (char *)address + i;
    *p = *p;
  }
}

/* Committed pages have memory for certain. */
bool os_prefault(void *address, size_t size)
{
  if (os_refuses())
    return false;
  os_touch(address, size);
  return true;
}

/* Windows locks no more than the least working set of the process, less a few pages. Programs raise it by
 * SetProcessWorkingSetSize(). */
bool os_lock_memory(void *address, size_t size)
{
  DWORD saved = GetLastError();
  bool done = VirtualLock(address, size);
  SetLastError(saved);
  return done;
}

bool os_unlock_memory(void *address, size_t size)
{
  DWORD saved = GetLastError();
  bool done = VirtualUnlock(address, size);
  SetLastError(saved);
  return done;
}

size_t os_memory_limit = SIZE_MAX, os_memory_most = SIZE_MAX;

/* A job may limit what its processes commit. The paging file may grow, so the most is the address space. */
void os_read_limits(void)
{
  DWORD saved = GetLastError();
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION job = {0};
  SYSTEM_INFO system;
  bool limited = QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL) &&
                 job.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_PROCESS_MEMORY;
  GetSystemInfo(&system);
  os_memory_limit = limited ? job.ProcessMemoryLimit : SIZE_MAX;
  os_memory_most = min_size(os_memory_limit, (uintptr_t)system.lpMaximumApplicationAddress);
  SetLastError(saved);
}
