/* SPDX-License-Identifier: MIT
 * Options that make no heap, names of heaps, and heaps that are misused. */
#include "kinds.h"
#include "os_fake.h"
#include <errno.h>

static void bad_options(void **state)
{
  static const size_t not_sixteen[] = {16, 40}, not_ascending[] = {32, 16}, too_large[] = {16, 262160}, none[] = {0};
  static const pool_heap_options_t bad[] = {
    {.flags = 1u << 20},
    {.memory = buffer},
    {.memory_size = 10000},
    {.memory = buffer, .memory_size = 100},
    {.memory = buffer, .memory_size = 1 << 20, .reserve = 1000},
    {.budget = 1000, .reserve = 2000},
    {.budget = 100},
    {.flags = POOL_HEAP_PREFAULT},
    {.flags = POOL_HEAP_LOCK_MEMORY},
    {.size_classes = not_sixteen, .size_class_count = 2},
    {.size_classes = not_ascending, .size_class_count = 2},
    {.size_classes = too_large, .size_class_count = 2},
    {.size_classes = none, .size_class_count = 1},
    {.size_classes = not_sixteen, .size_class_count = 0},
    {.size_class_count = 1},
    {.reserve = SIZE_MAX},
  };
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    errno = 0;
    assert_null(pool_heap_create(&bad[i]));
    if (errno != EINVAL)
      print_error("options %zu: errno %d\n", i, errno);
    assert_int_equal(errno, EINVAL);
  }
  check_everything();
}

static void no_heap(void **state)
{
  (void)state;
  pool_heap_destroy(NULL);
  pool_heap_reset(NULL);
  errno = 0;
  assert_null(pool_heap_alloc(NULL, 10));
  assert_int_equal(errno, EINVAL);
  errno = 0;
  assert_false(pool_heap_set_budget(NULL, 10));
  assert_int_equal(errno, EINVAL);
  assert_int_equal(pool_heap_trim(NULL, 0), 0);
  assert_false(pool_heap_walk(NULL, count_block, NULL));
}

static void names(void **state)
{
  (void)state;
  os_fake_heal();
  char name[] = "a name that is longer than the thirty-one bytes there are";
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.name = name}), *other = heap_new(NULL);
  memset(name, 'x', sizeof name - 1);
  assert_string_equal(pool_heap_name(heap), "a name that is longer than the ");
  assert_int_equal(strncmp(pool_heap_name(other), "heap-", 5), 0);
  pool_heap_destroy(heap);
  pool_heap_destroy(other);
}

static void use_destroyed(void *heap)
{
  if (pool_heap_alloc(heap, 10))
    return;
}
static void reset_default(void *heap) { pool_heap_reset(heap); }
static void destroy_default(void *heap) { pool_heap_destroy(heap); }

static void free_twice(void *heap)
{
  void *block = pool_heap_alloc(heap, 300000);
  pool_heap_free(heap, block);
  pool_heap_free(heap, block);
}

static void free_of_another(void *heap) { pool_heap_free(heap, pool_alloc(100)); }

static void misuse(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(NULL), *gone = heap_new(NULL);
  pool_heap_destroy(gone);
  aborts_with(use_destroyed, gone, "pool_heap_alloc(0x");
  aborts_with(use_destroyed, gone, "not a live heap");
  aborts_with(reset_default, pool_heap_default(), "the default heap cannot be destroyed or reset");
  aborts_with(destroy_default, pool_heap_default(), "the default heap cannot be destroyed or reset");
  aborts_with(free_twice, heap, "tidepool: pool_heap_free(0x");
  aborts_with(free_of_another, heap, "a block of another heap");
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bad_options),
    cmocka_unit_test(no_heap),
    cmocka_unit_test(names),
    cmocka_unit_test(misuse),
  };
  return cmocka_run_group_tests_name("heap_options", tests, NULL, NULL);
}
