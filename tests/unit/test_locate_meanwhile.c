/* SPDX-License-Identifier: MIT
 * What an address is while the block or the heap that it is about goes, and beside threads. */
#include "addresses.h"
#include <pthread.h>

/* ---- while what it is about goes ---- */

typedef struct freeing {
  size_t visited, count;
} freeing_t;

/* The blocks of the highest slabs are freed last, and their addresses and records go with them. */
static bool free_all_but_the_first(const pool_block_t *block, void *context)
{
  freeing_t *freeing = context;
  if (freeing->visited++)
    pool_free(block->start);
  if (freeing->visited == freeing->count)
    pool_trim(0);
  return true;
}

/* A visitor that frees what it is given takes away what the walk stands on. */
static void walked_and_freed(void *argument)
{
  const size_t *size = argument;
  size_t count = 40 * MIB / *size;
  freeing_t freeing = {.count = count};
  manager_up();
  space_of_process.dirty_most = 0;
  space_of_process.purge_delay_ms = 0;
  for (size_t i = 0; i < count; i++)
    must(pool_alloc(*size));
  must(pool_heap_walk(pool_heap_default(), free_all_but_the_first, &freeing) && freeing.visited == count);
  pool_trim(0);
  must(space_of_process.used_units <= 4 && check_everything());
}

static void walked_and_freed_test(void **state)
{
  static const size_t sizes[] = {100, 2000, 30000, 100000};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    in_child(walked_and_freed, (void *)(uintptr_t)&sizes[i]);
}

static bool ending;
static char *last_block;

/* Each block's memory goes back to the system with it: a mapping, a run at the end of its arena, a slab there. */
static void *checked_blocks(void *argument)
{
  pool_heap_options_t options = {.flags = POOL_HEAP_CHECKED | *(const unsigned *)argument};
  pool_heap_t *heap = pool_heap_create(&options);
  static const size_t sizes[] = {(4 << 20) + 100, 2 << 20, 200000};
  must(heap);
  for (size_t turn = 0; turn < 240; turn++) {
    size_t size = sizes[turn % 3];
    char *block = pool_heap_alloc(heap, size);
    must(block);
    __atomic_store_n(&last_block, block, __ATOMIC_RELAXED);
    pool_heap_free(heap, block);
    pool_trim(0);
    pool_heap_trim(heap, 0);
  }
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  return NULL;
}

/* What was asked for stands in the block. */
static void measured_meanwhile(void *argument)
{
  pthread_t thread;
  size_t size;
  manager_up();
  must(pthread_create(&thread, NULL, checked_blocks, argument) == 0);
  while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
    char *at = __atomic_load_n(&last_block, __ATOMIC_RELAXED) + 100;
    char *start = pool_block_start(at, &size);
    must(!start || (start <= at && (size_t)(at - start) < size));
  }
  pthread_join(thread, NULL);
  must(check_everything());
}

static void *grow_and_shrink(void *argument)
{
  enum { MANY = 1200 };
  static void *blocks[MANY];
  (void)argument;
  for (size_t turn = 0; turn < 20; turn++) {
    for (size_t i = 0; i < MANY; i++)
      must((blocks[i] = pool_alloc(30000)) != NULL);
    for (size_t i = 0; i < MANY; i++)
      pool_free(blocks[i]);
    pool_trim(0);
  }
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  return NULL;
}

/* Questions about slabs that end meanwhile, and the records of their arena with them. */
static void asked_meanwhile(void *argument)
{
  pthread_t thread;
  dice_t dice = {3};
  (void)argument;
  manager_up();
  must(pthread_create(&thread, NULL, grow_and_shrink, NULL) == 0);
  while (!__atomic_load_n(&ending, __ATOMIC_RELAXED))
    pool_in_use((char *)class_window.start + dice_below(&dice, 50 * MIB));
  pthread_join(thread, NULL);
  must(check_everything());
}

/* ---- beside threads ---- */

static void *come_and_go(void *argument)
{
  dice_t dice = {(uintptr_t)argument};
  char *memory = buffer + (size_t)(uintptr_t)argument * MIB;
  while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
    pool_heap_options_t options = {0};
    switch (dice_below(&dice, 5)) {
    case 0:
      options.budget = 500 << 10;
      break;
    case 1:
      options.reserve = 10 << 20;
      break;
    case 2:
      options.reserve = 5 << 20;
      break;
    case 3:
      options.memory = memory;
      options.memory_size = MIB;
      break;
    default:
      break;
    }
    pool_heap_t *heap = pool_heap_create(&options);
    must(heap);
    for (size_t i = 0; i < 20; i++) {
      size_t size = 1 + dice_below(&dice, (size_t)16 << dice_below(&dice, 15));
      char *block = pool_heap_alloc(heap, size);
      must(!block ||
           (pool_in_use(block + size - 1) && pool_heap_of(block) == heap && pool_block_start(block + size / 2, NULL) == block));
      if (i % 2)
        pool_free(block);
    }
    pool_heap_destroy(heap);
  }
  return NULL;
}

/* Questions about what comes and goes meanwhile have no certain answer, but they have one. */
static void beside_threads(void *argument)
{
  pthread_t threads[3];
  dice_t dice = {1};
  (void)argument;
  manager_up();
  char *mine = pool_alloc(50000), *other = pool_alloc(60);
  for (uintptr_t i = 0; i < 3; i++)
    must(pthread_create(&threads[i], NULL, come_and_go, (void *)i) == 0);
  for (size_t i = 0; i < 20000; i++) {
    uintptr_t any = dice_roll(&dice) >> (64 - 8 - dice_below(&dice, 30));
    pool_heap_of((char *)class_window.start + any);
    pool_in_use((char *)class_window.start + any);
    pool_heap_of(buffer + any % sizeof buffer);
    pool_block_start(buffer + any % sizeof buffer, NULL);
    must(pool_block_start(mine + any % 50000, NULL) == mine && pool_block_start(other + any % 60, NULL) == other);
  }
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  must(check_everything());
}

IN_CHILD(asked_meanwhile)
WITH(measured_meanwhile, unsigned, 0, POOL_HEAP_SINGLE_THREAD)

IN_CHILD(beside_threads)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(walked_and_freed_test),
    cmocka_unit_test(asked_meanwhile_test),
    cmocka_unit_test(measured_meanwhile_test),
    cmocka_unit_test(beside_threads_test),
  };
  return cmocka_run_group_tests_name("locate_meanwhile", tests, NULL, NULL);
}
