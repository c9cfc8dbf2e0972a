/* SPDX-License-Identifier: MIT
 * Heaps with a budget, a reserve or memory of the caller's: what fits, and what their records take of it. */
#include "kinds.h"
#include "option.h"
#include "os_fake.h"
#include <errno.h>
#include <pthread.h>

static void what_a_budget_is_good_for(void **state)
{
  static const struct {
    size_t budget;
    unsigned percent;
  } promised[] = {{256 << 10, 85}, {4 << 20, 92}};
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < 2; i++) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = promised[i].budget});
    static void *many[1 << 17];
    size_t n = 0, bytes = 0;
    while ((many[n] = pool_heap_alloc(heap, 100)) != NULL)
      bytes += pool_usable_size(many[n++]);
    assert_true(bytes * 100 >= promised[i].budget * promised[i].percent);
    assert_true(figures(heap).held_bytes <= promised[i].budget && figures(heap).exhausted_count == 1);
    pool_heap_destroy(heap);
  }
}

static void what_memory_is_good_for(void **state)
{
  static const struct {
    size_t size, served;
  } promised[] = {{16 << 10, 180}, {64 << 10, 900}, {1 << 20, 15500}};
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < 3; i++)
    for (size_t skew = 0; skew < 64; skew += 7) {
      uint64_t calls = os_fake.calls;
      pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = buffer + skew, .memory_size = promised[i].size});
      size_t count = fill(heap, 64, BLOCKS);
      assert_true(count >= promised[i].served);
      for (size_t j = 0; j < count; j++)
        assert_true((char *)blocks[j] >= buffer + skew && (char *)blocks[j] + 64 <= buffer + skew + promised[i].size);
      free_all(heap, count);
      assert_int_equal(os_fake.calls, calls); /* the system was never asked */
      check_everything();
      pool_heap_destroy(heap);
    }
}

static void parents(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *top = heap_new(&(pool_heap_options_t){.budget = 30 << 20});
  pool_heap_t *middle = heap_new(&(pool_heap_options_t){.parent = top});
  pool_heap_t *a = heap_new(&(pool_heap_options_t){.parent = middle, .budget = 20 << 20});
  pool_heap_t *b = heap_new(&(pool_heap_options_t){.parent = middle, .budget = 20 << 20});
  size_t in_a = fill(a, 10000, BLOCKS), in_b = fill(b, 10000, BLOCKS);
  assert_true(in_a > in_b && in_b > 500);
  assert_true(figures(top).held_bytes <= 30 << 20 && figures(top).held_bytes > 28 << 20);
  assert_int_equal(figures(top).peak_held_bytes, figures(top).held_bytes);
  check_everything();
  pool_heap_destroy(b);
  pool_heap_reset(a);
  pool_heap_trim(a, 0);
  assert_true(figures(top).held_bytes < 1 << 20);
  pool_heap_destroy(a);
  pool_heap_destroy(middle);
  check_everything();
  pool_heap_destroy(top);
}

/* A heap whose budget was raised when its region was full has records of new classes in the process's space: they end with it.
 */
static void records_beyond_the_region(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_destroy(heap_new(NULL));
  size_t before = space_of_process.used_units;
  for (size_t i = 0; i < 20; i++) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 256 << 10});
    while (pool_heap_alloc(heap, 64)) {}
    assert_true(pool_heap_set_budget(heap, 16 << 20));
    for (size_t size = 16; size <= 8192; size += size / 16 + 16)
      assert_non_null(pool_heap_alloc(heap, size));
    check_everything();
    pool_heap_destroy(heap);
    check_everything();
  }
  assert_int_equal(space_of_process.used_units, before);
}

/* All classes' records fit into a reserve beside its blocks. */
static void records_beside_a_reserve(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.reserve = 32 << 20});
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    assert_non_null(pool_heap_alloc(heap, size_class_size(c)));
  size_t units = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    units += heap->bins[c]->held_bytes / UNIT;
  assert_int_equal(heap->region.space.used_units, units);
  check_everything();
  pool_heap_destroy(heap);
}

/* Large free blocks beside live ones: told to keep nothing, a trim gives their memory back, but not in checked heaps, which
 * look at what they hold. That does not wait for a purge delay, so it need not end. */
static void trims_inside_slabs(void **state)
{
  static const struct {
    unsigned flags;
    uint32_t delay_ms;
  } ways[] = {{0, 100}, {0, PURGE_NEVER}, {POOL_HEAP_SINGLE_THREAD, PURGE_NEVER}, {POOL_HEAP_CHECKED, 100}};
  (void)state;
  os_fake_heal();
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
    bool checked = ways[way].flags == POOL_HEAP_CHECKED;
    settings.purge_delay_ms = space_of_process.purge_delay_ms = ways[way].delay_ms;
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = ways[way].flags});
    size_t count = fill(heap, 20000, 400);
    for (size_t i = 0; i < count; i++)
      if (i % 8)
        pool_heap_free(heap, blocks[i]);
    check_everything();
    pool_heap_trim(heap, SIZE_MAX / 2);
    size_t given = pool_heap_trim(heap, 0);
    assert_int_equal(given > 100000, !checked);
    assert_int_equal(pool_heap_trim(heap, 0), 0);
    check_everything();
    for (size_t i = 0; i < count; i++)
      if (i % 8)
        assert_non_null(pool_heap_alloc(heap, 20000));
    check_everything();
    pool_heap_destroy(heap);
  }
  settings.purge_delay_ms = space_of_process.purge_delay_ms = PURGE_DELAY_DEFAULT_MS;
}

/* What is idle in a heap's own region goes back with time, as it does in the process's space, while the heap is used a little.
 */
static void regions_are_ticked(void *options)
{
  enum { KEPT_UNITS = 16, LITTLE = 400 };
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  space_t *space = &heap->region.space;
  must(space->own_arena && space->purgeable);
  free_all(heap, fill(heap, 1000, 2500));
  for (size_t i = 0; i < 1000; i++) {
    os_fake.now_ms += 30;
    free_all(heap, fill(heap, 1000, LITTLE));
    pool_free(pool_alloc(40000));
  }
  must(space_figures(space).dirty_bytes <= (size_t)KEPT_UNITS << UNIT_LOG2 && check_everything());
  pool_heap_destroy(heap);
}
WITH(regions_are_ticked, pool_heap_options_t, {.reserve = 9 << 20}, {.reserve = 30 << 20})

/* Whoever lowers a budget, or asks for more than there is, gets no magazines of heaps that it did not ask: one of these may be
 * ending in another thread, which has taken all threads' magazines of it back already. */
static void *fill_and_free(void *heap)
{
  free_all(heap, fill(heap, 1000, 3000));
  return NULL;
}

static void no_magazines_of_children(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds_of_child[] = {{0}, {.budget = 4 << 20}, {.budget = 12 << 20}, {.reserve = 1 << 20}};
  os_fake_heal();
  for (size_t i = 0; i < sizeof kinds_of_child / sizeof *kinds_of_child; i++) {
    pthread_t thread;
    pool_heap_t *parent = heap_new(&(pool_heap_options_t){.budget = 16 << 20}),
                *middle = heap_new(&(pool_heap_options_t){.parent = parent});
    pool_heap_options_t options = kinds_of_child[i];
    options.parent = middle;
    pool_heap_t *child = heap_new(&options);
    assert_int_equal(pthread_create(&thread, NULL, fill_and_free, child), 0);
    pthread_join(thread, NULL);
    pool_free(pool_alloc(100));
    assert_false(pool_heap_set_budget(parent, 1000));
    while (pool_heap_alloc(parent, 1000)) {}
    pool_heap_trim(parent, 0);
    assert_non_null(thread_current());
    assert_null(thread_magazines_if_any(thread_current(), child));
    assert_null(thread_magazines_if_any(thread_current(), middle));
    pool_heap_destroy(child);
    pool_heap_destroy(middle);
    pool_heap_destroy(parent);
  }
}

static void changing_the_budget(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 16 << 20});
  size_t count = fill(heap, 1000, 5000);
  assert_int_equal(count, 5000);
  assert_false(pool_heap_set_budget(heap, 1 << 20));
  assert_int_equal(figures(heap).budget, 16 << 20);
  free_all(heap, count);
  assert_true(pool_heap_set_budget(heap, 1 << 20));
  assert_true(fill(heap, 1000, 5000) < 1100);
  assert_true(pool_heap_set_budget(heap, 0));
  assert_int_equal(fill(heap, 1000, 5000), 5000);
  check_everything();
  pool_heap_destroy(heap);
}

/* Wherever the system puts a region its blocks are as aligned as was asked. */
static void aligned_in_any_region(void *options)
{
  os_fake_heal();
  for (size_t turn = 0; turn < 3; turn++) {
    pool_heap_t *heap = heap_new(options);
    for (size_t alignment = 16; alignment <= 64 * KIB; alignment *= 2)
      for (size_t size = 1; size < 70000; size = size * 7 + 3) {
        void *block = pool_heap_aligned_alloc(heap, alignment, size);
        must((uintptr_t)block % alignment == 0);
        pool_heap_free(heap, block);
        for (size_t i = 0; i < 4 && block; i++) {
          must((block = pool_heap_aligned_alloc(heap, alignment, size)) == NULL || (uintptr_t)block % alignment == 0);
          blocks[i] = block;
        }
        for (size_t i = 0; i < 4; i++)
          pool_heap_free(heap, blocks[i]);
        memset(blocks, 0, 4 * sizeof *blocks);
      }
    check_everything();
    pool_heap_destroy(heap);
  }
}

static void aligned_in_any_region_test(void **state)
{
  (void)state;
  for_each_kind(aligned_in_any_region);
}

/* A buffer is refused, or it serves at least one block, whatever the classes. */
static void just_enough_memory(void **state)
{
  static size_t sizes[104];
  static const struct {
    size_t first, count;
  } tables[] = {{0, 0}, {16, 1}, {16, 10}, {16, 104}, {512, 1}, {4096, 60}, {16384, 1}, {65536, 2}};
  (void)state;
  os_fake_heal();
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (size_t size = 2000, good = 0; size < 200000; size += size < 12000 ? 16 : 1000) {
      for (size_t i = 0; i < tables[t].count; i++)
        sizes[i] = tables[t].first + 16 * i;
      pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = buffer,
                                                                  .memory_size = size,
                                                                  .size_classes = tables[t].count ? sizes : NULL,
                                                                  .size_class_count = tables[t].count});
      assert_true(heap || errno == EINVAL);
      if (heap) {
        assert_non_null(pool_heap_alloc(heap, 1));
        pool_heap_destroy(heap);
        good++;
      }
      assert_true(good || size < 199000);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_a_budget_is_good_for),
    cmocka_unit_test(what_memory_is_good_for),
    cmocka_unit_test(parents),
    cmocka_unit_test(records_beyond_the_region),
    cmocka_unit_test(records_beside_a_reserve),
    cmocka_unit_test(trims_inside_slabs),
    cmocka_unit_test(regions_are_ticked_test),
    cmocka_unit_test(no_magazines_of_children),
    cmocka_unit_test(changing_the_budget),
    cmocka_unit_test(aligned_in_any_region_test),
    cmocka_unit_test(just_enough_memory),
  };
  return cmocka_run_group_tests_name("heap_budgets", tests, NULL, NULL);
}
