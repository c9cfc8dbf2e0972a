/* SPDX-License-Identifier: MIT
 * os/linux.c against kernels old and new, some that refuse, and this one. Every function keeps errno, and where os.h says that nothing
 * happened nothing has. */
#define KERNEL_ITSELF
#include "kernel.h"
#include "os/os.h"
#include "os/thread_local.h"
#include "unit.h"
#include <signal.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { ERRNO_BEFORE = 4711, SOME_PAGES = 16 };
#define PAGE os_page_size()
#define SOME (SOME_PAGES * PAGE)

/* Error numbers; 0: this kernel's own answer. */
typedef struct kernel {
  int  mmap, munmap, mremap, mprotect, mlock, munlock, clock, key, setspecific, atfork, write;
  int  dontneed, dontneed_locked, populate, huge_pages;   /* of madvise() */
  int  getrandom, sysinfo, membarrier, prlimit, futex;
  bool address_is_a_hint;       /* a kernel that does not know MAP_FIXED_NOREPLACE */
  bool no_auxiliary_vector;
  char *next_mapping;           /* where the next mapping is said to be; nothing is mapped */
  size_t write_most;            /* of one call; 0: any */
  size_t writable_most;         /* bytes of a mapping that can be written; 0: any */
  uint64_t random;              /* what getrandom() gives; 0: this kernel's own number */
  time_t later;                 /* seconds that the clock is ahead */
  int  interruptions;           /* of writing, still to come */
  rlim_t address_space, data;
  /* What was seen. */
  size_t mmaps, munmaps, mremaps, advices, writes, timed_waits;
  int  remap_flags;
} kernel_t;

static kernel_t kernel;

static void all_new(void)
{
  kernel = (kernel_t){.address_space = RLIM_INFINITY, .data = RLIM_INFINITY};
  errno = ERRNO_BEFORE;
}

static bool errno_is_kept(void) { return errno == ERRNO_BEFORE; }

static int failed(int error)
{
  errno = error;
  return -1;
}

void *kernel_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
  kernel.mmaps++;
  must(!(flags & MAP_FIXED));
  if (kernel.mmap)
    return failed(kernel.mmap), MAP_FAILED;
  if (kernel.writable_most && protection & PROT_WRITE && size > kernel.writable_most)
    return failed(ENOMEM), MAP_FAILED;
  if (kernel.next_mapping)
    return kernel.next_mapping;
  return mmap(address, size, protection, kernel.address_is_a_hint ? flags & ~MAP_FIXED_NOREPLACE : flags, file, offset);
}

int kernel_munmap(void *address, size_t size)
{
  kernel.munmaps++;
  return kernel.munmap ? failed(kernel.munmap) : kernel.next_mapping ? 0 : munmap(address, size);
}

void *kernel_mremap(void *address, size_t size, size_t new_size, int flags, ...)
{
  kernel.mremaps++;
  kernel.remap_flags = flags;
  return kernel.mremap ? (failed(kernel.mremap), MAP_FAILED) : mremap(address, size, new_size, flags);
}

int kernel_mprotect(void *address, size_t size, int protection)
{
  return kernel.mprotect ? failed(kernel.mprotect) : mprotect(address, size, protection);
}

int kernel_madvise(void *address, size_t size, int advice)
{
  int error = advice == MADV_DONTNEED          ? kernel.dontneed
              : advice == MADV_DONTNEED_LOCKED ? kernel.dontneed_locked
              : advice == MADV_POPULATE_WRITE  ? kernel.populate
                                               : kernel.huge_pages;
  kernel.advices++;
  if (error)
    return failed(error);
  /* Where this kernel is the one that does not know it. */
  if (madvise(address, size, advice) != 0 && advice == MADV_DONTNEED_LOCKED)
    return madvise(address, size, MADV_DONTNEED);
  return 0;
}

int kernel_mlock(const void *address, size_t size) { return (void)address, (void)size, kernel.mlock ? failed(kernel.mlock) : 0; }
int kernel_munlock(const void *address, size_t size) { return (void)address, (void)size, kernel.munlock ? failed(kernel.munlock) : 0; }

static long prlimit_answer(int resource, struct rlimit *limit)
{
  if (kernel.prlimit)
    return failed(kernel.prlimit);
  *limit = (struct rlimit){.rlim_cur = resource == RLIMIT_AS ? kernel.address_space : kernel.data, .rlim_max = RLIM_INFINITY};
  return 0;
}

static long write_some(int file, const void *bytes, size_t size)
{
  kernel.writes++;
  if (kernel.interruptions) {
    kernel.interruptions--;
    return failed(EINTR);
  }
  if (kernel.write)
    return failed(kernel.write);
  return write(file, bytes, kernel.write_most ? min_size(size, kernel.write_most) : size);
}

long kernel_syscall(long number, ...)
{
  long a[6];
  va_list list;
  va_start(list, number);
  for (size_t i = 0; i < 6; i++)
    a[i] = va_arg(list, long);
  va_end(list);
  int error = number == SYS_getrandom ? kernel.getrandom : number == SYS_membarrier ? kernel.membarrier : number == SYS_futex ? kernel.futex :
              number == SYS_sysinfo ? kernel.sysinfo : 0;
  if (number == SYS_write)
    return write_some((int)a[0], (const void *)a[1], (size_t)a[2]);
  if (number == SYS_prlimit64)
    return prlimit_answer((int)a[1], (struct rlimit *)a[3]);
  if (number == SYS_futex && a[3])
    kernel.timed_waits++;
  if (number == SYS_getrandom && kernel.random && !error && (size_t)a[1] <= sizeof kernel.random)
    return memcpy((void *)a[0], &kernel.random, (size_t)a[1]), a[1];
  return error ? failed(error) : syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int kernel_clock_gettime(clockid_t clock, struct timespec *time)
{
  if (kernel.clock)
    return failed(kernel.clock);
  int result = clock_gettime(clock, time);
  time->tv_sec += kernel.later;
  return result;
}

unsigned long kernel_getauxval(unsigned long type)
{
  if (kernel.no_auxiliary_vector && type != AT_PAGESZ)
    return (unsigned long)failed(ENOENT) + 1;
  return getauxval(type);
}

int kernel_pthread_key_create(pthread_key_t *key, void (*at_exit)(void *)) { return kernel.key ? kernel.key : pthread_key_create(key, at_exit); }
int kernel_pthread_setspecific(pthread_key_t key, const void *value) { return kernel.setspecific ? kernel.setspecific : pthread_setspecific(key, value); }
int kernel_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  return kernel.atfork ? kernel.atfork : pthread_atfork(prepare, parent, child);
}

/* The page can be read, as far as the system is concerned. */
static bool is_readable(const void *page)
{
  int ends[2], saved = errno;
  must(pipe(ends) == 0);
  bool readable = write(ends[1], page, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  errno = saved;
  return readable;
}

static bool is_mapped(const void *page)
{
  unsigned char there;
  int saved = errno;
  bool mapped = mincore((void *)(uintptr_t)page, 1, &there) == 0;
  errno = saved;
  return mapped;
}

static char *some_pages(void)
{
  char *p = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(p != MAP_FAILED);
  all_new();
  return p;
}

/* Addresses between two others that are free. */
static char *free_addresses(void)
{
  char *p = mmap(NULL, 3 * SOME, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  must(p != MAP_FAILED && munmap(p + SOME, SOME) == 0);
  all_new();
  return p + SOME;
}

/* ---- mapping ---- */

static void mapped(void **state)
{
  (void)state;
  all_new();
  assert_true(is_power_of_two(os_page_size()));
  for (size_t alignment = 1; alignment <= 64 * MIB; alignment *= 8) {
    all_new();
    char *p = os_map(SOME, alignment);
    assert_non_null(p);
    assert_true((uintptr_t)p % alignment == 0 && all_zero(p, SOME) && errno_is_kept());
    assert_true(kernel.munmaps <= 2 && kernel.mmaps == 1);
    p[0] = p[SOME - 1] = 1;
    assert_true(os_unmap(p, SOME) && errno_is_kept() && !is_mapped(p));
  }
  all_new();
  assert_null(os_map(SIZE_MAX - PAGE + 1, 2 * MIB));
  assert_null(os_map((size_t)1 << 60, 1));
  assert_true(errno_is_kept());
  kernel.mmap = ENOMEM;
  assert_null(os_map(PAGE, 1));
  assert_null(os_map(PAGE, MIB));
  assert_true(errno_is_kept());
}

/* At the limit of mappings what lies beside an aligned block stays. */
static void mapped_with_slack(void **state)
{
  (void)state;
  all_new();
  kernel.munmap = ENOMEM;
  char *p = os_map(SOME, 4 * MIB);
  assert_true(p && (uintptr_t)p % (4 * MIB) == 0 && all_zero(p, SOME) && errno_is_kept());
  assert_true(is_mapped(p + SOME) || is_mapped(p - PAGE));
  all_new();
  os_unmap(p, SOME);
}

/* An alignment costs addresses, not memory. */
static void mapped_with_little_memory(void **state)
{
  (void)state;
  all_new();
  kernel.writable_most = SOME;
  char *p = os_map(SOME, 64 * MIB);
  assert_true(p && (uintptr_t)p % (64 * MIB) == 0 && all_zero(p, SOME) && errno_is_kept());
  p[0] = p[SOME - 1] = 1;
  assert_true(!is_mapped(p + SOME) && !is_mapped(p - PAGE));
  assert_true(os_unmap(p, SOME));
  kernel.mprotect = ENOMEM;
  kernel.munmaps = 0;
  assert_null(os_map(SOME, 64 * MIB));
  assert_true(errno_is_kept() && kernel.munmaps == 3);
  kernel.mprotect = 0;
  assert_null(os_map((size_t)1 << 60, 64 * MIB));
  assert_true(errno_is_kept());
}

/* A kernel that knows the flag says EEXIST, one that does not takes the address for a hint. Neither touches what is there. */
static void mapped_at(void **state)
{
  (void)state;
  for (unsigned old = 0; old < 2; old++) {
    char *at = free_addresses();
    kernel.address_is_a_hint = old;
    assert_int_equal(os_map_at(at, SOME), OS_MAPPED);
    assert_true(errno_is_kept() && all_zero(at, SOME) && kernel.munmaps == 0);
    memset(at, 7, SOME);
    for (size_t from = 0; from < 3; from++) {
      assert_int_equal(os_map_at(at + (from - 1) * 8 * PAGE, SOME), OS_OCCUPIED);
      assert_true(errno_is_kept());
    }
    assert_int_equal(kernel.munmaps, old ? 3 : 0);   /* what it got elsewhere is given back */
    assert_true(pattern_kept("", 0, 1, 0) && at[0] == 7 && memcmp(at, at + 1, SOME - 1) == 0);
    assert_true(os_unmap(at, SOME));
    assert_int_equal(os_map_at(at, SOME), OS_MAPPED);
    munmap(at - SOME, 3 * SOME);
  }
}

static void not_mapped_at(void **state)
{
  static const int errors[] = {ENOMEM, EPERM, EINVAL, EAGAIN, EACCES};
  char *at = free_addresses();
  (void)state;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    kernel.mmap = errors[i];
    assert_int_equal(os_map_at(at, SOME), OS_NO_MEMORY);
    assert_true(errno_is_kept() && !is_mapped(at));
  }
  kernel.mmap = EEXIST;
  assert_int_equal(os_map_at(at, SOME), OS_OCCUPIED);
  assert_true(errno_is_kept());
  munmap(at - SOME, 3 * SOME);
}

static void not_unmapped(void **state)
{
  char *p = some_pages();
  (void)state;
  memset(p, 7, SOME);
  kernel.munmap = ENOMEM;
  assert_false(os_unmap(p + PAGE, PAGE));
  assert_true(errno_is_kept() && p[PAGE] == 7);
  all_new();
  assert_true(os_unmap(p, SOME) && errno_is_kept());
}

/* ---- giving memory back ---- */

static void purged(void **state)
{
  char *p = some_pages();
  (void)state;
  memset(p, 7, SOME);
  assert_true(os_purge(p + PAGE, 2 * PAGE) && errno_is_kept() && kernel.advices == 1);
  assert_true(p[PAGE - 1] == 7 && all_zero(p + PAGE, 2 * PAGE) && p[3 * PAGE] == 7);
  /* Locked pages: the kernel has another advice for them, or has not. */
  kernel.dontneed = EINVAL;
  assert_true(os_purge(p, PAGE) && errno_is_kept() && all_zero(p, PAGE));
  kernel.dontneed_locked = EINVAL;
  assert_false(os_purge(p + 4 * PAGE, PAGE));
  assert_true(errno_is_kept() && p[4 * PAGE] == 7);
  static const int errors[] = {EAGAIN, ENOMEM, EPERM};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    all_new();
    kernel.dontneed = errors[i];
    assert_false(os_purge(p + 4 * PAGE, PAGE));
    assert_true(errno_is_kept() && p[4 * PAGE] == 7 && kernel.advices == 1);
  }
  munmap(p, SOME);
}

/* ---- changing the size ---- */

static void remapped(void **state)
{
  (void)state;
  for (unsigned may_move = 0; may_move < 2; may_move++) {
    char *at = free_addresses(), *p = at;
    assert_int_equal(os_map_at(at, 2 * PAGE), OS_MAPPED);
    pattern_write(p, 2 * PAGE, 5);
    p = os_remap(p, 2 * PAGE, SOME, may_move);                /* there is room behind it */
    assert_true(p == at && kernel.remap_flags == (may_move ? MREMAP_MAYMOVE : 0) && pattern_holds(p, 2 * PAGE, 5));
    assert_true(all_zero(p + 2 * PAGE, SOME - 2 * PAGE) && errno_is_kept());
    char *further = os_remap(p, SOME, 2 * SOME, may_move);    /* and now there is none */
    assert_true((further != NULL) == may_move && further != p && errno_is_kept());
    assert_true(pattern_holds(may_move ? further : p, 2 * PAGE, 5) && is_mapped(p) == !may_move);
    p = may_move ? further : p;
    assert_ptr_equal(os_remap(p, may_move ? 2 * SOME : SOME, PAGE, may_move), p);
    assert_true(!is_mapped(p + PAGE) || p == at - SOME);
    assert_true(pattern_kept(p, PAGE, 2 * PAGE, 5) && errno_is_kept());
    munmap(p, PAGE);
  }
}

/* Of several mappings (EFAULT), without memory or another mapping (ENOMEM), and where the caller may not (EAGAIN: locked). */
static void not_remapped(void **state)
{
  static const int errors[] = {EFAULT, ENOMEM, EAGAIN, EINVAL};
  char *p = some_pages();
  (void)state;
  pattern_write(p, SOME, 5);
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    kernel.mremap = errors[i];
    assert_null(os_remap(p, SOME, 2 * SOME, true));
    assert_null(os_remap(p, SOME, PAGE, false));
    assert_true(errno_is_kept() && pattern_holds(p, SOME, 5));
  }
  munmap(p, SOME);
}

static void guarded(void **state)
{
  char *p = some_pages();
  (void)state;
  os_guard(p + PAGE, PAGE);
  assert_true(errno_is_kept() && is_readable(p) && !is_readable(p + PAGE) && is_readable(p + 2 * PAGE));
  kernel.mprotect = ENOMEM;
  os_guard(p + 3 * PAGE, PAGE);
  assert_true(errno_is_kept() && is_readable(p + 3 * PAGE));
  munmap(p, SOME);
}

/* ---- the window ---- */

/* Where the kernel maps downwards from `top`, or upwards from there where that is low. */
/* Address spaces of 39 bits (arm64, riscv64) and more; the thread sanitizer needs most of one itself. */
#ifdef UNDER_SANITIZER
enum { SPACE_LEAST_LOG2 = 46 };
#else
enum { SPACE_LEAST_LOG2 = 39 };
#endif

static void windows_below(char *top, bool upwards)
{
  char *seen[100], *base;
  size_t size = 0, count = 0, others = 0;
  kernel.next_mapping = top;
  for (; count < 100 && (base = os_window((unsigned)count, &size)) != NULL; count++) {
    uintptr_t from = (uintptr_t)base;
    assert_true(from && from % OS_WINDOW_ALIGNMENT == 0 && size % OS_WINDOW_ALIGNMENT == 0 && size > 0 && from + size > from);
    assert_true(upwards ? base > top : base + size < top);
    assert_true(upwards || (uintptr_t)(top - (base + size)) >= (uintptr_t)top / 4096);   /* not next to anything */
    seen[count] = base;
    size_t same = 0;
    while (seen[same] != base)
      same++;
    others += same == count;
  }
  assert_true(count >= 4 && count < 100 && others >= min_size(count, size / OS_WINDOW_ALIGNMENT) / 2 && errno_is_kept());
  assert_int_equal(kernel.mmaps, kernel.munmaps);
}

static void windows(void **state)
{
  (void)state;
  for (unsigned random = 0; random < 2; random++) {
    for (unsigned log2 = SPACE_LEAST_LOG2; log2 <= 48; log2++) {
      all_new();
      kernel.getrandom = random ? 0 : ENOSYS;
      windows_below((char *)(((uintptr_t)1 << log2) - 5 * GIB - PAGE), false);
    }
    all_new();
    kernel.getrandom = random ? 0 : EAGAIN;
    windows_below((char *)(5 * GIB), true);
  }
  all_new();
  kernel.mmap = ENOMEM;
  size_t size;
  assert_null(os_window(0, &size));
  assert_true(errno_is_kept());
}

/* Each process has its window elsewhere: by what the kernel has drawn for it, and where that has nothing, by the time. */
static void a_window_elsewhere(void **state)
{
  enum { PROCESSES = 16 };
  (void)state;
  for (unsigned refused = 0; refused < 2; refused++) {
    char *seen[PROCESSES];
    size_t size = 0, others = 0;
    for (unsigned i = 0; i < PROCESSES; i++) {
      all_new();
      kernel.next_mapping = (char *)(((uintptr_t)1 << 48) - PAGE);
      kernel.getrandom = refused ? EAGAIN : 0;
      kernel.random = (i + 1) * 0x123456789abcdefu;
      kernel.later = i;
      seen[i] = os_window(0, &size);
      assert_true(seen[i] && errno_is_kept());
      size_t same = 0;
      while (seen[same] != seen[i])
        same++;
      others += same == i;
    }
    assert_true(others >= min_size(PROCESSES, size / OS_WINDOW_ALIGNMENT) / 2);   /* two may meet */
  }
}

/* With this kernel it can be used. */
static void a_window_of_this_kernel(void **state)
{
  (void)state;
  size_t size, done = 0;
  char *base;
  all_new();
  for (unsigned attempt = 0; attempt < 4 && (base = os_window(attempt, &size)) != NULL; attempt++)
    for (size_t at = 0; at < size; at += round_up(size / 7, OS_WINDOW_ALIGNMENT))
      if (os_map_at(base + at, PAGE) == OS_MAPPED) {
        base[at] = 1;
        done++;
        assert_true(os_unmap(base + at, PAGE));
      }
  assert_true(done > 0 && errno_is_kept());
}

/* ---- touching and locking ---- */

static void end_well(int number) { _exit(number != SIGSEGV); }

/* Each page is touched: one that cannot be is noticed. */
static void touch_guarded(void *argument)
{
  char *p = some_pages();
  os_guard(p + *(const size_t *)argument * PAGE, PAGE);
  signal(SIGSEGV, end_well);
  kernel.populate = EINVAL;
  os_prefault(p, SOME);
  must(!"touched");
}

static void prefaulted(void **state)
{
  char *p = some_pages();
  (void)state;
  memset(p, 7, SOME / 2);
  assert_true(os_prefault(p, SOME) && errno_is_kept() && p[0] == 7 && p[SOME / 2 - 1] == 7 && all_zero(p + SOME / 2, SOME / 2));
  /* Before 5.14 the pages are touched, and keep what is in them. */
  munmap(p, SOME);
  p = some_pages();
  p[5] = 7;
  kernel.populate = EINVAL;
  assert_true(os_prefault(p, SOME) && errno_is_kept() && p[5] == 7 && all_zero(p + 6, SOME - 6));
  munmap(p, SOME);
  for (size_t i = 0; i < SOME_PAGES; i++)
    in_child(touch_guarded, &i);
  /* There is no memory for them: touching them would end the program. */
  p = some_pages();
  os_guard(p, SOME);
  static const int errors[] = {ENOMEM, EFAULT, EHWPOISON};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    kernel.populate = errors[i];
    assert_false(os_prefault(p, SOME));
    assert_true(errno_is_kept());
  }
  munmap(p, SOME);
}

static void locked(void **state)
{
  char *p = some_pages();
  (void)state;
  assert_true(os_lock_memory(p, SOME) && os_unlock_memory(p, SOME) && errno_is_kept());
  kernel.mlock = kernel.munlock = EPERM;
  assert_false(os_lock_memory(p, SOME));
  assert_false(os_unlock_memory(p, SOME));
  assert_true(errno_is_kept());
  munmap(p, SOME);
}

static void wishes(void **state)
{
  char *p = some_pages();
  (void)state;
  for (unsigned refused = 0; refused < 2; refused++)
    for (unsigned wanted = 0; wanted < 2; wanted++) {
      kernel.huge_pages = refused ? EINVAL : 0;
      os_wish_huge_pages(p, SOME, wanted);
      assert_true(errno_is_kept());
    }
  munmap(p, SOME);
}

/* ---- what is forbidden ---- */

static void forbidden(void **state)
{
  char *p = some_pages();
  size_t size;
  (void)state;
  uint64_t before = os_forbidden_count();
  assert_false(os_forbid(true));
  assert_true(os_forbid(true));
  assert_null(os_map(PAGE, 1));
  assert_null(os_map(PAGE, MIB));
  assert_int_equal(os_map_at(p, PAGE), OS_NO_MEMORY);
  assert_false(os_unmap(p, SOME));
  assert_false(os_purge(p, SOME));
  assert_null(os_remap(p, SOME, 2 * SOME, true));
  assert_false(os_prefault(p, SOME));
  assert_null(os_window(0, &size));
  os_wish_huge_pages(p, SOME, true);
  assert_true(os_forbidden_count() >= before + 9 && errno_is_kept());
  assert_true(kernel.mmaps + kernel.munmaps + kernel.mremaps + kernel.advices == 0);
  assert_true(os_forbid(false));
  before = os_forbidden_count();
  assert_true(os_purge(p, SOME) && os_unmap(p, SOME) && os_forbidden_count() == before);
}

/* ---- limits, time, randomness ---- */

static void limits(void **state)
{
  (void)state;
  all_new();
  assert_true(os_memory_limit() == SIZE_MAX && errno_is_kept());
  assert_true(os_memory_most() >= 64 * MIB && os_memory_most() < (size_t)1 << 50 && errno_is_kept());   /* the machine's */
  kernel.sysinfo = ENOSYS;
  assert_true(os_memory_most() == SIZE_MAX && errno_is_kept());
  kernel.sysinfo = 0;
  kernel.address_space = 100 * MIB;
  assert_int_equal(os_memory_limit(), 100 * MIB);
  assert_int_equal(os_memory_most(), 100 * MIB);
  kernel.data = 30 * MIB;
  assert_int_equal(os_memory_limit(), 30 * MIB);
  kernel.address_space = RLIM_INFINITY;
  assert_int_equal(os_memory_limit(), 30 * MIB);
  kernel.data = 0;
  assert_int_equal(os_memory_limit(), 0);
  kernel.prlimit = ENOSYS;
  assert_true(os_memory_limit() == SIZE_MAX && errno_is_kept());
}

static void time_goes_on(void **state)
{
  (void)state;
  all_new();
  uint64_t last = os_now_ms();
  assert_true(last > 0);
  for (size_t i = 0; i < 1000; i++) {
    uint64_t now = os_now_ms();
    assert_true(now >= last);
    last = now;
  }
  kernel.clock = EPERM;
  uint64_t stopped = os_now_ms();
  assert_true(stopped == os_now_ms() && errno_is_kept());
}

/* ---- threads ---- */

static void fences(void **state)
{
  (void)state;
  all_new();
  kernel.membarrier = ENOSYS;
  assert_false(os_can_fence_others());
  assert_false(os_fence_others());
  assert_true(errno_is_kept());
  kernel.membarrier = 0;
  bool can = os_can_fence_others();
  assert_true(os_fence_others() == can && errno_is_kept());
}

static uint32_t word;

static void *wake_up(void *argument)
{
  __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
  os_wake(&word);
  return argument;
}

static void sleepers(void **state)
{
  pthread_t thread;
  (void)state;
  all_new();
  os_wait(&word, 5, false);   /* it is not that: no sleep */
  assert_int_equal(pthread_create(&thread, NULL, wake_up, NULL), 0);
  while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
    os_wait(&word, 0, false);
  pthread_join(thread, NULL);
  assert_int_equal(kernel.timed_waits, 0);   /* thousands that sleep wake up when they are woken */
  os_wait(&word, 1, true);   /* nobody wakes it, and it ends */
  assert_int_equal(kernel.timed_waits, 1);
  os_wake(&word);
  os_yield();
  assert_true(errno_is_kept());
  kernel.futex = ENOSYS;
  os_wait(&word, 1, false);
  os_wake(&word);
  assert_true(errno_is_kept());
}

static void *ended_with;

static void note_end(void *argument) { __atomic_store_n(&ended_with, argument, __ATOMIC_RELEASE); }

static void *end_noted(void *argument)
{
  must(os_thread_on_exit(argument));
  return NULL;
}

static void *end_not_noted(void *argument)
{
  must(!os_thread_on_exit(argument));
  return NULL;
}

static void run(void *(*work)(void *), void *argument)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, work, argument) == 0);
  must(pthread_join(thread, NULL) == 0);
}

static void ends_of_threads(void *argument)
{
  static int here;
  (void)argument;
  all_new();
  must(!os_thread_on_exit(&here));   /* not arranged yet */
  kernel.key = EAGAIN;               /* all keys are taken */
  must(!os_on_thread_exit(note_end) && errno_is_kept());
  run(end_not_noted, &here);
  must(!ended_with);
  kernel.key = 0;
  must(os_on_thread_exit(note_end) && errno_is_kept());
  run(end_noted, &here);
  must(__atomic_load_n(&ended_with, __ATOMIC_ACQUIRE) == &here);
  ended_with = NULL;
  kernel.setspecific = ENOMEM;
  run(end_not_noted, &here);
  must(!ended_with);
}

/* Also where the end is arranged as late as can be, by a destructor in the last round of all. */
enum { ROUNDS_OF_DESTRUCTORS = 4 };
static pthread_key_t last_key;
static void arrange_in_the_last_round(void *argument)
{
  static _Thread_local int rounds;
  if (++rounds < ROUNDS_OF_DESTRUCTORS)
    pthread_setspecific(last_key, argument);
  else
    must(os_thread_on_exit(argument));
}

static void *with_a_key(void *argument)
{
  pthread_setspecific(last_key, argument);
  return NULL;
}

static void arranged_late(void *argument)
{
  static int here;
  pthread_key_t before, behind[20];
  (void)argument;
  all_new();
  must(pthread_key_create(&before, NULL) == 0 && os_on_thread_exit(note_end));
  for (size_t i = 0; i < 20; i++) {   /* whichever other keys there are */
    must(pthread_key_create(&behind[i], arrange_in_the_last_round) == 0);
    last_key = behind[i];
    ended_with = NULL;
    run(with_a_key, &here);
    must(__atomic_load_n(&ended_with, __ATOMIC_ACQUIRE) == &here);
  }
}

/* A thread that blocks what it likes is not over; whoever blocks all may be. */
static void *block_signals(void *argument)
{
  sigset_t set;
  sigfillset(&set);
  bool some = argument != NULL;
  if (some)
    sigdelset(&set, SIGALRM);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  must(os_thread_may_be_over() || some);
  return NULL;
}

static void over_or_not(void *argument)
{
  static int some;
  (void)argument;
  all_new();
  run(block_signals, NULL);
  run(block_signals, &some);
  errno = ERRNO_BEFORE;
  os_thread_may_be_over();
  must(errno_is_kept());
}

static void over_or_not_test(void **state)
{
  (void)state;
  in_child(over_or_not, NULL);
}

static void arranged_late_test(void **state)
{
  (void)state;
  in_child(arranged_late, NULL);
}

static void ends_of_threads_test(void **state)
{
  (void)state;
  in_child(ends_of_threads, NULL);
}

/* ---- forks ---- */

static char order[20];
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

/* The C library's own, where it has them. */
void kernel_IO_list_lock(void)
{
  strcat(order, "l");
  if (_IO_list_lock)
    _IO_list_lock();
}

void kernel_IO_list_unlock(void)
{
  strcat(order, "u");
  if (_IO_list_unlock)
    _IO_list_unlock();
}

static void note_prepare(void) { strcat(order, "p"); }
static void note_parent(void) { strcat(order, "P"); }
static void note_child(void) { strcat(order, "c"); }

static pthread_barrier_t forked;

static void *be_there(void *argument)
{
  pthread_barrier_wait(&forked);
  return argument;
}

static void see_child(void *expected) { must(!strcmp(order, *(const char **)expected)); }

/* With threads, the streams' lock comes first and opens last; the C library opens it in the child. */
static void fork_in_order(bool alone)
{
  order[0] = 0;
  in_child(see_child, &(const char *){alone ? "pc" : "lpc"});
  must(!strcmp(order, alone ? "pP" : "lpPu"));
}

static void forks(void *argument)
{
  pthread_t thread;
  (void)argument;
  all_new();
  kernel.atfork = ENOMEM;
  must(!os_on_fork(note_prepare, note_parent, note_child) && errno_is_kept());
  in_child(see_child, &(const char *){""});
  kernel.atfork = 0;
  errno = ERRNO_BEFORE;
  must(os_on_fork(note_prepare, note_parent, note_child) && errno_is_kept());
  fork_in_order(os_single_threaded());
  pthread_barrier_init(&forked, NULL, 2);
  must(pthread_create(&thread, NULL, be_there, NULL) == 0);
  fork_in_order(false);
  pthread_barrier_wait(&forked);
  pthread_join(thread, NULL);
  FILE *file = fopen("/dev/null", "w");
  must(file && fclose(file) == 0);   /* which is open again */
}

static void forks_test(void **state)
{
  (void)state;
  in_child(forks, NULL);
}

/* ---- the environment, and last words ---- */

static void environment(void **state)
{
  (void)state;
  setenv("TIDEPOOL_TEST", "a=b", 1);
  setenv("TIDEPOOL_TEST_MORE", "c", 1);
  all_new();
  assert_string_equal(os_environment("TIDEPOOL_TEST"), "a=b");
  assert_string_equal(os_environment("TIDEPOOL_TEST_MORE"), "c");
  assert_null(os_environment("TIDEPOOL_TES"));
  assert_true(errno_is_kept());
  kernel.no_auxiliary_vector = true;
  assert_string_equal(os_environment("TIDEPOOL_TEST"), "a=b");
  assert_true(errno_is_kept());
}

static void say(void *argument)
{
  (void)argument;
  all_new();
  kernel.interruptions = 3;
  kernel.write_most = 4;
  os_write_error("in pieces, after all\n", 21);
  must(errno_is_kept() && kernel.writes == 3 + 6);
  kernel.write = EPIPE;
  os_write_error("not at all", 10);
  must(errno_is_kept() && kernel.writes == 3 + 6 + 1);
  os_abort();
}

static void last_words(void **state)
{
  (void)state;
  aborts_with(say, NULL, "in pieces, after all\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(mapped),
    cmocka_unit_test(mapped_with_slack),
    cmocka_unit_test(mapped_with_little_memory),
    cmocka_unit_test(mapped_at),
    cmocka_unit_test(not_mapped_at),
    cmocka_unit_test(not_unmapped),
    cmocka_unit_test(purged),
    cmocka_unit_test(remapped),
    cmocka_unit_test(not_remapped),
    cmocka_unit_test(guarded),
    cmocka_unit_test(windows),
    cmocka_unit_test(a_window_elsewhere),
    cmocka_unit_test(a_window_of_this_kernel),
    cmocka_unit_test(prefaulted),
    cmocka_unit_test(locked),
    cmocka_unit_test(wishes),
    cmocka_unit_test(forbidden),
    cmocka_unit_test(limits),
    cmocka_unit_test(time_goes_on),
    cmocka_unit_test(fences),
    cmocka_unit_test(sleepers),
    cmocka_unit_test(ends_of_threads_test),
    cmocka_unit_test(arranged_late_test),
    cmocka_unit_test(over_or_not_test),
    cmocka_unit_test(forks_test),
    cmocka_unit_test(environment),
    cmocka_unit_test(last_words),
  };
  return cmocka_run_group_tests_name("Linux", tests, NULL, NULL);
}
