/* SPDX-License-Identifier: MIT
 * A pool in a heap without room for it: it grows by less, asks on_exhausted, or fails quietly. */
#include "option.h"
#include "pools.h"
#include <errno.h>
#include <tidepool/stats.h>

/* The pools' own heap is full: growth goes on in smaller steps, then get fails, and nothing is lost. */
static void exhausted_budget(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 256 << 10});
  errno = 0;
  object_pool_t *too_large = object_pool_create(&(object_pool_options_t){.object_size = 1024, .capacity = 400, .heap = heap});
  assert_null(too_large);
  assert_int_equal(errno, ENOMEM);
  object_pool_t *pool =
    create((object_pool_options_t){.object_size = 256, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap});
  size_t most = 0;
  for (int round = 0; round < 3; round++) {
    size_t got = 0;
    errno = 0;
    while ((objects[got] = object_pool_get(pool)) != NULL)
      got++;
    assert_int_equal(errno, ENOMEM);
    assert_true(got * 256 > (160 << 10));
    assert_true(round == 0 || got == most);
    most = got;
    agrees(pool, got);
    object_pool_put_all(pool);
    assert_int_equal(object_pool_shrink(pool, 0), 100);
  }
  object_pool_destroy(pool);
  pool_stats_t s;
  pool_heap_stats(heap, &s);
  assert_int_equal(s.live_blocks, 0);
  pool_heap_destroy(heap);
}

/* Steps that are too large are only tried: the request is exhausted when the least is refused, once. */
static void grow_by_smaller_steps(void *heap)
{
  object_pool_t *pool =
    create((object_pool_options_t){.object_size = 256, .capacity = 500, .when_full = OBJECT_POOL_GROW, .heap = heap});
  pool_stats_t s;
  size_t got = 0;
  while (got < 600 && object_pool_get(pool))
    got++;
  must(got == 600 && pool_heap_stats(heap, &s) && s.exhausted_count == 0);
  settings.abort_on_exhausted = false;
  while (object_pool_get(pool))
    got++;
  must(pool_heap_stats(heap, &s) && s.exhausted_count == 1);
  settings.abort_on_exhausted = true;
}

static void grow_to_the_end(void *heap)
{
  grow_by_smaller_steps(heap);
  object_pool_t *pool =
    create((object_pool_options_t){.object_size = 16, .capacity = 1, .when_full = OBJECT_POOL_GROW, .heap = heap});
  while (object_pool_get(pool)) {}
}

static void probing_is_quiet(void **state)
{
  (void)state;
  bool before = settings.abort_on_exhausted;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 224 << 10});
  settings.abort_on_exhausted = true;
  in_child(grow_by_smaller_steps, heap);
  aborts_with(grow_to_the_end, heap, "tidepool: object_pool_get(heap \"heap-");
  settings.abort_on_exhausted = before;
  pool_heap_destroy(heap);
}

static bool give_another_pool_up(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed;
  object_pool_t **pools = context;
  object_pool_put_all(pools[1]);
  object_pool_shrink(pools[1], 0);
  return attempt == 0;
}

static void exhausted_heap_calls_back(void **state)
{
  (void)state;
  object_pool_t *pools[2];
  pool_heap_t *heap =
    pool_heap_create(&(pool_heap_options_t){.budget = 560 << 10, .on_exhausted = give_another_pool_up, .context = pools});
  object_pool_options_t o = {
    .object_size = 512, .capacity = 100, .when_full = OBJECT_POOL_GROW, .max_capacity = 700, .heap = heap};
  pools[0] = create(o);
  pools[1] = create(o);
  get_all(pools[1], 500);
  get_all(pools[0], 500);
  assert_int_equal(object_pool_capacity(pools[1]), 100);
  agrees(pools[0], 500);
  object_pool_destroy(pools[0]);
  object_pool_destroy(pools[1]);
  pool_heap_destroy(heap);
}

/* A callback that gets from the pool whose growth has called it: it is called for that in turn, but not without end. */
typedef struct asks {
  object_pool_t *pool;
  bool filling;
  unsigned calls, deep, deepest;
} asks_t;

static bool get_and_try_again(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt;
  asks_t *asks = context;
  if (asks->filling)
    return false;
  asks->calls++;
  asks->deepest = max_size(++asks->deep, asks->deepest);
  assert_null(object_pool_get(asks->pool));
  asks->deep--;
  return true;
}

static void growth_within_growth_ends(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    asks_t asks = {0};
    pool_heap_t *heap =
      pool_heap_create(&(pool_heap_options_t){.budget = 64 << 10, .on_exhausted = get_and_try_again, .context = &asks});
    asks.pool = create((object_pool_options_t){
      .object_size = 1000, .capacity = 50, .when_full = OBJECT_POOL_GROW, .heap = heap, .flags = flags});
    asks.filling = true;
    for (size_t size = 1024; size >= 16; size /= 8)
      while (pool_heap_alloc(heap, size)) {}
    asks.filling = false;
    size_t got = object_pool_get_batch(asks.pool, objects, 60);
    assert_in_range(got, 50, 59);
    assert_true(asks.calls > 0 && asks.deepest < 100);
    agrees(asks.pool, got);
    object_pool_destroy(asks.pool);
    pool_heap_destroy(heap);
  }
}

/* However many steps are tried, a heap's callback is asked as often for one get as for one block. */
static bool always(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt;
  ++*(unsigned *)context;
  return true;
}

static void a_callback_is_asked_as_for_a_block(void **state)
{
  (void)state;
  unsigned asked = 0;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 200 << 10, .on_exhausted = always, .context = &asked});
  object_pool_t *pool =
    create((object_pool_options_t){.object_size = 100, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap});
  while (object_pool_get(pool)) {}
  assert_int_equal(asked, 64);
  asked = 0;
  assert_null(object_pool_create(&(object_pool_options_t){.object_size = 100, .capacity = 10000, .heap = heap}));
  assert_int_equal(asked, 64);
  pool_heap_destroy(heap);
}

/* However little a callback adds each time, the arrays that there may be are enough for much. */
static bool raise_a_little(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)needed, (void)attempt, (void)context;
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  return pool_heap_set_budget(heap, stats.budget + (64 << 10));
}

static void grows_little_by_little(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 9 << 20, .on_exhausted = raise_a_little});
  object_pool_t *pool = create((object_pool_options_t){.object_size = 4096, .when_full = OBJECT_POOL_GROW, .heap = heap});
  void *block;
  for (pool_stats_t stats; pool_heap_stats(heap, &stats), stats.budget - stats.held_bytes > 256 << 10;)
    assert_non_null(block = pool_heap_alloc(heap, 100 << 10));
  for (int i = 0; i < 1000; i++)
    assert_non_null(object_pool_get(pool));
  agrees(pool, 1000);
  pool_heap_destroy(heap);
}

/* What on_exhausted is told that a pool needs is what it needs, but for what the heap rounds it up to. */
static size_t was_told;
static void reset_nothing(void *object, void *context) { (void)object, (void)context; }
static bool raise_by_what_is_told(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  was_told = needed;
  return attempt == 0 && pool_heap_set_budget(heap, *(size_t *)context + needed);
}

static void pools_tell_what_they_need(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 6; kind++) {
    size_t room = 1 << 20;
    pool_heap_t *heap =
      pool_heap_create(&(pool_heap_options_t){.budget = room, .on_exhausted = raise_by_what_is_told, .context = &room});
    object_pool_t *pool =
      object_pool_create(&(object_pool_options_t){.object_size = kind & 1 ? 16 : 1,
                                                  .capacity = 1500000,
                                                  .heap = heap,
                                                  .when_full = kind & 2 ? OBJECT_POOL_EVICT : OBJECT_POOL_FAIL,
                                                  .choose_victim = kind & 2 ? choose_next : NULL,
                                                  .reset = kind & 4 ? reset_nothing : NULL});
    assert_non_null(pool);
    assert_true(was_told > 1500000 * (size_t)(kind & 1 ? 20 : 5));
    object_pool_destroy(pool);
    pool_heap_destroy(heap);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(exhausted_budget),
    cmocka_unit_test(probing_is_quiet),
    cmocka_unit_test(exhausted_heap_calls_back),
    cmocka_unit_test(growth_within_growth_ends),
    cmocka_unit_test(a_callback_is_asked_as_for_a_block),
    cmocka_unit_test(grows_little_by_little),
    cmocka_unit_test(pools_tell_what_they_need),
  };
  return cmocka_run_group_tests_name("object_pool exhaustion", tests, time_stands_still, NULL);
}
