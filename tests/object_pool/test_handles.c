/* SPDX-License-Identifier: MIT
 * A handle leads to its object as long as that is live, and never to another. */
#include "pools.h"

static void set_gets(object_array_t *array, size_t i, uint32_t gets)
{
  array->uses[i] = has_laps(array) ? (gets - 1) | USES_LIVE : gets;
  if (has_laps(array))
    (gets - 1) & USES_LIVE ? bit_set(array->laps, i) : bit_clear(array->laps, i);
}

static void handles(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 4, .flags = flags});
    assert_null(object_pool_resolve(pool, (object_pool_handle_t){0, 0}));
    get_all(pool, 4);
    object_pool_handle_t handle[4];
    for (int i = 0; i < 4; i++) {
      handle[i] = object_pool_handle(pool, objects[i]);
      assert_ptr_equal(object_pool_resolve(pool, handle[i]), objects[i]);
    }
    for (int round = 0; round < 1000; round++) {
      int i = round % 4;
      object_pool_put(pool, objects[i]);
      assert_null(object_pool_resolve(pool, handle[i]));
      assert_ptr_equal(object_pool_get(pool), objects[i]);
      assert_null(object_pool_resolve(pool, handle[i]));
      object_pool_handle_t again = object_pool_handle(pool, objects[i]);
      assert_true(again.index == handle[i].index && again.generation != handle[i].generation);
      handle[i] = again;
      for (int k = 0; k < 4; k++)
        assert_ptr_equal(object_pool_resolve(pool, handle[k]), objects[k]);
    }
    assert_null(object_pool_resolve(pool, (object_pool_handle_t){4, 1}));
    assert_null(object_pool_resolve(pool, (object_pool_handle_t){UINT32_MAX, UINT32_MAX}));
    object_pool_destroy(pool);
  }
}

/* Many uses pass at once, behind the interface: of a hot object, and of one that is not. */
enum { ONE_USE = HOT_GET + HOT_PUT };

static void be_used_often(object_pool_t *pool, size_t i, uint64_t times)
{
  object_array_t *array = pool->arrays[0];
  bool in_cache = is_in_cache(array, i);
  if (pool->hot->object && pool->hot->position == i)
    pool->hot->state += times * ONE_USE;
  else
    set_gets(array, i, gets_of(array, i) + (uint32_t)times);
  if (in_cache)
    end_use_locked(array, i);
}

static void handles_outlast_four_thousand_million_uses(void **state)
{
  (void)state;
  static const uint64_t many[] = {1, (uint64_t)1 << 30, ((uint64_t)1 << 31) - 1, (uint64_t)1 << 31, 3000000000, UINT32_MAX - 1};
  for (size_t n = 0; n < sizeof many / sizeof *many; n++)
    FOR_BOTH(flags)
    {
      object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 4, .flags = flags});
      get_all(pool, 2);
      object_pool_handle_t hot = object_pool_handle(pool, objects[1]), cold = object_pool_handle(pool, objects[0]);
      object_pool_put(pool, objects[1]);
      be_used_often(pool, 1, many[n]);
      be_used_often(pool, 0, many[n]);
      assert_ptr_equal(object_pool_get(pool), objects[1]);
      assert_null(object_pool_resolve(pool, hot));
      assert_null(object_pool_resolve(pool, cold));
      hot = object_pool_handle(pool, objects[1]), cold = object_pool_handle(pool, objects[0]);
      assert_ptr_equal(object_pool_resolve(pool, hot), objects[1]);
      assert_ptr_equal(object_pool_resolve(pool, cold), objects[0]);
      agrees(pool, 2);
      object_pool_destroy(pool);
    }
}

/* The count of uses goes through all its values, and the handles through theirs: each get makes the next one, however the
 * object comes back. */
static void handles_of_each_lap(void **state)
{
  (void)state;
  enum { WAYS = 5, GETS = 12 };
  static const uint32_t laps[] = {UINT32_MAX / 2 - 4, UINT32_MAX - 4};
  for (unsigned n = 0; n < 2 * WAYS; n++)
    FOR_BOTH(flags)
    {
      object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 64, .flags = flags});
      object_pool_handle_t old[GETS];
      get_all(pool, 3);
      void *object = objects[0];
      object_pool_put(pool, objects[2]);
      set_gets(pool->arrays[0], 0, laps[n % 2]);
      for (unsigned k = 0; k < GETS; k++) {
        old[k] = object_pool_handle(pool, object);
        assert_int_equal(old[k].generation, laps[n % 2] + k);
        for (unsigned j = 0; j <= k; j++)
          assert_ptr_equal(object_pool_resolve(pool, old[j]), j == k ? object : NULL);
        switch (n / 2) {
        case 0:
          object_pool_put(pool, object);
          break;
        case 1:
          object_pool_put(pool, object), object_pool_put(pool, objects[1]);
          break; /* into a stock */
        case 2:
          object_pool_put_batch(pool, &object, 1);
          break;
        case 3:
          object_pool_put_all(pool);
          break;
        default:
          object_pool_put(pool, object), object_pool_put(pool, objects[1]), object_pool_shrink(pool, 0);
        }
        agrees(pool, n / 2 == 0 || n / 2 == 2);
        void *others[64];
        size_t count = 0;
        while ((others[count] = object_pool_get(pool)) != object)
          assert_non_null(others[count++]);
        for (size_t j = 0; j < count; j++)
          if (others[j] != objects[1])
            object_pool_put(pool, others[j]);
        if (!object_pool_in_use(pool, objects[1]))
          while ((objects[1] = object_pool_get(pool)) == object) {}
      }
      object_pool_destroy(pool);
    }
}

/* One object of an array was used 4,000,000,000 times, its neighbour once. The array went, and that of another is used as often
 * as the generations of 32 bits leave room for, and a little more. */
static void handles_outlast_arrays(void **state)
{
  (void)state;
  for (int lap = 0; lap < 2; lap++)
    FOR_BOTH(flags)
    {
      object_pool_t *pool =
        create((object_pool_options_t){.object_size = 32, .capacity = 4, .when_full = OBJECT_POOL_GROW, .flags = flags});
      object_pool_handle_t old[8];
      get_all(pool, 12);
      for (int i = 0; i < 8; i++)
        old[i] = object_pool_handle(pool, objects[4 + i]);
      for (int gone = 0; gone < 3; gone++) {
        object_array_t *array = pool->arrays[pool->arrays[0]->permanent];
        set_gets(array, 7, gets_of(array, 7) + 4000000000u);
        object_pool_put_all(pool);
        assert_int_equal(object_pool_shrink(pool, 0), 4);
        if (lap)
          pool->next_index = UINT32_MAX;
        get_all(pool, 12);
        array = pool->arrays[pool->arrays[0]->permanent];
        for (int i = 0; i < 8; i++)
          for (int k = 0; k < 8; k++) {
            uint32_t gets = gets_of(array, i);
            assert_null(object_pool_resolve(pool, old[k]));
            set_gets(array, i, lap ? gets : 294967295u + (uint32_t)k);
            assert_null(object_pool_resolve(pool, old[k]));
            set_gets(array, i, gets);
          }
        agrees(pool, 12);
      }
      object_pool_destroy(pool);
    }
}

/* Chains whose objects have more indices than a handle has are refused, and none comes to be by growth. */
static void indices_of_a_chain(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *last =
      create((object_pool_options_t){.object_size = 32, .capacity = 4, .when_full = OBJECT_POOL_GROW, .flags = flags});
    object_pool_options_t o = {
      .object_size = 32, .capacity = 100, .when_full = OBJECT_POOL_OVERFLOW, .overflow = last, .flags = flags};
    uint32_t first = last->arrays[0]->first_index;
    last->arrays[0]->first_index = UINT32_MAX - 100 - 4 + 1;
    is_refused(o);
    last->arrays[0]->first_index = UINT32_MAX - 100 - 4;
    object_pool_t *front = create(o);
    get_all(front, 104);
    for (int i = 0; i < 104; i++) {
      object_pool_handle_t handle = object_pool_handle(front, objects[i]);
      assert_ptr_equal(object_pool_resolve(front, handle), objects[i]);
      assert_ptr_equal(object_pool_resolve(last, (object_pool_handle_t){handle.index, handle.generation}), NULL);
    }
    o.overflow = front;
    is_refused(o);
    last->arrays[0]->first_index = first;
    object_pool_t *foremost = create(o);
    /* All indices that are left are used, and no others as long as there is whom they were left to. */
    foremost->capacity = UINT32_MAX - 120;
    last->indices_before = UINT32_MAX - 20;
    get_all(last, 16);
    assert_null(object_pool_get(front));
    assert_int_equal(last->indices_before, UINT32_MAX - 20);
    foremost->capacity = 100;
    object_pool_destroy(foremost);
    assert_non_null(object_pool_get(front));
    assert_int_equal(last->indices_before, 100);
    agrees(last, 21);
    object_pool_destroy(front);
    last->indices_before = UINT32_MAX - 20;
    get_all(last, object_pool_capacity(last) - 20);
    assert_int_equal(last->indices_before, 0);
    object_pool_destroy(last);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(handles),
    cmocka_unit_test(handles_outlast_four_thousand_million_uses),
    cmocka_unit_test(handles_of_each_lap),
    cmocka_unit_test(handles_outlast_arrays),
    cmocka_unit_test(indices_of_a_chain),
  };
  return cmocka_run_group_tests_name("object_pool handles", tests, time_stands_still, NULL);
}
