/* SPDX-License-Identifier: MIT
 * The whole family of functions, in every kind of heap. */
#include "heaps.h"

#define NO_MEMORY(call) \
  do { \
    errno = UNTOUCHED; \
    assert_null(call); \
    assert_int_equal(errno, ENOMEM); \
  } while (0)

static void try_family(pool_heap_t *heap)
{
  unsigned char *block = pool_heap_alloc(heap, 0), *other = pool_heap_alloc(heap, 0);
  assert_true(block && other && block != other);
  memset(block, 0xff, pool_usable_size(block));
  pool_heap_free(heap, block);
  pool_free(other);
  for (size_t size = 1; size <= 300000; size = size * 5 + 3) {
    assert_non_null(block = pool_heap_alloc(heap, size));
    memset(block, 0xff, size);
    pool_heap_free(heap, block);
    assert_non_null(block = pool_heap_zalloc(heap, size));
    assert_true(all_zero(block, pool_usable_size(block)));
    memset(block, 0xff, size);
    pool_heap_free(heap, block);
    assert_non_null(block = pool_heap_calloc(heap, size, 1));
    assert_true(all_zero(block, pool_usable_size(block)));
    pattern_write(block, size, size);
    assert_non_null(block = pool_heap_realloc(heap, block, size * 2));
    assert_true(pattern_kept(block, size, size, size));
    assert_non_null(block = pool_heap_realloc(heap, block, size));
    assert_true(pattern_kept(block, size, size, size));
    assert_ptr_equal(pool_heap_realloc(heap, block, pool_usable_size(block)), block);
    assert_ptr_equal(pool_block_start(block + size - 1, NULL), block);
    assert_true(pool_in_use(block));
    pool_heap_free(heap, block);
    assert_false(pool_in_use(block));
  }
  assert_non_null(block = pool_heap_realloc(heap, NULL, 10));
  assert_null(pool_heap_realloc(heap, block, 0));
  pool_heap_free(heap, NULL);
  NO_MEMORY(pool_heap_alloc(heap, opaque((size_t)PTRDIFF_MAX + 1)));
  NO_MEMORY(pool_heap_zalloc(heap, opaque(SIZE_MAX)));
  NO_MEMORY(pool_heap_calloc(heap, opaque(SIZE_MAX / 2), 4));
  NO_MEMORY(pool_heap_aligned_alloc(heap, 64, opaque(SIZE_MAX - 100)));
  assert_non_null(block = pool_heap_alloc(heap, 100));
  pattern_write(block, 100, 7);
  NO_MEMORY(pool_heap_realloc(heap, block, opaque(PTRDIFF_MAX)));
  assert_true(pattern_holds(block, 100, 7));
  errno = UNTOUCHED;
  pool_heap_free(heap, block);
  assert_int_equal(errno, UNTOUCHED);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
}

static void family_in_every_heap(void **state)
{
  (void)state;
  static char buffer[4 << 20];
  const pool_heap_options_t kinds[] = {
    {.budget = 0},
    {.budget = 4 << 20},
    {.budget = 32 << 20},
    {.reserve = 1 << 20},
    {.reserve = 16 << 20, .budget = 32 << 20},
    {.memory = buffer, .memory_size = sizeof buffer},
  };
  static const unsigned flags[] = {0,
                                   POOL_HEAP_SINGLE_THREAD,
                                   POOL_HEAP_CHECKED,
                                   POOL_HEAP_ZERO_ON_FREE,
                                   POOL_HEAP_SINGLE_THREAD | POOL_HEAP_CHECKED,
                                   POOL_HEAP_CHECKED | POOL_HEAP_ZERO_ON_FREE};
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    for (size_t j = 0; j < COUNT_OF(flags); j++) {
      pool_heap_options_t options = kinds[i];
      options.flags = flags[j];
      pool_heap_t *heap = heap_with(options);
      try_family(heap);
      pool_heap_reset(heap);
      try_family(heap);
      pool_heap_destroy(heap);
    }
  assert_true(check_everything());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(family_in_every_heap),
  };
  return cmocka_run_group_tests_name("family", tests, NULL, NULL);
}
