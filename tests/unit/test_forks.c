/* SPDX-License-Identifier: MIT
 * Forks from the middle of any call, and among threads that do everything there is: the child finds a manager that works. */
#include "os_fake.h"
#include "sleepers.h"
#include <signal.h>
#include <sys/wait.h>
#include <tidepool/object_pool.h>
#include <tidepool/stats.h>
#include <unistd.h>

static uint64_t fork_at;
static pid_t forked = -1;

/* As a signal handler might that interrupted this call. Both go on with it. Where the C library does not tell that there is one
 * thread, the call may hold a lock that the fork waits for. */
static void fork_now(os_call_t kind)
{
  (void)kind;
  if (os_fake.calls != fork_at || forked >= 0)
    return;
  os_fake.during = NULL;
  forked = fork();
  must(forked >= 0);
}

static void some_work(void)
{
  enum { FEW = 60 };
  dice_t dice = {7};
  void *blocks[FEW] = {0};
  pool_heap_t *heaps[3];
  for (size_t i = 0; i < 3; i++)
    must((heaps[i] = pool_heap_create(
            &(pool_heap_options_t){.budget = i == 1 ? 3 << 20 : 0, .reserve = i == 2 ? 10 << 20 : 0})) != NULL);
  for (size_t i = 0; i < 600; i++) {
    size_t at = dice_below(&dice, FEW), size = 1 + dice_below(&dice, (size_t)16 << dice_below(&dice, 20)),
           n = dice_below(&dice, 6);
    os_fake.now_ms += 10;
    if (blocks[at]) {
      must(*(char *)blocks[at] == (char)at);
      pool_free(blocks[at]);
      blocks[at] = NULL;
    } else if ((blocks[at] = n < 3 ? pool_heap_alloc(heaps[n], size) : pool_alloc(size)) != NULL) {
      *(char *)blocks[at] = (char)at;
    }
    if (i % 100 == 99)
      pool_trim(0);
  }
  for (size_t i = 0; i < FEW; i++)
    pool_free(blocks[i]);
  for (size_t i = 0; i < 3; i++)
    pool_heap_destroy(heaps[i]);
  pool_trim(0);
  must(check_everything() && space_of_process.used_units == 0);
}

static void fork_in_the_middle(void *argument)
{
  fork_at = *(const uint64_t *)argument;
  os_fake_heal();
  os_fake.during = fork_now;
  some_work();
  if (forked == 0)
    _exit(0);
  int status = -1;
  must(forked < 0 || (waitpid(forked, &status, 0) == forked && WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

static void count_calls(void *argument)
{
  uint64_t calls;
  int *ends = argument;
  os_fake_heal();
  some_work();
  calls = os_fake.calls;
  must(write(ends[1], &calls, sizeof calls) == sizeof calls);
}

static void fork_in_the_middle_test(void **state)
{
  int ends[2];
  uint64_t calls = 0;
  (void)state;
  if (!os_single_threaded())
    skip();
  assert_int_equal(pipe(ends), 0);
  in_child(count_calls, ends);
  assert_int_equal(read(ends[0], &calls, sizeof calls), sizeof calls);
  assert_true(calls > 50);
  for (uint64_t n = 1; n <= calls; n += 1 + n / 40)
    in_child(fork_in_the_middle, &n);
}

static bool stop;

static void heaps_come_and_go(dice_t *dice, size_t number)
{
  pool_heap_options_t options = {0};
  switch (dice_below(dice, 6)) {
  case 0:
    options.budget = 200 << 10;
    break;
  case 1:
    options.budget = 4 << 20;
    break;
  case 2:
    options.reserve = 10 << 20;
    break;
  case 3:
    options.memory = buffer + number * MIB;
    options.memory_size = MIB;
    break;
  case 4:
    options.flags = POOL_HEAP_SINGLE_THREAD;
    break;
  default:
    break;
  }
  pool_heap_t *heap = pool_heap_create(&options),
              *below = heap ? pool_heap_create(&(pool_heap_options_t){.parent = heap, .budget = 100 << 10}) : NULL;
  must(heap);
  for (size_t i = 0; i < 30; i++) {
    void *block = pool_heap_alloc(heap, dice_below(dice, (size_t)16 << dice_below(dice, 16)));
    must(!block || pool_heap_of(block) == heap);
    if (i % 2)
      pool_free(block);
  }
  pool_heap_walk(heap, see_block, NULL);
  object_pool_t *bin = object_pool_create(&(object_pool_options_t){.object_size = 64, .heap = heap});
  if (bin) {
    void *object = object_pool_get(bin);
    if (object)
      object_pool_put(bin, object);
    object_pool_destroy(bin);
  }
  if (below)
    pool_heap_destroy(below);
  if (dice_below(dice, 2))
    pool_heap_reset(heap);
  pool_heap_destroy(heap);
}

static void *do_everything(void *argument)
{
  size_t number = (size_t)(uintptr_t)argument;
  dice_t dice = {number};
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    pthread_t thread;
    pool_stats_t stats;
    char text[200];
    switch (dice_below(&dice, 8)) {
    case 0:
      heaps_come_and_go(&dice, number);
      break;
    case 1:
      pool_trim(dice_below(&dice, 2) * MIB);
      break;
    case 2:
      must(pool_heap_stats(pool_heap_default(), &stats));
      break;
    case 3:
      pool_stats_json(text, sizeof text);
      break;
    case 4:
      must(pthread_create(&thread, NULL, use_and_end, NULL) == 0 && pthread_join(thread, NULL) == 0);
      break;
    case 5:
      pool_free(pool_alloc(5 * MIB + dice_below(&dice, MIB)));
      break;
    default:
      use_and_end(NULL);
    }
    __atomic_add_fetch(&os_fake.now_ms, 7, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void work_in_the_child(void *argument)
{
  dice_t dice = {*(const size_t *)argument};
  use_and_end(NULL);
  for (size_t i = 0; i < 6; i++)
    heaps_come_and_go(&dice, 3);
  pthread_t thread;
  must(pthread_create(&thread, NULL, use_and_end, NULL) == 0 && pthread_join(thread, NULL) == 0);
  os_fake.now_ms += 1000;
  use_and_end(NULL);
  pool_free(pool_alloc(7 * MIB));
  pool_trim(0);
}

static void fork_among_threads(void *argument)
{
  pthread_t threads[3];
  (void)argument;
  os_fake_heal();
  for (uintptr_t i = 0; i < 3; i++)
    must(pthread_create(&threads[i], NULL, do_everything, (void *)i) == 0);
  for (size_t turn = 0; turn < 60; turn++)
    in_child(work_in_the_child, &turn);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  must(check_everything());
}

/* While a heap ends its bins may be locked, and what can lead to them is gone before it leaves the list that a fork goes by. */
static void *end_heaps(void *argument)
{
  enum { MANY = 400 };
  (void)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    pool_heap_t *heap = pool_heap_create(NULL);
    must(heap);
    for (size_t i = 0; i < MANY; i++)
      must(pool_heap_alloc(heap, 16 + i * 32));
    pool_heap_destroy(heap);
  }
  return NULL;
}

static void tick_in_the_child(void *argument)
{
  (void)argument;
  for (size_t i = 0; i < 200; i++) {
    os_fake.now_ms += 1000;
    pool_free(pool_alloc(40000));
  }
}

static void fork_while_heaps_end(void *argument)
{
  pthread_t threads[2];
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(1));
  space_of_process.dirty_most = 0;
  space_of_process.purge_delay_ms = 0; /* much is purged meanwhile, which is where a fork gets a word in */
  for (size_t i = 0; i < 2; i++)
    must(pthread_create(&threads[i], NULL, end_heaps, NULL) == 0);
  for (size_t turn = 0; turn < 60; turn++)
    in_child(tick_in_the_child, NULL);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  must(check_everything());
}

IN_CHILD(fork_while_heaps_end)

/* A sanitizer's own allocator is not made for threads that are started in the child of a process with threads. */
static void fork_among_threads_test(void **state)
{
  (void)state;
  if (SANITIZED)
    skip();
  in_child(fork_among_threads, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fork_in_the_middle_test),
    cmocka_unit_test(fork_among_threads_test),
    cmocka_unit_test(fork_while_heaps_end_test),
  };
  return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
