/* SPDX-License-Identifier: MIT
 * What os/linux.c does for threads: fences, sleep, and the end of each, however late it is arranged. */
#include "any_kernel.h"
#include <linux/futex.h>
#include <signal.h>

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
  os_wait(&word, 5, 0); /* it is not that: no sleep */
  assert_int_equal(kernel.futex_operation, FUTEX_WAIT_PRIVATE);
  assert_int_equal(pthread_create(&thread, NULL, wake_up, NULL), 0);
  while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
    os_wait(&word, 0, 0);
  pthread_join(thread, NULL);
  assert_int_equal(kernel.timed_waits, 0); /* thousands that sleep wake up when they are woken */
  os_wait(&word, 1, 10000);                /* nobody wakes it, and it ends */
  os_nap();
  assert_int_equal(kernel.timed_waits, 2);
  os_wake(&word);
  assert_int_equal(kernel.futex_operation, FUTEX_WAKE_PRIVATE);
  assert_true(errno_is_kept());
  kernel.futex = ENOSYS;
  os_wait(&word, 1, 0);
  os_wake(&word);
  assert_true(errno_is_kept());
}

/* On each processor in turn that the test may use. */
static void the_processor(void **state)
{
  cpu_set_t all, one;
  (void)state;
  all_new();
  if (sched_getaffinity(0, sizeof all, &all) != 0)
    skip(); /* more processors than a set of the usual size has */
  unsigned rank = 0;
  for (unsigned i = 0; i < CPU_SETSIZE; i++) {
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    if (!CPU_ISSET(i, &all))
      continue;
    assert_int_equal(os_processors(), CPU_COUNT(&all));
    if (sched_setaffinity(0, sizeof one, &one) == 0) { /* a container may refuse it */
      assert_int_equal(os_processor(), rank);
      assert_int_equal(os_processors(), 1);
      assert_int_equal(os_processor(), 0);
      assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    }
    rank++;
  }
  errno = 0;
}

static bool is_in_thread; /* as far as this kernel has it there */

static unsigned node_of(int processors, const char *nodes, unsigned node)
{
  char file[] = "/tmp/tidepool-nodes-XXXXXX";
  all_new();
  int number = mkstemp(file);
  assert_true(number >= 0);
  assert_int_equal(write(number, nodes, strlen(nodes)), strlen(nodes));
  close(number);
  kernel.file = file;
  kernel.processors = processors;
  kernel.node = node;
  kernel.rseq_has_node = is_in_thread;
  assert_int_equal(os_processors(), processors);
  unsigned answer = os_node();
  assert_true(errno_is_kept());
  unlink(file);
  return answer;
}

/* Only x86-64 answers getcpu() without a system call. */
#ifdef __x86_64__
enum { ASKS = true };
#else
enum { ASKS = false };
#endif

/* Memory is nearer to some processors than to others where the kernel lists several nodes. */
static void the_node(void **state)
{
  (void)state;
  assert_int_equal(node_of(64, "0-1\n", 1), ASKS);
  assert_int_equal(node_of(64, "0,2\n", 2), 2 * ASKS);
  assert_int_equal(node_of(64, "0-300\n", 259), 3 * ASKS); /* nodes beyond 256 have one of their numbers */
  assert_int_equal(node_of(64, "0\n", 1), 0);
  assert_int_equal(node_of(64, "", 1), 0);
  assert_int_equal(node_of(4, "0-1\n", 1), 0); /* nobody looks */
  all_new();
  kernel.file = "/no/such/file";
  kernel.processors = 64;
  kernel.node = 1;
  os_processors();
  assert_int_equal(os_node(), 0);
  assert_true(errno_is_kept());
  assert_int_equal(node_of(64, "0-1\n", 1), ASKS);
  kernel.getcpu = ENOSYS;
  assert_int_equal(os_node(), 0);
  assert_true(errno_is_kept());
  all_new();
  os_processors();
}

static unsigned node_now(void)
{
  unsigned processor, node = 0;
  syscall(SYS_getcpu, &processor, &node, NULL);
  return node;
}

/* From Linux 6.3 on it is in the thread's memory. The thread may move meanwhile. */
static void the_node_of_the_thread(void **state)
{
  unsigned before, answer, after;
  (void)state;
  is_in_thread = true;
  do {
    before = node_now();
    answer = node_of(64, "0-1\n", before); /* an older kernel is asked */
    after = node_now();
  } while (before != after);
  is_in_thread = false;
  assert_true(answer == before % 256 || !os_has_nodes);
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
    cmocka_unit_test(the_processor),
    cmocka_unit_test(the_node),
    cmocka_unit_test(the_node_of_the_thread),
    cmocka_unit_test(fences),
    cmocka_unit_test(sleepers),
    cmocka_unit_test(ends_of_threads_test),
    cmocka_unit_test(arranged_late_test),
    cmocka_unit_test(over_or_not_test),
  };
  return cmocka_run_group_tests_name("Linux, threads", tests, NULL, NULL);
}
