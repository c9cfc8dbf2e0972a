/* SPDX-License-Identifier: MIT
 *
 * A process exits while its threads fork. The exit comes to an end, and so does each child. */
#include "ours.h"
#include "testing.h"

#include <sys/wait.h>

enum { EXITS = 150, FORKERS = 3, BLOCKS = 50, STUCK_SECONDS = 300 };

static void *fork_for_ever(void *unused)
{
  for (;;) {
    for (size_t i = 0; i < BLOCKS; i++)
      free(malloc(100 * i));
    pid_t child = fork();
    if (child == 0) {
      alarm(STUCK_SECONDS);
      for (size_t i = 0; i < BLOCKS; i++)
        free(malloc(100 * i));
      _exit(0);
    }
    int status = 0;
    if (child > 0)
      waitpid(child, &status, 0);
    if (status != 0)
      abort();
  }
  return unused;
}

static void *allocate_for_ever(void *unused)
{
  for (size_t i = 0;; i++)
    free(malloc(i % 3000));
  return unused;
}

static void exit_beside_forks(size_t wait_us)
{
  pthread_t thread;
  alarm(STUCK_SECONDS);
  for (size_t i = 0; i < FORKERS; i++) {
    start_thread(&thread, fork_for_ever, NULL);
    start_thread(&thread, allocate_for_ever, NULL);
  }
  usleep((useconds_t)wait_us);
  exit(0);
}

static void test_exits(void **state)
{
  (void)state;
  for (size_t i = 0; i < EXITS; i++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
      exit_beside_forks(3000 + i * 131 % 15000);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exits)};
  return cmocka_run_group_tests_name("fork_at_exit", tests, NULL, NULL);
}
