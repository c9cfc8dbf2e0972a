/* SPDX-License-Identifier: MIT
 *
 * A name that the program also exports wins over the library's. So the library may not call any exported name itself:
 * this program defines some of them, each of which ends it. Link with -rdynamic. */
#include "ours.h"
#include "testing.h"

#define OURS(name) \
  void name(void); \
  void name(void) \
  { \
    fprintf(stderr, "the library called %s of the program\n", #name); \
    abort(); \
  }

OURS(pool_alloc)
OURS(pool_zalloc)
OURS(pool_calloc)
OURS(pool_realloc)
OURS(pool_aligned_alloc)
OURS(pool_free)
OURS(pool_free_sized)
OURS(pool_usable_size)
OURS(pool_good_size)
OURS(pool_trim)
OURS(pool_heap_default)
OURS(pool_heap_alloc)
OURS(pool_heap_free)
OURS(pool_heap_stats)
OURS(pool_heap_stats_json)
OURS(pool_stats_json)
OURS(pool_option_set)
OURS(pool_block_start)

static void test_the_library_calls_none_of_them(void **state)
{
  (void)state;
  for (size_t size = 0; size < 4 * MIB; size += size / 2 + 1) {
    void *block = malloc(size);
    assert_true(malloc_usable_size(block) >= size);
    block = realloc(block, size * 2 + 1);
    assert_non_null(block);
    free(block);
    assert_int_equal(posix_memalign(&block, 64, size), 0);
    free(block);
    free(calloc(1, size));
    free(memalign(32, size));
    free(aligned_alloc(4096, size));
    free(valloc(size));
    free(pvalloc(size));
  }
  (void)malloc_trim(0);
  (void)mallinfo2();
  (void)mallinfo();
  (void)mallopt(-1, 0);
}

static void *allocate(void *unused)
{
  (void)unused;
  free(malloc(opaque(100)));
  return NULL;
}

static void test_nor_in_threads(void **state)
{
  (void)state;
  run_threads(8, allocate);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_library_calls_none_of_them),
    cmocka_unit_test(test_nor_in_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
