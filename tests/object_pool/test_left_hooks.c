/* SPDX-License-Identifier: MIT
 * Hooks that leave by longjmp(): no object is lost, and the next call finds the pool whole. */
#include "os_fake.h"
#include "things.h"
#include <tidepool/stats.h>

static jmp_buf outside;
static enum { NONE_LEAVES, CONSTRUCT_LEAVES, RESET_LEAVES, DESTRUCT_LEAVES, CHOOSER_LEAVES, LEAVERS } leaver;

static void leave_if(int who)
{
  if ((int)leaver == who) {
    leaver = NONE_LEAVES;
    longjmp(outside, 1);
  }
}

static bool construct_or_leave(void *object, void *context)
{
  return (void)object, (void)context, leave_if(CONSTRUCT_LEAVES), true;
}
static void reset_or_leave(void *object, void *context) { (void)object, (void)context, leave_if(RESET_LEAVES); }
static void destruct_or_leave(void *object, void *context) { (void)object, ++*(int *)context, leave_if(DESTRUCT_LEAVES); }
static void *choose_or_leave(object_pool_t *pool, void *context)
{
  (void)context;
  leave_if(CHOOSER_LEAVES);
  return object_pool_next(pool, NULL);
}

static void put_and_get_until_left(object_pool_t *pool)
{
  if (setjmp(outside) == 0) {
    object_pool_put(pool, things[0]);
    things[0] = object_pool_get(pool);
    things[9] = object_pool_get(pool);
  }
}

/* The pool serves on with what it has, and ends; the object of the hook, if there was one, is out of use. */
static void hooks_that_leave(void **state)
{
  (void)state;
  for (int who = CONSTRUCT_LEAVES; who < LEAVERS; who++)
    for (unsigned kind = 0; kind < 8; kind++) {
      int destructed = 0;
      object_pool_t *pool = object_pool_create(
        &(object_pool_options_t){.object_size = sizeof(thing_t),
                                 .capacity = 5,
                                 .when_full = OBJECT_POOL_EVICT,
                                 .construct = construct_or_leave,
                                 .reset = reset_or_leave,
                                 .destruct = destruct_or_leave,
                                 .choose_victim = choose_or_leave,
                                 .context = &destructed,
                                 .reset_time = kind & 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET,
                                 .flags = (kind & 2 ? OBJECT_POOL_CHECKED : 0) | (kind & 4 ? OBJECT_POOL_SINGLE_THREAD : 0)});
      for (int i = 0; i < 5; i++)
        assert_non_null(things[i] = object_pool_get(pool));
      leaver = who;
      put_and_get_until_left(pool);
      bool left = leaver == NONE_LEAVES;
      leaver = NONE_LEAVES;
      assert_true(check_object_pool(pool));
      size_t lost = left && who != CHOOSER_LEAVES;
      assert_int_equal(object_pool_live(pool), 5 - lost);
      for (int i = 0; i < 20; i++)
        assert_non_null(object_pool_get(pool));
      object_pool_put_all(pool);
      assert_int_equal(object_pool_live(pool), 0);
      assert_true(check_object_pool(pool));
      object_pool_destroy(pool);
    }
}

/* Where a pool shrinks, at once or by the clock, each hook that leaves loses its own object, whose array stays with the pool:
 * what all lose together is no more than the pool had at its largest. */
static void shrink_until_left(object_pool_t *pool, bool by_clock)
{
  leaver = DESTRUCT_LEAVES;
  if (setjmp(outside) == 0) {
    if (by_clock)
      (void)object_pool_capacity(pool);
    else
      object_pool_shrink(pool, 0);
  }
}

static void a_shrink_that_is_left(void **state)
{
  (void)state;
  enum { ROUNDS = 30, OBJECTS = 500 };
  for (unsigned kind = 0; kind < 8; kind++) {
    int destructed = 0;
    size_t largest = 0;
    pool_stats_t before, after;
    pool_heap_t *heap = pool_heap_create(NULL);
    pool_heap_stats(heap, &before);
    object_pool_t *pool = object_pool_create(
      &(object_pool_options_t){.object_size = sizeof(thing_t),
                               .capacity = 10,
                               .when_full = OBJECT_POOL_GROW,
                               .construct = construct_or_leave,
                               .destruct = destruct_or_leave,
                               .context = &destructed,
                               .heap = heap,
                               .flags = (kind & 1 ? OBJECT_POOL_CHECKED : 0) | (kind & 2 ? OBJECT_POOL_SINGLE_THREAD : 0)});
    for (int round = 0; round < ROUNDS; round++) {
      leaver = NONE_LEAVES;
      for (int i = 0; i < OBJECTS; i++)
        assert_non_null(things[i] = object_pool_get(pool));
      for (int i = 0; i < OBJECTS; i++)
        object_pool_put(pool, things[i]);
      os_fake.now_ms += 1 << 30;
      largest = round ? largest : object_pool_capacity(pool) + OBJECTS;
      shrink_until_left(pool, kind & 4);
      assert_true(check_object_pool(pool));
      assert_int_equal(object_pool_live(pool), 0);
      assert_in_range(object_pool_capacity(pool), 10, 2 * largest);
    }
    leaver = NONE_LEAVES;
    object_pool_destroy(pool);
    pool_heap_stats(heap, &after);
    assert_int_equal(after.live_bytes, 0);
    pool_heap_destroy(heap);
  }
}

/* A get has nothing in hand while hooks run on what is due to go. */
static void get_or_be_left(object_pool_t *pool)
{
  leaver = DESTRUCT_LEAVES;
  if (setjmp(outside) == 0)
    things[0] = object_pool_get(pool);
}

/* It has grown to 500 objects, of which the first so many are live. */
static object_pool_t *with_arrays_due(unsigned flags, int *destructed, int live)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t),
                                                                    .capacity = 10,
                                                                    .when_full = OBJECT_POOL_GROW,
                                                                    .destruct = destruct_or_leave,
                                                                    .context = destructed,
                                                                    .flags = flags});
  for (int i = 0; i < 500; i++)
    assert_non_null(things[i] = object_pool_get(pool));
  for (int i = live; i < 500; i++)
    object_pool_put(pool, things[i]);
  os_fake.now_ms += 1 << 30;
  return pool;
}

static void a_get_that_is_left_by_what_is_due(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags <= OBJECT_POOL_SINGLE_THREAD; flags++) { /* a checked pool has destructed at each put */
    int destructed = 0;
    object_pool_t *pool = with_arrays_due(flags, &destructed, 0);
    get_or_be_left(pool);
    assert_int_equal(leaver, NONE_LEAVES);
    assert_int_equal(object_pool_live(pool), 0);
    assert_true(check_object_pool(pool));
    object_pool_destroy(pool);
  }
}

/* What is due goes but for what the get is about to take: that would be made again at once. */
static void a_get_keeps_what_it_takes(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags <= OBJECT_POOL_SINGLE_THREAD; flags++) {
    int destructed = 0;
    object_pool_t *pool = with_arrays_due(flags, &destructed, 10);
    assert_ptr_equal(object_pool_get(pool), things[10]);
    assert_in_range(destructed, 1, 489);
    object_pool_destroy(pool);
  }
}

/* Each of two shrinks, one within the other, leaves what both ask for. */
static int shrinks_left;
static void shrink_within(void *object, void *context)
{
  (void)object;
  if (shrinks_left-- > 0)
    object_pool_shrink(*(object_pool_t **)context, 100);
}

static void shrinks_leave_what_they_should(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags < 4; flags++) {
    object_pool_t *pool = NULL;
    pool = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t),
                                                       .capacity = 10,
                                                       .when_full = OBJECT_POOL_GROW,
                                                       .destruct = shrink_within,
                                                       .context = &pool,
                                                       .flags = flags});
    for (int i = 0; i < 500; i++)
      assert_non_null(things[i] = object_pool_get(pool));
    object_pool_put_all(pool);
    shrinks_left = 1000;
    assert_true(object_pool_shrink(pool, 100) >= 100);
    assert_true(object_pool_capacity(pool) >= 100);
    assert_true(check_object_pool(pool));
    shrinks_left = 0;
    object_pool_destroy(pool);
  }
}

/* The end of a pool goes on behind the object whose hook left; each is destructed once. Or its heap takes along what is left.
 */
static void destroy_until_left(object_pool_t *pool)
{
  if (setjmp(outside) == 0)
    object_pool_destroy(pool);
}

static void an_end_that_is_left(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++) {
    int destructed = 0;
    pool_stats_t before, after;
    pool_heap_t *parent = pool_heap_create(NULL),
                *heap = pool_heap_create(&(pool_heap_options_t){.parent = parent, .budget = 1 << 20});
    pool_heap_stats(parent, &before);
    pool_heap_destroy(heap);
    heap = pool_heap_create(&(pool_heap_options_t){.parent = parent, .budget = 1 << 20});
    object_pool_t *pool = object_pool_create(
      &(object_pool_options_t){.object_size = sizeof(thing_t),
                               .capacity = 10,
                               .destruct = destruct_or_leave,
                               .context = &destructed,
                               .heap = heap,
                               .flags = (kind & 1 ? OBJECT_POOL_CHECKED : 0) | (kind & 2 ? OBJECT_POOL_SINGLE_THREAD : 0)});
    for (int i = 0; i < 7; i++)
      assert_non_null(things[i] = object_pool_get(pool));
    for (int times = 1; times <= 3; times++) {
      leaver = DESTRUCT_LEAVES;
      destroy_until_left(pool);
      assert_int_equal(destructed, times);
      assert_null(object_pool_get(pool));
    }
    if (kind & 4) {
      object_pool_destroy(pool);
      assert_int_equal(destructed, 7);
      pool_heap_stats(heap, &after);
      assert_int_equal(after.live_bytes, 0);
    }
    pool_heap_destroy(heap);
    heap = pool_heap_create(&(pool_heap_options_t){.parent = parent, .budget = 1 << 20});
    pool_heap_stats(parent, &after);
    assert_int_equal(after.held_bytes, before.held_bytes);
    pool_heap_destroy(heap);
    pool_heap_destroy(parent);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(hooks_that_leave),          cmocka_unit_test(a_shrink_that_is_left),
    cmocka_unit_test(an_end_that_is_left),       cmocka_unit_test(a_get_that_is_left_by_what_is_due),
    cmocka_unit_test(a_get_keeps_what_it_takes), cmocka_unit_test(shrinks_leave_what_they_should),
  };
  return cmocka_run_group_tests_name("object_pool left_hooks", tests, time_stands_still, NULL);
}
