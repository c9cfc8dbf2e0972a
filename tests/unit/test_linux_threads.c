/* SPDX-License-Identifier: MIT
 * What os/linux*.c do for threads: fences, sleep, processors. */
#include "any_kernel.h"
#include <linux/futex.h>

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

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_processor), cmocka_unit_test(the_node), cmocka_unit_test(the_node_of_the_thread),
    cmocka_unit_test(fences),        cmocka_unit_test(sleepers),

  };
  return cmocka_run_group_tests_name("Linux, threads", tests, NULL, NULL);
}
