/* SPDX-License-Identifier: MIT
 * The overflow heap of an exhausted one, of each kind. */
#include "helpers.h"

static void overflow_serves(void **state)
{
  (void)state;
  pool_heap_t *last = heap_with_budget(1 << 20), *second = heap_with((pool_heap_options_t){.budget = SMALL, .overflow = last});
  helper_t helper = helper_that(NULL, ~0u);
  helper.give_up_at = 1;
  pool_heap_t *heap =
    heap_with((pool_heap_options_t){.budget = SMALL, .overflow = second, .on_exhausted = on_exhausted, .context = &helper});
  list_t list = {0};
  list_exhaust(&list, heap, 100);
  pool_stats_t first_stats = stats_of(heap), second_stats = stats_of(second), last_stats = stats_of(last);
  assert_true(helper.calls > 0 && helper.calls % 2 == 0);
  assert_int_equal(first_stats.exhausted_count, 1);
  assert_int_equal(first_stats.overflowed_count, second_stats.live_blocks + last_stats.live_blocks);
  assert_int_equal(second_stats.overflowed_count, last_stats.live_blocks);
  assert_int_equal(first_stats.live_blocks + second_stats.live_blocks + last_stats.live_blocks, list.count);
  assert_true(last_stats.live_blocks > second_stats.live_blocks);
  assert_ptr_equal(pool_heap_of(list.first), last);
  list_free(&list, heap);
  assert_int_equal(stats_of(heap).live_blocks + stats_of(second).live_blocks + stats_of(last).live_blocks, 0);
  assert_true(check_everything());
  pool_heap_destroy(heap);
  pool_heap_destroy(second);
  pool_heap_destroy(last);
}

static void realloc_takes_it_back(void **state)
{
  (void)state;
  pool_heap_t *other = heap_with((pool_heap_options_t){0}),
              *heap = heap_with((pool_heap_options_t){.budget = SMALL, .overflow = other});
  list_t list = {0};
  while (!stats_of(heap).overflowed_count)
    assert_true(list_take(&list, heap, 1000));
  void *block = list_pop(&list);
  assert_ptr_equal(pool_heap_of(block), other);
  pattern_write(block, 1000, 5);
  list_free(&list, heap);
  block = pool_heap_realloc(heap, block, 3000);
  assert_ptr_equal(pool_heap_of(block), heap);
  assert_true(pattern_kept(block, 1000, 1000, 5));
  pool_heap_free(heap, block);
  block = pool_heap_zalloc(heap, 2 << 20);
  assert_ptr_equal(pool_heap_of(block), other);
  assert_true(all_zero(block, 2 << 20));
  pool_heap_free(heap, block);
  block = pool_heap_aligned_alloc(heap, 1 << 20, 2 << 20);
  assert_int_equal((uintptr_t)block & ((1 << 20) - 1), 0);
  pool_heap_free(heap, block);
  pool_heap_destroy(heap);
  pool_heap_destroy(other);
}

/* The two heaps need not be of one kind. */
static void try_overflow(pool_heap_options_t first, pool_heap_options_t second)
{
  static const size_t classes[] = {512, 4096};
  second.size_classes = second.size_class_count ? classes : NULL;
  second.size_class_count = second.size_class_count ? COUNT_OF(classes) : 0;
  pool_heap_t *other = heap_with(second);
  first.budget = SMALL;
  first.overflow = other;
  pool_heap_t *heap = heap_with(first);
  for (size_t size = 16; size < 10000; size = size * 3 + 1) {
    list_t list = {0};
    uint64_t before = stats_of(heap).overflowed_count;
    while (stats_of(heap).overflowed_count < before + 20) {
      assert_true(list_take(&list, heap, size));
      memset((char *)list.first + sizeof(void *), 0xaa, size - sizeof(void *));
      assert_true(pool_usable_size(list.first) >= size);
    }
    unsigned char *block = pool_heap_zalloc(heap, size);
    assert_true(all_zero(block, size));
    assert_non_null(block = pool_heap_realloc(heap, block, size * 2));
    pool_heap_free(heap, block);
    list_free(&list, heap);
  }
  assert_int_equal(stats_of(other).live_blocks, 0);
  assert_true(check_heap(heap) && check_heap(other));
  pool_heap_destroy(heap);
  pool_heap_destroy(other);
}

static void overflow_of_another_kind(void **state)
{
  (void)state;
  pool_heap_options_t plain = {0}, checked = {.flags = POOL_HEAP_CHECKED}, zeroing = {.flags = POOL_HEAP_ZERO_ON_FREE},
                      own_classes = {.size_class_count = 1};
  try_overflow(plain, zeroing);
  try_overflow(plain, own_classes);
  try_overflow(zeroing, plain);
  try_overflow(checked, plain);
  try_overflow(checked, checked);
  try_overflow(checked, own_classes);
}

static void plain_over_checked(void *unused)
{
  (void)unused;
  try_overflow((pool_heap_options_t){0}, (pool_heap_options_t){.flags = POOL_HEAP_CHECKED});
}

static void overflow_into_a_checked_heap(void **state)
{
  (void)state;
  in_child(plain_over_checked, NULL);
}

/* The default heap can be what everything overflows to. */
static void overflow_into_the_default_heap(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = SMALL, .overflow = pool_heap_default()});
  list_t list = {0};
  list_take_many(&list, heap, 100, 10000);
  assert_ptr_equal(pool_heap_of(list.first), pool_heap_default());
  list_free(&list, heap);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(overflow_serves),
    cmocka_unit_test(realloc_takes_it_back),
    cmocka_unit_test(overflow_of_another_kind),
    cmocka_unit_test(overflow_into_a_checked_heap),
    cmocka_unit_test(overflow_into_the_default_heap),
  };
  return cmocka_run_group_tests_name("overflow", tests, NULL, NULL);
}
