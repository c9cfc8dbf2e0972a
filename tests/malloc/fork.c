/* SPDX-License-Identifier: MIT
 *
 * fork() takes a snapshot of the allocator's locks, whatever state they are in. */
#include "ours.h"
#include "testing.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { STUCK_SECONDS = 300, INTERRUPTED_FORKS = 10000 };

extern char **environ;

/* Where the system promises no more than it has, each fork takes all of its parent's memory once more. A refusal is no failure
 * of the allocator then: a child says so, and a fork is tried again. */
enum { SHORT = 9, SHORT_BYTES = 8 << 20, TRIES = 1000 };

static bool system_is_short(void)
{
  void *mapping = mmap(NULL, SHORT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapping == MAP_FAILED || munmap(mapping, SHORT_BYTES) != 0;
}

/* Others take and give meanwhile, so a refusal counts when it goes on beside a system that is not short. */
static void *malloc_unless_short(size_t size, bool *is_short)
{
  void *block = NULL;
  *is_short = false;
  for (int i = 0; i < TRIES && !block && !*is_short; i++) {
    block = malloc(size);
    *is_short = !block && system_is_short();
  }
  return block;
}

static pid_t fork_unless_short(void)
{
  pid_t child = -1;
  struct timespec pause = {0, 1000 * 1000};
  for (int i = 0; i < TRIES && child < 0; i++) {
    child = fork();
    if (child < 0)
      nanosleep(&pause, NULL);
  }
  return child;
}

static bool child_succeeded(pid_t child)
{
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return false;
  return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SHORT);
}

/* What a child does with the heap: 0 if it all worked. A child that is stuck is ended by the alarm. */
static int use_the_heap(void)
{
  void *blocks[500];
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    size_t size = 1 + i * 97 % 20000;
    bool is_short;
    blocks[i] = malloc_unless_short(size, &is_short);
    if (!blocks[i])
      return is_short ? SHORT : 1;
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
  alarm(STUCK_SECONDS); /* for each anew: how long all of them take is up to the machine */
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

/* Large ones are some 25 MB a thread. */
enum { SMALL_SLOTS = 256, LARGE_SLOTS = 64 };

static void *allocate(uint32_t random, size_t (*size_of)(uint32_t), size_t count)
{
  void *slots[SMALL_SLOTS] = {NULL};
  while (!stop) {
    uint32_t number = next_random(&random);
    void **slot = &slots[number % count];
    free(*slot);
    bool is_short;
    *slot = malloc_unless_short(size_of(number), &is_short);
    if (!*slot && !is_short)
      return "malloc failed";
  }
  for (size_t i = 0; i < COUNT_OF(slots); i++)
    free(slots[i]);
  return NULL;
}

static size_t mostly_small(uint32_t number) { return number % 128 == 0 ? number % 500000 : number % 3000; }
static size_t always_large(uint32_t number) { return number % 64 == 0 ? 5 * MIB + number % MIB : 40000 + number % 700000; }

static void *allocate_until_stopped(void *seed) { return allocate(5 + (uint32_t)(uintptr_t)seed, mostly_small, SMALL_SLOTS); }
static void *allocate_large_until_stopped(void *seed)
{
  return allocate(5 + (uint32_t)(uintptr_t)seed, always_large, LARGE_SLOTS);
}

static void *allocate_in_a_thread(void *unused)
{
  (void)unused;
  return (void *)(intptr_t)use_the_heap();
}

static int life_of_a_child(bool with_thread)
{
  alarm(STUCK_SECONDS);
  free(inherited);
  int result = use_the_heap();
  if (result == 0 && with_thread) {
    pthread_t thread;
    void *thread_result = NULL;
    if (pthread_create(&thread, NULL, allocate_in_a_thread, NULL) != 0)
      return system_is_short() ? SHORT : 3;
    pthread_join(thread, &thread_result);
    result = (int)(intptr_t)thread_result;
  }
  return result;
}

static void *fork_many(void *unused)
{
  (void)unused;
  size_t children = getenv("ALL_CASES") ? 80 : 24;
  for (size_t i = 0; i < children; i++) {
    pid_t child = fork_unless_short();
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

/* These never come to where a thread that uses small blocks is noticed. In a process of its own, which has not seen any other.
 */
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
  bool is_short;
  kept_by_handlers[which] = malloc_unless_short(which * 100000 + 100, &is_short);
  if (!kept_by_handlers[which] && !is_short)
    abort();
}
static void handler_before(void) { allocate_in_handler(0); }
static void handler_in_parent(void) { allocate_in_handler(1); }
static void handler_in_child(void) { allocate_in_handler(2); }

/* Forks in several threads at once would run the handlers at once, which is for their library to guard: here one thread forks.
 */
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
    pid_t child = fork_unless_short();
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
  pid_t child = fork_unless_short();
  if (child == 0) {
    alarm(STUCK_SECONDS);
    for (size_t depth = 0; depth < 10; depth++) {
      pid_t grandchild = fork_unless_short();
      if (grandchild != 0)
        _exit(child_succeeded(grandchild) ? use_the_heap() : 1);
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
