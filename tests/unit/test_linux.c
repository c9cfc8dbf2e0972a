/* SPDX-License-Identifier: MIT
 * os/linux.c against kernels old and new, some that refuse, and this one: limits, time, randomness, forks, the environment and
 * last words. Every function keeps errno. */
#include "any_kernel.h"

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
  must(file && fclose(file) == 0); /* which is open again */
}

static void forks_test(void **state)
{
  (void)state;
  in_child(forks, NULL);
}

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
  assert_false(os_is_privileged());
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
    cmocka_unit_test(forbidden),  cmocka_unit_test(limits),      cmocka_unit_test(time_goes_on),
    cmocka_unit_test(forks_test), cmocka_unit_test(environment), cmocka_unit_test(last_words),
  };
  return cmocka_run_group_tests_name("Linux", tests, NULL, NULL);
}
