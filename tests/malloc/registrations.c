/* SPDX-License-Identifier: MIT
 *
 * Threads that register fork handlers beside forks. glibc's list of handlers grows by realloc() under a lock, which fork()
 * takes again after the handler of malloc, which holds malloc's locks. So the two must not wait for each other.
 *
 * The list has to grow in the middle of a fork for that. So a third thread is stopped while it gives memory back to the system,
 * the fork waits for it, with most locks in its hands, and meanwhile handlers are registered. */
#include "ours.h"

#include "../sealed.h"
#include "testing.h"

#include <stdatomic.h>

enum { REGISTRATIONS = 4000, FORKS = 300, HUGE = 64 << 20, LOOKS = 20, STUCK_SECONDS = 300 };

static void note_fork(void) {}

/* Until it sleeps: several looks in a row, for it may only be about to go on. */
static void wait_until_asleep(atomic_int *thread, atomic_bool *done)
{
  for (int asleep = 0; asleep < LOOKS && !*done;) {
    char path[64], text[256] = "";
    usleep(1000);
    if (!*thread)
      continue;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", *thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, text, sizeof text - 1) > 0 && strstr(text, ") S "))
      asleep++;
    else
      asleep = 0;
    close(file);
  }
}

static int this_thread(void) { return (int)syscall(SYS_gettid); }

/* ---- in the middle of a fork ---- */

static atomic_bool is_stopped, may_go_on, is_freed, has_forked, has_registered;
static atomic_int forker, registrar;

/* Instead of the call. The library takes the answer for a refusal. */
static void stop(int number)
{
  (void)number;
  is_stopped = true;
  while (!may_go_on)
    usleep(1000);
}

static void *free_and_stop(void *block)
{
  const struct sock_filter steps[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  struct sock_fprog program = {COUNT_OF(steps), (struct sock_filter *)(uintptr_t)steps};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return "the filter is refused";
  free(block);
  is_freed = true;
  return NULL;
}

static void *fork_once(void *nothing)
{
  forker = this_thread();
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  has_forked = true;
  int status;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? nothing : "the child failed";
}

static void *register_many(void *nothing)
{
  registrar = this_thread();
  for (size_t i = 0; i < REGISTRATIONS; i++)
    if (pthread_atfork(NULL, note_fork, note_fork) != 0)
      return "pthread_atfork failed";
  has_registered = true;
  return nothing;
}

static void test_in_the_middle_of_a_fork(void **state)
{
  pthread_t threads[3];
  (void)state;
  struct sigaction action = {.sa_handler = stop};
  if (prctl(PR_GET_SECCOMP) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    skip(); /* no filters here */
  assert_int_equal(sigaction(SIGSYS, &action, NULL), 0);
  void *block = malloc(opaque(HUGE));
  assert_non_null(block);
  alarm(STUCK_SECONDS);
  start_thread(&threads[0], free_and_stop, block);
  while (!is_stopped && !is_freed)
    usleep(1000);
  assert_true(is_stopped);
  start_thread(&threads[1], fork_once, NULL);
  wait_until_asleep(&forker, &has_forked);
  assert_false(has_forked);
  start_thread(&threads[2], register_many, NULL);
  wait_until_asleep(&registrar, &has_registered);
  may_go_on = true;
  for (size_t i = 0; i < 3; i++)
    assert_null(join_thread(threads[i]));
  alarm(0);
}

/* ---- as it comes ---- */

static void *fork_many(void *nothing)
{
  const char *failure = nothing;
  for (size_t i = 0; i < FORKS && !failure; i++)
    failure = fork_once(NULL);
  return (void *)failure;
}

static void *do_both(void *index) { return (uintptr_t)index % 2 ? register_many(NULL) : fork_many(NULL); }

static void test_at_any_time(void **state)
{
  (void)state;
  alarm(STUCK_SECONDS);
  run_threads(4, do_both);
  alarm(0);
}

static atomic_int ran;
static void note_run(void) { ran++; }

/* The handlers run, and a handler may register another one. */
static void register_another(void) { assert_int_equal(pthread_atfork(NULL, note_run, note_run), 0); }

static void test_handlers_run(void **state)
{
  (void)state;
  assert_int_equal(pthread_atfork(register_another, note_run, note_run), 0);
  pid_t child = fork();
  if (child == 0)
    _exit(ran > 0 && pthread_atfork(NULL, NULL, note_run) == 0 ? 0 : 1);
  int status;
  assert_true(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  assert_true(ran > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_in_the_middle_of_a_fork),
    cmocka_unit_test(test_at_any_time),
    cmocka_unit_test(test_handlers_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
