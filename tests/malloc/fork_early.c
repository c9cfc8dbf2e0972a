/* SPDX-License-Identifier: MIT
 *
 * Forks beside a library whose handlers may have been registered before anybody else's, and so run last: see early_handlers.c.
 */
#include "ours.h"
#include "testing.h"

#include <sys/wait.h>

enum { FORKS = 500, STUCK_SECONDS = 300 };

void early_handlers_work(void);

static void *work_for_ever(void *unused)
{
  for (;;)
    early_handlers_work();
  return unused;
}

static void test_forks(void **state)
{
  (void)state;
  pthread_t thread;
  start_thread(&thread, work_for_ever, NULL);
  for (size_t i = 0; i < FORKS; i++) {
    alarm(STUCK_SECONDS); /* for each anew: how long all of them take is up to the machine */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      early_handlers_work();
      _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  alarm(0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
