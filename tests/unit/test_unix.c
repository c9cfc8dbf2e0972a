/* SPDX-License-Identifier: MIT
 * What every Unix must do for os.h, on kernels that grant and on ones that refuse: mappings, forks, the ends of threads, the
 * environment, last words. Every function keeps errno, and where os.h says that nothing happened nothing has. */
#include "any_kernel.h"
#include <signal.h>

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
  assert_false(os_prefault(p, SOME));
  assert_null(os_window(0, &size));
  assert_true(os_forbidden_count() == before + 8 && errno_is_kept());
  assert_true(kernel.mmaps + kernel.munmaps + kernel.advices == 0);
  assert_true(os_forbid(false));
  before = os_forbidden_count();
  kernel.may_map_over = true;
  assert_true(os_purge(p, SOME) && os_unmap(p, SOME) && os_forbidden_count() == before);
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

/* ---- the process ---- */

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

/* ---- threads ---- */

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

static void ends_of_threads(void *argument)
{
  static int here;
  (void)argument;
  all_new();
  must(!os_thread_on_exit(&here)); /* not arranged yet */
  kernel.key = EAGAIN;             /* all keys are taken */
  must(!os_on_thread_exit(note_end) && errno_is_kept());
  in_thread(end_not_noted, &here);
  must(!ended_with);
  kernel.key = 0;
  must(os_on_thread_exit(note_end) && errno_is_kept());
  must(kernel.keys == 1 && kernel.keys_most <= 32); /* other threads want some meanwhile, and the least system has 128 */
  in_thread(end_noted, &here);
  must(__atomic_load_n(&ended_with, __ATOMIC_ACQUIRE) == &here);
  ended_with = NULL;
  kernel.setspecific = ENOMEM;
  in_thread(end_not_noted, &here);
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
  for (size_t i = 0; i < 20; i++) { /* whichever other keys there are */
    must(pthread_key_create(&behind[i], arrange_in_the_last_round) == 0);
    last_key = behind[i];
    ended_with = NULL;
    in_thread(with_a_key, &here);
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
  in_thread(block_signals, NULL);
  in_thread(block_signals, &some);
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

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(forbidden),
    cmocka_unit_test(mapped),
    cmocka_unit_test(mapped_with_slack),
    cmocka_unit_test(mapped_with_little_memory),
    cmocka_unit_test(mapped_at),
    cmocka_unit_test(not_mapped_at),
    cmocka_unit_test(not_unmapped),
    cmocka_unit_test(guarded),
    cmocka_unit_test(locked),
    cmocka_unit_test(time_goes_on),
    cmocka_unit_test(forks_test),
    cmocka_unit_test(environment),
    cmocka_unit_test(last_words),
    cmocka_unit_test(ends_of_threads_test),
    cmocka_unit_test(arranged_late_test),
    cmocka_unit_test(over_or_not_test),
  };
  return cmocka_run_group_tests_name("Unix", tests, NULL, NULL);
}
