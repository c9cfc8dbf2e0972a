/* SPDX-License-Identifier: MIT
 * Addresses that are no live object's: a question about one is answered, a put of one ends the program. */
#include "pools.h"

/* What stands for "nothing" in somebody's memory: in dumps, in filled blocks, in this library's own records. */
static const uintptr_t well_known[] = {0,
                                       1,
                                       0x0b0b0b0b0b0b0b0b,
                                       0x1deadb0b1deadb0b,
                                       0x5a5a5a5a5a5a5a5a,
                                       0x8badf00d8badf00d,
                                       0xa5a5a5a5a5a5a5a5,
                                       0xbaadf00dbaadf00d,
                                       0xcdcdcdcdcdcdcdcd,
                                       0xdeadbeefdeadbeef,
                                       0xdeadbeef,
                                       0xfeeefeeefeeefeee,
                                       UINTPTR_MAX};
enum { WELL_KNOWN = sizeof well_known / sizeof *well_known };

static void is_no_object_of(object_pool_t *pool, const void *address)
{
  assert_false(object_pool_in_use(pool, address));
  object_pool_handle_t handle = object_pool_handle(pool, address);
  assert_int_equal(handle.index | handle.generation, 0);
  assert_null(object_pool_resolve(pool, handle));
  void *next = object_pool_next(pool, address);
  assert_true(!next || (uintptr_t)next > (uintptr_t)address);
  assert_true(!next || object_pool_in_use(pool, next));
}

static void well_known_addresses(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags)
    {
      object_pool_t *pool = create_in_case((object_pool_options_t){.object_size = 1, .capacity = 200, .flags = flags}, hot);
      size_t live = object_pool_live(pool);
      for (size_t i = 0; i < WELL_KNOWN; i++)
        is_no_object_of(pool, (void *)well_known[i]);
      for (size_t i = 0; i <= sizeof *pool; i++)
        is_no_object_of(pool, (char *)pool + i);
      agrees(pool, live);
      object_pool_destroy(pool);
    }
}

static void any_address(void **state)
{
  (void)state;
  int here = 0;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 40, .capacity = 50, .flags = flags});
    object_pool_t *other = create((object_pool_options_t){.object_size = 40, .capacity = 50, .flags = flags});
    get_all(pool, 50);
    object_pool_put(pool, objects[20]);
    void *foreign = object_pool_get(other);
    const void *none[] = {NULL,
                          &here,
                          pool,
                          foreign,
                          objects[20],
                          (char *)objects[0] + 8,
                          (char *)objects[0] - 48,
                          (char *)objects[49] + 48,
                          (char *)objects[5] + 1,
                          (void *)UINTPTR_MAX,
                          (void *)(uintptr_t)agrees};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
      assert_false(object_pool_in_use(pool, none[i]));
      assert_null(object_pool_resolve(pool, object_pool_handle(pool, none[i])));
    }
    assert_true(object_pool_in_use(pool, objects[0]) && object_pool_in_use(pool, objects[49]) &&
                object_pool_in_use(other, foreign));
    object_pool_destroy(other);
    object_pool_destroy(pool);
  }
}

typedef struct misuse {
  object_pool_t *pool;
  void *object;
} misuse_t;
static void do_put(void *argument)
{
  const misuse_t *m = argument;
  object_pool_put(m->pool, m->object);
}
static void do_put_batch(void *argument)
{
  misuse_t *m = argument;
  object_pool_put_batch(m->pool, &m->object, 1);
}

static void put_ends_the_program(object_pool_t *pool, void *object)
{
  char words[128];
  snprintf(words, sizeof words, "tidepool: object_pool_put(0x%lx): not a live object of pool \"mine\"\n",
           (unsigned long)(uintptr_t)object);
  aborts_with(do_put, &(misuse_t){pool, object}, words);
  aborts_with(do_put_batch, &(misuse_t){pool, object}, "tidepool: object_pool_put_batch(0x");
}

/* All objects are there, number 7 is live. */
static void puts_of_others_end_the_program(object_pool_t *pool, void *foreign, void *block)
{
  put_ends_the_program(pool, NULL);
  put_ends_the_program(pool, foreign);
  put_ends_the_program(pool, block);
  put_ends_the_program(pool, (char *)objects[7] + 16);
  put_ends_the_program(pool, (char *)objects[49] + 32);
  put_ends_the_program(pool, pool);
}

static void bad_puts(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++) {
    object_pool_options_t o = {.name = "mine",
                               .object_size = 32,
                               .capacity = 50,
                               .construct = kind & 4 ? make_object : NULL,
                               .flags = (kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0) | (kind & 2 ? OBJECT_POOL_CHECKED : 0)};
    object_pool_t *pool = create(o), *other = create(o);
    get_all(pool, 50);
    void *foreign = object_pool_get(other), *block = pool_alloc(32);
    object_pool_put(pool, objects[3]);
    object_pool_put(pool, objects[4]);
    put_ends_the_program(pool, objects[3]);
    put_ends_the_program(pool, objects[4]);
    puts_of_others_end_the_program(pool, foreign, block);
    /* One of the two is live again, and no object that is kept ready for the next get is free. */
    const void *live = object_pool_get(pool);
    put_ends_the_program(pool, live == objects[3] ? objects[4] : objects[3]);
    puts_of_others_end_the_program(pool, foreign, block);
    object_pool_put_all(pool);
    put_ends_the_program(pool, objects[7]);
    pool_free(block);
    object_pool_destroy(other);
    object_pool_destroy(pool);
  }
}

/* Whatever is hot in the pool, and in the one it overflows to, which is asked too. */
static void bad_puts_of_well_known_addresses(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags)
    {
      object_pool_t *last = create_in_case((object_pool_options_t){.object_size = 1, .capacity = 5, .flags = flags}, hot);
      object_pool_options_t o = {.name = "mine", .object_size = 1, .capacity = 5, .flags = flags};
      o.when_full = OBJECT_POOL_OVERFLOW, o.overflow = last;
      object_pool_t *pool = create_in_case(o, hot);
      for (size_t i = 0; i < WELL_KNOWN; i++)
        put_ends_the_program(pool, (void *)well_known[i]);
      put_ends_the_program(pool, (char *)pool + 1);
      put_ends_the_program(pool, (char *)last + 1);
      object_pool_destroy(pool);
      object_pool_destroy(last);
    }
}

static void put_with_threads(void *argument)
{
  start_second_thread();
  do_put(argument);
}

static void bad_puts_with_threads(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags)
    {
      object_pool_t *pool = create_in_case((object_pool_options_t){.object_size = 16, .capacity = 10, .flags = flags}, hot);
      for (size_t i = 0; i < WELL_KNOWN; i++)
        aborts_with(put_with_threads, &(misuse_t){pool, (void *)well_known[i]}, "not a live object of pool");
      object_pool_destroy(pool);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(well_known_addresses),
    cmocka_unit_test(any_address),
    cmocka_unit_test(bad_puts),
    cmocka_unit_test(bad_puts_of_well_known_addresses),
    cmocka_unit_test(bad_puts_with_threads),
  };
  return cmocka_run_group_tests_name("object_pool addresses", tests, time_stands_still, NULL);
}
