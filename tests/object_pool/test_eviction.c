/* SPDX-License-Identifier: MIT
 * A live object is taken from its user for the next get; the chooser may do as it likes. */
#include "pools.h"
#include <errno.h>

static void *choose_context(object_pool_t *pool, void *context)
{
  void *victim = *(void **)context;
  assert_true(!victim || object_pool_in_use(pool, victim));
  return victim;
}

static void eviction(void **state)
{
  (void)state;
  void *victim = NULL;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32,
                                                         .capacity = 8,
                                                         .when_full = OBJECT_POOL_EVICT,
                                                         .choose_victim = choose_context,
                                                         .context = &victim,
                                                         .flags = flags});
    get_all(pool, 8);
    object_pool_put(pool, objects[2]);
    assert_ptr_equal(object_pool_get(pool), objects[2]);
    victim = NULL;
    assert_null(object_pool_get(pool));
    assert_int_equal(errno, ENOMEM);
    for (int i = 0; i < 8; i++) {
      object_pool_handle_t handle = object_pool_handle(pool, objects[i]),
                           neighbour = object_pool_handle(pool, objects[(i + 1) % 8]);
      victim = objects[i];
      assert_ptr_equal(object_pool_get(pool), victim);
      assert_null(object_pool_resolve(pool, handle));
      assert_ptr_equal(object_pool_resolve(pool, neighbour), objects[(i + 1) % 8]);
      agrees(pool, 8);
    }
    void *batch[12];
    object_pool_put(pool, objects[0]);
    assert_int_equal(object_pool_get_batch(pool, batch, 12), 2); /* the victim once, not again and again */
    agrees(pool, 8);
    object_pool_destroy(pool);
  }
}

static void *choose_by_putting(object_pool_t *pool, void *context)
{
  object_pool_put(pool, objects[5]);
  void *object = object_pool_get(pool);
  assert_ptr_equal(object, objects[5]);
  object_pool_put(pool, objects[6]);
  return *(bool *)context ? objects[6] : objects[5];
}

/* The chooser put what it names: then there is room, and that is what is given. */
static void chooser_that_gets_and_puts(void **state)
{
  (void)state;
  bool names_free_one = true;
  object_pool_t *pool = create((object_pool_options_t){.object_size = 32,
                                                       .capacity = 8,
                                                       .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_by_putting,
                                                       .context = &names_free_one});
  get_all(pool, 8);
  assert_ptr_equal(object_pool_get(pool), objects[6]);
  names_free_one = false;
  assert_ptr_equal(object_pool_get(pool), objects[5]);
  agrees(pool, 7);
  object_pool_destroy(pool);
}

static void *choose_foreign(object_pool_t *pool, void *context) { return (void)pool, context; }
static void get_one(void *pool) { objects[9] = object_pool_get(pool); }

static void chooser_names_a_foreign_one(void **state)
{
  (void)state;
  int foreign;
  object_pool_t *pool = create((object_pool_options_t){.name = "mine",
                                                       .object_size = 32,
                                                       .capacity = 1,
                                                       .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_foreign,
                                                       .context = &foreign});
  get_all(pool, 1);
  aborts_with(get_one, pool, "not a live object of pool \"mine\"");
  object_pool_destroy(pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(eviction),
    cmocka_unit_test(chooser_that_gets_and_puts),
    cmocka_unit_test(chooser_names_a_foreign_one),
  };
  return cmocka_run_group_tests_name("object_pool eviction", tests, time_stands_still, NULL);
}
