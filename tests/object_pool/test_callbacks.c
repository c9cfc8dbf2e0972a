/* SPDX-License-Identifier: MIT
 * Callbacks of on_exhausted that leave by longjmp() or reset the heap, while a pool in it grows or is made. */
#include "pools.h"
#include <tidepool/stats.h>

/* One that leaves by longjmp() leaves nothing behind that the next growth meets, wherever on the stack that begins. */
static jmp_buf before_growth;
static unsigned leaves;

static bool leave_or_raise(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)needed, (void)context;
  if (leaves) {
    leaves--;
    longjmp(before_growth, 1);
  }
  return attempt == 0 && pool_heap_set_budget(heap, 1 << 20);
}

__attribute__((noinline)) static void *get_from(object_pool_t *pool, int frames)
{
  char volatile here[64] = {0};
  void *object = frames ? get_from(pool, frames - 1) : object_pool_get(pool);
  return here[0] ? NULL : object;
}

/* Returns with what it got until the callback had left so many times. */
static size_t get_until_it_was_left(object_pool_t *pool, int frames, unsigned times)
{
  static size_t got; /* longjmp() keeps it */
  got = 0;
  leaves = times;
  (void)!setjmp(before_growth);
  while (leaves) {
    objects[99] = get_from(pool, frames);
    assert_non_null(objects[99]);
    got++;
  }
  return got;
}

static void grows_after_a_callback_left(void **state)
{
  (void)state;
  static char memory[128 << 10];
  for (int kind = 0; kind < 16; kind++) {
    pool_heap_options_t options = {.budget = 64 << 10, .on_exhausted = leave_or_raise};
    if (kind & 2)
      options.memory = memory, options.memory_size = sizeof memory;
    pool_heap_t *heap = pool_heap_create(&options);
    object_pool_t *pool = create((object_pool_options_t){.object_size = 1000,
                                                         .capacity = 20,
                                                         .when_full = OBJECT_POOL_GROW,
                                                         .heap = heap,
                                                         .flags = kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0});
    pool_stats_t before, after;
    size_t got = get_until_it_was_left(pool, 0, 1);
    pool_heap_stats(heap, &before);
    assert_int_equal(get_until_it_was_left(pool, kind & 4 ? 0 : 4, 2), 0);
    pool_heap_stats(heap, &after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    agrees(pool, got);
    assert_non_null(get_from(pool, kind & 8 ? 0 : 8));
    agrees(pool, got + 1);
    object_pool_destroy(pool);
    pool_heap_destroy(heap);
  }
}

/* Nobody can tell a callback that was left from one that this get is deeper within; after however many gets in vain, memory
 * that is there again is found at once. */
static bool leave_or_refuse(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt, (void)context;
  if (!leaves)
    return false;
  leaves--;
  longjmp(before_growth, 1);
}

static void grows_after_many_in_vain(void **state)
{
  (void)state;
  for (size_t vain = 1; vain < 300000; vain = vain * 3 + 1) {
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 64 << 10, .on_exhausted = leave_or_refuse});
    object_pool_t *pool =
      create((object_pool_options_t){.object_size = 1000, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = heap});
    size_t got = get_until_it_was_left(pool, 0, 1);
    while (get_from(pool, 8))
      got++;
    for (size_t i = 1; i < vain; i++)
      assert_null(get_from(pool, 8));
    assert_true(pool_heap_set_budget(heap, 1 << 20));
    assert_non_null(get_from(pool, 8));
    agrees(pool, got + 1);
    object_pool_destroy(pool);
    pool_heap_destroy(heap);
  }
}

/* Whichever of the blocks that an array needs has no room: nothing is lost with the callback that leaves. */
static bool leave(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt, (void)context;
  longjmp(before_growth, 1);
}

static void get_or_be_left(object_pool_t *pool)
{
  if (setjmp(before_growth) == 0)
    objects[99] = object_pool_get(pool);
}

static void *block_or_be_left(pool_heap_t *heap, size_t size)
{
  return setjmp(before_growth) == 0 ? pool_heap_alloc(heap, size) : NULL;
}

static void no_block_is_lost_when_a_callback_leaves(void **state)
{
  (void)state;
  static char memory[4 << 20];
  for (size_t block = 1000; block < 3 << 20; block += 40000)
    for (int guest = 0; guest < 2; guest++) {
      pool_heap_options_t options = {.on_exhausted = leave, .budget = sizeof memory};
      if (guest)
        options.memory = memory, options.memory_size = sizeof memory;
      pool_heap_t *heap = pool_heap_create(&options);
      object_pool_t *pool =
        create((object_pool_options_t){.object_size = 4, .capacity = 130000, .when_full = OBJECT_POOL_GROW, .heap = heap});
      void **batch = pool_alloc(130000 * sizeof *batch);
      assert_int_equal(object_pool_get_batch(pool, batch, 130000), 130000);
      void *beside = block_or_be_left(heap, block);
      pool_stats_t before, after;
      pool_heap_stats(heap, &before);
      get_or_be_left(pool);
      pool_heap_stats(heap, &after);
      assert_true(after.live_blocks == before.live_blocks || object_pool_capacity(pool) > 130000);
      pool_heap_free(heap, beside);
      object_pool_destroy(pool);
      pool_heap_stats(heap, &after);
      assert_int_equal(after.live_blocks, 0);
      pool_heap_destroy(heap);
      pool_free(batch);
    }
}

/* Nothing of a pool whose creation was left outlives its heap; the records come back from one round to the next. */
static void create_or_be_left(pool_heap_t *heap, size_t capacity)
{
  if (setjmp(before_growth) == 0)
    assert_null(object_pool_create(&(object_pool_options_t){.object_size = 64, .capacity = capacity, .heap = heap}));
}

static void a_create_that_is_left(void **state)
{
  (void)state;
  size_t held = 0;
  for (int round = 0; round < 50; round++) {
    pool_stats_t all;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20, .on_exhausted = leave});
    for (size_t capacity = 1 << 14; capacity < 1 << 20; capacity *= 8)
      create_or_be_left(heap, capacity);
    pool_heap_destroy(heap);
    pool_heap_stats(pool_heap_default(), &all);
    held = round == 1 ? all.held_bytes : held;
    assert_true(round < 2 || all.held_bytes == held);
  }
}

/* A callback that resets the heap, as one may: no pool is made of what that has taken away, whether there is room then or not.
 */
static bool reset_all(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)needed;
  ++*(unsigned *)context;
  pool_heap_reset(heap);
  return attempt == 0;
}

static void a_create_whose_callback_resets(void **state)
{
  (void)state;
  static char memory[8 << 20];
  for (int kind = 0; kind < 4; kind++) {
    unsigned asked = 0;
    pool_heap_options_t options = {.budget = 6 << 20, .on_exhausted = reset_all, .context = &asked};
    if (kind & 1)
      options.memory = memory, options.memory_size = sizeof memory;
    pool_heap_t *heap = pool_heap_create(&options);
    size_t capacity = kind & 2 ? 8000 : 3000;
    while (!asked && pool_heap_alloc(heap, 900)) {}
    for (int i = 0; i < 4000 && pool_heap_alloc(heap, 900); i++) {}
    asked = 0;
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 1000, .capacity = capacity, .heap = heap});
    object_pool_t *other = create((object_pool_options_t){.object_size = 64, .capacity = 10});
    assert_true(asked > 0 && !pool == (capacity == 8000) && other != pool);
    if (pool) {
      get_all(pool, capacity);
      agrees(pool, capacity);
      object_pool_destroy(pool);
    }
    get_all(other, 10);
    agrees(other, 10);
    object_pool_destroy(other);
    pool_stats_t stats;
    pool_heap_stats(heap, &stats);
    assert_int_equal(stats.held_bytes, stats.live_bytes + stats.cached_bytes + stats.idle_bytes + stats.metadata_bytes);
    pool_heap_destroy(heap);
  }
}

/* It drops the pool that grows with all others of the heap, and that is said. */
static void grow_a_pool_that_is_reset(void *argument)
{
  unsigned asked = 0;
  pool_heap_t *heap =
    pool_heap_create(&(pool_heap_options_t){.budget = 64 << 10, .on_exhausted = reset_all, .context = &asked});
  object_pool_t *pool =
    create((object_pool_options_t){.object_size = 1000, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = heap});
  (void)argument;
  while (object_pool_get(pool)) {}
}

static void a_growth_whose_callback_resets(void **state)
{
  (void)state;
  aborts_with(grow_a_pool_that_is_reset, NULL, "not a live object pool");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(grows_after_a_callback_left),    cmocka_unit_test(no_block_is_lost_when_a_callback_leaves),
    cmocka_unit_test(a_create_that_is_left),          cmocka_unit_test(a_create_whose_callback_resets),
    cmocka_unit_test(a_growth_whose_callback_resets), cmocka_unit_test(grows_after_many_in_vain),
  };
  return cmocka_run_group_tests_name("object_pool callbacks", tests, time_stands_still, NULL);
}
