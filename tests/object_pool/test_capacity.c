/* SPDX-License-Identifier: MIT
 * Pools grow when they are full and shrink when they are not; their memory goes with their heap. */
#include "json.h"
#include "os_fake.h"
#include "pools.h"
#include <errno.h>
#include <tidepool/stats.h>

static void growth(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){
      .object_size = 64, .capacity = 10, .max_capacity = 3001, .when_full = OBJECT_POOL_GROW, .flags = flags});
    errno = 0;
    get_all(pool, 3001);
    assert_int_equal(errno, 0);
    assert_int_equal(object_pool_capacity(pool), 3001);
    assert_null(object_pool_get(pool));
    assert_int_equal(errno, ENOMEM);
    agrees(pool, 3001);
    assert_int_equal(object_pool_shrink(pool, 10), 3001);
    object_pool_handle_t low = object_pool_handle(pool, objects[0]), high = object_pool_handle(pool, objects[3000]);
    for (size_t i = 10; i < 3001; i++)
      object_pool_put(pool, objects[i]);
    agrees(pool, 10);
    assert_int_equal(object_pool_shrink(pool, 1000) >= 1000, 1);
    assert_int_equal(object_pool_shrink(pool, 0), 10);
    agrees(pool, 10);
    assert_ptr_equal(object_pool_resolve(pool, low), objects[0]);
    assert_null(object_pool_resolve(pool, high));
    get_all(pool, 2990);
    assert_null(object_pool_resolve(pool, high));
    agrees(pool, 3000);
    object_pool_destroy(pool);
  }
}

static void grows_from_nothing(void **state)
{
  (void)state;
  object_pool_t *pool = create((object_pool_options_t){.object_size = 100, .when_full = OBJECT_POOL_GROW});
  assert_int_equal(object_pool_capacity(pool), 0);
  assert_null(object_pool_next(pool, NULL));
  assert_false(object_pool_in_use(pool, NULL));
  get_all(pool, 500);
  agrees(pool, 500);
  object_pool_put_all(pool);
  assert_int_equal(object_pool_shrink(pool, 0), 0);
  get_all(pool, 500);
  object_pool_destroy(pool);
}

static void shrinks_by_itself(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20, .purge_delay_ms = 20});
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create(
      (object_pool_options_t){.object_size = 64, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap, .flags = flags});
    pool_stats_t small, large, again;
    pool_heap_stats(heap, &small);
    get_all(pool, 4000);
    pool_heap_stats(heap, &large);
    assert_true(large.held_bytes > small.held_bytes + 200000);
    for (size_t i = 1; i < 4000; i++)
      object_pool_put(pool, objects[i]);
    agrees(pool, 1);
    os_fake.now_ms += 19;
    assert_true(object_pool_capacity(pool) >= 4000);
    os_fake.now_ms += 1;
    for (int i = 0; i < 2; i++)
      object_pool_put(pool, object_pool_get(pool));
    assert_int_equal(object_pool_capacity(pool), 100);
    pool_heap_trim(heap, 0);
    pool_heap_stats(heap, &again);
    assert_int_equal(again.live_bytes, small.live_bytes);
    assert_true(again.held_bytes <= small.held_bytes + 8192); /* records of the size classes that came into use */
    agrees(pool, 1);
    get_all(pool, 1000);
    object_pool_put_all(pool);
    os_fake.now_ms += 19;
    assert_true(object_pool_capacity(pool) >= 1000);
    os_fake.now_ms += 1;
    assert_int_equal(object_pool_capacity(pool), 100);
    object_pool_destroy(pool);
  }
  pool_heap_destroy(heap);
}

static void idle_arrays_stay_where_nothing_is_purged(void **state)
{
  (void)state;
  static char memory[256 << 10];
  pool_heap_t *heap = pool_heap_create(
    &(pool_heap_options_t){.memory = memory, .memory_size = sizeof memory, .purge_delay_ms = POOL_PURGE_NEVER});
  object_pool_t *pool =
    create((object_pool_options_t){.object_size = 100, .capacity = 10, .when_full = OBJECT_POOL_GROW, .heap = heap});
  get_all(pool, 200);
  size_t capacity = object_pool_capacity(pool);
  object_pool_put_all(pool);
  os_fake.now_ms += 1 << 30;
  assert_int_equal(object_pool_capacity(pool), capacity);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

static void in_the_callers_memory(void **state)
{
  (void)state;
  static char memory[64 << 10];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = memory + 3, .memory_size = sizeof memory - 3});
  assert_non_null(heap);
  object_pool_t *pool =
    create((object_pool_options_t){.object_size = 32, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap});
  size_t got = 0;
  while ((objects[got] = object_pool_get(pool)) != NULL) {
    assert_true((char *)objects[got] >= memory && (char *)objects[got] + 32 <= memory + sizeof memory);
    memset(objects[got++], 1, 32);
  }
  assert_true(got > 900);
  agrees(pool, got);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

/* A heap drops its pools with everything else; the figures forget them. */
static void dropped_with_the_heap(void **state)
{
  (void)state;
  json_needed();
  object_pool_t *stays = create((object_pool_options_t){.name = "stays", .object_size = 8, .capacity = 10});
  for (int round = 0; round < 4; round++) {
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.flags = round > 1 ? POOL_HEAP_ZERO_ON_FREE : 0});
    object_pool_t *pool = create((object_pool_options_t){.name = "scene", .object_size = 100, .capacity = 1000, .heap = heap});
    get_all(pool, 1000);
    object_pool_destroy(create((object_pool_options_t){.object_size = 100, .capacity = 1000, .heap = heap}));
    json_read_process();
    assert_int_equal(json_length("object_pools"), 2);
    assert_string_equal(json_text("object_pools[1].name"), "scene");
    round % 2 ? pool_heap_reset(heap) : pool_heap_destroy(heap);
    json_read_process();
    assert_int_equal(json_length("object_pools"), 1);
    assert_string_equal(json_text("object_pools[0].name"), "stays");
    if (round % 2)
      pool_heap_destroy(heap);
  }
  object_pool_destroy(stays);
}

static size_t live_blocks_of(pool_heap_t *heap)
{
  pool_stats_t stats;
  assert_true(pool_heap_stats(heap, &stats));
  return stats.live_blocks;
}

/* What the heap's overflow served for a pool, objects, records or all of it, would be nobody's when the heap drops the pool. */
static void what_overflowed_is_dropped_too(void **state)
{
  (void)state;
  static char memory[8 << 10];
  for (int round = 0; round < 6; round++) {
    pool_heap_t *larger = pool_heap_create(NULL);
    pool_heap_options_t options = {.overflow = larger, .budget = (size_t)256 << 10};
    if (round / 2 == 1)
      options = (pool_heap_options_t){.overflow = larger, .memory = memory, .memory_size = sizeof memory};
    pool_heap_t *heap = pool_heap_create(&options);
    while (round / 2 == 2 && live_blocks_of(larger) == 0)
      assert_non_null(pool_heap_alloc(heap, 64));
    size_t before = live_blocks_of(larger);
    create((object_pool_options_t){.object_size = 100, .capacity = 50, .heap = heap});
    create((object_pool_options_t){.object_size = 300, .capacity = 5000, .heap = heap});
    assert_true(live_blocks_of(larger) > before);
    round % 2 ? pool_heap_reset(heap) : pool_heap_destroy(heap);
    assert_int_equal(live_blocks_of(larger), before);
    if (round % 2)
      pool_heap_destroy(heap);
    pool_heap_destroy(larger);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(growth),
    cmocka_unit_test(grows_from_nothing),
    cmocka_unit_test(shrinks_by_itself),
    cmocka_unit_test(idle_arrays_stay_where_nothing_is_purged),
    cmocka_unit_test(in_the_callers_memory),
    cmocka_unit_test(dropped_with_the_heap),
    cmocka_unit_test(what_overflowed_is_dropped_too),
  };
  return cmocka_run_group_tests_name("object_pool capacity", tests, time_stands_still, NULL);
}
