/* SPDX-License-Identifier: MIT
 * Heaps with size classes of their own. */
#include "heaps.h"

static void refuses_classes(const size_t *sizes, size_t count)
{
  refuses((pool_heap_options_t){.size_classes = sizes, .size_class_count = count}, EINVAL);
}

static void bad_classes(void **state)
{
  (void)state;
  size_t many[105];
  for (size_t i = 0; i < COUNT_OF(many); i++)
    many[i] = (i + 1) * 16;
  refuses_classes(many, 105);
  refuses_classes(many, 0);
  refuses_classes(NULL, 4);
  refuses_classes((size_t[]){64, 32}, 2);
  refuses_classes((size_t[]){64, 64}, 2);
  refuses_classes((size_t[]){0, 64}, 2);
  refuses_classes((size_t[]){40}, 1);
  refuses_classes((size_t[]){16, (256 << 10) + 16}, 2);
  pool_heap_t *heap = heap_with((pool_heap_options_t){.size_classes = many, .size_class_count = 104});
  pool_heap_destroy(heap);
}

static void expect_size(pool_heap_t *heap, size_t size, size_t usable)
{
  void *block = pool_heap_alloc(heap, opaque(size));
  assert_non_null(block);
  assert_int_equal(pool_usable_size(block), usable);
  memset(block, 0xee, usable);
  pool_heap_free(heap, block);
}

static void try_own_classes(pool_heap_options_t options)
{
  size_t sizes[] = {48, 1024, 24576, 256 << 10};
  options.size_classes = sizes;
  options.size_class_count = COUNT_OF(sizes);
  pool_heap_t *heap = heap_with(options);
  memset(sizes, 0, sizeof sizes); /* they were copied */
  expect_size(heap, 0, 48);
  expect_size(heap, 48, 48);
  expect_size(heap, 49, 1024);
  expect_size(heap, 1024, 1024);
  expect_size(heap, 1025, 24576);
  expect_size(heap, 100000, 256 << 10);
  expect_size(heap, 320 << 10, 320 << 10);
  void *block = pool_heap_alloc(heap, 20);
  pattern_write(block, 20, 1);
  assert_non_null(block = pool_heap_realloc(heap, block, 1000));
  assert_true(pattern_kept(block, 20, 20, 1));
  assert_int_equal(pool_usable_size(block), 1024);
  assert_non_null(block = pool_heap_realloc(heap, block, 10));
  assert_true(pattern_kept(block, 10, 20, 1));
  pool_free(block);
  for (size_t alignment = 1; alignment <= 64 << 10; alignment *= 2) {
    assert_non_null(block = pool_heap_aligned_alloc(heap, alignment, 40));
    assert_int_equal((uintptr_t)block % alignment, 0);
    pool_heap_free(heap, block);
  }
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

static void own_classes(void **state)
{
  (void)state;
  static char buffer[2 << 20];
  try_own_classes((pool_heap_options_t){0});
  try_own_classes((pool_heap_options_t){.budget = 4 << 20});
  try_own_classes((pool_heap_options_t){.budget = 40 << 20});
  try_own_classes((pool_heap_options_t){.reserve = 4 << 20});
  try_own_classes((pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
  try_own_classes((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer});
  assert_true(check_everything());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bad_classes),
    cmocka_unit_test(own_classes),
  };
  return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
