/* SPDX-License-Identifier: MIT
 * Threads share checked heaps: a second free that comes from another thread is found, and no work of several is taken for
 * damage. What one thread does alone is in test_quarantine.c. */
#include "../dice.h"
#include "checked_kinds.h"

/* ---- freed twice ---- */

enum { RACERS = 4 };

typedef struct race {
  pool_heap_t *heap;
  pthread_barrier_t start;
  void *block;
} race_t;

static void free_at_once(size_t index, void *context)
{
  race_t *race = context;
  for (size_t round = 0;; round++) {
    if (index == 0)
      must(race->block = pool_heap_alloc(race->heap, 100));
    pthread_barrier_wait(&race->start);
    if (index == round % RACERS || index == (round + 1) % RACERS)
      pool_heap_free(race->heap, race->block);
    pthread_barrier_wait(&race->start);
  }
}

static void all_at_once(void *argument)
{
  race_t race = {.heap = heap_with(*(const pool_heap_options_t *)argument)};
  pthread_barrier_init(&race.start, NULL, RACERS);
  run_threads(RACERS, free_at_once, &race);
}

static void by_two_threads(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (size_t i = 0; i < some_of(10); i++)
      if (!(kinds[k].flags & POOL_HEAP_SINGLE_THREAD))
        aborts_with(all_at_once, (void *)(uintptr_t)&kinds[k], "freed twice");
}

/* ---- work, and a fork meanwhile ---- */

static void work(size_t index, void *context)
{
  pool_heap_t *heap = context;
  uint64_t dice = index;
  void *blocks[40] = {0};
  size_t length[40] = {0};
  for (size_t i = 0; i < some_of(6000); i++) {
    size_t at = below(&dice, COUNT_OF(blocks));
    must(!blocks[at] || pattern_holds(blocks[at], length[at], index << 16 | at));
    pool_heap_free(heap, blocks[at]);
    length[at] = below(&dice, one_in(&dice, 50) ? 40000 : 300);
    if ((blocks[at] = pool_heap_alloc(heap, length[at])))
      pattern_write(blocks[at], length[at], index << 16 | at);
    if (one_in(&dice, 500))
      pool_heap_trim(heap, 0);
  }
  for (size_t at = 0; at < COUNT_OF(blocks); at++)
    pool_heap_free(heap, blocks[at]);
}

static void threads_share_it(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++) {
    pool_heap_t *heap = heap_with(kinds[k]);
    run_threads(kinds[k].flags & POOL_HEAP_SINGLE_THREAD ? 1 : 4, work, heap);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
}

static void in_the_child(void *argument)
{
  pool_heap_t *heap = argument;
  must(stats_of(heap).cached_bytes > 0 && check_heap(heap));
  run_threads(2, work, heap);
  pool_heap_trim(heap, 0);
  must(stats_of(heap).cached_bytes == 0 && check_heap(heap));
}

static void a_fork_has_it_too(void **state)
{
  (void)state;
  for (size_t k = 0; k < ROOMY; k++)
    if (!(kinds[k].flags & POOL_HEAP_SINGLE_THREAD)) {
      pool_heap_t *heap = heap_with(kinds[k]);
      run_threads(2, work, heap);
      pool_heap_free(heap, pool_heap_alloc(heap, 10));
      in_child(in_the_child, heap);
      assert_true(check_heap(heap));
      pool_heap_destroy(heap);
    }
}

/* ---- a fork in the middle of another thread's call ---- */

enum { FORKS = 60, BLOCKS = 20 };

typedef struct busy {
  pool_heap_t *heap;
  bool trims, stop;
} busy_t;

static void *be_busy(void *argument)
{
  busy_t *busy = argument;
  while (!__atomic_load_n(&busy->stop, __ATOMIC_RELAXED))
    if (busy->trims)
      pool_heap_trim(busy->heap, 0);
    else
      pool_heap_free(busy->heap, pool_heap_alloc(busy->heap, 100));
  return NULL;
}

/* What a lost thread was about to have is nobody's damage. */
static void end_in_child(void *argument)
{
  pool_heap_t *heap = argument;
  pool_heap_reset(heap);
  must(stats_of(heap).live_blocks == 0 && pool_heap_alloc(heap, 100));
  pool_heap_destroy(heap);
}

static bool count_visited(const pool_block_t *block, void *context)
{
  (void)block;
  ++*(size_t *)context;
  return true;
}

/* A block on its way from the quarantine is either there or gone. */
static void count_in_child(void *argument)
{
  pool_heap_t *heap = argument;
  size_t visited = 0;
  must(pool_heap_walk(heap, count_visited, &visited));
  must(visited == 0 && stats_of(heap).live_blocks == 0 && stats_of(heap).live_bytes == 0);
}

static void a_fork_meanwhile(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (int trims = 0; trims < 2; trims++) {
      if (kinds[k].flags & POOL_HEAP_SINGLE_THREAD)
        continue;
      busy_t busy = {.heap = heap_with(kinds[k]), .trims = trims};
      pthread_t thread;
      assert_int_equal(pthread_create(&thread, NULL, be_busy, &busy), 0);
      for (size_t i = 0; i < some_of(FORKS); i++) {
        void *blocks[BLOCKS];
        for (size_t b = 0; b < BLOCKS && trims; b++)
          blocks[b] = pool_heap_alloc(busy.heap, 100);
        for (size_t b = 0; b < BLOCKS && trims; b++)
          pool_heap_free(busy.heap, blocks[b]);
        in_child(trims ? count_in_child : end_in_child, busy.heap);
      }
      __atomic_store_n(&busy.stop, true, __ATOMIC_RELAXED);
      pthread_join(thread, NULL);
      pool_heap_destroy(busy.heap);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(by_two_threads),
    cmocka_unit_test(threads_share_it),
    cmocka_unit_test(a_fork_has_it_too),
    cmocka_unit_test(a_fork_meanwhile),
  };
  return cmocka_run_group_tests_name("quarantine_threads", tests, NULL, NULL);
}
