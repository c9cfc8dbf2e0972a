/* SPDX-License-Identifier: MIT
 * Mappings of os/linux.c on any kernel: given back, resized, touched, named; and limits. Every function keeps errno, and where
 * os.h says that nothing happened nothing has. */
#include "any_kernel.h"
#include <signal.h>

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

/* The wish counts where the system waits for it. Each is asked in a child. No number is a size of 0. */
typedef struct setting {
  const char *text; /* NULL: there is no such file */
  bool grants;
  size_t size;
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
  bool grants = os_grants_huge_pages(), again = os_grants_huge_pages();
  size_t size = os_huge_page_size();
  bool kept = errno_is_kept();
  unlink(path);
  close(file);
  must(kept && grants == setting->grants && again == grants && size == setting->size);
}
WITH(granted, setting_t, {"always [madvise] never\n", true, 0}, {"[always] madvise never\n", false, 0},
     {"always madvise [never]\n", false, 0}, {"2097152\n", false, 2 * MIB}, {"536870912", false, 512 * MIB}, {"", false, 0},
     {NULL, false, 0})

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

static void forbidden(void **state)
{
  char *p = some_pages();
  (void)state;
  uint64_t before = os_forbidden_count();
  os_forbid(true);
  assert_null(os_remap(p, SOME, 2 * SOME, true));
  assert_int_equal(os_remap_to(p, PAGE, p + PAGE, PAGE), OS_OCCUPIED);
  assert_false(os_close(p, SOME));
  os_wish_huge_pages(p, SOME, true);
  os_split_huge_page(p);
  os_forbid(false);
  assert_true(os_forbidden_count() == before + 5 && kernel.mremaps + kernel.mmaps + kernel.advices == 0 && errno_is_kept());
  munmap(p, SOME);
}

/* ---- limits ---- */

static size_t limit_now(void)
{
  os_read_limits();
  assert_true(errno_is_kept());
  return os_memory_limit;
}

static void limits(void **state)
{
  (void)state;
  all_new();
  assert_true(limit_now() == SIZE_MAX);
  assert_true(os_memory_most >= 64 * MIB && os_memory_most <= SIZE_MAX >> (ADDRESS_BITS == 64 ? 14 : 0)); /* the machine's */
  kernel.sysinfo = ENOSYS;
  assert_true(limit_now() == SIZE_MAX && os_memory_most == SIZE_MAX);
  kernel.sysinfo = 0;
  kernel.address_space = 100 * MIB;
  assert_int_equal(limit_now(), 100 * MIB);
  assert_int_equal(os_memory_most, 100 * MIB);
  kernel.data = 30 * MIB;
  assert_int_equal(os_memory_limit, 100 * MIB); /* what was read stays */
  assert_int_equal(limit_now(), 30 * MIB);
  kernel.address_space = RLIM_INFINITY;
  assert_int_equal(limit_now(), 30 * MIB);
  kernel.data = 0;
  assert_int_equal(limit_now(), 0);
  kernel.prlimit = ENOSYS;
  assert_true(limit_now() == SIZE_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(purged), cmocka_unit_test(remapped),     cmocka_unit_test(not_remapped), cmocka_unit_test(prefaulted),
    cmocka_unit_test(wishes), cmocka_unit_test(granted_test), cmocka_unit_test(split),        cmocka_unit_test(named),
    cmocka_unit_test(limits), cmocka_unit_test(forbidden),
  };
  return cmocka_run_group_tests_name("Linux, mappings", tests, NULL, NULL);
}
