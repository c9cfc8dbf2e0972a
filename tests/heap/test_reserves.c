/* SPDX-License-Identifier: MIT
 * Reserves of any length, and what a user writes first: a budget that is reserved as a whole. */
#include "heaps.h"

static void reserves_of_any_length(void **state)
{
  (void)state;
  static const size_t mib[] = {1, 7, 8, 9, 64, 250, 254, 255, 256, 257, 300, 1023, 1024, 1500, 3000};
  for (size_t i = 0; i < COUNT_OF(mib); i++) {
    size_t reserve = mib[i] << 20;
    if (SANITIZED && mib[i] > 300)
      break; /* shadows of that would be too much */
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = reserve});
    if (!heap && mib[i] > 512)
      break; /* there is not so much memory */
    assert_non_null(heap);
    assert_true(stats_of(heap).held_bytes >= reserve);
    char *block = pool_heap_alloc(heap, reserve - reserve / 4), *last = block + reserve - reserve / 4 - 1;
    assert_non_null(block);
    *block = *last = 1;
    assert_ptr_equal(pool_heap_of(last), heap);
    assert_ptr_equal(pool_block_start(last, NULL), block);
    pool_heap_free(heap, block);
    assert_non_null(block = pool_heap_alloc(heap, 100));
    assert_ptr_equal(pool_heap_of(block), heap);
    pool_free(block);
    assert_true(check_everything());
    pool_heap_destroy(heap);
    assert_null(pool_heap_of(last));
  }
}

/* Whatever the one size is that a reserve is used for: as many blocks of it as there is room for, although the parent is full.
 * What is no size class takes whole units. */
static void serves(pool_heap_options_t options, size_t size)
{
  pool_heap_t *parent = heap_with_budget(2 * options.reserve + (1 << 20));
  options.parent = parent;
  pool_heap_t *heap = heap_with(options), *full = heap_with((pool_heap_options_t){.parent = parent});
  list_t list = {0}, others = {0};
  list_exhaust(&others, full, 4096);
  list_exhaust(&others, full, 16);
  size_t good = pool_heap_good_size(heap, size);
  list_exhaust(&list, heap, size);
  if (list.count < options.reserve / good)
    print_error("a reserve of %zu bytes serves %zu blocks of %zu\n", options.reserve, list.count, good);
  assert_true(list.count >= options.reserve / good);
  pool_heap_destroy(full);
  pool_heap_destroy(heap);
  pool_heap_destroy(parent);
}

static void a_reserve_serves_any_size_class(void **state)
{
  (void)state;
  static const size_t own[] = {48, 208, 1040, 5008, 33344, 262144};
  static const size_t reserves[] = {2 << 10, 10 << 10, 100000,  128 << 10, 300 << 10,
                                    1000000, 1 << 20,  5000000, 9000000,   31 << 20};
  for (size_t r = 0; r < COUNT_OF(reserves); r++) {
    size_t reserve = reserves[r], most = reserve <= 1 << 20 ? 32 << 10 : reserve <= 8 << 20 ? 64 << 10 : 256 << 10;
    for (size_t size = 16; size <= most && size <= reserve; size += step_of(size < 512 ? 48 : size / 5))
      for (unsigned checked = 0; checked <= POOL_HEAP_CHECKED; checked += POOL_HEAP_CHECKED)
        serves((pool_heap_options_t){.reserve = reserve, .flags = (size % 3 ? 0 : POOL_HEAP_SINGLE_THREAD) | checked}, size);
    for (size_t i = 0; i < COUNT_OF(own) && own[i] <= reserve; i++)
      serves((pool_heap_options_t){.reserve = reserve, .size_classes = own, .size_class_count = COUNT_OF(own)}, own[i]);
  }
  /* As the others are cut into smaller units, so small reserves have smaller classes; these are what a user would write. */
  serves((pool_heap_options_t){.reserve = 128 << 10}, 32 << 10);
  serves((pool_heap_options_t){.reserve = 4 << 20}, 1 << 20);
}

static void all_of_the_budget_reserved(void **state)
{
  (void)state;
  for (size_t kib = 64; kib <= 64 << 10; kib += step_of(kib < 4096 ? 64 : 1024)) {
    size_t bytes = kib << 10;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = bytes, .reserve = bytes});
    assert_non_null(heap);
    pool_stats_t s = stats_of(heap);
    assert_true(s.held_bytes <= bytes && s.held_bytes >= bytes - bytes / 8);
    list_t list = {0};
    list_exhaust(&list, heap, 1000);
    s = stats_of(heap);
    assert_true(s.live_bytes >= bytes / 100 * (kib < 1024 ? 70 : 85) && s.held_bytes <= bytes);
    list_free(&list, heap);
    pool_heap_destroy(heap);
  }
  assert_true(check_everything());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(reserves_of_any_length),
    cmocka_unit_test(a_reserve_serves_any_size_class),
    cmocka_unit_test(all_of_the_budget_reserved),
  };
  return cmocka_run_group_tests_name("reserves", tests, NULL, NULL);
}
