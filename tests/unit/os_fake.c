/* SPDX-License-Identifier: MIT
 * os.h for tests: real memory, a clock that the test moves, a page size of its choice, and failures on demand. Every call
 * that may fail is numbered; os_fake says which numbers do. */
#include "os_fake.h"
#include "base/bits.h"
#include "os/os.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

os_fake_t os_fake = {.refuse = true, .page_size = 4096, .address_space_limit = SIZE_MAX, .now_ms = 1000};

void os_fake_heal(void)
{
  os_fake.refuse = false;
  os_fake.fail_from = os_fake.fail_to = 0;
  os_fake.fail_kinds = 0;
}

/* Of all threads at once; a test has one that counts. */
static bool forbidden;
static uint64_t forbidden_count;

bool os_forbid(bool forbid)
{
  bool before = forbidden;
  forbidden = forbid;
  return before;
}

uint64_t os_forbidden_count(void) { return forbidden_count; }

static bool fails(os_call_t kind)
{
  if (forbidden && kind != OS_THREAD_ON_EXIT) {
    __atomic_add_fetch(&forbidden_count, 1, __ATOMIC_RELAXED);
    return true;
  }
  uint64_t n = __atomic_add_fetch(&os_fake.calls, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&os_fake.count[kind], 1, __ATOMIC_RELAXED);
  bool failing = os_fake.refuse || (n >= os_fake.fail_from && n < os_fake.fail_to) || (os_fake.fail_kinds >> kind & 1);
  if (failing)
    __atomic_add_fetch(&os_fake.failed, 1, __ATOMIC_RELAXED);
  return failing;
}

static void account(size_t bytes) { __atomic_add_fetch(&os_fake.reserved_bytes, bytes, __ATOMIC_RELAXED); }

static void *map(void *hint, size_t size, int protection, int flags)
{
  int saved = errno;
  void *p = mmap(hint, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  errno = saved;
  if (p == MAP_FAILED)
    return NULL;
  account(size);
  return p;
}

static void unmap(void *p, size_t size)
{
  if (!size)
    return;
  munmap(p, size);
  account(-size);
}

size_t os_page_size(void) { return os_fake.page_size; }

void *os_reserve(size_t size, size_t alignment)
{
  alignment = max_size(alignment, os_fake.page_size);
  if (fails(OS_RESERVE) || size > SIZE_MAX - alignment)
    return NULL;
  char *p = map(NULL, size + alignment, PROT_NONE, 0);
  if (!p)
    return NULL;
  char *aligned = (char *)round_up((uintptr_t)p, alignment);
  unmap(p, (size_t)(aligned - p));
  unmap(aligned + size, (size_t)(p + alignment - aligned));
  return aligned;
}

void *os_reserve_at(void *address, size_t size)
{
  return fails(OS_RESERVE_AT) ? NULL : map(address, size, PROT_NONE, MAP_FIXED_NOREPLACE);
}

void *os_reserve_zeroes(size_t size) { return fails(OS_RESERVE_ZEROES) ? NULL : map(NULL, size, PROT_READ, 0); }

bool os_commit(void *address, size_t size)
{
  int saved = errno;
  bool done = !fails(OS_COMMIT) && mprotect(address, size, PROT_READ | PROT_WRITE) == 0;
  errno = saved;
  return done;
}

bool os_purge(void *address, size_t size)
{
  int saved = errno;
  bool done = !fails(OS_PURGE) && madvise(address, size, MADV_DONTNEED) == 0;
  errno = saved;
  return done;
}

bool os_release(void *address, size_t size)
{
  if (fails(OS_RELEASE))
    return false;
  unmap(address, size);
  return true;
}

bool os_move_pages(void *from, void *to, size_t size)
{
  int saved = errno;
  bool done = !fails(OS_MOVE_PAGES) && mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
  errno = saved;
  return done;
}

void os_wish_huge_pages(void *address, size_t size, bool wanted) { (void)address, (void)size, (void)wanted; }

bool os_prefault(void *address, size_t size)
{
  if (fails(OS_PREFAULT))
    return false;
  for (size_t i = 0; i < size; i += 4096) {
    volatile char *p = (char *)address + i;
    *p = *p;
  }
  return true;
}

bool os_lock_memory(void *address, size_t size)
{
  (void)address, (void)size;
  return !fails(OS_LOCK_MEMORY);
}

bool os_unlock_memory(void *address, size_t size)
{
  (void)address, (void)size;
  return !fails(OS_UNLOCK_MEMORY);
}

size_t os_address_space_limit(void) { return os_fake.address_space_limit; }
uint64_t os_now_ms(void) { return __atomic_load_n(&os_fake.now_ms, __ATOMIC_RELAXED); }

void os_yield(void) { usleep(0); }

/* Any sleep will do: a waiter looks again. */
void os_wait(uint32_t *word, uint32_t value)
{
  (void)word, (void)value;
  usleep(50);
}

void os_wake(uint32_t *word) { (void)word; }

static pthread_key_t exit_key;
static void (*exit_function)(void *);

static void exit_key_create(void) { pthread_key_create(&exit_key, exit_function); }

bool os_thread_on_exit(void (*at_exit)(void *), void *argument)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (fails(OS_THREAD_ON_EXIT))
    return false;
  __atomic_store_n(&exit_function, at_exit, __ATOMIC_RELAXED);   /* always the same */
  return pthread_once(&once, exit_key_create) == 0 && pthread_setspecific(exit_key, argument) == 0;
}

void os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) { pthread_atfork(prepare, parent, child); }

const char *os_environment(const char *name) { return getenv(name); }

void os_write_error(const char *text, size_t length)
{
  if (write(STDERR_FILENO, text, length) < 0)
    return;
}

void os_abort(void) { abort(); }
