/* SPDX-License-Identifier: MIT
 *
 * fork() takes a snapshot of the allocator's locks, whatever state they are in. */
#include "ours.h"
#include "testing.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

enum { STUCK_SECONDS = 300, INTERRUPTED_FORKS = 10000 };

extern char **environ;

static bool child_succeeded(pid_t child)
{
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* What a child does with the heap: 0 if it all worked. A child that is stuck is ended by the alarm. */
static int use_the_heap(void)
{
  void *blocks[500];
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    size_t size = 1 + i * 97 % 20000;
    blocks[i] = malloc(size);
    if (!blocks[i])
      return 1;
    memset(blocks[i], (int)i, size);
  }
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    if (!is_filled(blocks[i], (int)i, 1 + i * 97 % 20000))
      return 2;
    free(blocks[i]);
  }
  return 0;
}

/* The signal arrives in the middle of malloc or free. Until INTERRUPTED_FORKS forks are done the handler forks a child
 * that leaves at once; it may not take any lock that the interrupted call holds. */
static volatile sig_atomic_t forks_done, forks_failed;

static void fork_in_handler(int signal)
{
  (void)signal;
  if (forks_done >= INTERRUPTED_FORKS)
    return;
  int saved = errno;
  alarm(STUCK_SECONDS);           /* for each anew: how long all of them take is up to the machine */
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  if (child < 0 || !child_succeeded(child))
    forks_failed++;
  forks_done++;
  errno = saved;
}

/* A sender of its own process: the process under test must stay single-threaded. It stops with its parent. */
static pid_t start_sending_signals(pid_t target)
{
  pid_t sender = fork();
  if (sender != 0)
    return sender;
  struct timespec pause = {0, 50 * 1000};
  while (getppid() == target && kill(target, SIGUSR1) == 0)
    nanosleep(&pause, NULL);
  _exit(0);
}

static void test_fork_in_a_handler_that_interrupted_malloc(void **state)
{
  (void)state;
  struct sigaction action = {.sa_handler = fork_in_handler};
  assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
  alarm(STUCK_SECONDS);
  pid_t sender = start_sending_signals(getpid());
  assert_true(sender > 0);
  static void *slots[1024];
  uint32_t random = 1;
  while (forks_done < INTERRUPTED_FORKS) {
    uint32_t number = next_random(&random);
    void **slot = &slots[number % COUNT_OF(slots)];
    free(*slot);
    *slot = malloc(number % 64 == 0 ? number % 300000 : number % 2000);
    assert_non_null(*slot);
  }
  alarm(0);
  kill(sender, SIGKILL);
  waitpid(sender, NULL, 0);
  for (size_t i = 0; i < COUNT_OF(slots); i++)
    free(slots[i]);
  assert_int_equal(forks_failed, 0);
  assert_int_equal(use_the_heap(), 0);
}

/* Four threads fork while eight allocate; each child allocates, frees what it inherited, and exits. */
static _Atomic bool stop;
static void *_Atomic inherited;

static void *allocate(uint32_t random, size_t (*size_of)(uint32_t))
{
  void *slots[256] = {NULL};
  while (!stop) {
    uint32_t number = next_random(&random);
    void **slot = &slots[number % COUNT_OF(slots)];
    free(*slot);
    *slot = malloc(size_of(number));
    if (!*slot)
      return "malloc failed";
  }
  for (size_t i = 0; i < COUNT_OF(slots); i++)
    free(slots[i]);
  return NULL;
}

static size_t mostly_small(uint32_t number) { return number % 128 == 0 ? number % 500000 : number % 3000; }
static size_t always_large(uint32_t number) { return number % 64 == 0 ? 5 * MIB + number % MIB : 40000 + number % 700000; }

static void *allocate_until_stopped(void *seed) { return allocate(5 + (uint32_t)(uintptr_t)seed, mostly_small); }
static void *allocate_large_until_stopped(void *seed) { return allocate(5 + (uint32_t)(uintptr_t)seed, always_large); }

static void *allocate_in_a_thread(void *unused)
{
  (void)unused;
  return use_the_heap() == 0 ? NULL : "the heap does not work";
}

static int life_of_a_child(bool with_thread)
{
  alarm(STUCK_SECONDS);
  free(inherited);
  int result = use_the_heap();
  if (result == 0 && with_thread) {
    pthread_t thread;
    void *failure = NULL;
    if (pthread_create(&thread, NULL, allocate_in_a_thread, NULL) != 0)
      return 3;
    pthread_join(thread, &failure);
    if (failure)
      return 4;
  }
  return result;
}

static void *fork_many(void *unused)
{
  (void)unused;
  for (size_t i = 0; i < 80; i++) {
    pid_t child = fork();
    if (child == 0)
      _exit(life_of_a_child(i % 8 == 0));
    if (child < 0)
      return "fork failed";
    if (!child_succeeded(child))
      return "a child hung or failed";
  }
  return NULL;
}

static void fork_beside(size_t threads, void *(*body)(void *), size_t size)
{
  pthread_t allocating[8];
  inherited = malloc(size);
  assert_non_null(inherited);
  stop = false;
  for (size_t i = 0; i < threads; i++)
    start_thread(&allocating[i], body, (void *)i);
  run_threads(4, fork_many);
  stop = true;
  for (size_t i = 0; i < threads; i++)
    assert_null(join_thread(allocating[i]));
  free(inherited);
  inherited = NULL;
}

static void test_four_threads_fork_while_eight_allocate(void **state)
{
  (void)state;
  fork_beside(8, allocate_until_stopped, 5000);
}

/* These never come to where a thread that uses small blocks is noticed. In a process of its own, which has not seen any other. */
static void test_fork_while_others_use_large_blocks_alone(void **state)
{
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    alarm(STUCK_SECONDS);
    fork_beside(4, allocate_large_until_stopped, 100000);
    _exit(0);
  }
  assert_true(child_succeeded(child));
}

/* Handlers of another library, which may allocate in each of the three. */
static void *kept_by_handlers[3];

static void allocate_in_handler(size_t which)
{
  free(kept_by_handlers[which]);
  kept_by_handlers[which] = malloc(which * 100000 + 100);
  if (!kept_by_handlers[which])
    abort();
}
static void handler_before(void) { allocate_in_handler(0); }
static void handler_in_parent(void) { allocate_in_handler(1); }
static void handler_in_child(void) { allocate_in_handler(2); }

/* Forks in several threads at once would run the handlers at once, which is for their library to guard: here one thread forks. */
static void fork_with_handlers(void)
{
  pthread_t allocating[4];
  assert_int_equal(pthread_atfork(handler_before, handler_in_parent, handler_in_child), 0);
  stop = false;
  for (size_t i = 0; i < COUNT_OF(allocating); i++)
    start_thread(&allocating[i], i % 2 ? allocate_until_stopped : allocate_large_until_stopped, (void *)i);
  assert_null(fork_many(NULL));
  stop = true;
  for (size_t i = 0; i < COUNT_OF(allocating); i++)
    assert_null(join_thread(allocating[i]));
}

/* They are registered before the process has a second thread, and stay: in a process of its own. */
static void test_handlers_of_others_allocate(void **state)
{
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    alarm(STUCK_SECONDS);
    fork_with_handlers();
    _exit(0);
  }
  assert_true(child_succeeded(child));
}

/* The child leaves through exit(), so that its exit handlers and the library's destructor run too. */
static void test_a_child_leaves_through_exit(void **state)
{
  (void)state;
  for (size_t i = 0; i < 20; i++) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      alarm(STUCK_SECONDS);
      exit(use_the_heap());
    }
    assert_true(child_succeeded(child));
  }
}

static void test_children_of_children(void **state)
{
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    alarm(STUCK_SECONDS);
    for (size_t depth = 0; depth < 10; depth++) {
      pid_t grandchild = fork();
      if (grandchild != 0)
        _exit(child_succeeded(grandchild) && use_the_heap() == 0 ? 0 : 1);
      alarm(STUCK_SECONDS);
    }
    _exit(use_the_heap());
  }
  assert_true(child_succeeded(child));
}

static void *spawn_programs(void *unused)
{
  (void)unused;
  for (size_t i = 0; i < 20; i++) {
    pid_t child;
    char *arguments[] = {"true", NULL};
    if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ) != 0)
      return "posix_spawn failed";
    if (!child_succeeded(child))
      return "the spawned program failed";
  }
  return NULL;
}

static void test_threads_spawn_programs(void **state)
{
  (void)state;
  run_threads(4, spawn_programs);
}

int main(int argc, char **argv)
{
  /* The first needs a process that never had a second thread. */
  const struct CMUnitTest interrupted[] = {
    cmocka_unit_test(test_fork_in_a_handler_that_interrupted_malloc),
  };
  const struct CMUnitTest tests[] = {
    /* Before there is a second thread. */
    cmocka_unit_test(test_fork_while_others_use_large_blocks_alone),
    cmocka_unit_test(test_handlers_of_others_allocate),

    cmocka_unit_test(test_a_child_leaves_through_exit),
    cmocka_unit_test(test_children_of_children),
    cmocka_unit_test(test_four_threads_fork_while_eight_allocate),
    cmocka_unit_test(test_threads_spawn_programs),
  };
  if (argc > 1 && strcmp(argv[1], "interrupted") == 0)
    return cmocka_run_group_tests(interrupted, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
