/* SPDX-License-Identifier: MIT
 * Checked pools fill what is put, and find what was written to afterwards. */
#include "things.h"

static bool is_filled(const void *object, size_t size, const char *with)
{
  for (size_t i = 0; i < size; i++)
    if (((const char *)object)[i] != with[i % 4])
      return false;
  return true;
}

static void checked_fills_and_makes_anew(void **state)
{
  (void)state;
  counts_t c = {0};
  object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 10, .flags = OBJECT_POOL_CHECKED});
  get_all(pool, 10);
  for (int i = 0; i < 10; i++) {
    things[i]->child = things[0];
    object_pool_put(pool, things[i]);
    assert_true(is_filled(things[i], sizeof(thing_t), "\x0b\xdb\xea\x1d"));
  }
  agrees(&c, 10, 0, 10);
  get_all(pool, 10);
  agrees(&c, 20, 0, 10);
  object_pool_put_all(pool);
  agrees(&c, 20, 0, 20);
  object_pool_destroy(pool);
  assert_int_equal(c.destructed, 20);
}

static void checked_without_hooks(void **state)
{
  (void)state;
  object_pool_t *pool =
    object_pool_create(&(object_pool_options_t){.object_size = 33, .capacity = 10, .flags = OBJECT_POOL_CHECKED});
  for (int i = 0; i < 30; i++) {
    char *object = object_pool_get(pool);
    assert_true(is_filled(object, 33, "\xcd\xcd\xcd\xcd"));
    memset(object, i, 33);
    object_pool_put(pool, object);
    assert_true(is_filled(object, 33, "\x0b\xdb\xea\x1d"));
  }
  object_pool_destroy(pool);
}

static size_t offset;
static void write_then_get(void *pool)
{
  char *object = object_pool_get(pool);
  object_pool_put(pool, object);
  object[offset]++;
  (void)!object_pool_get(pool);
}
static void write_then_destroy(void *pool)
{
  char *object = object_pool_get(pool);
  object_pool_put(pool, object);
  object[offset]++;
  object_pool_destroy(pool);
}

static void writes_after_put_are_found(void **state)
{
  (void)state;
  for (int hooks = 0; hooks < 2; hooks++)
    for (offset = 0; offset < sizeof(thing_t); offset += 7) {
      counts_t c = {0};
      char words[160];
      object_pool_t *pool =
        hooks ? create(&c, (object_pool_options_t){.capacity = 4, .flags = OBJECT_POOL_CHECKED})
              : object_pool_create(&(object_pool_options_t){
                  .name = "things", .object_size = sizeof(thing_t), .capacity = 4, .flags = OBJECT_POOL_CHECKED});
      char *first = object_pool_get(pool);
      object_pool_put(pool, first);
      snprintf(words, sizeof words,
               "tidepool: object_pool_get(0x%lx): written to after it was put, "
               "at offset %zu of an object of %zu bytes of pool \"things\"\n",
               (unsigned long)(uintptr_t)first, offset, sizeof(thing_t));
      aborts_with(write_then_get, pool, words);
      aborts_with(write_then_destroy, pool, "tidepool: object_pool_destroy(0x");
      object_pool_destroy(pool);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(checked_fills_and_makes_anew),
    cmocka_unit_test(checked_without_hooks),
    cmocka_unit_test(writes_after_put_are_found),
  };
  return cmocka_run_group_tests_name("object_pool checked", tests, time_stands_still, NULL);
}
