/* SPDX-License-Identifier: MIT
 * os/posix.c: memory that is given back by a mapping in its place, limits, waiting, and all that it says it cannot do. */
#include "any_kernel.h"

static void purged(void **state)
{
  char *p = some_pages();
  (void)state;
  kernel.may_map_over = true;
  memset(p, 7, SOME);
  assert_true(os_purge(p + PAGE, 2 * PAGE) && errno_is_kept() && kernel.mmaps == 1);
  assert_true(p[PAGE - 1] == 7 && all_zero(p + PAGE, 2 * PAGE) && p[3 * PAGE] == 7);
  p[PAGE] = 1; /* it can be written again */
  kernel.mmap = ENOMEM;
  assert_false(os_purge(p, SOME));
  assert_true(errno_is_kept() && p[0] == 7 && p[PAGE] == 1);
  munmap(p, SOME);
}

static void closed(void **state)
{
  (void)state;
  all_new();
  kernel.may_map_over = true;
  char *p = os_reserve(SOME);
  assert_true(p && !is_readable(p) && os_open(p, SOME) && all_zero(p, SOME));
  memset(p, 7, SOME);
  kernel.mmap = ENOMEM;
  assert_false(os_close(p + PAGE, PAGE));
  assert_int_equal(p[PAGE], 7);
  kernel.mmap = 0;
  assert_true(os_close(p + PAGE, PAGE) && errno_is_kept());
  assert_true(is_readable(p) && !is_readable(p + PAGE) && is_readable(p + 2 * PAGE));
  assert_true(os_open(p + PAGE, PAGE) && all_zero(p + PAGE, PAGE));
  assert_true(os_unmap(p, SOME));
}

static void prefaulted(void **state)
{
  char *p = some_pages();
  (void)state;
  p[5] = 7;
  assert_true(os_prefault(p, SOME) && errno_is_kept() && p[5] == 7 && all_zero(p + 6, SOME - 6));
  munmap(p, SOME);
}

static void limits(void **state)
{
  (void)state;
  all_new();
  os_read_limits();
  assert_true(os_memory_limit == SIZE_MAX && os_memory_most == SIZE_MAX);
  kernel.address_space = 100 * MIB;
  kernel.data = 30 * MIB;
  os_read_limits();
  assert_true(os_memory_limit == 30 * MIB && os_memory_most == 30 * MIB);
  kernel.prlimit = ENOSYS;
  os_read_limits();
  assert_true(os_memory_limit == SIZE_MAX && errno_is_kept());
}

/* Nobody wakes it. It takes the time that is asked for, and no time if the word has changed. */
static void waits(void **state)
{
  uint32_t word = 1;
  (void)state;
  all_new();
  uint64_t before = os_now_ms();
  os_wait(&word, 1, 0);
  os_wait(&word, 1, 20000);
  uint64_t waited = os_now_ms() - before;
  assert_true(waited >= 19);
  os_wait(&word, 2, UINT32_MAX);
  os_wake(&word);
  assert_true(errno_is_kept());
}

/* A thread that waits holds locks, so it is not cancelled there. */
static void *wait_cancelled(void *argument)
{
  uint32_t word = 0;
  pthread_cancel(pthread_self());
  os_wait(&word, 0, 0);
  *(bool *)argument = true;
  return NULL;
}

static void waits_when_cancelled(void **state)
{
  bool came_back = false;
  (void)state;
  in_thread(wait_cancelled, &came_back);
  assert_true(came_back);
}

static void run_never(void) { must(!"run"); }

static void cannot(void **state)
{
  char *p = some_pages();
  (void)state;
  memset(p, 7, SOME);
  assert_null(os_remap(p, SOME, PAGE, true));
  assert_int_equal(os_remap_to(p, PAGE, p + PAGE, PAGE), OS_OCCUPIED);
  assert_true(p[0] == 7 && p[SOME - 1] == 7);
  assert_true(!os_can_fence_others() && !os_fence_others() && !os_grants_huge_pages());
  assert_int_equal(os_start_thread(OS_BACKGROUND, run_never), ENOTSUP);
  assert_true(!os_join_thread(OS_BACKGROUND, 1) && os_threads() == 0 && os_started_threads() == 0 && errno_is_kept());
  munmap(p, SOME);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(purged), cmocka_unit_test(closed), cmocka_unit_test(prefaulted),           cmocka_unit_test(limits),
    cmocka_unit_test(waits),  cmocka_unit_test(cannot), cmocka_unit_test(waits_when_cancelled),
  };
  return cmocka_run_group_tests_name("POSIX", tests, NULL, NULL);
}
