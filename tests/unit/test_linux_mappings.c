/* SPDX-License-Identifier: MIT
 * Mappings of os/linux.c on any kernel: made, given back, resized, touched and locked. Every function keeps errno, and where
 * os.h says that nothing happened nothing has. */
#include "any_kernel.h"
#include <signal.h>

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
  assert_null(os_map((size_t)15 << (ADDRESS_BITS - 4), 1));
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
  assert_null(os_map((size_t)15 << (ADDRESS_BITS - 4), 64 * MIB));
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
    assert_int_equal(kernel.munmaps, old ? 3 : 0); /* what it got elsewhere is given back */
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
    p = os_remap(p, 2 * PAGE, SOME, may_move); /* there is room behind it */
    assert_true(p == at && kernel.remap_flags == (may_move ? MREMAP_MAYMOVE : 0) && pattern_holds(p, 2 * PAGE, 5));
    assert_true(all_zero(p + 2 * PAGE, SOME - 2 * PAGE) && errno_is_kept());
    char *further = os_remap(p, SOME, 2 * SOME, may_move); /* and now there is none */
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

/* ---- names ---- */

static void named(void **state)
{
  static const char longest[] = "a name that is longer than any that the kernel takes, which is one of eighty bytes in all";
  (void)state;
  all_new();
  os_unmap(os_map(SOME, PAGE), SOME);
  assert_int_equal(kernel.names, 0);
  os_has_names = true;
  for (unsigned refused = 0; refused < 2; refused++) {
    char *q = free_addresses();
    kernel.prctl = refused ? EINVAL : 0;
    char *p = os_map(SOME, PAGE);
    assert_int_equal(os_map_at(q, PAGE), OS_MAPPED);
    assert_int_equal(kernel.names, 2);
    assert_string_equal(kernel.name, "tidepool");
    os_name(p, PAGE, "sessions [1]: $50 \\ \n`\xc3\xa4");
    assert_string_equal(kernel.name, "tidepool: sessions _1_: _50 _ ____");
    os_name(p, PAGE, longest);
    assert_int_equal(strlen(kernel.name), 79);
    os_name(p, 0, "nothing");
    assert_int_equal(kernel.names, 4);
    assert_true(errno_is_kept());
    os_unmap(p, SOME);
    os_unmap(q, PAGE);
  }
  os_has_names = false;
}

/* ---- huge pages ---- */

/* The wish counts where the system waits for it. The answer is kept, so each is asked in a child. */
typedef struct setting {
  const char *text; /* NULL: there is no such file */
  bool grants;
} setting_t;

static void granted(void *argument)
{
  const setting_t *setting = argument;
  char path[] = "/tmp/tidepool-XXXXXX";
  all_new();
  int file = mkstemp(path);
  must(file >= 0);
  if (setting->text)
    must(write(file, setting->text, strlen(setting->text)) >= 0);
  else
    must(unlink(path) == 0);
  kernel.file = path;
  errno = ERRNO_BEFORE;
  bool grants = os_grants_huge_pages(), again = os_grants_huge_pages(), kept = errno_is_kept();
  unlink(path);
  close(file);
  must(kept && grants == setting->grants && again == grants);
}
WITH(granted, setting_t, {"always [madvise] never\n", true}, {"[always] madvise never\n", false},
     {"always madvise [never]\n", false}, {"", false}, {NULL, false})

/* What is in a huge page stays; and what is in none. */
static void split(void **state)
{
  (void)state;
  all_new();
  char *p = os_map(2 * MIB, 2 * MIB);
  assert_non_null(p);
  os_wish_huge_pages(p, 2 * MIB, true);
  for (size_t i = 0; i < 2 * MIB; i++)
    p[i] = (char)(i % 251);
  for (int refused = 0; refused < 2; refused++) {
    kernel.huge_pages = refused ? EINVAL : 0;
    os_split_huge_page(p + 17 * PAGE);
    assert_true(errno_is_kept());
  }
  for (size_t i = 0; i < 2 * MIB; i++)
    assert_true(p[i] == (char)(i % 251));
  os_unmap(p, 2 * MIB);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(mapped),    cmocka_unit_test(mapped_with_slack), cmocka_unit_test(mapped_with_little_memory),
    cmocka_unit_test(mapped_at), cmocka_unit_test(not_mapped_at),     cmocka_unit_test(not_unmapped),
    cmocka_unit_test(purged),    cmocka_unit_test(remapped),          cmocka_unit_test(not_remapped),
    cmocka_unit_test(guarded),   cmocka_unit_test(prefaulted),        cmocka_unit_test(locked),
    cmocka_unit_test(wishes),    cmocka_unit_test(granted_test),      cmocka_unit_test(split),
    cmocka_unit_test(named),
  };
  return cmocka_run_group_tests_name("Linux, mappings", tests, NULL, NULL);
}
