/* SPDX-License-Identifier: MIT
 * Heaps whose blocks are from malloc, as they are under valgrind and the sanitizers. */
#include "heaps.h"

__attribute__((constructor)) static void take_blocks_from_malloc(void) { must(pool_option_set("blocks", "malloc")); }

/* The request that is a byte too large is refused, and has no other effect. */
static void largest_is_exact(void **state)
{
  (void)state;
  static const unsigned flags[] = {0, POOL_HEAP_SINGLE_THREAD, POOL_HEAP_CHECKED, POOL_HEAP_ZERO_ON_FREE};
  for (size_t i = 0; i < COUNT_OF(flags); i++) {
    pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 31552, .flags = flags[i]});
    for (int n = 0; n < 50; n++) {
      size_t largest = pool_heap_largest(heap), held = stats_of(heap).held_bytes;
      assert_null(pool_heap_alloc(heap, largest + 1));
      assert_true(pool_heap_largest(heap) == largest && stats_of(heap).held_bytes == held);
      void *block = pool_heap_alloc(heap, largest);
      assert_non_null(block);
      pool_heap_free(heap, block);
      assert_int_equal(stats_of(heap).held_bytes, held);
      must(pool_heap_alloc(heap, 1 + (size_t)n * 7));
    }
    assert_int_equal(stats_of(heap).exhausted_count, 50);
    pool_heap_destroy(heap);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(largest_is_exact)};
  return cmocka_run_group_tests_name("malloced", tests, NULL, NULL);
}
