/* SPDX-License-Identifier: MIT
 * What a callback of an exhausted heap may do, and how often it is asked. */
#include "helpers.h"

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
    assert_null(pool_heap_zalloc(heap, 5000)); /* another request counts from 0 again */
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

int main(void)
{
  const struct CMUnitTest tests[] = {
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
  };
  return cmocka_run_group_tests_name("on_exhausted", tests, NULL, NULL);
}
