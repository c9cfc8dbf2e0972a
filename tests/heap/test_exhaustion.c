/* SPDX-License-Identifier: MIT
 * What happens when a heap is exhausted, in this order: its own cached and idle memory, on_exhausted, the overflow heap, NULL. */
#include "heaps.h"

enum { SMALL = 256 << 10, LARGE = 16 << 20, ATTEMPTS = 64 };

/* ---- a callback that is told what to do ---- */

typedef struct helper {
  unsigned calls, give_up_at, help_at;     /* at this attempt; ~0: never */
  bool     in_order, inside;
  size_t   bytes_needed;
  pool_heap_t *heap;
  void   (*help)(struct helper *helper, pool_heap_t *heap);
  list_t   list;
  object_pool_t *pool;
} helper_t;

static bool on_exhausted(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  helper_t *helper = context;
  if (helper->inside)
    return false;
  helper->inside = true;
  helper->in_order &= attempt == helper->calls++;
  helper->bytes_needed = bytes_needed;
  helper->heap = heap;
  if (attempt == helper->help_at)
    helper->help(helper, heap);
  helper->inside = false;
  return attempt != helper->give_up_at;
}

static helper_t helper_that(void (*help)(helper_t *, pool_heap_t *), unsigned help_at)
{
  return (helper_t){.in_order = true, .help = help, .help_at = help_at, .give_up_at = help_at + 1};
}

static pool_heap_t *heap_helped_by(helper_t *helper, size_t budget)
{
  return heap_with((pool_heap_options_t){.budget = budget, .on_exhausted = on_exhausted, .context = helper});
}

/* Fills the heap without the callback's help. */
static void fill(pool_heap_t *heap, helper_t *helper, size_t size)
{
  helper->inside = true;
  list_exhaust(&helper->list, heap, size);
  helper->inside = false;
}

static void finish(pool_heap_t *heap, helper_t *helper)
{
  list_free(&helper->list, heap);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

/* ---- without help ---- */

static void nothing_left(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(SMALL);
  list_t list = {0};
  list_exhaust(&list, heap, 100);
  for (unsigned i = 1; i <= 3; i++) {
    errno = UNTOUCHED;
    assert_null(pool_heap_alloc(heap, 100));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(stats_of(heap).exhausted_count, i + 1);
  }
  assert_null(pool_heap_zalloc(heap, 100000));
  assert_null(pool_heap_calloc(heap, 10, 10000));
  assert_null(pool_heap_aligned_alloc(heap, 4096, 100000));
  assert_null(pool_heap_realloc(heap, NULL, 100000));
  void *block = list.first;
  assert_null(pool_heap_realloc(heap, block, 100000));
  pool_stats_t s = stats_of(heap);
  assert_int_equal(s.exhausted_count, 9);
  assert_int_equal(s.retried_count, 0);
  assert_int_equal(s.overflowed_count, 0);
  assert_int_equal(s.live_blocks, list.count);
  list_free(&list, heap);
  assert_non_null(pool_heap_alloc(heap, 100));
  pool_heap_destroy(heap);
}

/* Blocks of one class are freed; another class gets their memory without anybody being asked. */
static void own_memory_first(void **state)
{
  (void)state;
  static const size_t budgets[] = {SMALL, 4 << 20, LARGE};
  for (size_t i = 0; i < COUNT_OF(budgets); i++) {
    helper_t helper = helper_that(NULL, ~0u);
    pool_heap_t *heap = heap_helped_by(&helper, budgets[i]);
    fill(heap, &helper, 64);
    list_free(&helper.list, heap);
    errno = UNTOUCHED;
    size_t wanted = budgets[i] / 2 / 1000;
    list_take_many(&helper.list, heap, 1000, wanted);
    assert_int_equal(errno, UNTOUCHED);
    list_free(&helper.list, heap);
    void *block = pool_heap_alloc(heap, budgets[i] / 2);
    assert_non_null(block);
    pool_heap_free(heap, block);
    list_take_many(&helper.list, heap, 24, budgets[i] / 2 / 32);
    assert_int_equal(helper.calls, 0);
    finish(heap, &helper);
  }
}

/* What other threads hold back ends with them at the latest. */
static void fill_and_free(size_t index, void *heap)
{
  (void)index;
  list_t list = {0};
  list_exhaust(&list, heap, 200);
  list_free(&list, heap);
}

static void memory_of_threads_that_ended(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(4 << 20);
  run_threads(4, fill_and_free, heap);
  void *block = pool_heap_alloc(heap, 3 << 20);
  assert_non_null(block);
  pool_heap_destroy(heap);
}

/* ---- on_exhausted ---- */

static void sixty_four_attempts(void **state)
{
  (void)state;
  static const size_t budgets[] = {SMALL, LARGE};
  for (size_t i = 0; i < COUNT_OF(budgets); i++) {
    helper_t helper = helper_that(NULL, ~0u);
    helper.give_up_at = ~0u;
    pool_heap_t *heap = heap_helped_by(&helper, budgets[i]);
    fill(heap, &helper, 64);
    pool_stats_t before = stats_of(heap);
    errno = UNTOUCHED;
    assert_null(pool_heap_alloc(heap, 5000));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(helper.calls, ATTEMPTS);
    assert_true(helper.in_order);
    assert_true(helper.bytes_needed >= 5000 && helper.bytes_needed <= 8192);
    assert_ptr_equal(helper.heap, heap);
    pool_stats_t after = stats_of(heap);
    assert_int_equal(after.retried_count - before.retried_count, ATTEMPTS);
    assert_int_equal(after.exhausted_count - before.exhausted_count, 1);
    helper.calls = 0;
    assert_null(pool_heap_zalloc(heap, 5000));   /* another request counts from 0 again */
    assert_true(helper.in_order && helper.calls == ATTEMPTS);
    finish(heap, &helper);
  }
}

static void gives_up(void **state)
{
  (void)state;
  for (unsigned at = 0; at < ATTEMPTS; at += 7) {
    helper_t helper = helper_that(NULL, ~0u);
    helper.give_up_at = at;
    pool_heap_t *heap = heap_helped_by(&helper, SMALL);
    fill(heap, &helper, 64);
    pool_stats_t before = stats_of(heap);
    assert_null(pool_heap_alloc(heap, 64));
    assert_int_equal(helper.calls, at + 1);
    assert_int_equal(stats_of(heap).retried_count - before.retried_count, at);
    finish(heap, &helper);
  }
}

static void free_one(helper_t *helper, pool_heap_t *heap) { pool_heap_free(heap, list_pop(&helper->list)); }

static void free_all(helper_t *helper, pool_heap_t *heap) { list_free(&helper->list, heap); }

static void raise_budget(helper_t *helper, pool_heap_t *heap)
{
  (void)helper;
  must(pool_heap_set_budget(heap, stats_of(heap).budget * 2));
}

static void reset_all(helper_t *helper, pool_heap_t *heap)
{
  helper->list = (list_t){0};
  pool_heap_reset(heap);
}

/* It needs a block itself, has one from what it frees, and gives it back. */
static void allocate_too(helper_t *helper, pool_heap_t *heap)
{
  free_one(helper, heap);
  void *block = pool_heap_alloc(heap, 64);
  must(block);
  must(!pool_heap_alloc(heap, 100000));
  pool_heap_free(heap, block);
}

static void in_another_thread(size_t index, void *context)
{
  (void)index;
  helper_t *helper = context;
  free_one(helper, helper->heap);
  must(stats_of(helper->heap).live_blocks > 0);
  pool_heap_trim(helper->heap, 0);
}

/* No lock is held: another thread can work in the heap meanwhile. */
static void let_another_thread_free(helper_t *helper, pool_heap_t *heap)
{
  (void)heap;
  run_threads(1, in_another_thread, helper);
}

static void try_help(void (*help)(helper_t *, pool_heap_t *), size_t budget, size_t size, unsigned at)
{
  helper_t helper = helper_that(help, at);
  pool_heap_t *heap = heap_helped_by(&helper, budget);
  fill(heap, &helper, 64);
  pool_stats_t before = stats_of(heap);
  errno = UNTOUCHED;
  void *block = pool_heap_alloc(heap, size);
  assert_non_null(block);
  assert_int_equal(errno, UNTOUCHED);
  assert_int_equal(helper.calls, at + 1);
  assert_true(helper.in_order);
  pool_stats_t after = stats_of(heap);
  assert_int_equal(after.retried_count - before.retried_count, at + 1);
  assert_int_equal(after.exhausted_count - before.exhausted_count, help == allocate_too);
  assert_true(after.held_bytes <= after.budget);
  pool_heap_free(heap, block);
  finish(heap, &helper);
}

static void frees_a_block(void **state)
{
  (void)state;
  for (unsigned at = 0; at < ATTEMPTS; at += 9)
    try_help(free_one, SMALL, 64, at);
  try_help(free_one, LARGE, 64, 3);
}

static void frees_everything(void **state)
{
  (void)state;
  try_help(free_all, SMALL, SMALL / 2, 0);
  try_help(free_all, LARGE, LARGE / 2, 1);
}

static void raises_the_budget_of_a_large_heap(void **state)
{
  (void)state;
  try_help(raise_budget, LARGE, 64, 0);
  try_help(raise_budget, LARGE, 100000, 5);
}

static void raises_the_budget_of_a_small_heap(void **state)
{
  (void)state;
  try_help(raise_budget, SMALL, 64, 0);
  try_help(raise_budget, SMALL, SMALL / 2, 5);
}

static void resets_the_heap(void **state)
{
  (void)state;
  try_help(reset_all, SMALL, 64, 0);
  try_help(reset_all, LARGE, 64, 2);
}

static void allocates_itself(void **state)
{
  (void)state;
  try_help(allocate_too, SMALL, 64, 1);
  try_help(allocate_too, LARGE, 64, 1);
}

/* All objects come back at once, and the arrays that were added go back to the heap. */
static void empty_object_pool(helper_t *helper, pool_heap_t *heap)
{
  (void)heap;
  object_pool_put_all(helper->pool);
  must(object_pool_shrink(helper->pool, 0) == 10);
}

static void resets_an_object_pool(void **state)
{
  (void)state;
  const size_t budgets[] = {SMALL, LARGE};
  for (size_t i = 0; i < COUNT_OF(budgets); i++) {
    helper_t helper = helper_that(empty_object_pool, 0);
    pool_heap_t *heap = heap_helped_by(&helper, budgets[i]);
    helper.pool = object_pool_create(&(object_pool_options_t){
      .object_size = 1000, .capacity = 10, .when_full = OBJECT_POOL_GROW, .max_capacity = budgets[i] / 2000, .heap = heap});
    must(helper.pool);
    while (object_pool_get(helper.pool))
      continue;
    assert_int_equal(object_pool_live(helper.pool), budgets[i] / 2000);
    fill(heap, &helper, 1000);
    assert_int_equal(helper.calls, 0);

    void *block = pool_heap_alloc(heap, 1000);
    assert_non_null(block);
    assert_int_equal(helper.calls, 1);
    assert_int_equal(object_pool_live(helper.pool), 0);
    pool_heap_free(heap, block);

    /* From a get of the pool itself, which is what needs the room. */
    fill(heap, &helper, 1000);
    helper.calls = 0;
    while (helper.calls == 0 && object_pool_get(helper.pool))
      continue;
    assert_true(helper.calls > 0);
    object_pool_destroy(helper.pool);
    finish(heap, &helper);
  }
}

static void holds_no_lock(void **state)
{
  (void)state;
  try_help(let_another_thread_free, SMALL, 64, 0);
  try_help(let_another_thread_free, LARGE, 64, 0);
}

/* ---- overflow ---- */

static void overflow_serves(void **state)
{
  (void)state;
  pool_heap_t *last = heap_with_budget(1 << 20), *second = heap_with((pool_heap_options_t){.budget = SMALL, .overflow = last});
  helper_t helper = helper_that(NULL, ~0u);
  helper.give_up_at = 1;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = SMALL, .overflow = second, .on_exhausted = on_exhausted, .context = &helper});
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
  pool_heap_t *other = heap_with((pool_heap_options_t){0}), *heap = heap_with((pool_heap_options_t){.budget = SMALL, .overflow = other});
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

/* ---- many threads at the limit ---- */

typedef struct shared { pool_heap_t *heap; } shared_t;

static bool yield_and_retry(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  (void)heap, (void)bytes_needed, (void)context;
  return attempt < 3;
}

static void at_the_limit(size_t index, void *context)
{
  const shared_t *shared = context;
  dice_t dice = {index};
  for (unsigned round = 0; round < 20; round++) {
    list_t list = {0};
    size_t size = 16 + dice_below(&dice, 3000);
    while (list.count < 100000 && list_take(&list, shared->heap, size))
      memset((char *)list.first + sizeof(void *), (int)index, size - sizeof(void *));
    list_free(&list, shared->heap);
  }
}

static void many_threads_at_the_limit(void **state)
{
  (void)state;
  pool_heap_t *other = heap_with_budget(1 << 20);
  shared_t shared = {heap_with((pool_heap_options_t){.budget = 2 << 20, .overflow = other, .on_exhausted = yield_and_retry})};
  run_threads(4, at_the_limit, &shared);
  pool_stats_t s = stats_of(shared.heap), o = stats_of(other);
  assert_int_equal(s.live_blocks + o.live_blocks, 0);
  assert_true(s.peak_held_bytes <= s.budget && o.peak_held_bytes <= o.budget);
  assert_true(s.exhausted_count > 0 && s.retried_count > 0 && s.overflowed_count > 0);
  assert_true(check_everything());
  pool_heap_destroy(shared.heap);
  pool_heap_destroy(other);
}

/* ---- a block can always become smaller ---- */

static void smaller_when_nothing_is_left(void **state)
{
  (void)state;
  static const size_t block_sizes[] = {100, 3000, 30000, 100000, 500000};
  static const unsigned flags[] = {0, POOL_HEAP_ZERO_ON_FREE, POOL_HEAP_CHECKED};
  for (size_t f = 0; f < COUNT_OF(flags); f++)
    for (size_t i = 0; i < COUNT_OF(block_sizes); i++) {
      pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 2 << 20, .flags = flags[f]});
      size_t size = block_sizes[i];
      char *block = pool_heap_alloc(heap, size);
      assert_non_null(block);
      list_t list = {0};
      list_exhaust(&list, heap, size);
      list_exhaust(&list, heap, 16);
      size_t exhausted = stats_of(heap).exhausted_count;
      pattern_write(block, size, i);
      for (size_t less = size; less >= 16; less /= 3) {
        block = pool_heap_realloc(heap, block, less);
        assert_non_null(block);
        assert_true(pattern_kept(block, less, size, i));
      }
      assert_int_equal(stats_of(heap).exhausted_count, exhausted);   /* and nobody was asked for anything */
      list_free(&list, heap);
      pool_heap_free(heap, block);
      pool_heap_destroy(heap);
    }
}

/* ---- a block that grows: what lets it is as good as what makes room for another ---- */

static void *in_the_way;

static bool free_what_is_in_the_way(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  size_t *calls = context;
  (void)bytes_needed;
  (void)attempt;
  ++*calls;
  bool any = in_the_way != NULL;
  pool_heap_free(heap, in_the_way);
  in_the_way = NULL;
  return any;
}

static void grows_when_the_callback_has_helped(void **state)
{
  (void)state;
  size_t calls = 0;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 64 << 20, .on_exhausted = free_what_is_in_the_way, .context = &calls});
  char *block = pool_heap_alloc(heap, 40 << 20);
  in_the_way = pool_heap_alloc(heap, 10 << 20);
  assert_true(block && in_the_way);
  pattern_write(block, 40 << 20, 3);
  block = pool_heap_realloc(heap, block, 60 << 20);
  assert_non_null(block);
  assert_true(pattern_kept(block, 40 << 20, 40 << 20, 3));
  assert_int_equal(calls, 1);
  assert_int_equal(stats_of(heap).exhausted_count, 0);
  pool_heap_destroy(heap);
}

static void grows_into_what_is_cached(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(16 << 20);
  char *block = pool_heap_alloc(heap, 12 << 20);
  assert_non_null(block);
  list_t list = {0};
  list_exhaust(&list, heap, 1000);
  list_free(&list, heap);   /* into magazines and depots, as far as they go */
  size_t room = (16 << 20) - stats_of(heap).held_bytes, had = (12 << 20) + room;
  block = pool_heap_realloc(heap, block, had + (200 << 10));
  assert_non_null(block);
  assert_int_equal(stats_of(heap).exhausted_count, 1);   /* by the list */
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_left),
    cmocka_unit_test(own_memory_first),
    cmocka_unit_test(memory_of_threads_that_ended),
    cmocka_unit_test(sixty_four_attempts),
    cmocka_unit_test(gives_up),
    cmocka_unit_test(frees_a_block),
    cmocka_unit_test(frees_everything),
    cmocka_unit_test(raises_the_budget_of_a_large_heap),
    cmocka_unit_test(raises_the_budget_of_a_small_heap),
    cmocka_unit_test(resets_the_heap),
    cmocka_unit_test(allocates_itself),
    cmocka_unit_test(resets_an_object_pool),
    cmocka_unit_test(holds_no_lock),
    cmocka_unit_test(overflow_serves),
    cmocka_unit_test(realloc_takes_it_back),
    cmocka_unit_test(overflow_of_another_kind),
    cmocka_unit_test(overflow_into_a_checked_heap),
    cmocka_unit_test(overflow_into_the_default_heap),
    cmocka_unit_test(many_threads_at_the_limit),
    cmocka_unit_test(smaller_when_nothing_is_left),
    cmocka_unit_test(grows_when_the_callback_has_helped),
    cmocka_unit_test(grows_into_what_is_cached),
  };
  return cmocka_run_group_tests_name("exhaustion", tests, NULL, NULL);
}
