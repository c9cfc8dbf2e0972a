/* SPDX-License-Identifier: MIT
 * Long chains, in a thread with a short stack: of heaps that overflow, of parents, of object pools that overflow. */
#include "heaps.h"
#include <tidepool/object_pool.h>

/* Each heap takes 64 KiB of addresses, of which 32-bit processes have at most 1.4 GiB for heaps. */
enum {
  HEAPS = UINTPTR_MAX > UINT32_MAX ? 20000 : 10000,
  POOLS = 6000,
  STACK_BYTES = 256 << 10,
  BUDGET = 40000,
  LARGER = 100000
};

static pool_heap_t *heaps[HEAPS];
static object_pool_t *pools[POOLS];

static void run_on_short_stack(void *(*run)(void *))
{
  pthread_t thread;
  pthread_attr_t attributes;
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
  assert_int_equal(pthread_create(&thread, &attributes, run, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
}

/* What none of them has is asked of all; what the last has is served by it, and counted by those before it. */
static void *ask_the_chain(void *unused)
{
  pool_heap_t *first = heaps[HEAPS - 1];
  assert_null(pool_heap_alloc(first, LARGER));
  assert_int_equal(stats_of(first).overflowed_count, 0);
  assert_true(pool_heap_set_budget(heaps[0], 1 << 20));
  void *block = pool_heap_alloc(first, LARGER);
  assert_non_null(block);
  assert_ptr_equal(pool_heap_of(block), heaps[0]);
  assert_int_equal(stats_of(first).overflowed_count, 1);
  assert_int_equal(stats_of(heaps[HEAPS / 2]).overflowed_count, 1);
  assert_int_equal(stats_of(heaps[0]).overflowed_count, 0);
  assert_non_null(block = pool_heap_realloc(first, block, LARGER + 5000));
  pool_heap_free(first, block);
  return unused;
}

static void heaps_that_overflow(void **state)
{
  (void)state;
  for (size_t i = 0; i < HEAPS; i++)
    heaps[i] = heap_with((pool_heap_options_t){.budget = BUDGET, .overflow = i ? heaps[i - 1] : NULL});
  run_on_short_stack(ask_the_chain);
  for (size_t i = HEAPS; i-- > 0;)
    pool_heap_destroy(heaps[i]);
}

static void *ask_the_youngest(void *unused)
{
  pool_heap_t *heap = heaps[HEAPS / 10 - 1];
  void *block = pool_heap_alloc(heap, LARGER);
  assert_non_null(block);
  assert_true(stats_of(heaps[0]).held_bytes >= LARGER);
  pool_heap_free(heap, block);
  assert_null(pool_heap_alloc(heap, 1 << 30));
  return unused;
}

static void parents(void **state)
{
  (void)state;
  for (size_t i = 0; i < HEAPS / 10; i++)
    heaps[i] = heap_with((pool_heap_options_t){.budget = 64 << 20, .parent = i ? heaps[i - 1] : NULL});
  run_on_short_stack(ask_the_youngest);
  for (size_t i = HEAPS / 10; i-- > 0;)
    pool_heap_destroy(heaps[i]);
}

/* Each has one object, so that the last serves who asks the first for the last time. */
static void *get_all(void *unused)
{
  static void *objects[POOLS];
  object_pool_t *first = pools[POOLS - 1];
  for (size_t i = 0; i < POOLS; i++)
    assert_non_null(objects[i] = object_pool_get(first));
  assert_null(object_pool_get(first));
  object_pool_handle_t handle = object_pool_handle(first, objects[POOLS - 1]);
  assert_ptr_equal(object_pool_resolve(first, handle), objects[POOLS - 1]);
  object_pool_put(first, objects[POOLS - 1]);
  assert_null(object_pool_resolve(first, handle));
  assert_int_equal(object_pool_get_batch(first, &objects[POOLS - 1], 2), 1);
  object_pool_put_batch(first, objects, POOLS);
  return unused;
}

static void object_pools_that_overflow(void **state)
{
  (void)state;
  for (size_t i = 0; i < POOLS; i++) {
    object_pool_options_t options = {
      .object_size = 32, .capacity = 1, .when_full = i ? OBJECT_POOL_OVERFLOW : OBJECT_POOL_FAIL};
    options.overflow = i ? pools[i - 1] : NULL;
    assert_non_null(pools[i] = object_pool_create(&options));
  }
  run_on_short_stack(get_all);
  for (size_t i = POOLS; i-- > 0;)
    object_pool_destroy(pools[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(heaps_that_overflow),
    cmocka_unit_test(parents),
    cmocka_unit_test(object_pools_that_overflow),
  };
  return cmocka_run_group_tests_name("chains", tests, NULL, NULL);
}
