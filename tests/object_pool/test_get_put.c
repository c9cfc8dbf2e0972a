/* SPDX-License-Identifier: MIT
 * Objects are got and put, one by one, in batches and all at once, and walked over; what is too many comes from the next pool.
 */
#include "pools.h"
#include <errno.h>

static void fixed_pool(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 48, .capacity = MOST, .flags = flags});
    assert_int_equal(object_pool_capacity(pool), MOST);
    errno = 77;
    get_all(pool, MOST);
    for (size_t i = 1; i < MOST; i++)
      assert_ptr_equal(objects[i], (char *)objects[i - 1] + 48);
    agrees(pool, MOST);
    for (size_t i = 0; i < MOST; i += 3)
      object_pool_put(pool, objects[i]);
    agrees(pool, MOST - (MOST + 2) / 3);
    assert_int_equal(errno, 77);
    for (size_t i = 0; i < MOST; i += 3)
      assert_non_null(objects[i] = object_pool_get(pool));
    assert_null(object_pool_get(pool));
    assert_int_equal(errno, ENOMEM);
    agrees(pool, MOST);
    object_pool_destroy(pool);
  }
}

/* A model beside it: which objects are live. */
static void random_life(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    dice_t dice = {flags + 1};
    object_pool_t *pool = create((object_pool_options_t){
      .object_size = 24, .capacity = 300, .when_full = OBJECT_POOL_GROW, .max_capacity = 2000, .flags = flags});
    size_t live = 0;
    for (int step = 0; step < 60000; step++) {
      size_t phase = (size_t)step / 5000 % 4, most = phase == 0 ? 250 : phase == 1 ? 2000 : phase == 2 ? 1200 : 50;
      if (live < most && dice_below(&dice, 2)) {
        objects[live] = object_pool_get(pool);
        assert_non_null(objects[live]);
        *(void **)objects[live] = &objects[live];
        live++;
      } else if (live) {
        size_t i = live > most ? live - 1 : dice_below(&dice, live);
        assert_ptr_equal(*(void **)objects[i], &objects[i]);
        object_pool_put(pool, objects[i]);
        assert_false(object_pool_in_use(pool, objects[i]));
        objects[i] = objects[--live];
        if (i < live)
          *(void **)objects[i] = &objects[i];
      }
      if (step % 997 == 0)
        agrees(pool, live);
      if (step % 4001 == 0)
        object_pool_shrink(pool, 0);
    }
    agrees(pool, live);
    object_pool_destroy(pool);
  }
}

static void batches(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 1000, .flags = flags});
    assert_int_equal(object_pool_get_batch(pool, objects, 0), 0);
    assert_int_equal(object_pool_get_batch(pool, objects, 400), 400);
    agrees(pool, 400);
    errno = 0;
    assert_int_equal(object_pool_get_batch(pool, objects + 400, 700), 600);
    assert_int_equal(errno, ENOMEM);
    agrees(pool, 1000);
    object_pool_put_batch(pool, objects + 100, 800);
    agrees(pool, 200);
    object_pool_put_batch(pool, objects, 0);
    object_pool_put_batch(pool, objects + 900, 100);
    object_pool_put_batch(pool, objects, 100);
    agrees(pool, 0);
    object_pool_destroy(pool);
  }
}

static void put_all(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 1000, .flags = flags});
    object_pool_put_all(pool);
    agrees(pool, 0);
    for (size_t live = 1; live <= 1000; live += 333) {
      get_all(pool, live);
      object_pool_put(pool, objects[0]);
      assert_ptr_equal(object_pool_get(pool), objects[0]);
      object_pool_handle_t handle = object_pool_handle(pool, objects[live / 2]), hot = object_pool_handle(pool, objects[0]);
      object_pool_put_all(pool);
      agrees(pool, 0);
      assert_null(object_pool_resolve(pool, handle));
      get_all(pool, live);
      assert_null(object_pool_resolve(pool, handle));
      assert_null(object_pool_resolve(pool, hot));
      object_pool_put_all(pool);
    }
    object_pool_destroy(pool);
  }
}

static void walk_while_changing(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 16, .capacity = 500, .flags = flags});
    get_all_by_address(pool, 500);
    size_t seen = 0;
    for (void *object = NULL; (object = object_pool_next(pool, object)) != NULL; seen++)
      object_pool_put(pool, object);
    assert_int_equal(seen, 500);
    agrees(pool, 0);
    get_all_by_address(pool, 500);
    for (size_t i = 0; i < 500; i++)
      if (i % 10)
        object_pool_put(pool, objects[i]);
    agrees(pool, 50);
    assert_ptr_equal(object_pool_next(pool, NULL), objects[0]);
    assert_ptr_equal(object_pool_next(pool, objects[3]), objects[10]);
    assert_ptr_equal(object_pool_next(pool, (char *)objects[9] + 5), objects[10]);
    assert_ptr_equal(object_pool_next(pool, (char *)1), objects[0]);
    assert_null(object_pool_next(pool, (void *)UINTPTR_MAX));
    object_pool_destroy(pool);
  }
}

/* A walk through many live objects knows what comes; what is put ahead of it must not be met all the same. */
static void walk_with_changes_ahead(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 16, .capacity = 3000, .flags = flags});
    for (int round = 0; round < 2; round++) {
      get_all_by_address(pool, 3000);
      size_t seen = 0, ahead = 0;
      for (void *object = NULL; (object = object_pool_next(pool, object)) != NULL; seen++) {
        assert_true(object_pool_in_use(pool, object));
        size_t i = (size_t)((char *)object - (char *)objects[0]) / 16;
        if (i % 100 == 3 && i + 70 < 3000) {
          object_pool_put(pool, objects[i + 70]);
          ahead++;
        }
        if (i == 500)
          object_pool_put(pool, objects[501]);
        assert_true(check_object_pool(pool));
      }
      assert_int_equal(seen, 3000 - ahead - 1);
      object_pool_put_all(pool);
      assert_null(object_pool_next(pool, objects[10]));
    }
    object_pool_destroy(pool);
  }
}

static void overflow(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *last = create((object_pool_options_t){
      .object_size = 40, .capacity = 5, .when_full = OBJECT_POOL_GROW, .max_capacity = 20, .flags = flags});
    object_pool_t *middle = create((object_pool_options_t){
      .object_size = 40, .capacity = 10, .when_full = OBJECT_POOL_OVERFLOW, .overflow = last, .flags = flags});
    object_pool_t *pool = create((object_pool_options_t){
      .object_size = 40, .capacity = 10, .when_full = OBJECT_POOL_OVERFLOW, .overflow = middle, .flags = flags});
    object_pool_handle_t handle[40];
    get_all(pool, 40);
    assert_null(object_pool_get(pool));
    agrees(pool, 10), agrees(middle, 10), agrees(last, 20);
    for (int i = 0; i < 40; i++) {
      handle[i] = object_pool_handle(pool, objects[i]);
      assert_ptr_equal(object_pool_resolve(pool, handle[i]), objects[i]);
      assert_int_equal(object_pool_in_use(pool, objects[i]), i < 10);
    }
    for (int i = 39; i >= 0; i -= 2)
      object_pool_put(pool, objects[i]);
    agrees(pool, 5), agrees(middle, 5), agrees(last, 10);
    for (int i = 0; i < 40; i++)
      assert_ptr_equal(object_pool_resolve(pool, handle[i]), i % 2 ? NULL : objects[i]);
    object_pool_put_all(pool);
    agrees(pool, 0), agrees(middle, 5);
    object_pool_put(pool, objects[38]);
    object_pool_put(middle, objects[36]);
    agrees(last, 8);
    object_pool_destroy(pool);
    object_pool_destroy(middle);
    object_pool_destroy(last);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fixed_pool), cmocka_unit_test(random_life),         cmocka_unit_test(batches),
    cmocka_unit_test(put_all),    cmocka_unit_test(walk_while_changing), cmocka_unit_test(walk_with_changes_ahead),
    cmocka_unit_test(overflow),
  };
  return cmocka_run_group_tests_name("object_pool get and put", tests, time_stands_still, NULL);
}
