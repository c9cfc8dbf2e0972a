/* SPDX-License-Identifier: MIT
 * Heaps that are full: they call back, go on in another heap, or fail and keep errno. */
#include "heap/heap.h"
#include "kinds.h"
#include "levels.h"
#include "option.h"
#include "os_fake.h"
#include <errno.h>

typedef struct helper {
  unsigned calls, last_attempt, yes;
  size_t bytes;
  size_t frees;
} helper_t;

static bool help(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  helper_t *helper = context;
  helper->calls++;
  helper->last_attempt = attempt;
  helper->bytes = bytes_needed;
  for (size_t i = 0; i < helper->frees; i++)
    pool_heap_free(heap, blocks[i]);
  helper->frees = 0;
  errno = EIO; /* of something it has tried on its way */
  return helper->calls <= helper->yes;
}

static void asked_for_help(void **state)
{
  (void)state;
  os_fake_heal();
  helper_t helper = {.yes = 1000};
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 1 << 20, .on_exhausted = help, .context = &helper});
  size_t count = fill(heap, 500, BLOCKS);
  assert_true(count > 1500);
  assert_true(helper.calls == 64 && helper.last_attempt == 63 && helper.bytes == 500);
  assert_true(figures(heap).retried_count == 64 && figures(heap).exhausted_count == 1);
  helper = (helper_t){.yes = 0};
  assert_null(pool_heap_alloc(heap, 500));
  assert_int_equal(helper.calls, 1);
  helper = (helper_t){.yes = 1, .frees = 100};
  errno = 77;
  assert_non_null(pool_heap_alloc(heap, 500));
  assert_true(helper.calls == 1 && errno == 77);
  check_everything();
  pool_heap_destroy(heap);
}

/* Also where another heap serves in the end, whatever was done to the block. */
static void success_keeps_errno(void **state)
{
  (void)state;
  os_fake_heal();
  helper_t helper = {.yes = 0};
  pool_heap_options_t options = {.budget = 64 << 10, .on_exhausted = help, .context = &helper, .overflow = pool_heap_default()};
  pool_heap_t *heap = heap_new(&options);
  for (size_t size = 100; size < 10 * MIB; size *= 3) {
    errno = 77;
    char *block = pool_heap_alloc(heap, size), *zeroed = pool_heap_zalloc(heap, size);
    char *aligned = pool_heap_aligned_alloc(heap, 256, size);
    block = pool_heap_realloc(heap, block, size * 2);
    assert_true(block && zeroed && aligned && errno == 77);
    pool_free(block);
    pool_free(zeroed);
    pool_free(aligned);
  }
  assert_true(helper.calls > 10);
  pool_heap_destroy(heap);
}

static void overflowing(void *options)
{
  os_fake_heal();
  pool_heap_t *last = heap_new(options);
  pool_heap_t *next = heap_new(&(pool_heap_options_t){.budget = 32 << 10, .overflow = last});
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 64 << 10, .overflow = next});
  size_t count = fill(heap, 200, 900), mine = 0, others = 0;
  for (size_t i = 0; i < count; i++) {
    mine += pool_heap_of(blocks[i]) == heap;
    others += pool_heap_of(blocks[i]) == next;
  }
  must(mine > 100 && others > 50 && count > mine + others);
  must(figures(heap).overflowed_count == count - mine && check_everything());
  verify(200, count);
  for (size_t i = 0; i < count; i += 3) {
    void *moved = pool_heap_realloc(heap, blocks[i], 250);
    must(!moved || pattern_kept(moved, 200, 200, i));
    blocks[i] = moved ? moved : blocks[i];
  }
  free_all(heap, count);
  must(figures(heap).live_blocks == 0 && figures(next).live_blocks == 0 && figures(last).live_blocks == 0 &&
       check_everything());
  pool_heap_destroy(heap);
  pool_heap_destroy(next);
  pool_heap_destroy(last);
}

static void overflowing_test(void **state)
{
  (void)state;
  for_each_kind(overflowing);
}

/* The buffer may itself be a block of another heap, and then what is in it is the inner heap's. */
static void memory_from_a_block(void *argument)
{
  (void)argument;
  os_fake_heal();
  for (size_t size = 20000; size <= 3 * MIB; size *= 4) {
    void *memory = pool_alloc(size);
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.memory = memory, .memory_size = size});
    size_t count = fill(heap, 100, BLOCKS);
    must(count > 100 && pool_heap_of(blocks[0]) == heap);
    verify(100, count);
    free_all(heap, count);
    pool_heap_destroy(heap);
    pool_free(memory);
    must(check_everything());
  }
}

static void memory_from_a_block_test(void **state)
{
  (void)state;
  in_child(memory_from_a_block, NULL);
}

/* What could not be had is not counted, and nothing of it is kept. */
static void huge_in_vain(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(NULL);
  void *block = pool_heap_alloc(heap, 300 * MIB);
  assert_non_null(block);
  pool_trim(0); /* which is tried first */
  size_t mapped = os_fake.mapped_bytes, held = figures(heap).held_bytes;
  os_fake.fail_kinds = 1 << OS_MAP | 1 << OS_REMAP;
  assert_null(pool_heap_alloc(heap, 300 * MIB));
  assert_null(pool_heap_realloc(heap, block, 400 * MIB));
  os_fake_heal();
  assert_int_equal(os_fake.mapped_bytes, mapped);
  assert_int_equal(figures(heap).held_bytes, held);
  pool_heap_destroy(heap);
  assert_int_equal(os_fake.mapped_bytes, mapped - 300 * MIB);
}

/* What was freed waits for the purge delay, but goes before a request is refused: in whatever blocks it was, and whatever the
 * request is for. */
static void what_is_free_goes_first(void *argument)
{
  enum { EACH_MIB = 16, MANY = 100000 };
  static const size_t sizes[] = {1000, 20000, 100000, MIB, 6 * MIB};
  static char *all[MANY];
  const size_t *size = argument;
  size_t count = 0, first = 0;
  manager_up();
  settings.purge_delay_ms = space_of_process.purge_delay_ms = 3600000;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t bytes = 0; bytes + sizes[i] <= EACH_MIB * MIB; bytes += sizes[i])
      must((all[count++] = pool_alloc(sizes[i])) != NULL);
  while (first < count)
    pool_free(all[first++]);
  os_fake.mapped_most = os_fake.mapped_bytes;
  size_t most = 4 * EACH_MIB * MIB / *size;
  for (count = 0; count < most; count++)
    must((all[count] = pool_alloc(*size)) != NULL);
  os_fake.mapped_most = 0;
  must(check_everything());
}

WITH(what_is_free_goes_first, size_t, 1000, 20000, 100000, MIB, 6 * MIB, 60 * MIB)

/* A heap whose budget has room for a block, but not for a slab, leaves the process's free memory and the caches of the default
 * heap alone: neither could serve its requests. */
static void full_budgets_trim_nothing(void *argument)
{
  static const size_t sizes[] = {16, 100, 1000, 8000, 20000, 70000, 300000};
  (void)argument;
  os_fake_heal();
  void *large = pool_alloc(20 * UNIT), *small = pool_alloc(100);
  must(large && small);
  pool_free(small);
  pool_free(large);
  size_t cached = figures(pool_heap_default()).cached_bytes, dirty = space_of_process.dirty_units;
  unsigned purges = os_fake.count[OS_PURGE];
  must(cached && dirty);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 3 << 20});
    while (pool_heap_alloc(heap, sizes[i]))
      continue;
    for (int again = 0; again < 10; again++)
      must(!pool_heap_alloc(heap, sizes[i]));
    must(os_fake.count[OS_PURGE] == purges && figures(pool_heap_default()).cached_bytes >= cached);
    pool_heap_destroy(heap);
    purges = os_fake.count[OS_PURGE];
  }
}

static void full_budgets_trim_nothing_test(void **state)
{
  (void)state;
  in_child(full_budgets_trim_nothing, NULL);
}

/* The default heap is a full ancestor, and what it has cached counts against its budget. Its child gets that memory. */
static void caches_of_a_full_ancestor(void *argument)
{
  size_t size = *(size_t *)argument;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.parent = pool_heap_default()});
  void *large = pool_alloc(8 * UNIT);
  must(large && pool_heap_set_budget(pool_heap_default(), 16 * MIB));
  while (pool_heap_alloc(heap, size) || pool_alloc(20))
    continue;
  must(!pool_heap_alloc(heap, size));
  size_t held = budget_held(&default_heap.budget);
  pool_free(large);
  must(budget_held(&default_heap.budget) == held);
  must(pool_heap_alloc(heap, size));
}

WITH(caches_of_a_full_ancestor, size_t, 100, 20000, 4 * UNIT)

static void opens_after_a_purge(os_call_t kind)
{
  if (kind == OS_PURGE || kind == OS_UNMAP)
    os_fake.fail_kinds = 0;
}

/* A guarded block takes pages, not units. A budget that has room for these gets the memory that the process has left. */
static void guarded_pages_of_a_small_rest(void *argument)
{
  (void)argument;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 64 * MIB, .flags = POOL_HEAP_GUARDED});
  void *dirty = pool_alloc(MIB);
  must(dirty && pool_heap_alloc(heap, 100)); /* the area has its tables */
  must(pool_heap_set_budget(heap, figures(heap).held_bytes + UNIT / 2));
  pool_free(dirty);
  os_fake.fail_kinds = 1 << OS_OPEN;
  os_fake.during = opens_after_a_purge;
  must(pool_heap_alloc(heap, 100));
  os_fake_heal();
}

static void guarded_pages_of_a_small_rest_test(void **state)
{
  (void)state;
  in_child(guarded_pages_of_a_small_rest, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(asked_for_help),
    cmocka_unit_test(success_keeps_errno),
    cmocka_unit_test(overflowing_test),
    cmocka_unit_test(memory_from_a_block_test),
    cmocka_unit_test(full_budgets_trim_nothing_test),
    cmocka_unit_test(caches_of_a_full_ancestor_test),
    cmocka_unit_test(guarded_pages_of_a_small_rest_test),
    cmocka_unit_test(huge_in_vain),
    cmocka_unit_test(what_is_free_goes_first_test),
  };
  return cmocka_run_group_tests_name("heap_exhaustion", tests, NULL, NULL);
}
